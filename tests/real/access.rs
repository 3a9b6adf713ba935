use listwatch::client::{Method, RawRequest};
use listwatch::config::{Credentials, Impersonate};
use listwatch::types::ConfigMap;
use listwatch::{
    Api, ApiResource, Client, Config, DeleteParams, Informer, KubeconfigOptions, ListParams, Object,
    PostParams, Scope, Stop,
};
use serde_json::json;

use crate::{LONG, create, eventually, server};

/// What the server knows of who asks.
fn user_info(client: &Client) -> listwatch::Result<serde_json::Value> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = RawRequest::new(Method::Post, "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let mut answer: serde_json::Value = client.request(&request.json(&review)?)?;
    Ok(answer["status"]["userInfo"].take())
}

pub(crate) fn whoami(client: &Client) -> listwatch::Result<String> {
    Ok(user_info(client)?["username"].as_str().unwrap_or_default().to_owned())
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
fn the_server_takes_us_for_whom_we_act_as_if_we_may() {
    let Some((server, _quiet)) = server::shared() else { return };
    let act_as = Impersonate {
        user: "alice@example.test".into(),
        uid: Some("uid-7".into()),
        groups: vec!["team a".into(), "system:masters".into()],
        extra: [("example.test/Scopes".to_owned(), vec!["read".to_owned(), "write".to_owned()])].into(),
    };
    let acting = |config: &Config| Client::new(config.clone().with_impersonate(act_as.clone())).unwrap();
    let info = user_info(&acting(server.client().config())).unwrap();
    assert_eq!((&info["username"], &info["uid"]), (&json!("alice@example.test"), &json!("uid-7")));
    assert_eq!(info["groups"], json!(["team a", "system:masters", "system:authenticated"]));
    // Names of headers have no case, so the server knows the key in lower case.
    assert_eq!(info["extra"]["example.test/scopes"], json!(["read", "write"]));

    let error = whoami(&acting(server.client_as(token("limited-token")).config())).unwrap_err();
    assert!(error.is_forbidden() && error.to_string().contains("impersonate"), "{error}");
}

/// A projected token, as kubelet renews it in its file: the old one ends when the account does.
#[test]
fn a_token_of_a_service_account_that_is_no_longer_taken_is_read_again_from_its_file() {
    let Some((server, _quiet)) = server::shared() else { return };
    let (admin, namespace) = (server.client(), server.namespace("accounts"));
    let accounts = ApiResource::dynamic("v1", "ServiceAccount", "serviceaccounts", Scope::Namespaced);
    let accounts = Api::<Object>::namespaced_with(&admin, &namespace, &accounts);
    let file = server.kubeconfig().with_file_name(format!("{namespace}.token"));
    let renew = |name: &str| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        accounts.create(&PostParams::default(), &Object::from_value(account).unwrap()).unwrap();
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let given: serde_json::Value =
            accounts.create_subresource(name, "token", &PostParams::default(), &asked).unwrap();
        std::fs::write(&file, given["status"]["token"].as_str().unwrap()).unwrap();
    };
    renew("first");
    let client = server.client_as(Credentials::token_file(&file));
    assert_eq!(whoami(&client).unwrap(), format!("system:serviceaccount:{namespace}:first"));
    accounts.delete("first", &DeleteParams::default()).unwrap();
    // The server remembers for some seconds that a token was good.
    eventually("the account is gone", || whoami(&client).is_err());
    renew("second");
    assert_eq!(whoami(&client).unwrap(), format!("system:serviceaccount:{namespace}:second"));
}

#[test]
fn an_exec_plugin_of_a_kubeconfig_gives_a_token_to_a_real_server() {
    let Some((server, _quiet)) = server::shared() else { return };
    let answer = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "limited-token"}});
    let kubeconfig = json!({"current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{}", server.address()),
            "certificate-authority": server.kubeconfig().with_file_name("pki").join("ca.crt")}}],
        "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never", "command": "printf", "args": ["%s", answer.to_string()]}}}]});
    let config = Config::from_kubeconfig_text(&kubeconfig.to_string(), &KubeconfigOptions::new()).unwrap();
    assert_eq!(whoami(&Client::new(config).unwrap()).unwrap(), "limited");
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
