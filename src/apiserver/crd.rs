//! CustomResourceDefinitions: the resources they define, and their status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{Cause, Failure, Outcome};
use super::kinds::{CRDS, Kind, Scale, id_of};
use super::tree::{child, list, text};

/// What a definition says of one version beside its names.
#[derive(Debug)]
pub(super) struct Custom {
    /// `openAPIV3Schema`.
    pub(super) schema: Value,
    /// `additionalPrinterColumns`.
    pub(super) columns: Vec<Column>,
    /// `selectableFields`, as `spec.color`.
    pub(super) selectable: Vec<String>,
}

/// A column of `kubectl get`.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: String,
    pub(super) path: String,
    pub(super) priority: i64,
}

/// Checks a definition, completes it with defaults and the status of one that is served, and gives the resources that
/// it defines.
pub(super) fn accept(definition: &mut Value, now: &str) -> Outcome<Vec<Arc<Kind>>> {
    complete(definition);
    let kinds = read(definition)?;
    let accepted = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let stored: Vec<String> = list(definition, "/spec/versions")
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "/name").to_string())
        .collect();
    let condition = |of: &str, reason: &str, message: &str| {
        json!({
            "type": of, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now
        })
    };
    let status = child(definition, "status");
    status.insert("acceptedNames".into(), accepted);
    status.insert("storedVersions".into(), stored.into());
    status.entry("conditions").or_insert_with(|| {
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ])
    });
    Ok(kinds)
}

/// The names that can be left out.
fn complete(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_string();
    let spec = child(definition, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
}

fn read(definition: &Value) -> Outcome<Vec<Arc<Kind>>> {
    let name = text(definition, "/metadata/name");
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let kind = text(definition, "/spec/names/kind");
    let versions = list(definition, "/spec/versions");
    let mut causes = Vec::new();
    for (field, value) in [("spec.group", group), ("spec.names.plural", plural), ("spec.names.kind", kind)] {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &format!("\"{name}\""), why));
    }
    let scope = text(definition, "/spec/scope");
    if !matches!(scope, "Namespaced" | "Cluster") {
        let allowed = "\"Cluster\", \"Namespaced\"";
        causes.push(Cause::not_supported("spec.scope", &format!("\"{scope}\""), allowed));
    }
    if versions.iter().filter(|v| v.get("storage") == Some(&Value::Bool(true))).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", "[]", why));
    }
    for (at, version) in versions.iter().enumerate() {
        if !version.pointer("/schema/openAPIV3Schema").is_some_and(Value::is_object) {
            let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, "schemas are required"));
        }
    }
    if !causes.is_empty() {
        return Err(invalid(name, causes));
    }
    let texts = |pointer: &str| -> Vec<String> {
        list(definition, pointer).iter().filter_map(Value::as_str).map(Into::into).collect()
    };
    let served = versions.iter().filter(|version| version.get("served") == Some(&Value::Bool(true)));
    let kind_of = |version: &Value| {
        let status = version.pointer("/subresources/status").is_some();
        let scale = version.pointer("/subresources/scale").map(|scale| Scale {
            spec: text(scale, "/specReplicasPath").into(),
            status: text(scale, "/statusReplicasPath").into(),
            selector: text(scale, "/labelSelectorPath").into(),
        });
        Arc::new(Kind {
            group: group.into(),
            version: text(version, "/name").into(),
            plural: plural.into(),
            singular: text(definition, "/spec/names/singular").into(),
            kind: kind.into(),
            list_kind: text(definition, "/spec/names/listKind").into(),
            namespaced: scope == "Namespaced",
            short_names: texts("/spec/names/shortNames"),
            categories: texts("/spec/names/categories"),
            status,
            generation: true,
            scale,
            custom: Some(custom(version)),
            id: id_of(group, plural),
            table: id_of(group, plural),
        })
    };
    Ok(served.map(kind_of).collect())
}

fn custom(version: &Value) -> Custom {
    let column = |column: &Value| Column {
        name: text(column, "/name").into(),
        of: text(column, "/type").into(),
        path: text(column, "/jsonPath").into(),
        priority: super::tree::number(column, "/priority").unwrap_or(0),
    };
    let field = |field: &Value| text(field, "/jsonPath").trim_start_matches('.').to_string();
    Custom {
        schema: version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default(),
        columns: list(version, "/additionalPrinterColumns").iter().map(column).collect(),
        selectable: list(version, "/selectableFields").iter().map(field).collect(),
    }
}

fn invalid(name: &str, causes: Vec<Cause>) -> Failure {
    match super::kinds::built_in().iter().find(|kind| &*kind.table == CRDS) {
        Some(kind) => Failure::invalid(kind, name, causes),
        None => Failure::bad_request("the definition is invalid"),
    }
}
