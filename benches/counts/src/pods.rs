//! Pods as a server sends them, 10 KB each, the same in each run. Ten have one owner, and then differ in names, uids,
//! addresses, times and hashes.

use std::fmt::Write as _;

/// Pods of one ReplicaSet.
const REPLICAS: u64 = 10;

/// The JSON of pod `i` in a state. `typed`: with apiVersion and kind, which items of a list have not.
pub fn pod(i: u64, version: u64, typed: bool) -> String {
    let owner = i / REPLICAS;
    let app = format!("app-{}", owner % 97);
    let hash = hex(owner * 7919, 10);
    let replica_set = format!("{app}-{hash}");
    let time = format!("2026-11-29T12:{:02}:{:02}Z", i / 60 % 60, i % 60);
    let (pod_ip, host_ip) = (format!("10.1.{}.{}", i / 250, i % 250), format!("10.0.0.{}", i % 200));
    let namespace = owner % 20;
    let name = format!("{replica_set}-{}", hex(mix(i) % 0xfffff, 5));

    let mut json = String::with_capacity(12 * 1024);
    json.push('{');
    if typed {
        json.push_str(r#""kind":"Pod","apiVersion":"v1","#);
    }
    let uid = uid(i);
    let owner_uid = self::uid(1 << 40 | owner);
    write!(
        json,
        r#""metadata":{{"name":"{name}","generateName":"{replica_set}-","namespace":"team-{namespace}","uid":"{uid}","resourceVersion":"{version}","generation":1,"creationTimestamp":"{time}","labels":{{"app.kubernetes.io/component":"backend","app.kubernetes.io/instance":"{app}-prod","app.kubernetes.io/managed-by":"helm","app.kubernetes.io/name":"{app}","app.kubernetes.io/part-of":"shop","app.kubernetes.io/version":"1.{}.3","pod-template-hash":"{hash}","tier":"{}"}},"annotations":{{"checksum/config":"{}","cluster-autoscaler.kubernetes.io/safe-to-evict":"true","kubectl.kubernetes.io/restartedAt":"2026-11-01T10:20:30Z","prometheus.io/port":"9090","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{replica_set}","uid":"{owner_uid}","controller":true,"blockOwnerDeletion":true}}],"managedFields":"#,
        owner % 5,
        ["gold", "silver", "bronze"][(owner % 3) as usize],
        hex(owner * 104_729, 64),
    )
    .unwrap();
    managed_fields(&mut json, &owner_uid, &pod_ip, &time);
    write!(
        json,
        r#"}},"spec":{{"volumes":[{{"name":"config","configMap":{{"name":"{app}-config","defaultMode":420}}}},{{"name":"kube-api-access-{}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":["#,
        hex(mix(i) >> 20 & 0xfffff, 5)
    )
    .unwrap();
    for (at, container) in CONTAINERS.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write!(json, r#"{{"name":"{container}","image":"registry.example.com/shop/{app}-{container}:1.{}.3","args":["--listen=:{}","--log-level=info","--upstream=http://{app}.team-{namespace}.svc:80"],"ports":[{{"name":"http-{at}","containerPort":{},"protocol":"TCP"}}],"env":["#, owner % 5, 8080 + at, 8080 + at).unwrap();
        for setting in 0..SETTINGS {
            write!(json, r#"{{"name":"SETTING_{setting:02}","value":"value-{owner}-{setting}"}},"#).unwrap();
        }
        write!(json, r#"{{"name":"POD_IP","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"status.podIP"}}}}}}],"resources":{{"limits":{{"memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"volumeMounts":[{{"name":"config","readOnly":true,"mountPath":"/etc/app"}},{{"name":"kube-api-access-{}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":"http-{at}","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"readinessProbe":{{"httpGet":{{"path":"/readyz","port":"http-{at}","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":5,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{{"capabilities":{{"drop":["ALL"]}},"runAsUser":1000,"runAsNonRoot":true,"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}}}}"#, hex(mix(i) >> 20 & 0xfffff, 5)).unwrap();
    }
    write!(
        json,
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{app}","serviceAccount":"{app}","nodeName":"node-{}","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":["#,
        i % 200
    )
    .unwrap();
    for kind in CONDITIONS {
        write!(
            json,
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"{time}"}},"#
        )
        .unwrap();
    }
    json.pop();
    write!(json, r#"],"hostIP":"{host_ip}","podIP":"{pod_ip}","podIPs":[{{"ip":"{pod_ip}"}}],"startTime":"{time}","containerStatuses":["#).unwrap();
    for (at, container) in CONTAINERS.iter().enumerate() {
        write!(json, r#"{{"name":"{container}","state":{{"running":{{"startedAt":"{time}"}}}},"lastState":{{}},"ready":true,"restartCount":{},"image":"registry.example.com/shop/{app}-{container}:1.{}.3","imageID":"registry.example.com/shop/{app}-{container}@sha256:{}","containerID":"containerd://{}","started":true}},"#, i % 4, owner % 5, hex(mix(owner + at as u64), 64), long_hex(i * 3 + at as u64)).unwrap();
    }
    json.pop();
    json.push_str(r#"],"qosClass":"Burstable"}}"#);
    json
}

const CONTAINERS: [&str; 3] = ["main", "proxy", "logs"];
const SETTINGS: usize = 8;
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Who set which field: as long as what they set.
fn managed_fields(json: &mut String, owner_uid: &str, pod_ip: &str, time: &str) {
    write!(json, r#"[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},"f:kubectl.kubernetes.io/restartedAt":{{}},"f:prometheus.io/port":{{}},"f:prometheus.io/scrape":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app.kubernetes.io/component":{{}},"f:app.kubernetes.io/instance":{{}},"f:app.kubernetes.io/name":{{}},"f:pod-template-hash":{{}},"f:tier":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner_uid}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"#).unwrap();
    for container in CONTAINERS {
        write!(json, r#""k:{{\"name\":\"{container}\"}}":{{".":{{}},"f:args":{{}},"f:env":{{".":{{}},"#)
            .unwrap();
        for setting in 0..SETTINGS {
            write!(
                json,
                r#""k:{{\"name\":\"SETTING_{setting:02}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}},"#
            )
            .unwrap();
        }
        json.push_str(r#""k:{\"name\":\"POD_IP\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/app\"}":{".":{},"f:mountPath":{},"f:name":{},"f:readOnly":{}}}},"#);
    }
    json.pop();
    write!(json, r#"}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:volumes":{{".":{{}},"k:{{\"name\":\"config\"}}":{{".":{{}},"f:configMap":{{}},"f:name":{{}}}}}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"#).unwrap();
    for kind in CONDITIONS {
        write!(json, r#""k:{{\"type\":\"{kind}\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}},"#).unwrap();
    }
    write!(json, r#"".":{{}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{pod_ip}\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"subresource":"status"}}]"#).unwrap();
}

fn hex(value: u64, width: usize) -> String {
    format!("{value:0width$x}")
}

fn long_hex(value: u64) -> String {
    (0..4).map(|part| hex(mix(value << 2 | part), 16)).collect()
}

/// Not to be compressed, as on a server.
fn uid(of: u64) -> String {
    let (high, low) = (mix(of), mix(!of));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// A round of splitmix64.
fn mix(of: u64) -> u64 {
    let z = of.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
