use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use listwatch::client::{FieldValidation, Method, RawRequest};
use listwatch::types::{CustomResourceDefinition, Deployment, Pod};
use listwatch::{
    Api, DeleteParams, Informer, ListParams, LogParams, Object, ObjectMeta, Patch, PatchParams, PostParams,
    Resource as _, Scope, Selector, StaticResource as _, Stop,
};
use serde_json::{Value, json};

use crate::{LONG, create, deployment, eventually, server};

/// The names of what the server has in a version of a group, in the form that older clients ask for.
fn plain_names(list: &Value) -> BTreeSet<String> {
    let of = |resource: &Value| {
        let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} {} {} {} {}",
            text("name"),
            text("kind"),
            text("singularName"),
            resource["namespaced"],
            resource["verbs"],
            resource["shortNames"]
        )
    };
    let resources = list["resources"].as_array().unwrap().iter();
    resources.filter(|resource| !resource["name"].as_str().unwrap().contains('/')).map(of).collect()
}

#[test]
fn all_kinds_are_discovered_as_older_clients_see_them_and_can_be_listed() {
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client();
    let discovery = client.discover().unwrap();
    assert!(discovery.failures().is_empty(), "{:?}", discovery.failures());
    let mut lists = 0;
    for group in discovery.groups() {
        for version in &group.versions {
            let path = match &*group.name {
                "" => format!("/api/{}", version.version),
                // Other tests define their own.
                name if name.ends_with("example.com") => continue,
                name => format!("/apis/{name}/{}", version.version),
            };
            let of = |kind: &listwatch::client::ApiKind| {
                let short = if kind.short_names.is_empty() { Value::Null } else { json!(kind.short_names) };
                let namespaced = kind.resource.scope == Scope::Namespaced;
                let (plural, name) = (&kind.resource.plural, &kind.resource.kind);
                format!("{plural} {name} {} {namespaced} {} {short}", kind.singular, json!(kind.verbs))
            };
            let found: BTreeSet<_> = version.kinds.iter().map(of).collect();
            let plain: Value = client.request(&RawRequest::new(Method::Get, path)).unwrap();
            assert_eq!(found, plain_names(&plain));
            for kind in version.kinds.iter().filter(|kind| kind.is_watchable()) {
                Api::<Object>::all_with(&client, &kind.resource)
                    .list(&ListParams::default().limit(1))
                    .unwrap();
                lists += 1;
            }
        }
    }
    assert!(lists > 40, "{lists}");
    for (name, api_version, plural) in [
        ("deploy", "apps/v1", "deployments"),
        ("Deployment.apps", "apps/v1", "deployments"),
        ("no", "v1", "nodes"),
        ("events", "v1", "events"),
        ("events.events.k8s.io", "events.k8s.io/v1", "events"),
        ("hpa", "autoscaling/v2", "horizontalpodautoscalers"),
        ("hpa.v1.autoscaling", "autoscaling/v1", "horizontalpodautoscalers"),
        ("storageclass.storage", "storage.k8s.io/v1", "storageclasses"),
        ("crd", "apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ] {
        let found = discovery.resolve(name).unwrap();
        assert_eq!((&*found.api_version, &*found.plural), (api_version, plural));
    }
    let error = discovery.resolve("deplyoment").unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("similar: deployments.apps"), "{error}");
}

#[test]
fn a_custom_resource_is_found_by_its_short_name_and_followed() {
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.calls.example.com"},
        "spec": {
            "group": "calls.example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "shortNames": ["gdt"], "categories": ["toys"]},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    });
    let definitions = Api::<Object>::all_with(&client, &CustomResourceDefinition::api_resource());
    definitions.create(&PostParams::default(), &Object::from_value(definition).unwrap()).unwrap();
    eventually("it is discovered", || client.discover().unwrap().resolve("gdt").is_ok());
    let discovery = client.discover().unwrap();
    let gadget = discovery.find("gdt").unwrap();
    assert_eq!((&*gadget.resource.api_version, &*gadget.categories[0]), ("calls.example.com/v1", "toys"));
    assert!(discovery.kind("calls.example.com/v1beta1", "Gadget").is_some());

    let api = Api::<Object>::namespaced_with(&client, &server.namespace("gadgets"), &gadget.resource);
    let object = json!({"apiVersion": "calls.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    api.create(&PostParams::default(), &Object::from_value(object).unwrap()).unwrap();
    let (informer, stop) = (Informer::builder(api).build().unwrap(), Stop::new());
    informer.start(&stop).unwrap();
    informer.wait_for_sync(LONG).unwrap();
    assert_eq!(informer.lister().list(&Selector::everything())[0].name(), "a");
    stop.stop();
    informer.join();
    definitions.delete("gadgets.calls.example.com", &DeleteParams::default()).unwrap();
    eventually("it is gone", || client.discover().unwrap().resolve("gdt").is_err());
}

#[test]
fn the_server_says_its_version_and_that_it_is_well() {
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client();
    let version = client.version().unwrap();
    assert!(version.number().unwrap() >= (1, 30) && version.git_version.starts_with("v1."), "{version:?}");
    eventually("it is ready", || client.readyz().is_ok());
    client.livez().unwrap();
}

/// A pod that nothing runs.
fn pod(api: &Api<Pod>, name: &str) {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}});
    api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).unwrap();
}

#[test]
fn a_pod_is_evicted_unless_a_budget_forbids_it() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (client, namespace) = (server.client(), server.namespace("evict"));
    let pods = Api::<Pod>::namespaced(&client, &namespace);
    pod(&pods, "pending");
    pods.evict("pending", &DeleteParams::default().dry_run()).unwrap();
    assert!(pods.get("pending").is_ok());
    pods.evict("pending", &DeleteParams::default()).unwrap();
    assert!(pods.get("pending").unwrap_err().is_not_found());
    assert!(pods.evict("pending", &DeleteParams::default()).unwrap_err().is_not_found());

    pod(&pods, "running");
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("running", &PatchParams::default(), &Patch::Merge(running)).unwrap();
    let budgets = client.discover().unwrap().resolve("pdb").unwrap();
    let budgets = Api::<Object>::namespaced_with(&client, &namespace, &budgets);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    budgets.create(&PostParams::default(), &Object::from_value(budget).unwrap()).unwrap();
    let forbidden = |retry_after: u64| {
        let error = pods.evict("running", &DeleteParams::default()).unwrap_err();
        assert!(error.is_too_many_requests(), "{error}");
        let details = &error.status().unwrap().details;
        assert_eq!(
            (&*details.causes[0].reason, details.retry_after_seconds.unwrap_or(0)),
            ("DisruptionBudget", retry_after)
        );
    };
    // The server asks to come back in ten seconds: no controller has seen the budget.
    forbidden(10);
    let seen = |allowed: i32| {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        budgets.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).unwrap();
    };
    seen(0);
    forbidden(0);
    seen(1);
    pods.evict("running", &DeleteParams::default().grace_period(std::time::Duration::ZERO)).unwrap();
    assert!(pods.get("running").unwrap_err().is_not_found());
}

#[test]
fn a_deployment_is_scaled_by_each_verb() {
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client();
    let api = Api::<Deployment>::namespaced(&client, &server.namespace("scale"));
    api.create(&PostParams::default(), &deployment("web", 3)).unwrap();
    let read = api.get_scale("web").unwrap();
    assert_eq!((read.spec.replicas, &*read.status.selector, &*read.metadata.name), (3, "app=web", "web"));
    let patched =
        api.patch_scale("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 5}})));
    assert_eq!(patched.unwrap().spec.replicas, 5);
    let mut scale = read.clone();
    scale.spec.replicas = 4;
    assert!(api.replace_scale("web", &PostParams::default(), &scale).unwrap_err().is_conflict());
    scale = api.get_scale("web").unwrap();
    scale.spec.replicas = 0;
    assert_eq!(api.replace_scale("web", &PostParams::default(), &scale).unwrap().spec.replicas, 0);
    assert_eq!(api.get("web").unwrap().spec.replicas, Some(0));
    scale = listwatch::types::Scale { metadata: ObjectMeta::named("web"), ..Default::default() };
    scale.spec.replicas = 2;
    let applied =
        api.patch_scale("web", &PatchParams::apply("scaler").force(), &Patch::Apply(&scale)).unwrap();
    assert_eq!(applied.spec.replicas, 2);
    let maps = Api::<listwatch::types::ConfigMap>::namespaced(&client, api.namespace().unwrap());
    create(&maps, "a", "1");
    assert!(maps.get_scale("a").unwrap_err().is_not_found());
}

#[test]
fn what_the_server_warns_of_is_told() {
    let Some((server, _quiet)) = server::shared() else { return };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = heard.clone();
    let client = server.client().with_warnings(move |text| hook.lock().unwrap().push(text.to_owned()));
    let api =
        Api::<Object>::namespaced_with(&client, &server.namespace("warnings"), &Deployment::api_resource());
    let mut object = serde_json::to_value(deployment("web", 1)).unwrap();
    object["apiVersion"] = "apps/v1".into();
    object["kind"] = "Deployment".into();
    object["spec"]["repli\"c\\a"] = 1.into();
    let object = Object::from_value(object).unwrap();
    let strict = PostParams::default().field_validation(FieldValidation::Strict);
    assert_eq!(api.create(&strict, &object).unwrap_err().code(), Some(400));
    api.create(&PostParams::default().field_validation(FieldValidation::Ignore).dry_run(), &object).unwrap();
    assert_eq!(*heard.lock().unwrap(), [""; 0]);
    api.create(&PostParams::default().field_validation(FieldValidation::Warn), &object).unwrap();
    let told = std::mem::take(&mut *heard.lock().unwrap());
    assert!(told.len() == 1 && told[0].starts_with("unknown field \"spec.repli"), "{told:?}");

    let old = client.discover().unwrap().resolve("componentstatuses").unwrap();
    Api::<Object>::all_with(&client, &old).list(&ListParams::default()).unwrap();
    let told = std::mem::take(&mut *heard.lock().unwrap());
    assert!(told.iter().any(|text| text.contains("ComponentStatus is deprecated")), "{told:?}");
}

#[test]
fn a_pod_that_no_node_runs_has_an_empty_log() {
    let Some((server, _quiet)) = server::shared() else { return };
    let api = Api::<Pod>::namespaced(&server.client(), &server.namespace("logs"));
    pod(&api, "a");
    for params in [LogParams::default(), LogParams::default().follow().container("main").tail_lines(5)] {
        assert_eq!(api.logs("a", &params, &Stop::new()).unwrap().count(), 0);
    }
    let error = api.logs("a", &LogParams::default().container("none"), &Stop::new()).unwrap_err();
    assert!(
        error.code() == Some(400) && error.to_string().contains("container none is not valid"),
        "{error}"
    );
    let since = LogParams::default().since(std::time::Duration::ZERO);
    assert_eq!(api.logs("a", &since, &Stop::new()).unwrap().count(), 0);
    assert!(api.logs("a", &LogParams::default().limit_bytes(0), &Stop::new()).unwrap_err().is_invalid());
    assert!(api.logs("b", &LogParams::default(), &Stop::new()).unwrap_err().is_not_found());
}
