//! What holds for any text as the answer of an exec plugin.

use listwatch::config::Credential;
use serde_json::Value;

const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
/// Text that no message has for another reason.
const SECRET: &str = "hunter2hunter2hunter2";

/// It is a credential in at most one version, or an error of configuration on one line. JSON is one exactly if it says
/// so and holds a token or a certificate with its key. Whatever text stands in it is not shown.
pub(crate) fn exec_answer(bytes: &[u8]) {
    let taken = [V1, V1BETA1].map(|version| show(bytes, version));
    assert!(taken.iter().filter(|shown| shown.is_ok()).count() <= 1, "{taken:?}");
    assert!(show(bytes, "client.authentication.k8s.io/v1alpha1").is_err());

    let Ok(value @ Value::Object(_)) = serde_json::from_slice::<Value>(bytes) else { return };
    // Repeated keys and white space mean nothing.
    let compact = value.to_string();
    assert_eq!([V1, V1BETA1].map(|version| show(compact.as_bytes(), version)), taken);

    let status = &value["status"];
    let given = |key: &str| status[key].as_str().is_some_and(|text| !text.is_empty());
    let pair = (given("clientCertificateData"), given("clientKeyData"));
    let complete = given("token") && pair == (false, false) || pair == (true, true);
    for (version, taken) in [V1, V1BETA1].into_iter().zip(&taken) {
        let is_answer = value["kind"] == "ExecCredential" && value["apiVersion"] == version && complete;
        assert!(is_answer || taken.is_err(), "{taken:?} of {compact}");
    }

    if compact.contains("hunter2") {
        return;
    }
    let mut value = value;
    hide_secrets(&mut value);
    for version in [V1, V1BETA1] {
        let shown = show(value.to_string().as_bytes(), version).unwrap_or_else(|shown| shown);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

/// How the credential or the error is shown.
fn show(bytes: &[u8], version: &str) -> Result<String, String> {
    match Credential::from_exec(bytes, version) {
        Ok(credential) => Ok(format!("{credential:?}")),
        Err(error) => {
            assert!(error.is_config(), "{error:?}");
            let text = error.to_string();
            assert!(!text.trim().is_empty() && !text.contains(char::is_control), "{text:?}");
            Err(format!("{text} {error:?}"))
        }
    }
}

/// Puts the secret into each text, behind what it begins with.
fn hide_secrets(value: &mut Value) {
    match value {
        // Versions, kinds and times are told apart by the whole text.
        Value::String(text) if text.starts_with("client.") || text == "ExecCredential" => {}
        Value::String(text) => text.push_str(SECRET),
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(map) => map.values_mut().for_each(hide_secrets),
        _ => {}
    }
}
