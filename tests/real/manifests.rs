//! The manifests of `examples/config_sync`: the server takes them as they are, and they give the rights that it needs, no
//! other.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use listwatch::client::{Method, RawRequest};
use listwatch::config::Impersonate;
use listwatch::types::ConfigMap;
use listwatch::{Api, ApiResource, Client, DeleteParams, Object, PostParams, Scope, Stop};
use serde_json::{Value, json};

use crate::config_sync::sidecar::{Settings, Status, run};
use crate::{eventually, server};

const NAMESPACE: &str = "config-sync";

/// What it says on both outputs.
fn kubectl(server: &server::Server, args: &[&str]) -> Option<String> {
    let mut command = Command::new("kubectl");
    let output = command.arg("--kubeconfig").arg(server.kubeconfig()).args(args).output();
    let Ok(output) = output else {
        assert_ne!(std::env::var("LISTWATCH_KUBECTL").as_deref(), Ok("required"), "no kubectl");
        eprintln!("SKIPPED: kubectl is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "kubectl {args:?}: {text}");
    Some(text)
}

fn objects(client: &Client, api_version: &str, kind: &str, plural: &str) -> Api<Object> {
    let resource = ApiResource::dynamic(api_version, kind, plural, Scope::Namespaced);
    Api::namespaced_with(client, NAMESPACE, &resource)
}

/// The rules of a client's user in a namespace.
fn rights(client: &Client, namespace: &str) -> Vec<Value> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let request = RawRequest::new(Method::Post, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews");
    let review: Value = client.request(&request.json(&review).unwrap()).unwrap();
    review["status"]["resourceRules"].as_array().unwrap().clone()
}

#[test]
fn the_manifests_of_config_sync_are_taken_and_give_the_rights_that_it_needs() {
    let Some((server, _quiet)) = server::shared() else { return };
    let admin = server.client();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/config_sync/deploy");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let rbac = ["apply", "--validate=strict", "-f", &file("00-rbac.yaml")];
    if kubectl(server, &rbac).is_none() {
        return;
    }
    let deployment = ["apply", "--validate=strict", "-f", &file("10-deployment.yaml")];
    for options in [&["--dry-run=server"][..], &[]] {
        let said = kubectl(server, &[&deployment[..], options].concat()).unwrap();
        assert!(said.contains("deployment.apps/web created") && !said.contains("Warning"), "{said}");
    }
    assert!(!kubectl(server, &rbac).unwrap().contains("configured"), "applied again it is unchanged");

    // A pod of it is admitted, though the namespace enforces the strictest of the standards.
    let deployment = objects(&admin, "apps/v1", "Deployment", "deployments").get("web").unwrap();
    let deployment: Value = deployment.parse().unwrap();
    let template = &deployment["spec"]["template"];
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}, "spec": template["spec"]});
    let pods = objects(&admin, "v1", "Pod", "pods");
    pods.create(&PostParams::default(), &Object::from_value(pod.clone()).unwrap()).unwrap();
    let mut loose = pod;
    loose["metadata"]["name"] = "loose".into();
    loose["spec"]["initContainers"][0]["securityContext"] = json!({});
    let refused = pods.create(&PostParams::default(), &Object::from_value(loose).unwrap()).unwrap_err();
    assert!(refused.is_forbidden(), "it does enforce: {refused}");

    // The sidecar has what a client in a cluster reads, the program beside it does not, and none of it is on a disk.
    let spec = &template["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    let mounts = |container: &Value| -> BTreeMap<String, String> {
        let all = container["volumeMounts"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.map(|mount| (text(&mount["name"]), text(&mount["mountPath"]))).collect()
    };
    let sidecars = mounts(&spec["initContainers"][0]);
    assert_eq!(sidecars["token"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert!(!mounts(&spec["containers"][0]).contains_key("token"));
    let volume = |name: &str| spec["volumes"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap();
    assert_eq!(volume("files")["emptyDir"]["medium"], "Memory");
    let sources = volume("token")["projected"]["sources"].as_array().unwrap();
    let paths: Vec<_> = sources
        .iter()
        .map(|source| {
            let of = source.as_object().unwrap().values().next().unwrap();
            of["path"].as_str().or_else(|| of["items"][0]["path"].as_str()).unwrap()
        })
        .collect();
    assert_eq!(paths, ["token", "ca.crt", "namespace"]);

    // What the account may beyond what each service account may.
    let acting = |name: &str| {
        let account = Impersonate {
            user: format!("system:serviceaccount:{NAMESPACE}:{name}"),
            uid: None,
            groups: vec!["system:serviceaccounts".into(), "system:authenticated".into()],
            extra: BTreeMap::new(),
        };
        Client::new(admin.config().clone().with_impersonate(account).with_namespace(NAMESPACE)).unwrap()
    };
    let client = acting(template["spec"]["serviceAccountName"].as_str().unwrap());
    let wanted = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]});
    let others = rights(&acting("another"), NAMESPACE);
    let own =
        rights(&client, NAMESPACE).into_iter().filter(|rule| !others.contains(rule)).collect::<Vec<_>>();
    assert_eq!(own, [wanted]);
    assert_eq!(rights(&client, "default"), others);

    // And with these rights and the variables of the manifest it does its work.
    let mirrored = server.kubeconfig().with_file_name("config-sync-files");
    let container = &template["spec"]["initContainers"][0];
    let mut variables: BTreeMap<_, _> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap().to_owned()))
        .collect();
    variables.insert("FOLDER", mirrored.to_str().unwrap().to_owned());
    let settings = Settings::read(&|name| variables.get(name).cloned()).unwrap();
    assert_eq!(container["ports"][0]["containerPort"], settings.health_port);
    let maps = Api::<ConfigMap>::namespaced(&admin, NAMESPACE);
    let map =
        json!({"metadata": {"name": "a", "labels": {"config-sync/mirror": ""}}, "data": {"a.txt": "1"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).unwrap();
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(settings, &client, &stop, &Status::default()).unwrap());
        let text = || std::fs::read_to_string(mirrored.join("a.txt")).ok();
        eventually("the file", || text().as_deref() == Some("1") || running.is_finished());
        maps.delete("a", &DeleteParams::default()).unwrap();
        eventually("it goes", || text().is_none() || running.is_finished());
        assert!(!running.is_finished());
        stop.stop();
    });
}
