//! The verbs of the API, typed.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::request::METADATA;
use super::{
    Client, Collection, DeleteParams, ListParams, Patch, PatchParams, PostParams, RawRequest, Watch,
    WatchParams,
};
use crate::backoff::Jitter;
use crate::error::{Error, OptionalExt, Result};
use crate::object::{ApiResource, ObjectKey, Resource, Scope, StaticResource, Status, Whole};
use crate::stop::Stop;
use crate::wire::{self, Expect};

/// Between these a watch's time is drawn, unless it is given: below the 240 s after which load balancers drop a quiet
/// connection.
const WATCH_TIME: [Duration; 2] = [Duration::from_secs(180), Duration::from_secs(210)];
/// How long after the server should have ended a watch the connection counts as dead, at the most: under four minutes
/// from the start of a watch, as Linux rounds a socket's time limit of more than two minutes up by as much as 16.4 s.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// How long a server may be silent before it has sent the state that it was asked for as events: one that does not
/// know how (a proxy that drops the bookmark at its end) should be found out soon.
const INITIAL_SILENCE: Duration = Duration::from_secs(30);

/// The objects of one kind, in one namespace or all.
///
/// Every method is one request, unless it says otherwise, and blocks as [`Client`] says.
pub struct Api<K> {
    client: Client,
    collection: Collection,
    kind: PhantomData<fn() -> K>,
}

impl<K: StaticResource> Api<K> {
    /// All objects of a kind: in all namespaces, or of a kind that has none.
    #[must_use]
    pub fn all(client: &Client) -> Self {
        Self::all_with(client, &K::api_resource())
    }

    /// The objects in one namespace. A namespace that is none, such as the empty one, is an error of each request.
    #[must_use]
    pub fn namespaced(client: &Client, namespace: &str) -> Self {
        Self::namespaced_with(client, namespace, &K::api_resource())
    }

    /// The objects in the namespace that the configuration names: the kubeconfig's context, or the program's own.
    #[must_use]
    pub fn default_namespaced(client: &Client) -> Self {
        Self::namespaced(client, client.config().namespace())
    }
}

impl<K: Resource> Api<K> {
    /// As [`all`](Self::all) for a resource known at run time; `K` is [`Object`](crate::Object) or a projection that
    /// fits. The place of a ready-made kind is known: `Api::<Object>::all_with(&client, &Node::api_resource())`.
    #[must_use]
    pub fn all_with(client: &Client, resource: &ApiResource) -> Self {
        let collection = Collection { resource: resource.clone(), namespace: None };
        Self { client: client.clone(), collection, kind: PhantomData }
    }

    /// As [`namespaced`](Self::namespaced) for a resource known at run time. The namespace is ignored for a kind that
    /// has none.
    #[must_use]
    pub fn namespaced_with(client: &Client, namespace: &str, resource: &ApiResource) -> Self {
        let mut api = Self::all_with(client, resource);
        api.collection.namespace = Some(namespace.to_owned()).filter(|_| resource.scope == Scope::Namespaced);
        api
    }

    /// The same objects in one namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        Self::namespaced_with(&self.client, namespace, &self.collection.resource)
    }

    /// Which resource it is.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.collection.resource
    }

    /// Which namespace it is limited to.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.collection.namespace.as_deref()
    }

    /// Through which client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same objects through a client whose calls end once stopped.
    #[must_use]
    pub fn with_stop(&self, stop: &Stop) -> Self {
        Self { client: self.client.with_stop(stop), ..self.clone() }
    }

    /// The same objects through a client whose calls take at most this long.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { client: self.client.with_timeout(timeout), ..self.clone() }
    }

    /// Reads one object. The name is looked up in this namespace; for a key, see [`get_key`](Self::get_key).
    ///
    /// # Errors
    /// If there is none ([`is_not_found`](Error::is_not_found)), the server refuses, the connection fails, or the
    /// object does not fit `K`.
    pub fn get(&self, name: &str) -> Result<K> {
        self.send("get", name, self.collection.get(name, ""))
    }

    /// Reads one object, if there is one.
    ///
    /// # Errors
    /// As [`get`](Self::get) but for an object that is not there.
    pub fn get_opt(&self, name: &str) -> Result<Option<K>> {
        self.get(name).optional()
    }

    /// Reads the object of this key, whatever namespace it is in.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_key(&self, key: &ObjectKey) -> Result<K> {
        match key.namespace() {
            Some(namespace) => self.within(namespace).get(key.name()),
            None => self.get(key.name()),
        }
    }

    /// Creates an object; returns it as the server stored it.
    ///
    /// # Errors
    /// If there is one of that name ([`is_already_exists`](Error::is_already_exists)), it is not valid
    /// ([`is_invalid`](Error::is_invalid)), the server refuses, or the connection fails: then it may have been created.
    pub fn create(&self, params: &PostParams, object: &K) -> Result<K> {
        let api = self.for_object(object);
        api.send("create", object.name(), api.collection.create(params, object))
    }

    /// Writes an object whole. Only for types that hold every field ([`Whole`]): others would lose, on the server,
    /// what they do not hold.
    ///
    /// With the resourceVersion that the object was read with, the server refuses if it has changed since.
    ///
    /// # Errors
    /// If it has changed since ([`is_conflict`](Error::is_conflict)), is not valid, or the connection fails.
    pub fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K>
    where
        K: Whole,
    {
        let api = self.for_object(object);
        api.send("replace", name, api.collection.replace(name, "", params, object))
    }

    /// Changes parts of an object; returns it as the server stored it.
    ///
    /// # Errors
    /// If there is none (but apply creates it), the patch does not fit, or the connection fails.
    pub fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K> {
        self.send("patch", name, self.collection.patch(name, "", params, patch))
    }

    /// Server-side apply: the object is to have these fields, which then are the manager's; other fields stay as they
    /// are, and those that the manager applied before and leaves out now are removed. It is created if there is none.
    ///
    /// `params` are [`PatchParams::apply`] with a name that is this program's alone and always the same. A controller
    /// adds [`force`](PatchParams::force): there is nobody whom it could ask about a conflict. `object` holds what the
    /// program wants and nothing else: a type of its own, or `json!({…})`; its type and name need not be said. What was
    /// read from the server is no good for it, as the manager would take over every field of it. With a
    /// `resourceVersion` the server refuses if the object has changed since.
    ///
    /// ```no_run
    /// # use listwatch::types::ConfigMap;
    /// # use listwatch::{Api, Client, PatchParams};
    /// # use serde_json::json;
    /// let maps = Api::<ConfigMap>::namespaced(&Client::try_default()?, "default");
    /// maps.apply("web", &PatchParams::apply("foo-controller").force(), &json!({"data": {"color": "blue"}}))?;
    /// # Ok::<(), listwatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If other managers have other values in these fields ([`is_conflict`](Error::is_conflict);
    /// [`apply_conflicts`](Error::apply_conflicts) says who and where), there is no field manager, the object is not
    /// valid, or the connection fails: it may have been applied then, and may be applied again.
    pub fn apply<P: Serialize>(&self, name: &str, params: &PatchParams, object: &P) -> Result<K> {
        self.send("apply", name, self.applied(name, "", params, object))
    }

    /// The same for the status: `json!({"status": {…}})`. It creates no object.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), and if there is no object ([`is_not_found`](Error::is_not_found)).
    pub fn apply_status<P: Serialize>(&self, name: &str, params: &PatchParams, object: &P) -> Result<K> {
        self.send("apply the status of", name, self.applied(name, "status", params, object))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If there is none, a precondition does not hold ([`is_conflict`](Error::is_conflict)), or the connection fails.
    pub fn delete(&self, name: &str, params: &DeleteParams) -> Result<Deletion<K>> {
        let request = self.collection.delete(name, params).map(Self::shown);
        let answer = request.and_then(|request| self.client.call(&request));
        answer.and_then(|bytes| self.deletion(&bytes)).map_err(|e| self.explain_named("delete", name, e))
    }

    /// Deletes all objects that `list` selects.
    ///
    /// # Errors
    /// If the server refuses or the connection fails; some may be deleted by then.
    pub fn delete_collection(&self, params: &DeleteParams, list: &ListParams) -> Result<()> {
        let answer =
            self.collection.delete_collection(params, list).and_then(|request| self.client.call(&request));
        answer.map(drop).map_err(|e| self.explain("delete a collection of", e))
    }

    /// Reads one object through its status subresource.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_status(&self, name: &str) -> Result<K> {
        self.get_subresource(name, "status")
    }

    /// Writes the status of an object, and nothing else of it. A projection is refused as by
    /// [`replace`](Self::replace), since it would lose the status fields it does not hold.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_status(&self, name: &str, params: &PostParams, object: &K) -> Result<K>
    where
        K: Whole,
    {
        let api = self.for_object(object);
        api.send("replace the status of", name, api.collection.replace(name, "status", params, object))
    }

    /// Changes parts of the status of an object: `json!({"status": {…}})`.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub fn patch_status<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.send("patch the status of", name, self.collection.patch(name, "status", params, patch))
    }

    /// Reads any subresource as any type: `ephemeralcontainers`. For the scale there is [`get_scale`](Self::get_scale), for
    /// logs [`logs`](Self::logs).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_subresource<T: DeserializeOwned>(&self, name: &str, subresource: &str) -> Result<T> {
        self.send_plain("get", name, subresource, self.collection.get(name, subresource))
    }

    /// Posts to any subresource: `binding`, `token`. For evictions there is [`evict`](Self::evict).
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_subresource<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T> {
        let request = self.collection.create_subresource(name, subresource, params, body);
        self.send_plain("create", name, subresource, request)
    }

    /// Writes any subresource.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_subresource<B: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &PostParams,
        body: &B,
    ) -> Result<T> {
        let request = self.collection.replace(name, subresource, params, body);
        self.send_plain("replace", name, subresource, request)
    }

    /// Changes parts of any subresource.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub fn patch_subresource<P: Serialize, T: DeserializeOwned>(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<T> {
        let request = self.collection.patch(name, subresource, params, patch);
        self.send_plain("patch", name, subresource, request)
    }

    /// Watches: one request, whose answer is an event for each change, until the server ends it.
    ///
    /// Blocks until the server answers, and is asked again if it asks for that; then see [`Watch`]. An
    /// [`Informer`](crate::Informer) keeps at it for ever.
    ///
    /// # Errors
    /// If the server refuses, or the connection fails.
    pub fn watch(&self, params: &WatchParams, stop: &Stop) -> Result<Watch<K>> {
        self.client.patiently(stop, |left| self.with_timeout(left).watch_once(params, stop))
    }

    /// The same, refusals being errors at once: for who has a patience of his own.
    pub(crate) fn watch_once(&self, params: &WatchParams, stop: &Stop) -> Result<Watch<K>> {
        let drawn = || Jitter::new().between(WATCH_TIME[0], WATCH_TIME[1]);
        // The server ends a quiet watch in time not to be taken for dead.
        let before = |silence: Duration| silence - WATCH_GRACE.min(silence / 4);
        let time = params.timeout.unwrap_or_else(|| params.silence.map_or_else(drawn, before));
        let silence = params.silence.unwrap_or(time.saturating_add(WATCH_GRACE));
        let request = self.collection.watch(params, time).map(Self::shown);
        let answer = request.and_then(|request| self.client.stream_alone(&request, silence, stop));
        match answer {
            Ok(answer) => {
                let initial = params.initial_events.then_some(INITIAL_SILENCE.min(silence));
                Ok(Watch::new(answer, self.expect(), initial, stop.clone()))
            }
            Err(e) => Err(self.explain("watch", e)),
        }
    }

    pub(super) fn collection(&self) -> &Collection {
        &self.collection
    }

    pub(super) fn expect(&self) -> Expect {
        if K::METADATA_ONLY { Expect::metadata() } else { Expect::from(&self.collection.resource) }
    }

    /// Says in which form the answer is to be.
    fn shown(mut request: RawRequest) -> RawRequest {
        if K::METADATA_ONLY {
            request.accept = METADATA;
        }
        request
    }

    /// Where an object goes that says its namespace itself.
    fn for_object(&self, object: &K) -> Self {
        match (&self.collection.namespace, object.namespace()) {
            (None, Some(namespace)) => self.within(namespace),
            _ => self.clone(),
        }
    }

    /// An apply must name its object, though the path does.
    fn applied(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        object: &impl Serialize,
    ) -> Result<RawRequest> {
        let mut object = serde_json::to_value(object)
            .map_err(|e| Error::invalid("what is sent cannot be written as JSON").with_source(e))?;
        let fields = object.as_object_mut();
        let metadata = fields.map(|fields| fields.entry("metadata").or_insert_with(|| serde_json::json!({})));
        if let Some(metadata) = metadata.and_then(serde_json::Value::as_object_mut) {
            metadata.entry("name").or_insert_with(|| name.into());
        }
        self.collection.patch(name, subresource, params, &Patch::Apply(object))
    }

    fn send(&self, verb: &str, name: &str, request: Result<RawRequest>) -> Result<K> {
        let answer = request.map(Self::shown).and_then(|request| self.client.call(&request));
        answer
            .and_then(|bytes| wire::decode_object(&bytes, &self.expect()))
            .map_err(|e| self.explain_named(verb, name, e))
    }

    fn send_plain<T: DeserializeOwned>(
        &self,
        verb: &str,
        name: &str,
        subresource: &str,
        request: Result<RawRequest>,
    ) -> Result<T> {
        request
            .and_then(|request| self.client.request(&request))
            .map_err(|e| self.explain_named(&format!("{verb} {subresource} of"), name, e))
    }

    /// The server answers a delete with a Status, or with the object if it lives on for a while.
    fn deletion(&self, bytes: &[u8]) -> Result<Deletion<K>> {
        #[derive(serde::Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            kind: std::borrow::Cow<'a, str>,
        }

        match serde_json::from_slice::<Kind<'_>>(bytes) {
            Ok(Kind { kind }) if kind == "Status" => serde_json::from_slice(bytes)
                .map(Deletion::Done)
                .map_err(|e| Error::decode("the server's answer to a delete").with_source(e)),
            _ => wire::decode_object(bytes, &self.expect()).map(Deletion::Pending),
        }
    }

    /// Says what was being done.
    pub(super) fn explain(&self, verb: &str, e: Error) -> Error {
        e.context(format!("{verb} {}", self.described()))
    }

    /// What it is of: `pods in "default"`.
    pub(crate) fn described(&self) -> String {
        let what = if K::METADATA_ONLY { " (metadata)" } else { "" };
        match self.namespace() {
            Some(namespace) => format!("{}{what} in {namespace:?}", self.resource()),
            None => format!("{}{what}", self.resource()),
        }
    }

    pub(super) fn explain_named(&self, verb: &str, name: &str, e: Error) -> Error {
        e.context(format!("{verb} {} {}", self.resource(), self.key_of(name)))
    }

    pub(super) fn key_of(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace(), name)
    }
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), collection: self.collection.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("collection", &self.collection).finish_non_exhaustive()
    }
}

/// What became of an object that was deleted.
#[allow(clippy::large_enum_variant)] // one value, which is taken apart at once
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion<K> {
    /// It is gone.
    Done(Status),
    /// It lives on until its finalizers are gone and its time of grace is over; some kinds answer so in any case.
    Pending(K),
}
