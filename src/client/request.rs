//! Requests as values: pure functions from what is wanted to method, path and body.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::logs::LogParams;
use super::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use crate::config::escape;
use crate::error::{Error, Result};
use crate::http::{Method, RawRequest};
use crate::object::{ApiResource, Scope};

const JSON: &str = "application/json";

impl RawRequest {
    /// A request for `path`, percent-encoded, with its query: `/apis/metrics.k8s.io/v1beta1/nodes`.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), accept: JSON, content_type: JSON, body: Vec::new() }
    }

    /// Gives it a body.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Result<Self> {
        self.body = to_json(value)?;
        Ok(self)
    }

    /// Gives it a body of another type, such as `application/merge-patch+json`.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        (self.content_type, self.body) = (content_type, body);
        self
    }
}

/// Has the answer be the metadata of one object, or of the events of a watch; and of a list.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// All objects of a kind in one namespace or all, on one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Collection {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
}

impl Collection {
    pub(crate) fn get(&self, name: &str, subresource: &str) -> Result<RawRequest> {
        Ok(RawRequest::new(Method::Get, self.object(name, subresource)?))
    }

    pub(crate) fn list(&self, params: &ListParams) -> Result<RawRequest> {
        Ok(RawRequest::new(Method::Get, self.with_query(&params.query())?))
    }

    /// `timeout` is for the server, in whole seconds.
    pub(crate) fn watch(&self, params: &WatchParams, timeout: Duration) -> Result<RawRequest> {
        Ok(RawRequest::new(Method::Get, self.with_query(&params.query(timeout))?))
    }

    pub(crate) fn logs(&self, name: &str, params: &LogParams) -> Result<RawRequest> {
        let mut request = RawRequest::new(Method::Get, params.query().append_to(self.object(name, "log")?));
        request.accept = "application/json, */*"; // as client-go: refusals are JSON, logs are text
        Ok(request)
    }

    pub(crate) fn create(&self, params: &PostParams, object: &impl Serialize) -> Result<RawRequest> {
        self.check_namespace("an object without a namespace")?;
        let mut request = RawRequest::new(Method::Post, self.with_query(&params.query())?);
        request.body = self.typed(object, "")?;
        Ok(request)
    }

    pub(crate) fn create_subresource(
        &self,
        name: &str,
        subresource: &str,
        params: &PostParams,
        body: &impl Serialize,
    ) -> Result<RawRequest> {
        let path = self.object(name, subresource)?;
        RawRequest::new(Method::Post, params.query().append_to(path)).json(body)
    }

    pub(crate) fn replace(
        &self,
        name: &str,
        subresource: &str,
        params: &PostParams,
        object: &impl Serialize,
    ) -> Result<RawRequest> {
        let path = self.object(name, subresource)?;
        let mut request = RawRequest::new(Method::Put, params.query().append_to(path));
        request.body = match subresource {
            "" | "status" | "scale" => self.typed(object, subresource)?,
            _ => to_json(object)?,
        };
        Ok(request)
    }

    pub(crate) fn patch<P: Serialize>(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<RawRequest> {
        let path = self.object(name, subresource)?;
        let body = match patch {
            Patch::Apply(object) => {
                params.check_apply()?;
                self.typed(object, subresource)?
            }
            Patch::Json(_) | Patch::Merge(_) | Patch::Strategic(_) if params.force => {
                return Err(Error::invalid("only an apply can be forced"));
            }
            Patch::Json(p) | Patch::Merge(p) | Patch::Strategic(p) => to_json(p)?,
        };
        Ok(RawRequest::new(Method::Patch, params.query().append_to(path)).body(patch.content_type(), body))
    }

    pub(crate) fn delete(&self, name: &str, params: &DeleteParams) -> Result<RawRequest> {
        RawRequest::new(Method::Delete, self.object(name, "")?).json(params)
    }

    pub(crate) fn delete_collection(&self, params: &DeleteParams, list: &ListParams) -> Result<RawRequest> {
        RawRequest::new(Method::Delete, self.with_query(&list.query())?).json(params)
    }

    fn with_query(&self, query: &Query) -> Result<String> {
        Ok(query.append_to(self.path()?))
    }

    /// The path of all objects. A namespace that is none is refused: the server would take an empty one for all, and
    /// answer a bad one with an empty list.
    fn path(&self) -> Result<String> {
        match &self.namespace {
            Some(namespace) if !is_label(namespace) => {
                Err(Error::invalid(format!("{namespace:?} is no name of a namespace")))
            }
            namespace => Ok(self.resource.path(namespace.as_deref())),
        }
    }

    /// The path of one object or a part of it.
    fn object(&self, name: &str, subresource: &str) -> Result<String> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
            return Err(Error::invalid(format!("{name:?} is no name of an object")));
        }
        self.check_namespace(&format!("{name:?} alone"))?;
        let mut path = self.path()?;
        path.push('/');
        path.push_str(&escape(name, is_unreserved));
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        Ok(path)
    }

    /// One object has a namespace if its kind has.
    fn check_namespace(&self, what: &str) -> Result<()> {
        if self.namespace.is_none() && self.resource.scope == Scope::Namespaced {
            let resource = &self.resource;
            return Err(Error::invalid(format!(
                "{resource} live in namespaces: say in which ({what} is no address)"
            )));
        }
        Ok(())
    }

    /// The object, or a part of it, as JSON with `apiVersion` and `kind`, which typed structs do not hold.
    fn typed(&self, object: &impl Serialize, subresource: &str) -> Result<Vec<u8>> {
        #[derive(Deserialize)]
        struct TypeMeta {
            kind: Option<serde::de::IgnoredAny>,
        }

        let json = to_json(object)?;
        // serde would read a list as a struct, too.
        if !json.starts_with(b"{") {
            return Err(Error::invalid("what is sent is no JSON object"));
        }
        match serde_json::from_slice::<TypeMeta>(&json) {
            Ok(TypeMeta { kind: Some(_) }) => Ok(json),
            Ok(TypeMeta { kind: None }) => {
                let (api_version, kind) = match subresource {
                    "scale" => ("autoscaling/v1", "Scale"),
                    _ => (&*self.resource.api_version, &*self.resource.kind),
                };
                let api_version = serde_json::to_string(api_version).unwrap_or_default();
                let kind = serde_json::to_string(kind).unwrap_or_default();
                let mut typed = format!("{{\"apiVersion\":{api_version},\"kind\":{kind}").into_bytes();
                if json.get(1) != Some(&b'}') {
                    typed.push(b',');
                }
                typed.extend_from_slice(&json[1..]);
                Ok(typed)
            }
            Err(e) => Err(Error::invalid("what is sent is no JSON object").with_source(e)),
        }
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::invalid("cannot be written as JSON").with_source(e))
}

/// Whether it is a label of RFC 1123, as names of namespaces are.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A query string as it grows.
#[derive(Debug, Default)]
pub(super) struct Query(String);

impl Query {
    pub(super) fn add(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        self.0.push_str(&escape(value, is_unreserved));
    }

    /// Adds what is not empty.
    pub(super) fn add_text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.add(key, value);
        }
    }

    pub(super) fn add_flag(&mut self, key: &str, value: bool) {
        if value {
            self.add(key, "true");
        }
    }

    fn append_to(&self, mut path: String) -> String {
        path.push_str(&self.0);
        path
    }
}

/// The characters that RFC 3986 has no other use for.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods(namespace: Option<&str>) -> Collection {
        let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
        Collection { resource, namespace: namespace.map(Into::into) }
    }

    fn nodes() -> Collection {
        Collection { resource: ApiResource::new("v1", "Node", "nodes", Scope::Cluster), namespace: None }
    }

    #[test]
    fn paths_and_queries() {
        let list = ListParams::default().labels("app in (a,b)").fields("spec.nodeName=n").limit(500);
        assert_eq!(
            pods(None).list(&list).unwrap().path,
            "/api/v1/pods?labelSelector=app%20in%20%28a%2Cb%29&fieldSelector=spec.nodeName%3Dn&limit=500"
        );
        assert_eq!(pods(Some("ns")).get("web-0", "").unwrap().path, "/api/v1/namespaces/ns/pods/web-0");
        assert_eq!(nodes().get("n:1", "status").unwrap().path, "/api/v1/nodes/n%3A1/status");
        let watch = WatchParams::default().resource_version("7");
        assert_eq!(
            pods(Some("ns")).watch(&watch, Duration::from_secs(200)).unwrap().path,
            "/api/v1/namespaces/ns/pods?watch=true&resourceVersion=7&allowWatchBookmarks=true&timeoutSeconds=200"
        );
    }

    #[test]
    fn a_bad_name_or_a_missing_namespace_is_refused_before_it_is_sent() {
        for name in ["", ".", "..", "a/b", "a%2Fb"] {
            assert!(nodes().get(name, "").unwrap_err().is_invalid_argument(), "{name:?}");
        }
        let error = pods(None).get("web-0", "").unwrap_err();
        assert!(error.is_invalid_argument() && error.to_string().contains("pods live in namespaces"));
        let homeless = pods(None).create(&PostParams::default(), &json!({"metadata": {"name": "web-0"}}));
        assert!(homeless.unwrap_err().is_invalid_argument());
        for namespace in ["", "..", "Not A Name", "a/b", "-a"] {
            let refused = pods(Some(namespace)).list(&ListParams::default()).unwrap_err();
            assert!(refused.to_string().contains("no name of a namespace"), "{refused}");
        }
    }

    #[test]
    fn the_type_is_written_where_the_value_has_none() {
        let body =
            |value| String::from_utf8(nodes().create(&PostParams::default(), &value).unwrap().body).unwrap();
        assert_eq!(body(json!({"spec": {}})), r#"{"apiVersion":"v1","kind":"Node","spec":{}}"#);
        assert_eq!(body(json!({})), r#"{"apiVersion":"v1","kind":"Node"}"#);
        assert_eq!(body(json!({"kind": "Node"})), r#"{"kind":"Node"}"#);
        assert!(nodes().create(&PostParams::default(), &json!([1])).unwrap_err().is_invalid_argument());
    }

    #[test]
    fn patches_carry_their_type_and_manager() {
        let params = PatchParams::apply("me").force();
        let request = nodes().patch("n", "status", &params, &Patch::Apply(json!({}))).unwrap();
        assert_eq!(request.path, "/api/v1/nodes/n/status?fieldManager=me&force=true");
        assert_eq!(request.content_type, "application/apply-patch+yaml");
        let unnamed = nodes().patch("n", "", &PatchParams::default(), &Patch::Apply(json!({})));
        assert!(unnamed.unwrap_err().is_invalid_argument());
        let merge = nodes().patch("n", "", &PatchParams::default(), &Patch::Merge(json!({"a": 1}))).unwrap();
        assert_eq!(
            (merge.content_type, merge.body),
            ("application/merge-patch+json", br#"{"a":1}"#.to_vec())
        );
    }

    #[test]
    fn a_delete_carries_its_options() {
        let params = DeleteParams::background().grace_period(Duration::from_secs(0)).uid("u-1");
        let body = String::from_utf8(nodes().delete("n", &params).unwrap().body).unwrap();
        assert_eq!(
            body,
            r#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","gracePeriodSeconds":0,"preconditions":{"uid":"u-1"}}"#
        );
    }
}
