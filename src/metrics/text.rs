use std::fmt::{self, Write};

use super::histogram::Histogram;

/// Writes the text format of Prometheus, version 0.0.4 (`Content-Type: text/plain; version=0.0.4`): for a program's own
/// metrics beside those of [`Metrics`](super::Metrics).
///
/// ```
/// # use listwatch::metrics::PrometheusText;
/// let mut text = PrometheusText::new();
/// text.counter("files_written_total", "Files that were written.").sample(&[("kind", "Secret")], 3.0);
/// assert_eq!(
///     text.as_str(),
///     "# HELP files_written_total Files that were written.\n# TYPE files_written_total counter\n\
///      files_written_total{kind=\"Secret\"} 3\n"
/// );
/// ```
///
/// A family is written once, with all its samples. One without samples is left out. Characters that a name must not
/// have are written as `_`.
#[derive(Clone, Debug, Default)]
pub struct PrometheusText(String);

/// The samples of one name.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut PrometheusText,
    name: String,
    /// What stands before the first sample.
    head: Option<String>,
}

impl PrometheusText {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What only grows; by custom its name ends with `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// What goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// How values are spread; its samples are [histograms](Family::histogram).
    pub fn histogram(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    /// What was written so far.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) -> Family<'_> {
        let name = legal(name, ":");
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let head = Some(format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: self, name, head }
    }
}

impl Family<'_> {
    /// A value with these labels. No two samples of a family may have the same.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.line("", labels, None, value);
        self
    }

    /// A histogram with these labels.
    pub fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) -> &mut Self {
        for (bound, count) in histogram.buckets() {
            self.line("_bucket", labels, Some(bound), count as f64);
        }
        self.line("_sum", labels, None, histogram.sum());
        self.line("_count", labels, None, histogram.count() as f64);
        self
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<f64>, value: f64) {
        let out = &mut self.text.0;
        out.extend(self.head.take());
        out.push_str(&self.name);
        out.push_str(suffix);
        let mut before = '{';
        for (name, value) in labels {
            out.push(before);
            out.push_str(&legal(name, ""));
            out.push_str("=\"");
            for char in value.chars() {
                match char {
                    '\\' => out.push_str("\\\\"),
                    '"' => out.push_str("\\\""),
                    '\n' => out.push_str("\\n"),
                    other => out.push(other),
                }
            }
            out.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(out, "{before}le=\"{}\"", Number(bound));
            before = ',';
        }
        if before == ',' {
            out.push('}');
        }
        let _ = writeln!(out, " {}", Number(value)); // a String takes all
    }
}

impl fmt::Display for PrometheusText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name of letters, digits, `_` and what else is given, that begins with no digit.
fn legal(name: &str, also: &str) -> String {
    let fits = |(at, c): (usize, char)| match c {
        'a'..='z' | 'A'..='Z' | '_' => c,
        '0'..='9' if at > 0 => c,
        other if also.contains(other) => c,
        _ => '_',
    };
    name.chars().enumerate().map(fits).collect()
}

struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            number => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_help_are_escaped_and_names_made_legal() {
        let mut text = PrometheusText::new();
        text.counter("1st-name:x", "a\\b\nc").sample(&[("a.b:c", "say \"\\\"\né"), ("z", "")], 0.5);
        let lines: Vec<_> = text.as_str().lines().collect();
        assert_eq!(
            lines,
            [
                r"# HELP _st_name:x a\\b\nc",
                "# TYPE _st_name:x counter",
                r#"_st_name:x{a_b_c="say \"\\\"\né",z=""} 0.5"#
            ]
        );
    }

    #[test]
    fn a_histogram_has_its_buckets_sum_and_count() {
        let mut histogram = Histogram::new(&[1e-8, 2.0]);
        histogram.observe(1.5);
        let mut text = PrometheusText::new();
        text.histogram("h", "H.").histogram(&[("n", "x")], &histogram).histogram(&[], &histogram);
        let lines: Vec<_> = text.as_str().lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                r#"h_bucket{n="x",le="0.00000001"} 0"#,
                r#"h_bucket{n="x",le="2"} 1"#,
                r#"h_bucket{n="x",le="+Inf"} 1"#,
                r#"h_sum{n="x"} 1.5"#,
                r#"h_count{n="x"} 1"#,
                r#"h_bucket{le="0.00000001"} 0"#,
                r#"h_bucket{le="2"} 1"#,
                r#"h_bucket{le="+Inf"} 1"#,
                "h_sum 1.5",
                "h_count 1"
            ]
        );
    }

    #[test]
    fn a_family_without_samples_is_left_out() {
        let mut text = PrometheusText::new();
        text.gauge("g", "G.");
        assert_eq!(text.as_str(), "");
    }
}
