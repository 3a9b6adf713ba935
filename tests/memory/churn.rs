use std::sync::Arc;

use listwatch::apiserver::ApiServer;
use listwatch::apiserver::faults::{Effect, Fault};
use listwatch::cache::{Events, ListWatch};
use listwatch::types::ConfigMap;
use listwatch::{Api, Handlers, Informer, ListMeta, ListParams, ObjectMeta, Result, Stop, WatchParams};

use crate::{MIB, PATIENCE, alone, resident, threads, until};

/// Does something so many times, and says by how many bytes memory grew after the first tenth.
fn grown_by(times: usize, what: &str, mut work: impl FnMut(usize)) -> f64 {
    let mut warm = 0.0;
    for time in 0..times {
        if time == times / 10 {
            warm = resident();
        }
        work(time);
    }
    let grown = resident() - warm;
    println!(
        "memory: {times} {what}: {:.1} MiB after a tenth, {:+.2} MiB from there, {} threads",
        warm / MIB,
        grown / MIB,
        threads()
    );
    grown
}

#[cfg(feature = "tls")]
fn server() -> ApiServer {
    use listwatch::config::Pem;
    let file = |name: &str| {
        std::fs::read(format!("{}/tests/client/pki/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let chain = [file("server.pem"), file("ca.pem")].concat();
    ApiServer::builder().tls(Pem::Data(chain), Pem::Data(file("server.key.pem"))).start().unwrap()
}

#[cfg(not(feature = "tls"))]
fn server() -> ApiServer {
    ApiServer::start().unwrap()
}

#[test]
fn clients_that_come_and_go_leave_no_memory_and_no_thread() {
    alone("churn::clients_that_come_and_go_leave_no_memory_and_no_thread", || {
        let server = server();
        // Or the server would hold the other end of each for a while.
        let _short = server.inject(Fault::new(Effect::EndAfter(0)).watches());
        let before = threads();
        let grown = grown_by(1000, "clients that listed and watched", |_| {
            let maps = Api::<ConfigMap>::default_namespaced(&server.client().unwrap());
            maps.list(&ListParams::default()).unwrap();
            assert!(maps.watch(&WatchParams::default(), &Stop::new()).unwrap().next().is_none());
            drop(maps);
            until(|| threads() == before);
        });
        assert!(grown < 2.0 * MIB, "it grew by {grown} bytes");
    });
}

/// One object, and no changes.
struct Quiet;

impl ListWatch<ConfigMap> for Quiet {
    fn list(
        &self,
        _: &ListParams,
        _: &Stop,
        sink: &mut dyn FnMut(Result<ConfigMap>) -> Result<()>,
    ) -> Result<ListMeta> {
        let metadata =
            ObjectMeta { resource_version: "1".into(), ..ObjectMeta::named("a").in_namespace("default") };
        sink(Ok(ConfigMap { metadata, ..ConfigMap::default() }))?;
        Ok(ListMeta { resource_version: "1".into(), ..ListMeta::default() })
    }

    fn watch(&self, _: &WatchParams, stop: &Stop) -> Result<Events<ConfigMap>> {
        let stop = stop.clone();
        Ok(Box::new(std::iter::from_fn(move || {
            stop.wait();
            None
        })))
    }

    fn describe(&self) -> String {
        "configmaps".into()
    }
}

#[test]
fn handlers_that_come_and_go_leave_no_memory_and_no_thread() {
    alone("churn::handlers_that_come_and_go_leave_no_memory_and_no_thread", || {
        let (stop, told) = (Stop::new(), Arc::new(()));
        let informer = Informer::builder(Quiet).build().unwrap();
        informer.start(&stop).unwrap();
        informer.wait_for_sync(PATIENCE).unwrap();
        let before = threads();
        let grown = grown_by(10_000, "handlers", |time| {
            let kept = told.clone();
            let handler = Handlers::<ConfigMap>::new().on_add(move |_, _| drop(kept.clone()));
            let registration = informer.add_handler(handler).unwrap();
            // Some go before they have been told.
            if time % 2 == 0 {
                registration.wait_for_sync(PATIENCE).unwrap();
            }
            registration.remove();
        });
        until(|| threads() == before);
        assert_eq!(Arc::strong_count(&told), 1, "no handler is kept");
        assert!(grown < MIB, "it grew by {grown} bytes");
        stop.stop();
        informer.join();
    });
}
