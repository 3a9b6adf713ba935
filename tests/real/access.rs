use listwatch::client::{Method, RawRequest};
use listwatch::config::Credentials;
use listwatch::types::ConfigMap;
use listwatch::{Api, ApiResource, Client, Informer, ListParams, Object, PostParams, Scope, Stop};
use serde_json::json;

use crate::{LONG, create, eventually, server};

pub(crate) fn whoami(client: &Client) -> listwatch::Result<String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = RawRequest::new(Method::Post, "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let answer: serde_json::Value = client.request(&request.json(&review)?)?;
    Ok(answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

fn token(token: &str) -> Credentials {
    Credentials::token(token).unwrap()
}

#[test]
fn the_server_knows_the_user_of_a_client_certificate_and_of_a_token() {
    let Some((server, _quiet)) = server::shared() else { return };
    assert_eq!(whoami(&server.client()).unwrap(), "admin");
    assert_eq!(whoami(&server.client_as(token("limited-token"))).unwrap(), "limited");
}

#[test]
fn a_wrong_token_is_unauthorized_and_not_in_the_error() {
    let Some((server, _quiet)) = server::shared() else { return };
    let error = whoami(&server.client_as(token("no-such-token"))).unwrap_err();
    assert!(error.is_unauthorized() && error.code() == Some(401), "{error}");
    assert!(!format!("{error} {error:?}").contains("no-such-token"));
}

#[test]
fn whoever_has_no_credentials_is_forbidden() {
    let Some((server, _quiet)) = server::shared() else { return };
    let client = server.client_as(Credentials::none());
    let error = Api::<ConfigMap>::all(&client).list(&ListParams::default()).unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    assert!(error.to_string().contains("system:anonymous"), "{error}");
}

#[test]
fn a_server_that_the_ca_did_not_sign_is_not_spoken_to() {
    let Some((server, _quiet)) = server::shared() else { return };
    let config = listwatch::Config::new(server.client().config().server()).unwrap();
    let error = whoami(&Client::new(config.with_credentials(token("admin-token"))).unwrap()).unwrap_err();
    assert!(error.is_connect(), "{error}");
}

#[test]
fn an_informer_needs_no_more_rights_than_those_to_the_one_object_it_selects() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (admin, namespace) = (server.client(), server.namespace("rights"));
    let api = Api::<ConfigMap>::namespaced(&admin, &namespace);
    create(&api, "mine", "1");
    create(&api, "other", "1");
    for (plural, object) in [
        (
            "roles",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "one"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"],
                    "verbs": ["get", "list", "watch"]}]}),
        ),
        (
            "rolebindings",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "one"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]}),
        ),
    ] {
        let object = Object::from_value(object).unwrap();
        let resource = ApiResource::dynamic(
            "rbac.authorization.k8s.io/v1",
            object.kind().to_owned(),
            plural,
            Scope::Namespaced,
        );
        let api = Api::<Object>::namespaced_with(&admin, &namespace, &resource);
        api.create(&PostParams::default(), &object).unwrap();
    }

    let limited = Api::<ConfigMap>::namespaced(&server.client_as(token("limited-token")), &namespace);
    // The server learns of a role through watches of its own.
    eventually("the role counts", || limited.get("mine").is_ok());
    assert!(limited.get("other").unwrap_err().is_forbidden());

    let stop = Stop::new();
    let mine = Informer::builder(limited.clone()).fields("metadata.name=mine").build().unwrap();
    mine.start(&stop).unwrap();
    mine.wait_for_sync(LONG).unwrap();
    let lister = mine.lister();
    assert_eq!(lister.store().len(), 1);
    let mut changed = api.get("mine").unwrap();
    changed.data.insert("key", "2");
    api.replace("mine", &PostParams::default(), &changed).unwrap();
    eventually("the change is seen", || {
        lister.get(&namespace, "mine").is_some_and(|map| map.data.get("key") == Some("2"))
    });

    let all = Informer::builder(limited).build().unwrap();
    all.start(&stop).unwrap();
    eventually("it was refused", || all.health().errors > 0);
    let error = all.wait_for_sync(std::time::Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("403") && error.contains("configmaps") && error.contains(&namespace), "{error}");
    stop.stop();
    mine.join();
    all.join();
}
