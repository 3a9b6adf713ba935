//! The connections of a client: pools, which are left for new ones when certificates change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::{info, warn};

use super::connector::{NoResolver, TcpConnector};
use super::tls::Tls;
use super::{IDLE_CONNECTIONS, IDLE_TIME, LONGEST_TIME};
use crate::config::{ClientCertificate, Config, Proxy, ProxyKind};
use crate::error::{Error, Result};

/// How often requests look whether a certificate or key in a file has changed.
const LOOK: Duration = Duration::from_secs(10);

/// All that is sent goes through one of these. Dropped, it closes the connections that stand idle; those in use go on.
#[derive(Debug)]
pub(super) struct Agents {
    /// Keeps connections for the next call.
    pub(super) calls: ureq::Agent,
    /// A connection of its own for each watch: one that stood idle may be dead without knowing.
    pub(super) watches: ureq::Agent,
}

/// The agents of now.
#[derive(Debug)]
pub(super) struct Current(Mutex<State>);

#[derive(Clone, Debug)]
struct State {
    agents: Arc<Agents>,
    /// What the agents connect with, and through.
    tls: Tls,
    proxy: Option<Arc<Proxy>>,
    /// The client certificate that came with the credentials, in place of the configured one.
    certificate: Option<Arc<ClientCertificate>>,
    /// When to look at the files again; none: nothing is in a file.
    due: Option<Instant>,
    /// Counts changes, so that none is made of a state that is no more.
    turn: u64,
}

impl Agents {
    fn new(config: &Config, tls: &Tls, proxy: Option<&Arc<Proxy>>) -> Arc<Self> {
        let timeout = config.connect_timeout().min(LONGEST_TIME);
        let agent = |idle: usize| {
            let settings = ureq::Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .proxy(None)
                .timeout_connect(Some(timeout))
                .max_idle_connections(idle)
                .max_idle_connections_per_host(idle)
                .max_idle_age(IDLE_TIME)
                .build();
            let connector = TcpConnector {
                tls: tls.clone(),
                proxy: proxy.cloned(),
                clock: config.clock().clone(),
                timeout,
            };
            ureq::Agent::with_parts(settings, connector, NoResolver)
        };
        Arc::new(Self { calls: agent(IDLE_CONNECTIONS), watches: agent(0) })
    }
}

impl Current {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let proxy = config.proxy(&|name| std::env::var_os(name))?.map(Arc::new);
        let tls = match &proxy {
            _ if config.server().starts_with("https:") => Tls::new(config)?,
            Some(proxy) if proxy.kind == ProxyKind::Https => {
                Tls::new(config).map_err(|e| e.context(format!("the proxy {proxy}")))?
            }
            _ => Tls::none(),
        };
        let agents = Agents::new(config, &tls, proxy.as_ref());
        let mut state = State { agents, tls, proxy, certificate: None, due: None, turn: 0 };
        state.due = state.next_look(config);
        Ok(Self(Mutex::new(state)))
    }

    /// The agents for a request with this client certificate of its credentials, if it has one. Looks at the files if it
    /// is time to.
    ///
    /// # Errors
    /// The certificate is another than before, and cannot be used.
    pub(super) fn agents(
        &self,
        config: &Config,
        certificate: Option<Arc<ClientCertificate>>,
    ) -> Result<Arc<Agents>> {
        let now = config.clock().now();
        let mut state = {
            let mut state = self.lock();
            let is_same = |state: &State| same(state.certificate.as_ref(), certificate.as_ref());
            if is_same(&state) && state.due.is_some_and(|due| now >= due) {
                // The others go on with what there is.
                state.due = Some(now + LOOK);
                drop(state);
                self.look(config);
                state = self.lock();
            }
            if is_same(&state) {
                return Ok(state.agents.clone());
            }
            state.clone()
        };
        state.tls.present(config, pair_of(certificate.as_ref(), config))?;
        state.certificate = certificate;
        state.agents = Agents::new(config, &state.tls, state.proxy.as_ref());
        state.due = state.next_look(config);
        let agents = state.agents.clone();
        self.put(state); // or another thread's, which is as good
        Ok(agents)
    }

    /// Looks at the files now, if these agents are still those of now. Says whether there are others.
    pub(super) fn renew(&self, config: &Config, used: &Arc<Agents>) -> bool {
        let is_past = || !Arc::ptr_eq(&self.lock().agents, used);
        if !is_past() {
            self.look(config);
        }
        is_past()
    }

    pub(super) fn expired_certificate(&self, config: &Config) -> Option<String> {
        self.lock().tls.expired_certificate(config)
    }

    fn look(&self, config: &Config) {
        // Again if another thread has looked meanwhile: it may have read what was there before.
        loop {
            let mut state = self.lock().clone();
            if state.due.is_none() {
                return;
            }
            let Some(found) = state.tls.renew(config, pair_of(state.certificate.as_ref(), config)) else {
                return;
            };
            if found.usable {
                state.agents = Agents::new(config, &state.tls, state.proxy.as_ref());
            }
            if self.put(state) {
                return found.tell(config);
            }
        }
    }

    /// Takes a state in place of the one that it was made of, if that is still there.
    fn put(&self, mut state: State) -> bool {
        let mut current = self.lock();
        if current.turn != state.turn {
            return false;
        }
        state.turn += 1;
        let old = std::mem::replace(&mut *current, state);
        drop(current);
        drop(old); // with its connections, which is I/O
        true
    }

    /// Held for a moment only, with no other lock, and never over I/O.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is new in files.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Connections are to be made in another way than before.
    pub(super) usable: bool,
    /// Why some of it cannot be used.
    pub(super) failed: Vec<Error>,
}

impl Found {
    fn tell(&self, config: &Config) {
        for e in &self.failed {
            warn!(target: "listwatch::http", "{e}; using what was read before");
        }
        if self.usable {
            info!(target: "listwatch::http", "certificates have changed: new connections to {} are made with the new ones", config.server());
        }
    }
}

impl State {
    fn next_look(&self, config: &Config) -> Option<Instant> {
        let pair = pair_of(self.certificate.as_ref(), config);
        self.tls.is_from_files(config, pair).then(|| config.clock().now() + LOOK)
    }
}

/// The certificate that is shown: that of the credentials before the configured one.
fn pair_of<'a>(
    certificate: Option<&'a Arc<ClientCertificate>>,
    config: &'a Config,
) -> Option<&'a ClientCertificate> {
    certificate.map(|certificate| &**certificate).or(config.tls().client_certificate.as_ref())
}

fn same(one: Option<&Arc<ClientCertificate>>, other: Option<&Arc<ClientCertificate>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::{Pem, TlsOptions};

    fn file(name: &str) -> Pem {
        Pem::File(format!("{}/tests/client/pki/{name}", env!("CARGO_MANIFEST_DIR")).into())
    }

    fn pair(name: &str) -> Option<Arc<ClientCertificate>> {
        let (certificate, key) = (file(&format!("{name}.pem")), file(&format!("{name}.key.pem")));
        Some(Arc::new(ClientCertificate { certificate, key }))
    }

    #[test]
    fn another_certificate_of_the_credentials_makes_other_agents() {
        let tls = TlsOptions { ca: Some(file("ca.pem")), ..TlsOptions::default() };
        let config = Config::new("https://127.0.0.1:1").unwrap().with_tls(tls).with_clock(Clock::manual());
        let current = Current::new(&config).unwrap();
        let none = current.agents(&config, None).unwrap();
        let first = pair("ec-sec1");
        let with_first = current.agents(&config, first.clone()).unwrap();
        assert!(!Arc::ptr_eq(&none, &with_first));
        assert!(Arc::ptr_eq(&with_first, &current.agents(&config, first.clone()).unwrap()));
        // One that is read anew is another, though its text may be the same.
        let with_second = current.agents(&config, pair("ec-sec1")).unwrap();
        assert!(!Arc::ptr_eq(&with_first, &with_second));
        // What cannot be used is an error of the request, and the next may have a better one.
        let error = current.agents(&config, pair("gone")).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("gone.pem"), "{error}");
        assert!(!Arc::ptr_eq(&with_first, &current.agents(&config, first).unwrap()));
    }

    /// What ureq would do by itself.
    #[test]
    fn no_proxy_of_ureq_no_redirect_and_no_old_connection_is_used() {
        let config = Config::new("http://127.0.0.1:1").unwrap();
        let agents = Agents::new(&config, &Tls::none(), None);
        for agent in [&agents.calls, &agents.watches] {
            let config = agent.config();
            assert!(config.proxy().is_none());
            assert_eq!((config.max_redirects(), config.max_idle_age()), (0, IDLE_TIME));
        }
        assert_eq!(agents.watches.config().max_idle_connections(), 0);
    }

    #[test]
    fn agents_stay_while_no_file_changes() {
        let clock = Clock::manual();
        let tls = TlsOptions { ca: Some(file("ca.pem")), ..TlsOptions::default() };
        let config = Config::new("https://127.0.0.1:1").unwrap().with_tls(tls).with_clock(clock.clone());
        let current = Current::new(&config).unwrap();
        let agents = current.agents(&config, None).unwrap();
        for _ in 0..3 {
            clock.advance(LOOK);
            assert!(Arc::ptr_eq(&agents, &current.agents(&config, None).unwrap()));
            assert!(!current.renew(&config, &agents));
        }
    }
}
