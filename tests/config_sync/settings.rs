//! What the environment may say.

use std::collections::BTreeMap;

use crate::config_sync::sidecar::Settings;

fn read(more: &[(&str, &str)]) -> Result<Settings, String> {
    let mut variables = BTreeMap::from([("LABEL", "app"), ("FOLDER", "/tmp/x")]);
    variables.extend(more.iter().copied());
    Settings::read(&|name| variables.get(name).map(|value| (*value).to_owned())).map_err(|e| e.to_string())
}

#[test]
fn what_is_not_set_is_as_with_k8s_sidecar() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.selector, "app");
    assert_eq!((settings.configmaps, settings.secrets), (true, false));
    assert_eq!(settings.folder_annotation, "k8s-sidecar-target-directory");
    assert_eq!((settings.file_mode, settings.health_port), (0o644, 8080));
    assert!(!settings.once && !settings.unique_filenames && settings.hooks.is_empty());
    assert!(read(&[("SCRIPT", ""), ("SKIP_TLS_VERIFY", "false"), ("METHOD", "WATCH")]).is_ok());
}

#[test]
fn what_is_wrong_is_said_with_the_name_of_the_variable() {
    for (variables, said) in [
        (&[("LABEL", "")][..], "LABEL is not set"),
        (&[("FOLDER", " ")], "FOLDER is not set"),
        (&[("FOLDER", "/a/../b")], "'..'"),
        (&[("LABEL", "a b")], "LABEL"),
        (&[("RESOURCE", "pod")], "RESOURCE is \"pod\""),
        (&[("DEFAULT_FILE_MODE", "8")], "DEFAULT_FILE_MODE"),
        (&[("DEFAULT_FILE_MODE", "4755")], "DEFAULT_FILE_MODE"),
        (&[("DEFAULT_FILE_MODE", "000")], "DEFAULT_FILE_MODE"),
        (&[("DEFAULT_FILE_MODE", "200")], "DEFAULT_FILE_MODE"),
        (&[("HEALTH_PORT", "x")], "HEALTH_PORT"),
        (&[("SCRIPT", "/x.sh")], "SCRIPT is not supported"),
        (&[("RESOURCE_NAME", "x")], "RESOURCE_NAME is not supported"),
        (&[("SKIP_TLS_VERIFY", "true")], "SKIP_TLS_VERIFY is not supported"),
        (&[("REQ_URL", "localhost")], "REQ_URL"),
        (&[("REQ_URL", "ftp://localhost")], "REQ_URL"),
        (&[("REQ_URL", "http://localhost"), ("REQ_METHOD", "PUT")], "REQ_METHOD"),
        (&[("REQ_URL", "http://localhost"), ("REQ_TIMEOUT", "0")], "REQ_TIMEOUT"),
        (&[("SIGNAL", "KILL"), ("SIGNAL_PROCESS", "x")], "SIGNAL is"),
        (&[("SIGNAL", "HUP")], "SIGNAL_PID_FILE"),
    ] {
        let error = read(variables).unwrap_err();
        assert!(error.contains(said), "{variables:?}: {error}");
    }
}
