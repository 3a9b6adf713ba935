//! What the server fills into built-in kinds, and the few checks of them.

use serde_json::{Value, json};

use crate::base64_text;
use crate::object::MicroTime;

use super::answer::{Cause, Failure, Outcome};
use super::kinds::Kind;
use super::tree::{child, metadata, number, plain, text, tree};

/// Fills in the defaults that clients count on: the phase of a pod, replicas, the type of a service.
pub(super) fn fill(kind: &Kind, body: &mut Value) {
    match kind.id() {
        "pods" => absent(body, "status", "phase", json!("Pending")),
        "namespaces" => {
            let name = text(body, "/metadata/name").to_string();
            absent(body, "status", "phase", json!("Active"));
            if text(body, "/metadata/deletionTimestamp").is_empty() {
                absent(body, "spec", "finalizers", json!(["kubernetes"]));
            }
            let labels = metadata(body).entry("labels").or_insert(Value::Null);
            tree(labels).insert("kubernetes.io/metadata.name".into(), name.into());
        }
        "services" => {
            absent(body, "spec", "type", json!("ClusterIP"));
            absent(body, "status", "loadBalancer", json!({}));
        }
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" => {
            absent(body, "spec", "replicas", json!(1));
        }
        "secrets" => {
            tree(body).entry("type").or_insert(json!("Opaque"));
            if let Some(Value::Object(texts)) = tree(body).remove("stringData") {
                let data = child(body, "data");
                for (key, value) in texts {
                    data.insert(key, base64_text::encode(plain(&value).as_bytes()).into());
                }
            }
        }
        _ => {}
    }
    for field in ["status", "spec"] {
        let is_empty_null = body.get(field).is_some_and(Value::is_null);
        if is_empty_null {
            tree(body).remove(field);
        }
    }
}

fn absent(body: &mut Value, within: &str, field: &str, default: Value) {
    child(body, within).entry(field).or_insert(default);
}

/// What kube-apiserver checks of a Lease: clients that get it wrong must learn it here.
pub(super) fn check_lease(body: &Value, causes: &mut Vec<Cause>) -> Outcome<()> {
    for field in ["acquireTime", "renewTime"] {
        let time = text(body, &format!("/spec/{field}"));
        if !time.is_empty() && !is_micro_time(time) {
            return Err(Failure::bad_request(format!(
                "Lease in version \"v1\" cannot be handled as a Lease: parsing time \"{time}\" as \
                 \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
            )));
        }
    }
    for (field, least, why) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if let Some(value) = number(body, &format!("/spec/{field}")).filter(|value| *value < least) {
            causes.push(Cause::invalid(format!("spec.{field}"), &value.to_string(), why));
        }
    }
    Ok(())
}

/// As the server reads a `metav1.MicroTime`: with exactly six digits of a second.
fn is_micro_time(time: &str) -> bool {
    let digits = time.bytes().skip(20).take_while(u8::is_ascii_digit).count();
    digits == 6 && time.parse::<MicroTime>().is_ok()
}
