//! Reads the text format of Prometheus as strictly as a server of it does, and as promtool's lint in what it can see.

use std::collections::{BTreeMap, BTreeSet};

/// Each sample, as `name{label="value",…}` with the labels sorted, and its value.
pub(crate) fn parse(text: &str) -> BTreeMap<String, f64> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line does not end");
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(help) = lines.next() {
        let (name, _) = help.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).unwrap();
        is_name(name);
        assert!(families.insert(name), "{name} comes twice");
        let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        assert!(kind != "counter" || name.ends_with("_total"), "{name}");
        assert!(kind == "counter" || !name.ends_with("_total"), "{name}");
        let mut buckets = BTreeMap::<String, Vec<(f64, f64)>>::new();
        let mut counts = BTreeMap::new();
        let mut any = false;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            any = true;
            let (sample, mut labels, value) = sample(line);
            match kind {
                "histogram" if sample == format!("{name}_bucket") => {
                    let le = labels.remove("le").unwrap();
                    let bound = if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap() };
                    buckets.entry(shown(name, &labels)).or_default().push((bound, value));
                    labels.insert("le".into(), le);
                }
                "histogram" if sample == format!("{name}_count") => {
                    counts.insert(shown(name, &labels), value);
                }
                "histogram" => assert_eq!(sample, format!("{name}_sum")),
                _ => assert_eq!(sample, name),
            }
            let key = shown(&sample, &labels);
            assert!(kind == "gauge" || value >= 0.0, "{line}");
            assert_eq!(samples.insert(key, value), None, "twice: {line}");
        }
        assert!(any, "{name} has no sample");
        assert_eq!(buckets.keys().collect::<Vec<_>>(), counts.keys().collect::<Vec<_>>());
        for (of, buckets) in buckets {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{of}: {buckets:?}");
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, counts[&of])), "{of}");
        }
    }
    samples
}

fn is_name(name: &str) {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    assert!(name.chars().all(good) && !name.starts_with(|c: char| c.is_ascii_digit()), "{name:?}");
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    is_name(name);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"").unwrap();
            is_name(label);
            assert!(!label.contains(':'));
            let (mut text, mut chars) = (String::new(), value.char_indices());
            let end = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => text.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        same @ ('\\' | '"') => same,
                        other => panic!("\\{other} in {line}"),
                    }),
                    (_, other) => text.push(other),
                }
            };
            assert_eq!(labels.insert(label.to_owned(), text), None);
            rest = &value[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_owned(), labels, value.parse().unwrap())
}

fn shown(name: &str, labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{name}{{{}}}", labels.join(","))
}
