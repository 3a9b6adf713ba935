//! Which objects a list, a watch or a deletion of many is about.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::object::{FieldRequirement, FieldSelector, LabelSelector, Selector};

use super::answer::{Failure, Outcome};
use super::events::kept_path;
use super::http::Request;
use super::kinds::Kind;
use super::routes::Call;
use super::store::Object;
use super::tree::{at_path, plain, text};

/// Which objects a request is about.
#[derive(Debug)]
pub(super) struct Filter {
    /// `None` for all.
    pub(super) namespace: Option<String>,
    labels: Selector,
    fields: FieldSelector,
    kind: Arc<Kind>,
}

impl Filter {
    /// By the namespace and the name in the path, and the selectors in the query.
    pub(super) fn of(call: &Call<'_>, request: &Request) -> Outcome<Self> {
        let query = &request.query;
        let labels = Selector::parse(query.get("labelSelector"))
            .map_err(|e| Failure::bad_request(format!("unable to parse requirement: {e}")))?;
        let bad = |e: crate::Error| Failure::bad_request(e.to_string());
        let mut fields = FieldSelector::parse(query.get("fieldSelector")).map_err(bad)?;
        fields.requirements().iter().try_for_each(|r| check_field(&call.kind, &r.field))?;
        if !call.name.is_empty() {
            fields = fields.equals("metadata.name", &call.name).map_err(bad)?;
        }
        let namespace = call.namespace().map(Into::into);
        Ok(Self { namespace, labels, fields, kind: Arc::clone(&call.kind) })
    }

    /// Whether there is a selector, so that how many objects remain is not known.
    pub(super) fn selects(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        let labels = object.body.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.namespace.as_ref().is_none_or(|ns| *ns == object.key.namespace)
            && self.labels.matches(|key| labels?.get(key)?.as_str())
            && self.fields.requirements().iter().all(|r| self.has_field(&object.body, r))
    }

    fn has_field(&self, body: &Value, wanted: &FieldRequirement) -> bool {
        let field = kept_path(&self.kind, &wanted.field);
        let (path, default) = match &*field {
            // Those of built-in kinds are told by their defaults where they are absent.
            field if self.kind.custom.is_some() => (field, ""),
            field @ ("spec.unschedulable" | "spec.hostNetwork") => (field, "false"),
            field @ "status.replicas" => (field, "0"),
            // Two that are not named as they are written.
            "status.successful" => ("status.succeeded", "0"),
            "source" if text(body, "/source/component").is_empty() => ("reportingComponent", ""),
            "source" => ("source.component", ""),
            field => (field, ""),
        };
        let equal = match at_path(body, path) {
            None | Some(Value::Null) => wanted.value == default,
            Some(Value::String(text)) => *text == wanted.value,
            Some(other) => plain(other) == wanted.value,
        };
        equal == wanted.equal
    }
}

/// The fields that objects of a kind can be selected by, beside name and namespace.
fn selectable(kind: &Kind) -> &'static [&'static str] {
    match kind.id() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "events.events.k8s.io" => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        "secrets" => &["type"],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicasets.apps" => &["status.replicas"],
        "jobs.batch" => &["status.successful"],
        _ => &[],
    }
}

fn check_field(kind: &Kind, field: &str) -> Outcome<()> {
    let own = kind.custom.as_ref().is_some_and(|custom| custom.selectable.iter().any(|own| own == field));
    if own || matches!(field, "metadata.name" | "metadata.namespace") || selectable(kind).contains(&field) {
        return Ok(());
    }
    Err(Failure::bad_request(if selectable(kind).is_empty() && kind.custom.is_none() {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    }))
}

/// A workload's `spec.selector` as the text that the scale subresource tells; empty if it is none.
pub(super) fn selector_text(selector: &Value) -> String {
    let selector = LabelSelector::deserialize(selector).ok().and_then(|selector| selector.to_selector().ok());
    selector.unwrap_or_default().to_string()
}
