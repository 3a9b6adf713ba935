use std::sync::Arc;

use crate::client::{Api, ListParams, WatchParams};
use crate::clock::Clock;
use crate::error::Result;
use crate::metrics::Recorder;
use crate::object::{ListMeta, Resource};
use crate::stop::Stop;
use crate::wire::WatchEvent;

/// The events of a watch, until it ends; see [`Watch`](crate::client::Watch) for when it does.
pub type Events<K> = Box<dyn Iterator<Item = Result<WatchEvent<K>>> + Send>;

/// Whatever can be listed and then watched: an [`Api`], or the script of a test.
pub trait ListWatch<K>: Send + Sync + 'static {
    /// Lists, giving each object to `sink` as it comes. An object that does not fit `K` is given as an error that
    /// [says which it is](crate::Error::unfit), and the list goes on; an error of `sink` ends it.
    ///
    /// # Errors
    /// If the list cannot be had to its end.
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<K>) -> Result<()>,
    ) -> Result<ListMeta>;

    /// Starts a watch. Its events end when stopped. What is read is told before the iterator is asked for more, unless
    /// its [`size_hint`](Iterator::size_hint) says that there is one more at least: then the next must come at once.
    ///
    /// # Errors
    /// If the watch cannot be had.
    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<K>>;

    /// The version that the server is at now, by a request that costs little, made with these selectors; `None`, as
    /// here, where that cannot be had. A reflector asks after a broken connection: a server that was restored from an
    /// older state would take a watch from a version in its future, and tell nothing.
    ///
    /// # Errors
    /// If the request fails.
    fn current_version(&self, params: &ListParams, stop: &Stop) -> Result<Option<String>> {
        let _ = (params, stop);
        Ok(None)
    }

    /// Where its time comes from, which is then the clock of a reflector or informer of it.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Who is told how a reflector or informer of it fares, if somebody is: that of the [client](crate::Client::with_metrics).
    fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        None
    }

    /// What is listed and watched, for logs and errors: `pods in "default"`.
    fn describe(&self) -> String;
}

impl<K: Resource> ListWatch<K> for Api<K> {
    fn list(
        &self,
        params: &ListParams,
        stop: &Stop,
        sink: &mut dyn FnMut(Result<K>) -> Result<()>,
    ) -> Result<ListMeta> {
        self.list_once(params, stop, sink)
    }

    fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Events<K>> {
        Ok(Box::new(self.watch_once(params, stop)?))
    }

    fn current_version(&self, params: &ListParams, stop: &Stop) -> Result<Option<String>> {
        self.latest_version(params, stop).map(Some)
    }

    fn clock(&self) -> Clock {
        self.client().clock().clone()
    }

    fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.client().recorder()
    }

    fn describe(&self) -> String {
        self.described()
    }
}
