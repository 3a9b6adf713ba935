//! The scenarios of connections, as in `tests/scenarios.rs`, in front of a real kube-apiserver.

#[path = "../scenarios/connections.rs"]
mod connections;
#[path = "../support/history.rs"]
mod history;
#[path = "../scenarios/proxy.rs"]
mod proxy;
#[path = "../scenarios/scene.rs"]
mod scene;

mod stage {
    use std::net::SocketAddr;
    use std::sync::RwLockReadGuard;

    use listwatch::Api;
    use listwatch::config::Credentials;
    use listwatch::types::ConfigMap;

    use crate::server;

    pub(super) struct Stage {
        pub(super) upstream: SocketAddr,
        pub(super) ours: Api<ConfigMap>,
        /// The informer's, through this port.
        pub(super) theirs: Box<dyn Fn(u16) -> Api<ConfigMap>>,
        _quiet: RwLockReadGuard<'static, ()>,
    }

    pub(super) fn stage() -> Option<Stage> {
        let (server, quiet) = server::shared()?;
        let namespace = server.namespace("scenario");
        let ours = Api::namespaced(&server.client(), &namespace);
        let theirs = move |port| {
            let client = server.client_at(port, Credentials::token("admin-token").unwrap());
            Api::namespaced(&client, &namespace)
        };
        Some(Stage { upstream: server.address(), ours, theirs: Box::new(theirs), _quiet: quiet })
    }
}
