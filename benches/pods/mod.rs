//! The pods that benchmarks read: those of the load server, 10.7 KB each, as kube-apiserver writes them.

/// Pod `i` at a version: one line of compact JSON, its keys in the server's order.
pub(crate) fn text(i: usize, version: usize) -> String {
    let mut text: String = include_str!("../peers/replay/pod.json")
        .lines()
        .map(str::trim_start)
        .collect::<String>()
        .replace("\": ", "\":");
    let app = format!("app-{}", i % 97);
    let hash = format!("{:010x}", i * 7919);
    let digest = |k: usize| format!("{:064x}", i * k);
    for (field, value) in [
        ("\"bench/sent\":\"@SENT@\",", String::new()),
        ("@NAME@", format!("{app}-{hash}-{i:05}")),
        ("@NS@", format!("ns-{}", i % 20)),
        ("@UID@", format!("00000000-0000-4000-8000-{i:012x}")),
        ("@RV@", version.to_string()),
        ("@TIME@", format!("2026-11-29T12:{:02}:{:02}Z", i / 250 / 60 % 60, i / 250 % 60)),
        ("@TIER@", ["gold", "silver", "bronze"][i % 3].into()),
        ("@SUM@", digest(104_729)),
        ("@NODE@", format!("node-{}", i % 200)),
        ("@PODIP@", format!("10.1.{}.{}", i / 250, i % 250)),
        ("@HOSTIP@", format!("10.0.0.{}", i % 200)),
        ("@IMG@", digest(1)),
        ("@CIDA@", digest(3)),
        ("@CIDB@", digest(5)),
        ("@HASH@", hash),
        ("@APP@", app),
        ("@I@", i.to_string()),
    ] {
        text = text.replace(field, &value);
    }
    text
}
