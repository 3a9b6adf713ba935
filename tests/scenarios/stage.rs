//! The embedded server behind a proxy.

use std::net::SocketAddr;

use listwatch::apiserver::ApiServer;
use listwatch::types::ConfigMap;
use listwatch::{Api, Client, Config};

pub(crate) struct Stage {
    pub(crate) upstream: SocketAddr,
    pub(crate) ours: Api<ConfigMap>,
    /// The informer's, through this port.
    pub(crate) theirs: Box<dyn Fn(u16) -> Api<ConfigMap>>,
    _server: ApiServer,
}

pub(crate) fn stage() -> Option<Stage> {
    let server = ApiServer::start().unwrap();
    let upstream = server.url().trim_start_matches("http://").parse().unwrap();
    let ours = Api::default_namespaced(&server.client().unwrap());
    let theirs = |port| {
        let config = Config::new(&format!("http://127.0.0.1:{port}")).unwrap();
        Api::default_namespaced(&Client::new(config).unwrap())
    };
    Some(Stage { upstream, ours, theirs: Box::new(theirs), _server: server })
}
