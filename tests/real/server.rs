use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use listwatch::config::{Credentials, Pem, TlsOptions};
use listwatch::types::Namespace;
use listwatch::{Api, Client, Config, KubeconfigOptions, ObjectMeta, PostParams};

/// A kube-apiserver and its etcd.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    etcd_port: u16,
    /// Read by tests that need the server to be there, written by those that take it away.
    quiet: RwLock<()>,
    /// The script that started it, and ends it when its standard input is closed: when this process ends, however it
    /// does.
    _holder: Child,
}

/// The server, to be shared with other tests; `None` if there is no kube-apiserver on this machine.
pub(crate) fn shared() -> Option<(&'static Server, RwLockReadGuard<'static, ()>)> {
    let server = server()?;
    Some((server, server.quiet.read().unwrap_or_else(PoisonError::into_inner)))
}

/// The server, for this test alone, which may kill it.
pub(crate) fn alone() -> Option<Alone> {
    let server = server()?;
    Some(Alone { server, _lock: server.quiet.write().unwrap_or_else(PoisonError::into_inner) })
}

/// A server that is there again when this is dropped, even by a test that failed.
pub(crate) struct Alone {
    server: &'static Server,
    _lock: RwLockWriteGuard<'static, ()>,
}

impl Alone {
    /// The server, beyond the time that this test has it alone.
    pub(crate) fn always(&self) -> &'static Server {
        self.server
    }
}

impl Deref for Alone {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.kill();
            self.restart();
        }
    }
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    crate::trace::start();
    SERVER.get_or_init(Server::start).as_ref()
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(done.success());
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/apiserver").join(name)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("apiserver-{}", std::process::id()));
        let (port, etcd_port) = (free_port(), free_port());
        let mut holder = Command::new(script("up.sh"))
            .arg(&folder)
            .envs([("HOLD", "1"), ("PORT", &port.to_string()), ("ETCD_PORT", &etcd_port.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0) // Ctrl-C is not for it: it has to clean up
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let code = holder.wait().unwrap().code();
            assert_eq!(code, Some(3), "up.sh failed");
            assert_ne!(std::env::var("LISTWATCH_REAL").as_deref(), Ok("required"), "no kube-apiserver");
            // Not through eprintln!, which is captured.
            io::stderr()
                .write_all(b"SKIPPED: no kube-apiserver, all tests against it pass untried\n")
                .unwrap();
            return None;
        }
        Some(Self { folder, port, etcd_port, quiet: RwLock::new(()), _holder: holder })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Where its kubeconfig is, with a client certificate that may do all.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// A client that may do all.
    pub(crate) fn client(&self) -> Client {
        let options = KubeconfigOptions::new().with_path(self.kubeconfig());
        Client::new(Config::from_kubeconfig(&options).unwrap()).unwrap()
    }

    /// A client with other credentials, on this port.
    pub(crate) fn client_at(&self, port: u16, credentials: Credentials) -> Client {
        let ca = Some(Pem::File(self.folder.join("pki/ca.crt")));
        let config = Config::new(&format!("https://127.0.0.1:{port}")).unwrap();
        Client::new(config.with_tls(TlsOptions { ca, ..TlsOptions::default() }).with_credentials(credentials))
            .unwrap()
    }

    pub(crate) fn client_as(&self, credentials: Credentials) -> Client {
        self.client_at(self.port, credentials)
    }

    /// A new namespace, for one test.
    pub(crate) fn namespace(&self, name: &str) -> String {
        let metadata = ObjectMeta { generate_name: format!("{name}-").into(), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::<Namespace>::all(&self.client())
            .create(&PostParams::default(), &namespace)
            .unwrap()
            .metadata
            .name
    }

    /// Stops the server's process as it is.
    pub(crate) fn freeze(&self) {
        self.signal("apiserver", "STOP");
    }

    /// Lets a server go on that was frozen.
    pub(crate) fn thaw(&self) {
        self.signal("apiserver", "CONT");
    }

    /// Ends the server, without time to say goodbye. Nothing is done to one that has ended.
    pub(crate) fn kill(&self) {
        self.signal("apiserver", "KILL");
        // It may still die when the signal was sent, and its port is to be free.
        crate::eventually("the server has ended", || TcpStream::connect(self.address()).is_err());
    }

    fn signal(&self, name: &str, signal: &str) {
        let pid = std::fs::read_to_string(self.folder.join(format!("{name}.pid"))).unwrap();
        let kill = Command::new("kill").arg(format!("-{signal}")).arg(pid.trim()).output().unwrap();
        assert!(kill.status.success() || signal == "KILL", "{kill:?}");
    }

    /// Starts the server that was killed.
    pub(crate) fn restart(&self) {
        self.run("apiserver", self.port);
    }

    /// Stops both, does something to the folder of etcd's data, and starts both again.
    fn at_rest(&self, act: impl FnOnce(&Path)) {
        self.kill();
        self.signal("etcd", "KILL");
        act(&self.folder);
        let started = Command::new(script("etcd.sh")).arg(&self.folder).process_group(0).status().unwrap();
        assert!(started.success());
        self.restart();
    }

    /// Keeps a copy of the state of the cluster.
    pub(crate) fn back_up(&self) {
        self.at_rest(|folder| copy(&folder.join("etcd"), &folder.join("backup")));
    }

    /// Goes back to the copy.
    pub(crate) fn restore(&self) {
        self.at_rest(|folder| {
            std::fs::remove_dir_all(folder.join("etcd")).unwrap();
            copy(&folder.join("backup"), &folder.join("etcd"));
        });
    }

    /// Does something through another server of the same cluster, that is there for this long.
    pub(crate) fn beside(&self, act: impl FnOnce(&Client)) {
        let port = free_port();
        self.run("second", port);
        act(&self.client_at(port, Credentials::token("admin-token").unwrap()));
        self.signal("second", "KILL");
    }

    fn run(&self, name: &str, port: u16) {
        let started = Command::new(script("apiserver.sh"))
            .arg(&self.folder)
            .envs([("NAME", name), ("PORT", &port.to_string())])
            .process_group(0)
            .status()
            .unwrap();
        assert!(started.success());
    }

    /// Makes etcd forget what was before this version.
    pub(crate) fn compact(&self, resource_version: &str) {
        let body = format!("{{\"revision\":\"{resource_version}\",\"physical\":true}}");
        let mut etcd = TcpStream::connect(("127.0.0.1", self.etcd_port)).unwrap();
        write!(
            etcd,
            "POST /v3/kv/compaction HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        etcd.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }
}
