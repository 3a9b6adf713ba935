//! An API server in the process, to try and to test programs against: real HTTP on loopback, everything in memory.
//!
//! ```no_run
//! let server = listwatch::apiserver::ApiServer::start()?;
//! println!("kubectl --kubeconfig {} get pods", server.kubeconfig()?.display());
//! # Ok::<(), listwatch::Error>(())
//! ```
//!
//! Programs meet in it what they meet in the field, if a test wants: see [`faults`].
//!
//! It keeps the semantics of the Kubernetes API: resourceVersions and optimistic concurrency, history and its expiry,
//! watches with bookmarks and streamed lists, pages, selectors, the status and scale subresources, generations,
//! finalizers, owners, all four kinds of patches, custom resource definitions, discovery and tables as far as kubectl
//! needs them. Its answers have the form of kube-apiserver's.
//!
//! # What it does not do
//! - Nothing runs: no scheduler, kubelet or controllers. A pod stays `Pending`, a deployment makes no pods. Only
//!   deletion has its consequences (dependents, namespaces, definitions), and those come at once, within the request.
//! - No admission, no RBAC, no `kubectl auth can-i`: a request has the [token](Builder::token) or a certificate,
//!   or it is refused.
//! - Built-in kinds have no schemas: apart from names, and times and durations of Leases, any JSON is taken, unknown
//!   fields stay, and few defaults are filled in. `kubectl explain` knows nothing of them.
//! - Custom resources: `pattern`, `format`, `oneOf` and its kin, and CEL rules are not checked; versions are converted
//!   by their name only.
//! - Server-side apply tracks leaf fields and not all the finer points of structured merges: sets of managers are as
//!   kube-apiserver's for plain cases. Its body must be JSON.
//! - JSON only: no protobuf, no YAML bodies. `kubectl create -f`, `apply`, `patch`, `scale`, `run` and so on work; what
//!   kubectl sends as protobuf, as `kubectl create namespace x` or `create secret`, is refused (415), as kubectl falls
//!   back to nothing else: write `kubectl create namespace x --dry-run=client -o yaml | kubectl apply -f -`. So do client-go's
//!   typed clients, unless `rest.Config.ContentType` is `application/json`. A `kind: List` needs `--validate=false`.
//! - No gzip, no HTTP/2, no exec, attach, port-forward or proxy. Logs are what a [test says](ApiServer::set_log).
//! - A pod is deleted at once, whatever its grace period. Eviction asks no disruption budget.
//! - Events of the core group and of events.k8s.io are the same, but who manages a field is noted under the name that it
//!   was written by, and server-side apply of one group does not see the fields of the other's managers.
//! - A watcher that went away is noticed within the [interval of bookmarks](Builder::bookmark_interval); its thread
//!   stays until then.
//!
//! The objects are kept as trees of values, and old ones as long as the [history](Builder::history) reaches: a pod of
//! 9.5 KB of JSON takes about 67 KB, and each change of it as much again. Not for production.

mod answer;
mod crd;
mod defaults;
mod delete;
mod discovery;
mod events;
pub mod faults;
mod fields;
mod gc;
mod http;
mod kinds;
mod list;
mod openapi;
mod patch;
mod routes;
mod schema;
mod selector;
mod server;
mod shape;
mod store;
mod subresource;
mod table;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod tree;
mod view;
mod watch;
mod write;

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;

use crate::base64_text;
use crate::client::Client;
use crate::clock::Clock;
use crate::config::{Config, Credentials, Pem, TlsOptions};
use crate::error::{Error, Result};
use crate::object::ApiResource;

use faults::{Fault, Injected};
use kinds::{Kind, NAMESPACES};
use server::{Listener, Options, Server};
use store::{Kept, Key};

/// An API server in the process; see the [module](self) for what it does and what not.
///
/// Dropping it [stops](ApiServer::stop) it.
pub struct ApiServer {
    server: Arc<Server>,
    listener: Listener,
    /// The directory of the kubeconfig file, once that was asked for.
    directory: Mutex<Option<PathBuf>>,
}

/// A state to go back to, from [`ApiServer::snapshot`].
#[derive(Clone)]
pub struct Snapshot(Kept);

/// How an [`ApiServer`] is started.
#[derive(Clone)]
#[must_use]
pub struct Builder(Options);

impl ApiServer {
    /// Starts a server on 127.0.0.1 at a free port.
    ///
    /// # Errors
    /// If it cannot listen or start a thread.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A server with other than the usual options.
    pub fn builder() -> Builder {
        Builder(Options {
            port: 0,
            history: 10_000,
            bookmark_every: Duration::from_secs(60),
            clock: Clock::system(),
            token: None,
            tls: None,
            client_authority: None,
        })
    }

    /// Its address: `http://127.0.0.1:40123`, or `https` if it speaks TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.server.authority().is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.listener.address)
    }

    /// A client for it, with its token and without a certificate. With TLS the client trusts the last certificate of
    /// the chain that the server has now.
    ///
    /// # Errors
    /// If the token that it asks for cannot be sent.
    pub fn client(&self) -> Result<Client> {
        let tls = TlsOptions { ca: self.server.authority().map(Pem::Data), ..TlsOptions::default() };
        let config = Config::new(&self.url())?.with_tls(tls).with_clock(self.server.options.clock.clone());
        Client::new(match &self.server.token() {
            Some(token) => config.with_credentials(Credentials::token(token)?),
            None => config,
        })
    }

    /// A kubeconfig file for it, with the namespace `default`. It is written once, says what [`client`](Self::client)
    /// knows at that time, and is removed when the server is dropped; a process that is killed leaves it.
    ///
    /// # Errors
    /// If the file cannot be written into the directory for temporary files.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(directory) = &*directory {
            return Ok(directory.join("kubeconfig"));
        }
        // The uid makes the name one that nobody can have taken before.
        let path = std::env::temp_dir().join(format!("listwatch-apiserver-{}", tree::uid()));
        let file = path.join("kubeconfig");
        self.write_kubeconfig(&path, &file)
            .map_err(|e| Error::config(format!("write {}", file.display())).with_source(e))?;
        *directory = Some(path);
        Ok(file)
    }

    fn write_kubeconfig(&self, directory: &Path, file: &Path) -> std::io::Result<()> {
        let user = match (&self.server.token(), self.server.authority()) {
            (Some(token), _) => json!({ "token": token }),
            (None, Some(_)) => json!({"token": "none"}), // kubectl would ask for a name and a password
            (None, None) => json!({}),
        };
        let mut cluster = json!({"server": self.url()});
        if let Some(authority) = self.server.authority() {
            cluster["certificate-authority-data"] = base64_text::encode(&authority).into();
        }
        // JSON is YAML.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "listwatch",
            "clusters": [{"name": "listwatch", "cluster": cluster}],
            "users": [{"name": "listwatch", "user": user}],
            "contexts": [{
                "name": "listwatch",
                "context": {"cluster": "listwatch", "user": "listwatch", "namespace": "default"},
            }],
        });
        fs::create_dir(directory)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600); // it may hold the token
        options.open(file)?.write_all(config.to_string().as_bytes())
    }

    /// Adds a resource, or takes the place of one of the same group and plural. Any JSON object is taken for its
    /// objects; it has a status subresource and generations. Definitions of custom resources need no call: create them.
    pub fn add_resource(&self, resource: &ApiResource) {
        let kind = Kind::of(resource);
        let id = Arc::clone(&kind.id);
        self.server.state().set_kinds(&id, vec![Arc::new(kind)]);
    }

    /// Sets what `kubectl logs` and [`Api::logs`](crate::Api::logs) read of the pod of this name, whichever container is
    /// asked for; empty if never set. Of the options `tailLines` and `limitBytes` count. Who follows it finds it ended.
    pub fn set_log(&self, namespace: &str, pod: &str, text: impl Into<String>) {
        self.server.set_log_of(Key { namespace: namespace.into(), name: pod.into() }, text.into());
    }

    /// Forgets the history, as etcd's compaction does: older resourceVersions and continue tokens are expired (410).
    /// Watches that are open go on.
    pub fn compact(&self) {
        self.server.state().compact();
    }

    /// Sets a [fault](faults), for as long as the guard is kept. Of several that fit a request the one set first is met;
    /// a watch may meet several.
    pub fn inject(&self, fault: Fault) -> Injected {
        self.server.faults.inject(fault)
    }

    /// What is there now, to go back to.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.server.state().snapshot())
    }

    /// Takes another certificate and key, as when they are renewed. They are for connections from now on; those that
    /// are open go on. Clients that do not trust the new one fail to connect, those of [`client`](Self::client) too if
    /// the chain ends with another certificate.
    ///
    /// # Errors
    /// Those of [`Builder::start`] for [`Builder::tls`], and if the server was started without TLS. It then keeps what
    /// it has.
    #[cfg(feature = "tls")]
    pub fn set_tls(&self, certificate_chain: Pem, private_key: Pem) -> Result<()> {
        let files = tls::Files { chain: certificate_chain, key: private_key };
        self.server.set_tls(|tls| tls.with_files(&files))
    }

    /// Takes certificates of clients from other [authorities](Builder::client_authority), as when those are rotated. It
    /// is for connections from now on; those that are open go on.
    ///
    /// # Errors
    /// If no certificate of an authority can be read, and if the server was started without TLS. It then keeps what it
    /// has.
    #[cfg(feature = "tls")]
    pub fn set_client_authority(&self, certificates: &Pem) -> Result<()> {
        self.server.set_tls(|tls| tls.with_client_authority(certificates))
    }

    /// Answers 401 from now on to requests without this token, as when the one before has expired. Watches that are open
    /// go on.
    pub fn set_token(&self, token: impl Into<String>) {
        self.server.set_token(token.into());
    }

    /// Goes back to an older state, as when a backup of etcd is restored: what happened since never was,
    /// resourceVersions are given out a second time, and watches that are open are cut. As with the real one, a watch
    /// from a version in the future begins there and tells nothing before, and a list from one is refused (504): who
    /// watched and does not compare versions, as client-go, goes on without what comes meanwhile until it lists again.
    /// An [`Informer`](crate::Informer) of this crate asks for the version after a broken connection.
    pub fn restore(&self, snapshot: &Snapshot) {
        self.server.state().restore(snapshot.0.clone());
    }

    /// Cuts all connections and refuses new ones until [`resume`](Self::resume): a server that restarts on the same
    /// port with its state kept. Returns when all threads have ended; does nothing to a server that is paused or
    /// stopped.
    ///
    /// # Errors
    /// If another program takes the port at that moment; the server then cannot be resumed.
    pub fn pause(&mut self) -> Result<()> {
        self.listener.pause(&self.server)
    }

    /// Listens again after [`pause`](Self::pause); does nothing to a server that is not paused.
    ///
    /// # Errors
    /// If it cannot listen or start a thread; the port is then given up.
    pub fn resume(&mut self) -> Result<()> {
        self.listener.resume(&self.server)
    }

    /// The version of the last change.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.server.state().version
    }

    /// The requests so far, as `GET /api/v1/pods?watch=1`; the last 10,000.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.server.log()
    }

    /// Ends all connections and threads, and returns when they have ended.
    pub fn stop(&mut self) {
        self.listener.stop(&self.server);
    }
}

impl Builder {
    /// The port; 0, the default, takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.0.port = port;
        self
    }

    /// How many changes are remembered for watches and pages; 10,000 by default. Older ones expire (410).
    pub fn history(mut self, changes: usize) -> Self {
        self.0.history = changes;
        self
    }

    /// After how much quiet a watch that allows bookmarks gets one; one minute by default.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.0.bookmark_every = interval;
        self
    }

    /// The clock of timestamps, bookmarks and the ends of watches; the system's by default. Each open watch waits on
    /// one timer of it.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock;
        self
    }

    /// Answers 401 to requests without this bearer token. By default everybody is served.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.0.token = Some(token.into());
        self
    }

    /// Speaks TLS: with the server's certificate, which must be good for the address 127.0.0.1, followed by those that
    /// it was issued by, and its key. Clients are to trust the last of the chain: the authority, or the server's own
    /// certificate if that is signed by itself (and does not say that it is one of an authority: rustls takes no such
    /// certificate of a server). Read by [`start`](Self::start).
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificate_chain: Pem, private_key: Pem) -> Self {
        self.0.tls = Some(tls::Files { chain: certificate_chain, key: private_key });
        self
    }

    /// Takes certificates of clients that these have issued, over TLS, in place of the [token](Self::token), and
    /// answers 401 to who has neither. The handshake fails with a certificate of others, or one that has expired, where
    /// kube-apiserver answers 401. Whose it is does not matter.
    #[cfg(feature = "tls")]
    pub fn client_authority(mut self, certificates: Pem) -> Self {
        self.0.client_authority = Some(certificates);
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// If it cannot listen or start a thread, or if certificates or the key cannot be read or used.
    pub fn start(self) -> Result<ApiServer> {
        let server = Arc::new(Server::new(self.0)?);
        {
            let mut state = server.state();
            let kind = state.kind_of(NAMESPACES);
            for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
                let created = state.now();
                let mut body =
                    json!({"metadata": {"name": name, "uid": tree::uid(), "creationTimestamp": created}});
                if let Some(kind) = &kind {
                    defaults::fill(kind, &mut body);
                }
                let key = Key { namespace: String::new(), name: name.into() };
                state.store(&NAMESPACES.into(), key, body);
            }
        }
        let listener = Listener::start(&server)?;
        server.set_address(listener.address);
        Ok(ApiServer { server, listener, directory: Mutex::default() })
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
        let directory = self.directory.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(directory) = directory {
            let _ = fs::remove_dir_all(directory); // it is in a directory that the system cleans
        }
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("resource_version", &self.0.version).finish_non_exhaustive()
    }
}

/// Without the token and the key.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { port, history, bookmark_every, clock, token: _, tls: _, client_authority: _ } = &self.0;
        f.debug_struct("Builder")
            .field("port", port)
            .field("history", history)
            .field("bookmark_interval", bookmark_every)
            .field("clock", clock)
            .finish_non_exhaustive()
    }
}
