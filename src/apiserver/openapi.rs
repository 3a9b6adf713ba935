//! Just enough OpenAPI v3 for kubectl to find that the server validates fields itself.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::Kind;

fn path_of(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", kind.api_version())
}

/// `/openapi/v3`: a document for each group and version.
pub(super) fn index(kinds: &[Arc<Kind>]) -> Value {
    let paths: Map<String, Value> = kinds
        .iter()
        .map(|kind| path_of(kind))
        .map(|path| (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}")})))
        .collect();
    json!({ "paths": paths })
}

/// The document of a group and version: the paths of its objects and the parameters of a write.
pub(super) fn document(kinds: &[Arc<Kind>], group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let namespaced = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{namespaced}/{}", path_of(kind), kind.plural);
        let gvk = json!({"group": group, "version": version, "kind": kind.kind});
        let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation"]
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        let operation = |action: &str| {
            json!({
                "operationId": format!("{action}{}{}{}", group.replace('.', ""), version, kind.kind),
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": gvk,
            })
        };
        paths.insert(collection.clone(), json!({"post": operation("post")}));
        let object = json!({"put": operation("put"), "patch": operation("patch")});
        paths.insert(format!("{collection}/{{name}}"), object);
        let mut schema = match &kind.custom {
            Some(custom) => custom.schema.clone(),
            None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        };
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        let reversed: Vec<&str> = group.split('.').filter(|part| !part.is_empty()).rev().collect();
        let name = [&reversed[..], &[version, &kind.kind]].concat().join(".");
        schemas.insert(name, schema);
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.37.0-listwatch"},
            "paths": paths,
            "components": {"schemas": schemas},
        })
    })
}
