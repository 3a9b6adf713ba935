//! Rows for `kubectl get`.

use serde_json::{Value, json};

use crate::object::Time;

use super::crd::Column;
use super::events::{self, EVENTS};
use super::kinds::Kind;
use super::tree::{list, number, plain, text};

/// What is shown of a kind between name and age: (column, type, shown only with `-o wide`).
fn middle(kind: &Kind) -> &'static [(&'static str, &'static str, bool)] {
    match kind.id() {
        "pods" => &[
            ("Ready", "string", false),
            ("Status", "string", false),
            ("Restarts", "string", false),
            ("IP", "string", true),
            ("Node", "string", true),
        ],
        "configmaps" => &[("Data", "string", false)],
        "secrets" => &[("Type", "string", false), ("Data", "string", false)],
        "namespaces" | "nodes" => &[("Status", "string", false)],
        "services" => &[
            ("Type", "string", false),
            ("Cluster-IP", "string", false),
            ("External-IP", "string", false),
            ("Port(s)", "string", false),
        ],
        "deployments.apps" => {
            &[("Ready", "string", false), ("Up-to-date", "integer", false), ("Available", "integer", false)]
        }
        "statefulsets.apps" => &[("Ready", "string", false)],
        "replicasets.apps" | "daemonsets.apps" => {
            &[("Desired", "integer", false), ("Current", "integer", false), ("Ready", "integer", false)]
        }
        "jobs.batch" => &[("Status", "string", false), ("Completions", "string", false)],
        "leases.coordination.k8s.io" => &[("Holder", "string", false)],
        _ => &[],
    }
}

/// The columns of a kind's table.
pub(super) fn columns(kind: &Kind) -> Value {
    let column = |name: &str, of: &str, format: &str, wide: bool| {
        json!({
            "name": name, "type": of, "format": format, "description": "", "priority": i32::from(wide)
        })
    };
    if &*kind.table == EVENTS {
        return events::COLUMNS.iter().map(|(name, of, wide)| column(name, of, "", *wide)).collect();
    }
    let mut columns = vec![column("Name", "string", "name", false)];
    match custom_columns(kind) {
        Some(custom) => {
            columns.extend(custom.iter().map(|c| column(&c.name, &c.of, "", c.priority > 0)));
        }
        None => {
            columns.extend(middle(kind).iter().map(|(name, of, wide)| column(name, of, "", *wide)));
            let age = if kind.id() == super::kinds::CRDS { "Created At" } else { "Age" };
            columns.push(column(age, "string", "", false));
        }
    }
    Value::Array(columns)
}

fn custom_columns(kind: &Kind) -> Option<&[Column]> {
    kind.custom.as_ref().map(|custom| &*custom.columns).filter(|columns| !columns.is_empty())
}

/// The cells of an object's row, as [`columns`] names them.
pub(super) fn cells(kind: &Kind, body: &Value, now: Time) -> Value {
    if &*kind.table == EVENTS {
        return events::cells(body, now).into();
    }
    let mut cells = vec![Value::from(text(body, "/metadata/name"))];
    let created = text(body, "/metadata/creationTimestamp");
    match custom_columns(kind) {
        Some(custom) => cells.extend(custom.iter().map(|column| custom_cell(column, body, now))),
        None => {
            cells.extend(middle_cells(kind, body));
            cells.push(if kind.id() == super::kinds::CRDS {
                created.into()
            } else {
                age(created, now).into()
            });
        }
    }
    Value::Array(cells)
}

fn custom_cell(column: &Column, body: &Value, now: Time) -> Value {
    let Some(value) = json_path(body, &column.path) else { return Value::Null };
    match (&*column.of, value) {
        ("date", Value::String(time)) => age(time, now).into(),
        ("integer" | "number" | "boolean", value) => value.clone(),
        (_, value) => plain(value).into(),
    }
}

fn middle_cells(kind: &Kind, body: &Value) -> Vec<Value> {
    let count = |pointer: &str| number(body, pointer).unwrap_or(0);
    let entries = |field: &str| body.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    let or_none =
        |pointer: &str| Value::from(Some(text(body, pointer)).filter(|t| !t.is_empty()).unwrap_or("<none>"));
    match kind.id() {
        "pods" => pod_cells(body, or_none("/status/podIP"), or_none("/spec/nodeName")),
        "configmaps" => vec![(entries("data") + entries("binaryData")).into()],
        "secrets" => vec![text(body, "/type").into(), entries("data").into()],
        "namespaces" => vec![text(body, "/status/phase").into()],
        "nodes" => {
            let ready = list(body, "/status/conditions")
                .iter()
                .find(|c| text(c, "/type") == "Ready")
                .map_or("Unknown", |c| if text(c, "/status") == "True" { "Ready" } else { "NotReady" });
            vec![ready.into()]
        }
        "services" => {
            let ports: Vec<_> = list(body, "/spec/ports")
                .iter()
                .map(|port| {
                    let protocol = Some(text(port, "/protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP");
                    format!("{}/{protocol}", number(port, "/port").unwrap_or(0))
                })
                .collect();
            let ports = if ports.is_empty() { "<none>".into() } else { ports.join(",") };
            vec![text(body, "/spec/type").into(), or_none("/spec/clusterIP"), "<none>".into(), ports.into()]
        }
        "deployments.apps" => vec![
            format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas")).into(),
            count("/status/updatedReplicas").into(),
            count("/status/availableReplicas").into(),
        ],
        "statefulsets.apps" => {
            vec![format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas")).into()]
        }
        "replicasets.apps" => vec![
            count("/spec/replicas").into(),
            count("/status/replicas").into(),
            count("/status/readyReplicas").into(),
        ],
        "daemonsets.apps" => vec![
            count("/status/desiredNumberScheduled").into(),
            count("/status/currentNumberScheduled").into(),
            count("/status/numberReady").into(),
        ],
        "jobs.batch" => {
            let wanted = number(body, "/spec/completions").unwrap_or(1);
            let done = count("/status/succeeded");
            let status = if done >= wanted { "Complete" } else { "Running" };
            vec![status.into(), format!("{done}/{wanted}").into()]
        }
        "leases.coordination.k8s.io" => vec![text(body, "/spec/holderIdentity").into()],
        _ => Vec::new(),
    }
}

fn pod_cells(body: &Value, ip: Value, node: Value) -> Vec<Value> {
    let statuses = list(body, "/status/containerStatuses");
    let ready = statuses.iter().filter(|s| s.get("ready") == Some(&Value::Bool(true))).count();
    let restarts: i64 = statuses.iter().filter_map(|s| number(s, "/restartCount")).sum();
    let waits = statuses.iter().map(|s| text(s, "/state/waiting/reason")).find(|reason| !reason.is_empty());
    let status = match (text(body, "/metadata/deletionTimestamp"), text(body, "/status/reason"), waits) {
        ("", "", None) => text(body, "/status/phase"),
        ("", "", Some(reason)) | ("", reason, _) => reason,
        _ => "Terminating",
    };
    let containers = list(body, "/spec/containers").len();
    vec![format!("{ready}/{containers}").into(), status.into(), restarts.to_string().into(), ip, node]
}

/// How long ago a time is, as kubectl writes it: `22s`, `3m5s`, `4h`, `2d3h`, `400d`, `3y`.
pub(super) fn age(time: &str, now: Time) -> String {
    let Ok(then) = time.parse::<Time>() else { return "<unknown>".into() };
    let seconds = now.unix().saturating_sub(then.unix()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => format!("{}y", days / 365),
    }
}

/// The paths that printer columns use: `.a.b`, `.list[0].c`, `.conditions[?(@.type=="Ready")].status`.
fn json_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = value;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("[?(@.") {
            let (test, after) = after.split_once(")]")?;
            let (field, wanted) = test.split_once("==")?;
            let wanted = wanted.trim().trim_matches(['"', '\'']);
            let is = |item: &&Value| item.get(field.trim()).map(plain).as_deref() == Some(wanted);
            value = value.as_array()?.iter().find(is)?;
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']')?;
            value = match index.parse::<usize>() {
                Ok(index) => value.get(index)?,
                Err(_) => value.get(index.trim_matches(['"', '\'']))?,
            };
            rest = after;
        } else {
            let (field, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
            value = value.get(field)?;
            rest = after;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_does() {
        let then = "2026-11-29T12:00:00Z";
        let start = then.parse::<Time>().unwrap().unix();
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (185, "3m5s"),
            (3_600, "60m"),
            (11_100, "3h5m"),
            (86_400, "24h"),
            (183_600, "2d3h"),
            (86_400 * 400, "400d"),
        ] {
            assert_eq!(age(then, Time::from_unix(start + seconds)), text);
        }
        assert_eq!(age("", Time::default()), "<unknown>");
    }

    #[test]
    fn json_paths_of_printer_columns() {
        let value = json!({"a": {"b": 1}, "l": [{"type": "X", "v": 2}, {"type": "Ready", "v": 3}]});
        assert_eq!(json_path(&value, ".a.b"), Some(&json!(1)));
        assert_eq!(json_path(&value, ".l[0].v"), Some(&json!(2)));
        assert_eq!(json_path(&value, r#".l[?(@.type=="Ready")].v"#), Some(&json!(3)));
        for path in [".a.c", ".l[7]", ".l[?(@.type", "[", r#".l[?(@.type=="no")].v"#] {
            assert_eq!(json_path(&value, path), None, "{path}");
        }
    }
}
