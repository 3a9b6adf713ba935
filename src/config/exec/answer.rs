//! What a plugin printed: an `ExecCredential`, in JSON or, as client-go takes it, in YAML.

use serde_json::{Map, Value};

use super::Version;
use crate::config::kubeconfig::yaml;
use crate::config::pem::is_pem;
use crate::config::{ClientCertificate, Credential, Pem};
use crate::error::{Error, Result};
use crate::object::Time;

/// Go's zero time, 0001-01-01T00:00:00Z, which programs in Go write for none.
const NO_TIME: i64 = -62_135_596_800;

/// Nothing of the answer is part of an error, but for the version.
pub(super) fn read(bytes: &[u8], version: Version) -> Result<Credential> {
    let answer = match parse(bytes)? {
        Value::Object(answer) => answer,
        Value::Null => return wrong("it printed nothing"),
        _ => return wrong("it printed no object"),
    };
    if text(&answer, "kind")? != "ExecCredential" {
        return wrong("it printed something of another kind than ExecCredential");
    }
    let got = text(&answer, "apiVersion")?;
    if got != version.as_str() {
        let known = Version::ALL.into_iter().find(|known| known.as_str() == got);
        let got = known.map_or("another version", Version::as_str);
        return wrong(&format!("it was asked in version {} and answers in {got}", version.as_str()));
    }
    let status = match answer.get("status") {
        Some(Value::Object(status)) => status,
        None | Some(Value::Null) => return wrong("its answer has no status"),
        Some(_) => return wrong("its answer's status is no object"),
    };
    let (token, certificate, key) =
        (text(status, "token")?, text(status, "clientCertificateData")?, text(status, "clientKeyData")?);
    let pair = match (certificate, key) {
        ("", "") => None,
        ("", _) => return wrong("its answer has a clientKeyData and no clientCertificateData"),
        (_, "") => return wrong("its answer has a clientCertificateData and no clientKeyData"),
        (certificate, key) => Some(ClientCertificate {
            certificate: pem("clientCertificateData", certificate)?,
            key: pem("clientKeyData", key)?,
        }),
    };
    let credential = match (token, pair) {
        ("", None) => return wrong("its answer has neither a token nor a client certificate"),
        ("", Some(pair)) => Credential::certificate(pair),
        (token, None) => Credential::token(token)?,
        (token, Some(pair)) => Credential::token(token)?.with_certificate(pair),
    };
    Ok(match text(status, "expirationTimestamp")? {
        "" => credential,
        time => {
            let Ok(time) = time.parse::<Time>() else {
                return wrong("its answer's expirationTimestamp is not a time as RFC 3339 writes it");
            };
            if time.unix() == NO_TIME { credential } else { credential.with_expiry(time) }
        }
    })
}

fn parse(bytes: &[u8]) -> Result<Value> {
    // As client-go tells them apart.
    if bytes.trim_ascii_start().starts_with(b"{") {
        return serde_json::from_slice(bytes).or_else(|e| {
            wrong(&format!("it printed what is not JSON: line {} column {}", e.line(), e.column()))
        });
    }
    yaml::parse(bytes).or_else(|e| wrong(&format!("it printed neither JSON nor YAML: {e}")))
}

/// Absent, null and empty are the same.
fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a str> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => wrong(&format!("its answer's {key} is no text")),
    }
}

fn pem(key: &str, text: &str) -> Result<Pem> {
    if is_pem(text.as_bytes()) {
        Ok(Pem::Data(text.into()))
    } else {
        wrong(&format!("its answer's {key} holds no PEM block"))
    }
}

fn wrong<T>(what: &str) -> Result<T> {
    Err(Error::config(what))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nhidden\n-----END PRIVATE KEY-----\n";

    fn answer(status: &Value) -> String {
        json!({ "kind": "ExecCredential", "apiVersion": Version::V1.as_str(), "status": status }).to_string()
    }

    fn shown(answer: &str, version: Version) -> String {
        match read(answer.as_bytes(), version) {
            Ok(credential) => format!("{credential:?}"),
            Err(e) => {
                assert!(e.is_config());
                e.to_string()
            }
        }
    }

    fn expires(unix: u64) -> String {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix);
        format!("{:?}", Credential::token("t").unwrap().with_expiry(time))
    }

    /// As gke-gcloud-auth-plugin, aws eks get-token, kubelogin of Azure and kubelogin for OIDC print them.
    #[test]
    fn answers_in_the_shapes_of_well_known_plugins() {
        let gke = r#"{
    "kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "spec": {
        "interactive": false
    },
    "status": {
        "expirationTimestamp": "2026-11-29T12:59:23Z",
        "token": "ya29.hidden"
    }
}
"#;
        assert_eq!(shown(gke, Version::V1Beta1), expires(1_795_957_163));
        let aws = r#"{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": {}, "status": {"expirationTimestamp": "2026-11-29T12:59:23Z", "token": "k8s-aws-v1.hidden"}}"#;
        assert_eq!(shown(aws, Version::V1Beta1), expires(1_795_957_163));
        let azure = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{"interactive":true},"status":{"expirationTimestamp":"2026-11-29T12:59:23Z","token":"eyJhidden"}}
"#;
        assert_eq!(shown(azure, Version::V1Beta1), expires(1_795_957_163));
        let oidc = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false},"status":{"expirationTimestamp":"2026-11-29T13:59:23+01:00","token":"eyJhidden"}}
"#;
        assert_eq!(shown(oidc, Version::V1), expires(1_795_957_163));
        let yaml =
            "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus: {token: hidden}\n";
        assert_eq!(shown(yaml, Version::V1), format!("{:?}", Credential::token("t").unwrap()));
    }

    #[test]
    fn a_certificate_alone_or_beside_a_token() {
        let pair = json!({"clientCertificateData": CERTIFICATE, "clientKeyData": KEY});
        let alone = shown(&answer(&pair), Version::V1);
        assert!(alone.contains("authorization: None") && alone.contains("certificate: Some"), "{alone}");
        let mut both = pair;
        both["token"] = "t".into();
        let both = shown(&answer(&both), Version::V1);
        assert!(both.contains("authorization: Some(***)") && both.contains("certificate: Some"), "{both}");
        assert!(!both.contains("hidden") && !alone.contains("hidden"));
    }

    #[test]
    fn what_is_null_or_empty_is_not_there() {
        let token = format!("{:?}", Credential::token("t").unwrap());
        for status in [
            json!({"token": "t"}),
            json!({"token": "t", "expirationTimestamp": null, "clientCertificateData": null, "clientKeyData": null}),
            json!({"token": "t", "expirationTimestamp": "", "clientCertificateData": "", "clientKeyData": ""}),
            json!({"token": "t", "expirationTimestamp": "0001-01-01T00:00:00Z"}),
            json!({"token": "t", "more": [1]}),
        ] {
            assert_eq!(shown(&answer(&status), Version::V1), token, "{status}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_what_was_printed() {
        let of = |kind: &str, version: &str| {
            json!({"kind": kind, "apiVersion": version, "status": {"token": "hidden"}}).to_string()
        };
        for (answer, said) in [
            (String::new(), "it printed nothing"),
            (" \n".into(), "it printed nothing"),
            ("null".into(), "it printed nothing"),
            ("hidden".into(), "no object"),
            (r#"{"kind": hidden}"#.into(), "not JSON: line 1 column 10"),
            (answer(&json!({"token": "hidden"})) + "hidden", "not JSON: line 1"),
            ("WARNING: hidden\n{\"kind\": 1}".into(), "neither JSON nor YAML: line "),
            (of("hidden", Version::V1.as_str()), "another kind than ExecCredential"),
            (of("ExecCredential", ""), "answers in another version"),
            (of("ExecCredential", "hidden"), "answers in another version"),
            (
                of("ExecCredential", Version::V1Beta1.as_str()),
                "in version client.authentication.k8s.io/v1 and answers in client.authentication.k8s.io/v1beta1",
            ),
            (answer(&json!(null)), "no status"),
            (answer(&json!("hidden")), "status is no object"),
            (answer(&json!({})), "neither a token nor a client certificate"),
            (answer(&json!({"token": ["hidden"]})), "token is no text"),
            (answer(&json!({"token": "hidden\nX-Evil: 1"})), "the token holds a control character"),
            (answer(&json!({"token": "hidden", "expirationTimestamp": "hidden"})), "is not a time"),
            (answer(&json!({"token": "hidden", "expirationTimestamp": 5})), "expirationTimestamp is no text"),
            (answer(&json!({"clientKeyData": KEY})), "no clientCertificateData"),
            (answer(&json!({"token": "hidden", "clientCertificateData": CERTIFICATE})), "no clientKeyData"),
            (
                answer(&json!({"clientCertificateData": CERTIFICATE, "clientKeyData": "hidden"})),
                "clientKeyData holds no PEM block",
            ),
        ] {
            let told = shown(&answer, Version::V1);
            assert!(told.contains(said), "{answer}: {told}");
            assert!(!told.contains("hidden") && !told.contains("Evil"), "{told}");
        }
    }
}
