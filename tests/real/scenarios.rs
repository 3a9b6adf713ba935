//! The scenarios of connections, as in `tests/scenarios.rs`, in front of a real kube-apiserver.

#[path = "../scenarios/connections.rs"]
mod connections;
#[allow(dead_code)] // some of it is for the embedded server alone
#[path = "../support/history.rs"]
mod history;
#[path = "../scenarios/proxy.rs"]
mod proxy;
#[allow(dead_code)] // as above
#[path = "../scenarios/scene.rs"]
mod scene;

use std::any::Any;
use std::fmt::Debug;
use std::ops::RangeBounds;

use listwatch::{ListMode, ListParams};

use crate::server::{self, Alone};
use connections::Net;
use proxy::{Entry, OPEN, Way};
use stage::Stage;

scenarios! {
    a_partition_longer_than_the_history: ..=50.0, long_partition;
}

/// For those that need a server for themselves.
fn play(mode: ListMode, within: impl RangeBounds<f64> + Debug, act: impl FnOnce(&mut Net, &Alone)) {
    let Some(server) = server::alone() else { return };
    let stage = Stage::of(server.always(), Box::new(()));
    connections::play_on(stage, mode, within, |net| act(net, &server));
}

/// Both ends think that the connection lives, everything changes, and then the server knows nothing of before.
fn long_partition(net: &mut Net, server: &Alone) {
    net.sync();
    let lists = net.lists();
    net.proxy.meet(Entry::Mute);
    net.proxy.set(Way::Dark, Way::Dark);
    net.change();
    let version = net.ours.list(&ListParams::default()).unwrap().metadata.resource_version;
    server.compact(&version);
    // Its watch cache forgets too.
    server.kill();
    server.restart();
    assert_eq!(net.history.deleted(), [""; 0], "nothing comes through");
    net.begin();
    net.proxy.meet(OPEN);
    net.converges("a partition");
    assert!(net.lists() > lists);
}

mod stage {
    use super::*;

    use std::net::SocketAddr;

    use listwatch::Api;
    use listwatch::config::Credentials;
    use listwatch::types::ConfigMap;

    use crate::server::Server;

    pub(super) struct Stage {
        pub(super) upstream: SocketAddr,
        pub(super) ours: Api<ConfigMap>,
        /// The informer's, through this port.
        pub(super) theirs: Box<dyn Fn(u16) -> Api<ConfigMap>>,
        /// What keeps others from taking the server away.
        _quiet: Box<dyn Any>,
    }

    impl Stage {
        pub(super) fn of(server: &'static Server, quiet: Box<dyn Any>) -> Self {
            let namespace = server.namespace("scenario");
            let ours = Api::namespaced(&server.client(), &namespace);
            let theirs = move |port| {
                let client = server.client_at(port, Credentials::token("admin-token").unwrap());
                Api::namespaced(&client, &namespace)
            };
            Self { upstream: server.address(), ours, theirs: Box::new(theirs), _quiet: quiet }
        }
    }

    pub(super) fn stage() -> Option<Stage> {
        server::shared().map(|(server, quiet)| Stage::of(server, Box::new(quiet)))
    }
}
