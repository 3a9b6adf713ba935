//! How lists and maps are merged: by key, as a set, or as one value. For built-in kinds from the names of fields, as
//! the patch strategies of the Kubernetes API types say; for custom ones from their schema.

use serde_json::Value;

/// The place within a kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    BuiltIn,
    /// The schema of this place, if it has one.
    Custom(Option<&'a Value>),
    /// The top of a custom object.
    CustomTop(&'a Value),
}

/// How a list is merged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListShape {
    Atomic,
    /// Of plain values, each at most once.
    Set,
    /// Of objects told apart by these fields.
    Map(Vec<String>),
}

impl<'a> Shape<'a> {
    pub(super) fn of(kind: &'a super::kinds::Kind) -> Self {
        kind.custom.as_ref().map_or(Self::BuiltIn, |custom| Self::CustomTop(&custom.schema))
    }

    /// The shape of a field.
    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::BuiltIn => Self::BuiltIn,
            Self::CustomTop(_) if name == "metadata" => Self::BuiltIn,
            Self::CustomTop(schema) | Self::Custom(Some(schema)) => Self::Custom(
                schema
                    .get("properties")
                    .and_then(|p| p.get(name))
                    .or_else(|| schema.get("additionalProperties")),
            ),
            Self::Custom(None) => Self::Custom(None),
        }
    }

    /// The shape of the items of the list at this place.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Custom(schema) => Self::Custom(schema.and_then(|schema| schema.get("items"))),
            other => other,
        }
    }

    /// Whether the object at this place, in a field of this name, is a map and no struct, so that its being there is
    /// owned too.
    pub(super) fn is_map(self, name: &str) -> bool {
        match self {
            Self::BuiltIn => matches!(
                name,
                "labels"
                    | "annotations"
                    | "data"
                    | "binaryData"
                    | "limits"
                    | "requests"
                    | "capacity"
                    | "allocatable"
            ),
            Self::Custom(_) | Self::CustomTop(_) => true,
        }
    }

    /// Whether the map at this place, in a field of this name, is one value.
    pub(super) fn is_atomic_map(self, name: &str) -> bool {
        match self {
            Self::BuiltIn => matches!(name, "selector" | "nodeSelector" | "labelSelector"),
            Self::Custom(schema) => {
                schema.and_then(|s| s.get("x-kubernetes-map-type")) == Some(&Value::from("atomic"))
            }
            Self::CustomTop(_) => false,
        }
    }

    /// How the list at this place, in a field of this name, is merged.
    pub(super) fn list(self, name: &str, items: &[Value]) -> ListShape {
        match self {
            Self::BuiltIn => built_in(name, items),
            Self::Custom(Some(schema)) => {
                match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                    Some("set") => ListShape::Set,
                    Some("map") => {
                        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                        ListShape::Map(keys.map(Into::into).collect())
                    }
                    _ => ListShape::Atomic,
                }
            }
            Self::Custom(None) | Self::CustomTop(_) => ListShape::Atomic,
        }
    }
}

fn built_in(name: &str, items: &[Value]) -> ListShape {
    let keys: &[&str] = match name {
        "finalizers" => return ListShape::Set,
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets" => &["name"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "conditions" | "addresses" => &["type"],
        "ownerReferences" => &["uid"],
        "hostAliases" | "podIPs" => &["ip"],
        "topologySpreadConstraints" => &["topologyKey"],
        "ports" => {
            let all = |field: &str| items.iter().all(|item| item.get(field).is_some());
            match () {
                () if all("containerPort") => &["containerPort", "protocol"],
                () if all("port") => &["port", "protocol"],
                () => return ListShape::Atomic,
            }
        }
        _ => return ListShape::Atomic,
    };
    // A list whose items lack the first key cannot be merged by it.
    if items.iter().all(|item| item.get(keys[0]).is_some()) {
        ListShape::Map(keys.iter().map(|key| (*key).into()).collect())
    } else {
        ListShape::Atomic
    }
}

/// The values of an item's keys; an absent protocol is TCP.
pub(super) fn key_of(item: &Value, keys: &[String]) -> Vec<Value> {
    let value = |key: &String| match item.get(key) {
        Some(value) => value.clone(),
        None if key == "protocol" => "TCP".into(),
        None => Value::Null,
    };
    keys.iter().map(value).collect()
}
