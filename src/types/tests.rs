use std::cell::Cell;
use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::object::{
    IntOrString, LabelSelector, Map, ObjectMeta, OwnerReference, Resource, Selector, StaticResource, Whole,
};

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// The body of a recorded answer.
fn body(answer: &[u8]) -> Vec<u8> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let (head, mut rest) = (std::str::from_utf8(&answer[..end]).unwrap(), &answer[end + 4..]);
    if !head.contains("chunked") {
        return rest.to_vec();
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|w| w == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 2 + length + 2..];
    }
}

fn pods() -> Vec<Pod> {
    let body = body(include_bytes!("../../tests/wire/list_pods.http"));
    serde_json::from_slice::<List<Pod>>(&body).unwrap().items
}

#[test]
fn reads_pods_of_a_real_server() {
    let pods = pods();
    assert_eq!(pods.len(), 3);
    let pod = &pods[0];
    assert_eq!(pod.key().as_str(), "ns-0/app-0-0000000000-00000");
    assert_eq!(pod.metadata.creation_timestamp.unwrap().to_string(), "2026-11-29T12:59:23Z");
    assert_eq!(pod.label("tier"), Some("gold"));
    assert!(Selector::parse("tier in (gold,silver),!canary").unwrap().matches_object(pod));
    assert!(!Selector::parse("tier=silver").unwrap().matches_object(pod));
    assert_eq!(pod.annotation("prometheus.io/port"), Some("9090"));
    assert_eq!(pod.controller().unwrap().name, "app-0-rs");
    assert!(pod.spec.node_name.as_deref().is_some_and(|name| !name.is_empty()));
    let images: Vec<_> = pod.spec.containers.iter().map(|c| (c.name.as_str(), c.image.as_str())).collect();
    assert_eq!(images[0], ("main", "registry.example.com/shop/app-0:1.2.3"));
    assert_eq!(format!("{} {}", pod.status.phase, pod.status.pod_ip), "Running 10.1.0.0");
    assert!(!pod.status.host_ip.is_empty() && pod.status.start_time.is_some());
    assert_eq!(pod.status.conditions.len(), 4);
    assert!(pod.is_ready() && pod.status.conditions.iter().all(|c| c.last_transition_time.is_some()));
    assert_eq!(pod.status.container_statuses.len(), 2);
    assert!(pod.status.container_statuses[0].ready);
}

#[test]
fn reads_config_maps_of_a_real_server() {
    let body = body(include_bytes!("../../tests/wire/list_configmaps.http"));
    let maps = serde_json::from_slice::<List<ConfigMap>>(&body).unwrap().items;
    assert!(maps.len() > 3);
    assert_eq!(maps[0].key().as_str(), "default/cm-0");
    assert_eq!(maps[0].data.get("text"), Some("line one\nline two — ünïcode ✓"));
}

#[test]
fn a_lease_goes_back_as_a_real_server_sent_it() {
    let body = body(include_bytes!("../../tests/wire/lease_create.http"));
    let mut sent: Value = serde_json::from_slice(&body).unwrap();
    let lease: Lease = serde_json::from_slice(&body).unwrap();
    assert_eq!(lease.spec.renew_time.unwrap().to_string(), "2026-11-29T10:00:00.000001Z");
    let sent = sent.as_object_mut().unwrap();
    sent.remove("kind");
    sent.remove("apiVersion");
    sent["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(serde_json::to_value(&lease).unwrap().as_object().unwrap(), sent);
}

thread_local!(static FIELDS: Cell<&'static [&'static str]> = const { Cell::new(&[]) });

/// The names of the fields of a struct, which it tells whoever decodes it.
fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Ask;

    impl<'de> Deserializer<'de> for Ask {
        type Error = value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, value::Error> {
            FIELDS.set(fields);
            Err(value::Error::custom("asked"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
            Err(value::Error::custom("not a struct"))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    FIELDS.set(&[]);
    let _ = T::deserialize(Ask);
    FIELDS.get()
}

/// Null, and absent, is the default for every field; and the default writes nothing but what upstream requires.
fn takes_nulls<T: DeserializeOwned + Serialize + Default + PartialEq + std::fmt::Debug>(written: Value) {
    let names = fields::<T>();
    assert!(!names.is_empty());
    for field in names {
        let object = format!("{{{field:?}:null}}");
        assert_eq!(serde_json::from_str::<T>(&object).unwrap(), T::default(), "{object}");
    }
    assert_eq!(serde_json::from_str::<T>("{}").unwrap(), T::default());
    assert_eq!(serde_json::to_value(T::default()).unwrap(), written);
}

#[test]
fn null_is_taken_for_every_field_and_absent_ones_are_not_written() {
    macro_rules! each {
        ($($type:ty)*) => { $(takes_nulls::<$type>(json!({}));)* };
    }
    each! {
        ConfigMap Container ContainerPort ContainerState ContainerStatus
        CustomResourceDefinition CustomResourceDefinitionNames CustomResourceDefinitionSpec
        CustomResourceDefinitionStatus CustomResourceDefinitionVersion
        DaemonSet DaemonSetSpec DaemonSetStatus Deployment DeploymentSpec DeploymentStatus DeploymentStrategy
        Endpoint EndpointAddress EndpointConditions EndpointPort EndpointSlice EndpointSlicePort EndpointSubset
        Endpoints EnvVar Event EventSeries EventSource Job JobSpec JobStatus LabelSelector Lease LeaseSpec
        LoadBalancerIngress LoadBalancerStatus LocalObjectReference Namespace NamespaceSpec NamespaceStatus
        Node NodeAddress NodeInfo NodeSpec NodeStatus ObjectMeta ObjectReference
        Pod PodSpec PodStatus PodTemplateSpec ReplicaSet ReplicaSetSpec ReplicaSetStatus ResourceRequirements
        RollingUpdate ScaleStatus Secret Service ServiceAccount ServicePort ServiceSpec ServiceStatus
        StatefulSet StatefulSetSpec StatefulSetStatus Taint TemplateContainer TemplatePodSpec Terminated Waiting
    }
    takes_nulls::<Scale>(json!({"spec": {"replicas": 0}}));
    takes_nulls::<ScaleSpec>(json!({"replicas": 0}));
    takes_nulls::<Condition>(json!({"type": "", "status": "", "reason": "", "message": ""}));
    takes_nulls::<OwnerReference>(json!({"apiVersion": "", "kind": "", "name": "", "uid": ""}));
}

/// Every field of the kind upstream, as k8s-openapi 0.29 lists them for Kubernetes 1.37; without `managedFields`,
/// `selfLink` and `deletionGracePeriodSeconds`, which the server keeps when a replace does not name them.
fn survives<T: Whole + StaticResource + PartialEq + Default>(mut object: Value, structs: &[(&str, &[&str])]) {
    object["metadata"] = json!({
        "name": "a", "generateName": "a-", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-11-29T12:59:23Z", "deletionTimestamp": "2026-11-29T12:59:24Z",
        "labels": {"l": "1"}, "annotations": {"a": "2"}, "finalizers": ["f"], "namespace": "n",
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true,
            "blockOwnerDeletion": false}],
    });
    let read: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
    for (path, fields) in structs {
        let named: BTreeSet<_> = object.pointer(path).unwrap().as_object().unwrap().keys().cloned().collect();
        let wanted: BTreeSet<_> = fields.iter().map(|f| (*f).to_owned()).collect();
        assert_eq!(
            named,
            wanted,
            "the object of this test has every field of {} {path}",
            T::api_resource().kind
        );
    }
}

#[test]
fn whole_kinds_lose_nothing() {
    survives::<ConfigMap>(
        json!({"data": {"a": "1", "b": ""}, "binaryData": {"c": "AAEC"}, "immutable": false}),
        &[("", fields::<ConfigMap>())],
    );
    survives::<Secret>(
        json!({"data": {"a": "AAEC", "b": ""}, "stringData": {"c": "x"}, "type": "Opaque", "immutable": true}),
        &[("", fields::<Secret>())],
    );
    survives::<Lease>(
        json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-11-29T10:00:00.000001Z", "renewTime": "2026-11-29T10:00:00.000000Z",
            "strategy": "OldestEmulationVersion", "preferredHolder": "b"}}),
        &[("", fields::<Lease>()), ("/spec", fields::<LeaseSpec>())],
    );
    survives::<Namespace>(
        json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating", "conditions": [
            {"type": "T", "status": "True", "reason": "R", "message": "M",
                "lastTransitionTime": "2026-11-29T12:59:23Z"}]}}),
        &[
            ("", fields::<Namespace>()),
            ("/metadata", fields::<ObjectMeta>()),
            ("/spec", fields::<NamespaceSpec>()),
            ("/status", fields::<NamespaceStatus>()),
        ],
    );
    let reference = json!({"apiVersion": "v1", "kind": "K", "namespace": "n", "name": "r", "uid": "u",
        "resourceVersion": "8", "fieldPath": "spec"});
    survives::<ServiceAccount>(
        json!({"secrets": [reference], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": false}),
        &[("", fields::<ServiceAccount>()), ("/secrets/0", fields::<ObjectReference>())],
    );
    let address = json!({"ip": "10.0.0.1", "hostname": "h", "nodeName": "n", "targetRef": reference});
    survives::<Endpoints>(
        json!({"subsets": [{"addresses": [address], "notReadyAddresses": [address],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}]}]}),
        &[
            ("", fields::<Endpoints>()),
            ("/subsets/0", fields::<EndpointSubset>()),
            ("/subsets/0/addresses/0", fields::<EndpointAddress>()),
            ("/subsets/0/ports/0", fields::<EndpointPort>()),
        ],
    );
    survives::<Event>(
        json!({"eventTime": "2026-11-29T10:00:00.000001Z", "action": "A", "reason": "R", "note": "N",
            "type": "Normal", "regarding": reference, "related": reference, "reportingController": "c",
            "reportingInstance": "i", "deprecatedCount": 2, "deprecatedSource": {"component": "c", "host": "h"},
            "deprecatedFirstTimestamp": "2026-11-29T12:59:23Z", "deprecatedLastTimestamp": "2026-11-29T12:59:24Z",
            "series": {"count": 2, "lastObservedTime": "2026-11-29T10:00:00.000001Z"}}),
        &[
            ("", fields::<Event>()),
            ("/series", fields::<EventSeries>()),
            ("/deprecatedSource", fields::<EventSource>()),
        ],
    );
}

#[test]
fn a_deployment_can_be_created() {
    let labels = Map::from([("app", "web")]);
    let deployment = Deployment {
        metadata: ObjectMeta::named("web").in_namespace("default"),
        spec: DeploymentSpec {
            replicas: Some(0),
            selector: labels.clone().into(),
            template: PodTemplateSpec {
                metadata: ObjectMeta { labels, ..ObjectMeta::default() },
                spec: TemplatePodSpec {
                    containers: vec![TemplateContainer {
                        name: "nginx".into(),
                        image: "nginx:1.27".into(),
                        ports: vec![ContainerPort { container_port: 80, ..ContainerPort::default() }],
                        resources: ResourceRequirements {
                            requests: [("cpu".to_owned(), "50m".parse().unwrap())].into(),
                            ..ResourceRequirements::default()
                        },
                        ..TemplateContainer::default()
                    }],
                    ..TemplatePodSpec::default()
                },
            },
            strategy: DeploymentStrategy {
                type_: "RollingUpdate".into(),
                rolling_update: Some(RollingUpdate {
                    max_unavailable: Some("25%".into()),
                    max_surge: Some(IntOrString::Int(0)),
                }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    };
    assert_eq!(
        serde_json::to_value(&deployment).unwrap(),
        json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": "50m"}}}]},
                },
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
            },
        })
    );
}

/// Names that are not plain camel case, as upstream writes them.
#[test]
fn fields_have_their_names() {
    let service: Service =
        serde_json::from_value(json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "externalIPs": ["1.1.1.1"], "type": "ClusterIP", "ports": [{"port": 80, "targetPort": "http"}]}}))
        .unwrap();
    assert_eq!(service.spec.cluster_ip, "10.0.0.1");
    assert_eq!((service.spec.cluster_ips.len(), service.spec.external_ips.len()), (1, 1));
    assert_eq!(service.spec.type_, "ClusterIP");
    assert_eq!(service.spec.ports[0].target_port, Some("http".into()));
    let node: Node = serde_json::from_value(json!({"spec": {"providerID": "p", "podCIDR": "c"},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {"osImage": "o", "kubeletVersion": "v1"},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
    .unwrap();
    assert_eq!((&*node.spec.provider_id, &*node.spec.pod_cidr), ("p", "c"));
    assert_eq!((node.status.capacity["cpu"].value(), &*node.status.node_info.os_image), (4, "o"));
    assert!(node.is_ready());
}

#[test]
fn kinds_are_found_at_their_paths() {
    fn path<T: StaticResource>() -> String {
        format!("{} {}", T::api_resource().kind, T::api_resource().path(Some("ns")))
    }
    let paths = [
        path::<Pod>(),
        path::<Namespace>(),
        path::<Node>(),
        path::<Endpoints>(),
        path::<Deployment>(),
        path::<Job>(),
        path::<Lease>(),
        path::<EndpointSlice>(),
        path::<Event>(),
        path::<CustomResourceDefinition>(),
    ];
    assert_eq!(
        paths,
        [
            "Pod /api/v1/namespaces/ns/pods",
            "Namespace /api/v1/namespaces",
            "Node /api/v1/nodes",
            "Endpoints /api/v1/namespaces/ns/endpoints",
            "Deployment /apis/apps/v1/namespaces/ns/deployments",
            "Job /apis/batch/v1/namespaces/ns/jobs",
            "Lease /apis/coordination.k8s.io/v1/namespaces/ns/leases",
            "EndpointSlice /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
            "Event /apis/events.k8s.io/v1/namespaces/ns/events",
            "CustomResourceDefinition /apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        ]
    );
}

#[test]
fn a_secret_does_not_show_its_values() {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}},
        "data": {"password": "aHVudGVyMg=="}, "stringData": {"again": "hunter2"}}))
    .unwrap();
    assert_eq!(secret.data["password"].as_str(), Some("hunter2"));
    let shown = format!("{secret:?} {secret:#?}");
    assert!(shown.contains("password") && shown.contains("again"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVy"), "{shown}");
    let error = serde_json::from_value::<Secret>(json!({"data": {"password": "hunter2"}})).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Bytes of one block from a usual allocator.
fn block(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + 8).next_multiple_of(16).max(32) }
}

fn map(map: &Map) -> usize {
    // The keys are shared.
    block(map.iter().map(|(_, value)| 1 + value.len()).sum())
}

fn list<T>(list: &Vec<T>) -> usize {
    block(list.capacity() * size_of::<T>())
}

/// What a pod takes in a cache, without the texts that it shares with others.
fn memory(pod: &Pod) -> usize {
    let Pod { metadata: meta, spec, status } = pod;
    let meta_text = [&meta.name, &meta.uid, &meta.resource_version, &status.pod_ip];
    block(16 + size_of::<Pod>())
        + meta_text.map(|t| block(t.capacity())).iter().sum::<usize>()
        + map(&meta.labels)
        + map(&meta.annotations)
        + list(&meta.owner_references)
        + block(spec.node_name.as_ref().map_or(0, String::capacity))
        + list(&spec.containers)
        + list(&status.conditions)
        + list(&status.container_statuses)
}

#[test]
fn a_pod_is_small() {
    let pods = pods();
    let mean = pods.iter().map(memory).sum::<usize>() / pods.len();
    println!("Pod: {} bytes itself, {mean} with what it points at", size_of::<Pod>());
    assert!(size_of::<Pod>() <= 392, "{}", size_of::<Pod>());
    assert!(mean <= 1180, "{mean}");
    assert_eq!((size_of::<Condition>(), size_of::<Container>(), size_of::<ContainerStatus>()), (48, 16, 32));
}
