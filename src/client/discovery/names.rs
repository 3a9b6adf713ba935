//! Which kind a name means: as kubectl's `mappingFor`, client-go's `shortcutExpander` and its mappers of resources do it
//! together.

use super::{ApiKind, Discovery};
use crate::error::{Error, Result};
use crate::object::{Status, cut};

/// How many similar names an error tells.
const MOST_SIMILAR: usize = 5;
/// Longer names are similar to none: comparing takes the product of the lengths.
const LONGEST: usize = 100;

/// What of a kind is compared with a word.
#[derive(Clone, Copy)]
enum By {
    /// Plural or singular.
    Name,
    Short,
    Kind,
}

/// Which group is meant.
#[derive(Clone, Copy)]
enum Group<'a> {
    Any,
    Is(&'a str),
    StartsWith(&'a str),
    /// Version and group; an empty group is any.
    Version(&'a str, &'a str),
}

pub(super) fn find<'a>(discovery: &'a Discovery, name: &str) -> Result<&'a ApiKind> {
    let lower = name.trim().to_lowercase();
    let (word, group) = lower.split_once('.').unwrap_or((&lower, ""));
    let versioned = group.split_once('.').map(|(version, group)| Group::Version(version, group));
    let (exact, prefix) = match group {
        "" => (Group::Any, None),
        group => (Group::Is(group), Some(Group::StartsWith(group))),
    };
    let tries = [
        (By::Name, versioned),
        (By::Short, versioned),
        (By::Name, Some(exact)),
        (By::Short, Some(exact)),
        (By::Name, prefix),
        (By::Short, prefix),
        (By::Kind, versioned),
        (By::Kind, Some(exact)),
    ];
    let found = tries.iter().find_map(|(by, group)| {
        let group = (*group)?;
        discovery.kinds().find(|kind| is_called(kind, word, *by) && is_in(kind, group))
    });
    found.filter(|_| !word.is_empty()).ok_or_else(|| unknown(discovery, name, word))
}

fn is_called(kind: &ApiKind, word: &str, by: By) -> bool {
    match by {
        By::Name => kind.resource.plural == word || kind.singular == word,
        By::Short => kind.short_names.iter().any(|name| name == word),
        By::Kind => kind.resource.kind.to_lowercase() == word,
    }
}

fn is_in(kind: &ApiKind, group: Group<'_>) -> bool {
    match group {
        Group::Any => true,
        Group::Is(group) => kind.resource.group() == group,
        Group::StartsWith(start) => kind.resource.group().starts_with(start),
        Group::Version(version, group) => {
            kind.resource.version() == version && (group.is_empty() || kind.resource.group() == group)
        }
    }
}

/// A 404, as that is what the server would say of its path.
fn unknown(discovery: &Discovery, name: &str, word: &str) -> Error {
    let mut message = format!("the server has no resource {:?}", cut(name, LONGEST).0);
    let similar = similar(discovery, word);
    if !similar.is_empty() {
        message += &format!("; similar: {}", similar.join(", "));
    }
    for failure in discovery.failures() {
        message += &format!("; what {} has is not known: {}", failure.api_version, failure.error);
    }
    let (status, reason) = ("Failure".into(), "NotFound".into());
    Status { status, message, reason, code: 404, ..Status::default() }.into()
}

/// Names close to a word, the closest first.
fn similar(discovery: &Discovery, word: &str) -> Vec<String> {
    let length = word.chars().count();
    if !(1..=LONGEST).contains(&length) {
        return Vec::new();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for kind in discovery.kinds() {
        let lower = kind.resource.kind.to_lowercase();
        let names = [&*kind.resource.plural, &kind.singular, &lower];
        let names = names.into_iter().chain(kind.short_names.iter().map(String::as_str));
        let of = |name: &str| {
            // A part of a name is as close as a name with two letters wrong.
            let part = length > 2 && name.contains(word);
            let distance = distance(name, word);
            if part { distance.min(2) } else { distance }
        };
        let Some(least) = names.filter(|name| name.len() <= LONGEST).map(of).min() else { continue };
        if least <= (length / 3).min(2) {
            found.push((least, kind.resource.to_string()));
        }
    }
    found.sort_by_key(|(distance, _)| *distance);
    let mut names = Vec::new();
    for (_, name) in found {
        if !names.contains(&name) && names.len() < MOST_SIMILAR {
            names.push(name);
        }
    }
    names
}

/// How many letters must be changed, put in or left out to come from one to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::{ApiGroup, ApiVersion, DiscoveryFailure};
    use super::*;
    use crate::object::{ApiResource, Scope};

    /// Kind, plural, short names.
    type Row = (&'static str, &'static str, &'static [&'static str]);

    fn group(name: &str, versions: &[(&str, &[Row])]) -> ApiGroup {
        let kind = |version: &str, (kind, plural, short): &Row| {
            let api_version = if name.is_empty() { version.to_owned() } else { format!("{name}/{version}") };
            ApiKind {
                resource: ApiResource::dynamic(api_version, *kind, *plural, Scope::Namespaced),
                singular: kind.to_lowercase(),
                short_names: short.iter().map(ToString::to_string).collect(),
                categories: Vec::new(),
                verbs: Vec::new(),
                subresources: Vec::new(),
            }
        };
        let version = |(version, rows): &(&str, &[Row])| ApiVersion {
            version: version.to_string(),
            kinds: rows.iter().map(|row| kind(version, row)).collect(),
        };
        ApiGroup { name: name.into(), versions: versions.iter().map(version).collect() }
    }

    fn cluster() -> Discovery {
        let certificate: Row = ("Certificate", "certificates", &["cert"]);
        Discovery {
            groups: vec![
                group("", &[("v1", &[("Pod", "pods", &["po"]), ("Event", "events", &["ev"])])]),
                group("apps", &[("v1", &[("Deployment", "deployments", &["deploy"])])]),
                group("events.k8s.io", &[("v1", &[("Event", "events", &["ev"])])]),
                group(
                    "autoscaling",
                    &[
                        ("v2", &[("HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"])]),
                        (
                            "v1",
                            &[
                                ("HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"]),
                                ("Old", "olds", &[]),
                            ],
                        ),
                    ],
                ),
                group("cert-manager.io", &[("v1", &[certificate])]),
                group("networking.internal.knative.dev", &[("v1alpha1", &[certificate])]),
                group("odd.io", &[("v1", &[("FooBar", "foobarz", &["po", "deployments"])])]),
                group("metrics.k8s.io", &[("v1beta1", &[("PodMetrics", "pods", &[])])]),
            ],
            failures: Vec::new(),
        }
    }

    #[test]
    fn names_mean_what_they_mean_to_kubectl() {
        let cluster = cluster();
        for (name, api_version, plural) in [
            ("deploy", "apps/v1", "deployments"),
            ("deployments", "apps/v1", "deployments"), // a short name of another kind is no match for a plural
            ("Deployment", "apps/v1", "deployments"),
            ("DEPLOYMENTS", "apps/v1", "deployments"),
            ("deployments.apps", "apps/v1", "deployments"),
            ("deployment.v1.apps", "apps/v1", "deployments"),
            ("deploy.v1.apps", "apps/v1", "deployments"),
            ("Deployment.v1.apps", "apps/v1", "deployments"),
            ("pods", "v1", "pods"),
            ("pods.v1.", "v1", "pods"),
            ("pods.metrics.k8s.io", "metrics.k8s.io/v1beta1", "pods"),
            ("pods.metrics", "metrics.k8s.io/v1beta1", "pods"),
            ("po", "v1", "pods"),
            ("po.odd.io", "odd.io/v1", "foobarz"),
            ("podmetrics", "metrics.k8s.io/v1beta1", "pods"),
            ("foobar", "odd.io/v1", "foobarz"),
            ("FooBar.odd.io", "odd.io/v1", "foobarz"),
            ("events", "v1", "events"),
            ("ev", "v1", "events"),
            ("ev.events.k8s.io", "events.k8s.io/v1", "events"),
            ("hpa", "autoscaling/v2", "horizontalpodautoscalers"),
            ("hpa.autoscal", "autoscaling/v2", "horizontalpodautoscalers"),
            ("hpa.v1.autoscaling", "autoscaling/v1", "horizontalpodautoscalers"),
            ("olds", "autoscaling/v1", "olds"),
            ("certificates", "cert-manager.io/v1", "certificates"),
            ("certificates.cert-manager.io", "cert-manager.io/v1", "certificates"),
            (
                "cert.networking.internal.knative.dev",
                "networking.internal.knative.dev/v1alpha1",
                "certificates",
            ),
        ] {
            let found = cluster.resolve(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((&*found.api_version, &*found.plural), (api_version, plural), "{name}");
        }
        assert!(cluster.kind("autoscaling/v1", "HorizontalPodAutoscaler").is_some());
        assert!(cluster.kind("autoscaling/v3", "HorizontalPodAutoscaler").is_none());
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is_like_it() {
        let mut cluster = cluster();
        for (name, similar) in [
            ("deplyoments", "; similar: deployments.apps, foobarz.odd.io"),
            ("deployments.extensions", "; similar: deployments.apps, foobarz.odd.io"),
            ("deployments.v2.apps", "; similar: deployments.apps, foobarz.odd.io"),
            (
                "certificate.v1beta1.cert-manager.io",
                "; similar: certificates.cert-manager.io, certificates.networking.internal.knative.dev",
            ),
            ("autoscaler", "; similar: horizontalpodautoscalers.autoscaling"),
            ("zzz", ""),
            ("", ""),
            (".apps", ""),
        ] {
            let error = cluster.resolve(name).unwrap_err();
            assert!(error.is_not_found());
            let told = format!("the server has no resource {name:?}{similar} (404 NotFound)");
            assert_eq!(error.to_string(), told);
        }
        let error = Error::invalid("down");
        cluster.failures.push(DiscoveryFailure { api_version: "custom.metrics.k8s.io/v1".into(), error });
        let told = cluster.resolve("zzz").unwrap_err().to_string();
        assert!(told.contains("; what custom.metrics.k8s.io/v1 has is not known: down"), "{told}");
    }

    #[test]
    fn names_of_any_length_and_letters_are_compared() {
        let cluster = cluster();
        for name in
            ["ä".repeat(101), "€".repeat(100), "x".repeat(1 << 20), ".".repeat(100), "a\u{0}\n".into()]
        {
            assert!(cluster.resolve(&name).unwrap_err().to_string().len() < 1000);
        }
        assert_eq!((distance("", "ab"), distance("ab", ""), distance("kitten", "sitting")), (2, 2, 3));
    }
}
