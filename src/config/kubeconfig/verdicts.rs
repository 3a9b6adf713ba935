//! 500 kubeconfigs with what client-go makes of them: `tests/kubeconfig`.

#![allow(clippy::unwrap_used)] // a test, but not all of it in one function

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::*;
use crate::http::Http;

/// Where we refuse, or read, what client-go does not, and why. At most 25. The docs of [`Config::from_kubeconfig`] say so,
/// too.
const DEVIATIONS: &[(&str, &str)] = &[
    (
        "authprovider-oidc",
        "refused: auth providers are compiled into kubectl; an exec plugin does it for others",
    ),
    ("certs-ca-empty-file", AT_ONCE),
    ("certs-ca-expired", AT_ONCE),
    ("certs-cert-junk-files", AT_ONCE),
    ("certs-cert-key-mismatch-files", AT_ONCE),
    ("nulls-clusters", NO_CLUSTER),
    ("refs-both-dangling", NO_CLUSTER),
    ("proxy-port-too-big", AT_ONCE),
    ("root-only-tabs", "a file of nothing but white space is an empty one"),
    ("server-ip-port", NO_SCHEME),
    ("server-unicode-host", "ureq takes ASCII only: the name is to be written in punycode"),
    ("tls-no-scheme-ca", NO_SCHEME),
    ("tokens-no-scheme", NO_SCHEME),
    ("yaml-doc-end-junk", UNREAD),
    ("yaml-key-inf", "an infinite number has no place in JSON"),
    ("yaml-multi-doc", UNREAD),
    ("yaml-multi-doc-first-empty", UNREAD),
    ("yaml-multi-doc-null-first", UNREAD),
];
const NO_CLUSTER: &str =
    "refused: the context's cluster is not there, and client-go goes on in-cluster, as a service account";
const AT_ONCE: &str = "refused when the client is made; client-go's fails at each connection";
const NO_SCHEME: &str = "refused: the server has no scheme, and client-go drops all credentials and trust";
const UNREAD: &str = "refused: client-go leaves what follows unread";

/// Written otherwise in two programs that mean the same: escapes, the case of a scheme, and a query, which counts for
/// nothing behind a path.
fn url(text: &str) -> Value {
    let Some((scheme, rest)) = text.split_once("://") else { return text.into() };
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let end = if path.len() > 1 { path.find(['?', '#']) } else { None };
    json!([scheme.to_ascii_lowercase(), unescaped(host), unescaped(&path[..end.unwrap_or(path.len())])])
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        rest = more;
        let code = match more {
            [a, b, ..] if *first == b'%' => {
                std::str::from_utf8(&[*a, *b]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        if code.is_some() {
            rest = &rest[2..];
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digest(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// Without what is empty: absent, empty and null are the same.
fn pruned(value: Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(map) => {
            let map = map.into_iter().map(|(key, value)| (key, pruned(value)));
            map.filter(|(_, value)| !empty(value)).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

/// A case's own path is left out.
fn within(case: &Path, path: &str) -> Value {
    let path = Path::new(path);
    match path.strip_prefix(case) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".into(),
        Ok(rest) => rest.to_str().into(),
        Err(_) => path.to_str().into(),
    }
}

/// In the form of `expected.json`.
fn verdict(case: &Path, asked: &Value) -> Value {
    let root = case.to_str().unwrap();
    let mut options = KubeconfigOptions::new();
    if let Some(context) = asked["context"].as_str() {
        options = options.with_context(context);
    }
    if let Some(namespace) = asked["namespace"].as_str() {
        options = options.with_namespace(namespace);
    }
    let files = asked["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
    let files: Vec<_> =
        files.map(|file| if file.is_empty() { file.into() } else { case.join(file) }).collect();
    let env = |name: &str| -> Option<OsString> {
        match (asked["env"][name].as_str(), name) {
            (Some(value), _) => Some(value.replace("${CASE}", root).into()),
            (None, "HOME") => Some(case.join("no-home").into()),
            (None, "KUBECONFIG") if !files.is_empty() => Some(std::env::join_paths(&files).unwrap()),
            _ => None,
        }
    };
    let sources = Sources::find(&options, &env);
    let resolved = match sources.read().and_then(|file| resolve(&file, &options, &sources.name)) {
        Err(e) => return json!({"error": e.to_string()}),
        Ok(None) => return json!({"error": "no configuration", "empty": true}),
        Ok(Some(resolved)) => resolved,
    };
    let ok = shown(case, &resolved);
    let plugin = would_run(&resolved);
    let made = resolved.config().and_then(Http::new);
    let sent = made.and_then(|http| if plugin { Ok(None) } else { http.would_send("/version").map(Some) });
    match sent {
        Err(e) => json!({"ok": ok, "clientError": e.to_string()}),
        Ok(None) => json!({"ok": ok, "request": {"plugin": true}}),
        Ok(Some((address, headers))) => {
            let mut shown = Map::new();
            for (name, value) in headers {
                if name == "authorization" || name.starts_with("impersonate-") {
                    let values = shown.entry(name).or_insert_with(|| json!([]));
                    values.as_array_mut().unwrap().push(String::from_utf8_lossy(&value).into());
                }
            }
            json!({"ok": ok, "request": {"url": url(&address), "headers": shown}})
        }
    }
}

/// Whether a program would be asked for the credentials.
fn would_run(resolved: &Resolved) -> bool {
    let Resolved { user, token, .. } = resolved;
    let others = !user.username.is_empty() || !token.is_empty() || !user.client_certificate.is_empty();
    resolved.tls && user.exec.is_some() && !others && user.client_certificate_data.is_empty()
}

fn shown(case: &Path, resolved: &Resolved) -> Value {
    let (cluster, user) = (&resolved.cluster, &resolved.user);
    let mut ok = json!({
        "server": url(&cluster.server),
        "namespace": resolved.namespace,
        "proxyURL": url(&cluster.proxy_url),
        "disableCompression": cluster.disable_compression,
        "user": {},
    });
    if !user.impersonate.is_empty() {
        ok["user"] = json!({
            "impersonate": user.impersonate,
            "impersonateUID": user.impersonate_uid,
            "impersonateGroups": user.impersonate_groups,
            "impersonateExtra": user.impersonate_extra,
        });
    }
    if !resolved.tls {
        return pruned(ok);
    }
    ok["caData"] = digest(&cluster.certificate_authority_data);
    ok["caFile"] = within(case, &cluster.certificate_authority);
    ok["insecure"] = json!(cluster.insecure_skip_tls_verify);
    ok["tlsServerName"] = json!(cluster.tls_server_name);
    let shown = &mut ok["user"];
    shown["token"] = json!(resolved.token);
    shown["tokenFile"] = within(case, &user.token_file);
    shown["username"] = json!(user.username);
    shown["password"] = json!(user.password);
    if !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty() {
        shown["clientCertificateData"] = digest(&user.client_certificate_data);
        shown["clientCertificateFile"] = within(case, &user.client_certificate);
        shown["clientKeyData"] = digest(&user.client_key_data);
        shown["clientKeyFile"] = within(case, &user.client_key);
    }
    if let Some(exec) = &user.exec {
        let env = exec.env.iter().map(|(name, value)| json!({"name": name, "value": value.expose()}));
        let command = Path::new(&exec.command).strip_prefix(case).ok().and_then(Path::to_str);
        shown["exec"] = json!({
            "command": command.map_or_else(|| exec.command.clone(), |rest| format!("${{CASE}}/{rest}")),
            "args": exec.args,
            "env": env.collect::<Vec<_>>(),
            "apiVersion": exec.api_version,
            "interactiveMode": exec.interactive_mode,
            "provideClusterInfo": exec.provide_cluster_info,
            "installHint": exec.install_hint,
            "config": cluster.exec_config,
        });
    }
    if let Some(provider) = &user.auth_provider {
        shown["authProvider"] = json!({"name": provider.name});
    }
    pruned(ok)
}

/// `expected.json`, so that it can be compared.
fn expected(case: &Path) -> Value {
    let mut expected: Value = serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap();
    if let Some(ok) = expected.get_mut("ok") {
        for field in ["server", "proxyURL"] {
            ok[field] = ok[field].as_str().map_or(Value::Null, url);
        }
        if let Some(provider) = ok["user"].get_mut("authProvider").and_then(Value::as_object_mut) {
            provider.retain(|field, _| field == "name"); // what is refused needs no configuration
        }
        if let Some(extra) = ok["user"].get_mut("impersonateExtra").and_then(Value::as_object_mut) {
            extra.values_mut().filter(|values| values.is_null()).for_each(|values| *values = json!([]));
        }
        *ok = pruned(ok.take());
    }
    if let Some(request) = expected.get_mut("request").and_then(Value::as_object_mut) {
        if request.contains_key("plugin") {
            request.retain(|field, _| field == "plugin");
        } else {
            // The user in an address is sent as a header, which is compared.
            let address = request["url"].as_str().unwrap();
            let (scheme, rest) = address.split_once("://").unwrap();
            request["url"] =
                url(&format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, rest)| rest)));
            let headers = request.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
            let headers = headers.into_iter().map(|(name, values)| (name.to_ascii_lowercase(), values));
            let headers: Map<_, _> = headers.collect();
            request.insert("headers".into(), headers.into());
        }
    }
    expected
}

/// What differs, or nothing.
fn difference(expected: &Value, ours: &Value) -> Option<String> {
    let kind = |verdict: &Value| match verdict {
        v if v.get("empty").is_some() => "no configuration",
        v if v.get("error").is_some() => "refused",
        v if v.get("clientError").is_some() => "no client",
        _ => "ok",
    };
    let told = |verdict: &Value| {
        let why = verdict.get("error").or(verdict.get("clientError")).and_then(Value::as_str);
        format!("{} {}", kind(verdict), why.unwrap_or_default())
    };
    // Where no client can be made, it is the same to a user at which step that is said.
    let refuses = |verdict: &Value| matches!(kind(verdict), "refused" | "no client");
    match (kind(expected), kind(ours)) {
        ("no client", _) if refuses(ours) => None,
        (one, other) if one != other => Some(format!("client-go: {}; ours: {}", told(expected), told(ours))),
        ("ok", _) => {
            let differ = |part: &str| {
                (expected[part] != ours[part]).then(|| format!("{} and {}", expected[part], ours[part]))
            };
            differ("ok").or_else(|| differ("request"))
        }
        _ => None,
    }
}

#[test]
fn verdicts_are_those_of_client_go() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubeconfig/cases");
    let (mut equal, mut quirks, mut deviate, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for entry in fs::read_dir(cases).unwrap() {
        let case = entry.unwrap().path();
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        let asked: Value = serde_json::from_slice(&fs::read(case.join("case.json")).unwrap()).unwrap();
        let differs = difference(&expected(&case), &verdict(&case, &asked));
        let known = DEVIATIONS.iter().find(|(deviation, _)| *deviation == name);
        match (differs, known) {
            (None, None) => equal += 1,
            (Some(_), Some((_, why))) => deviate.push(format!("{name}: {why}")),
            (Some(_), None) if asked["quirk"] == true => quirks += 1,
            (Some(how), None) => wrong.push(format!("{name}: {how}")),
            (None, Some(_)) => wrong.push(format!("{name} is equal, and listed as a deviation")),
        }
    }
    deviate.sort();
    let count = deviate.len();
    // Not through println!, which is captured.
    let said = format!(
        "kubeconfig: {equal} cases equal, {count} deviate on purpose, {quirks} quirks of Go's parsers differ"
    );
    io::stdout().write_all(format!("{said}\n{}\n", deviate.join("\n")).as_bytes()).unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(equal + count + quirks == 500 && count == DEVIATIONS.len() && count <= 25);
}
