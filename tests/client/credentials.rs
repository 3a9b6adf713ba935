//! Credentials that change while a client runs: exec plugins, a program's own source, one refresh for all.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use listwatch::config::{Credential, CredentialSource};
use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Clock, Credentials, DeleteParams, PostParams, Result, Stop, WatchParams};

use super::server::{Connection, Server};
use super::{LONG, config, config_map, config_maps};

const UNAUTHORIZED: &str = r#"{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401}"#;

/// Takes the tokens that are told, and no others; with `together`, refuses only when so many wait for it.
fn taking(good: impl Fn(&str) -> bool + Send + Sync + 'static, together: usize) -> Server {
    let barrier = Barrier::new(together);
    Server::start(move |c| {
        c.serve(|c: &mut Connection, seen| {
            if !good(seen.header("authorization")) {
                barrier.wait();
                c.json(401, UNAUTHORIZED);
            } else if seen.line.contains("watch=") {
                c.stream();
                c.last_chunk();
            } else {
                c.json(200, config_map("a"));
            }
        });
    })
}

fn api(server: &Server, credentials: &Credentials) -> Api<ConfigMap> {
    config_maps(&Client::new(config(&server.url()).with_credentials(credentials.clone())).unwrap())
}

/// Gives `s3cret-1`, `s3cret-2`, …
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn calls(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl CredentialSource for Counted {
    fn credential(&self, _: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
        let call = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Credential::token(&format!("s3cret-{call}"))?)
    }
}

#[test]
fn a_credential_that_was_refused_is_asked_for_anew_and_the_request_sent_once_more() {
    let server = taking(|token| !matches!(token, "Bearer s3cret-1" | "Bearer s3cret-3"), 1);
    type Call = fn(&Api<ConfigMap>) -> Result<()>;
    let calls: [Call; 4] = [
        |api| api.get("a").map(drop),
        |api| api.create(&PostParams::default(), &ConfigMap::default()).map(drop),
        |api| api.delete("a", &DeleteParams::default()).map(drop),
        |api| api.watch(&WatchParams::default(), &Stop::new()).map(drop),
    ];
    for call in calls {
        let source = Counted::default();
        let api = api(&server, &Credentials::source(source.clone()));
        call(&api).unwrap();
        call(&api).unwrap();
        assert_eq!(source.calls(), 2);
        let sent: Vec<_> =
            server.seen.try_iter().map(|seen| seen.header("authorization").to_owned()).collect();
        assert_eq!(sent, ["Bearer s3cret-1", "Bearer s3cret-2", "Bearer s3cret-2"]);
    }
}

#[test]
fn a_credential_that_stays_bad_is_asked_for_once_more_and_the_refusal_told() {
    let server = taking(|_| false, 1);
    let source = Counted::default();
    let api = api(&server, &Credentials::source(source.clone()));
    assert!(api.get("a").unwrap_err().is_unauthorized());
    assert_eq!((server.seen.try_iter().count(), source.calls()), (2, 2));
}

#[test]
fn many_requests_that_are_refused_at_once_ask_for_one_new_credential() {
    const MANY: usize = 6;
    let server = taking(|token| token != "Bearer s3cret-1", MANY);
    let source = Counted::default();
    let api = api(&server, &Credentials::source(source.clone()));
    thread::scope(|scope| {
        let calls = [(); MANY].map(|()| scope.spawn(|| api.get("a").map(drop)));
        for call in calls {
            call.join().unwrap().unwrap();
        }
    });
    assert_eq!((source.calls(), server.seen.try_iter().count()), (2, 2 * MANY));
}

#[test]
fn a_source_that_never_answers_ends_a_call_at_its_limit_or_stop() {
    struct Silent;

    impl CredentialSource for Silent {
        fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
            stop.wait();
            Err("stopped".into())
        }
    }

    let server = taking(|_| true, 1);
    let clock = Clock::manual();
    let config =
        config(&server.url()).with_clock(clock.clone()).with_credentials(Credentials::source(Silent));
    let (client, stop) = (Client::new(config).unwrap(), Stop::new());
    let calls: [&(dyn Fn() -> Result<()> + Sync); 2] =
        [&|| config_maps(&client.clone().with_stop(&stop)).get("a").map(drop), &|| {
            config_maps(&client).watch(&WatchParams::default(), &stop).map(drop)
        }];
    for call in calls {
        thread::scope(|scope| {
            let waiting = scope.spawn(call);
            clock.wait_for_timers(1);
            clock.advance(LONG);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.is_timeout() && error.to_string().contains("Silent"), "{error}");
        });
    }
    thread::scope(|scope| {
        let waiting = calls.map(|call| scope.spawn(call));
        clock.wait_for_timers(2);
        stop.stop();
        for call in waiting {
            assert!(call.join().unwrap().unwrap_err().is_stopped());
        }
    });
    assert_eq!(server.accepted(), 0);
}

#[cfg(feature = "kubeconfig")]
mod kubeconfig {
    use std::fs;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use listwatch::{Config, KubeconfigOptions};
    use serde_json::{Value, json};

    use super::*;

    /// A folder of this test, gone with it.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("listwatch-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn read(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap_or_default()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn kubeconfig(user: &Value) -> String {
        json!({
            "clusters": [{"name": "c", "cluster": {"server": "https://api.test"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        })
        .to_string()
    }

    /// A plugin that is a script of the shell, in a folder: it may use `$DIR`, and `$N`, which run it is.
    fn plugin(dir: &Dir, script: &str) -> Credentials {
        let script = format!("echo run >> $DIR/runs; N=$(($(wc -l < $DIR/runs))); {script}");
        let user = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "env": [{"name": "DIR", "value": dir.0}],
            "interactiveMode": "Never",
        }});
        Config::from_kubeconfig_text(&kubeconfig(&user), &KubeconfigOptions::new())
            .unwrap()
            .credentials()
            .clone()
    }

    fn runs(dir: &Dir) -> usize {
        dir.read("runs").lines().count()
    }

    /// Prints a token; `more` is more of the status.
    fn print(more: &str) -> String {
        let head = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
        format!(r#"echo '{head},"status":{{"token":"s3cret-'$N'"{more}}}}}'"#)
    }

    #[test]
    fn an_exec_plugin_is_run_once_for_all_and_once_more_after_a_refusal() {
        const MANY: usize = 4;
        let dir = Dir::new("refused");
        let server = taking(|token| token == "Bearer s3cret-2", MANY);
        let api = api(&server, &plugin(&dir, &print("")));
        thread::scope(|scope| {
            let calls = [(); MANY].map(|()| scope.spawn(|| api.get("a").map(drop)));
            for call in calls {
                call.join().unwrap().unwrap();
            }
        });
        assert_eq!(runs(&dir), 2);
        api.get("a").unwrap();
        assert_eq!(runs(&dir), 2);
    }

    #[test]
    fn an_exec_plugin_is_run_again_when_what_it_gave_expires() {
        let dir = Dir::new("expires");
        let server = taking(|_| true, 1);
        let clock = Clock::manual();
        let expiry = listwatch::Time::from(clock.wall() + Duration::from_secs(60));
        let credentials = plugin(&dir, &print(&format!(r#","expirationTimestamp":"{expiry}""#)));
        let config = config(&server.url()).with_clock(clock.clone()).with_credentials(credentials);
        let api = config_maps(&Client::new(config).unwrap());
        for (passed, run) in [(0, 1), (58, 1), (2, 2)] {
            clock.advance(Duration::from_secs(passed));
            api.get("a").unwrap();
            assert_eq!(server.next().header("authorization"), format!("Bearer s3cret-{run}"));
        }
    }

    #[test]
    fn an_exec_plugin_that_fails_is_told_with_the_call_and_run_again_by_the_next() {
        let dir = Dir::new("fails");
        let server = taking(|_| true, 1);
        let script = format!("if [ $N = 1 ]; then echo you are not logged in >&2; exit 2; fi; {}", print(""));
        let api = api(&server, &plugin(&dir, &script));
        let error = api.get("a").unwrap_err();
        assert!(error.is_config(), "{error:?}");
        let said =
            "kubeconfig: users[0] \"u\": exec plugin \"sh\": failed with exit code 2: you are not logged in";
        assert!(error.to_string().ends_with(said), "{error}");
        api.get("a").unwrap();
        assert_eq!((server.accepted(), runs(&dir)), (1, 2));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_stop_of_the_last_call_that_waits_ends_an_exec_plugin() {
        let dir = Dir::new("stopped");
        let server = taking(|_| true, 1);
        let credentials = plugin(&dir, "echo $$ > $DIR/pid; exec sleep 3600");
        let (clock, stop) = (Clock::system(), Stop::new());
        let client =
            Client::new(config(&server.url()).with_credentials(credentials)).unwrap().with_stop(&stop);
        let until = |is_so: &dyn Fn() -> bool| {
            let late = clock.now() + LONG;
            while !is_so() {
                assert!(clock.now() < late);
                Stop::new().sleep(Duration::from_millis(1));
            }
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| config_maps(&client).get("a"));
            until(&|| dir.read("pid").ends_with('\n'));
            stop.stop();
            assert!(waiting.join().unwrap().unwrap_err().is_stopped());
        });
        let process = PathBuf::from("/proc").join(dir.read("pid").trim());
        until(&|| !process.exists());
    }

    #[test]
    fn issue_controller_runtime_2995_a_mounted_kubeconfig_may_get_another_user() {
        struct Mounted(KubeconfigOptions);

        impl CredentialSource for Mounted {
            fn credential(&self, stop: &Stop) -> Result<Credential, Box<dyn Error + Send + Sync>> {
                let now = Config::from_kubeconfig(&self.0)?.current_credential(stop)?;
                Ok(now.with_refresh(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)))
            }
        }

        let dir = Dir::new("mounted");
        let server = taking(|token| token == "Bearer s3cret-two", 1);
        let write = |user: &Value| fs::write(dir.0.join("config"), kubeconfig(user)).unwrap();
        write(&json!({"token": "s3cret-one"}));
        let options = KubeconfigOptions::new().with_path(dir.0.join("config"));
        let api = api(&server, &Credentials::source(Mounted(options)));
        assert!(api.get("a").unwrap_err().is_unauthorized());
        write(&json!({"token": "s3cret-two"}));
        api.get("a").unwrap();
    }
}
