//! The Prometheus text exposition format, version 0.0.4: the lines in front of a metric, its samples, and
//! exemplars as comments, which [`crate::open_metrics`] makes part of the samples. It knows no metric.

use std::fmt::{Display, Write};

/// Appends the lines that announce a metric.
pub fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text cannot fail; this holds for every write of this file.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Appends one sample of a metric that was announced. The values of labels are escaped.
pub fn sample(text: &mut String, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
    text.push_str(name);
    write_labels(text, labels);
    let _ = writeln!(text, " {value}");
}

/// Appends an exemplar of the sample before it, of the time `unix_ms` since the Unix epoch.
pub fn exemplar(text: &mut String, labels: &[(&str, &dyn Display)], value: impl Display, unix_ms: u64) {
    text.push_str(EXEMPLAR);
    write_labels(text, labels);
    let _ = writeln!(text, " {value} {}.{:03}", unix_ms / 1_000, unix_ms % 1_000);
}

/// The begin of the line of an exemplar: a comment, because this format has none.
pub(crate) const EXEMPLAR: &str = "# EXEMPLAR ";

fn write_labels(text: &mut String, labels: &[(&str, &dyn Display)]) {
    for (index, (label, value)) in labels.iter().enumerate() {
        let _ = write!(text, "{}{label}=\"", if index == 0 { '{' } else { ',' });
        let _ = write!(Escaping(text), "{value}");
        text.push('"');
    }
    if !labels.is_empty() {
        text.push('}');
    }
}

/// Appends a metric that has one sample and no labels.
pub fn scalar(text: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    header(text, name, kind, help);
    sample(text, name, &[], value);
}

/// Appends with a backslash in front of the characters that the format reserves in the value of a label.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        for character in part.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_escapes_label_values_only() {
        let check = |labels: &[(&str, &dyn Display)], expected: &str| {
            let mut text = String::new();
            sample(&mut text, "a_total", labels, 1.5);
            assert_eq!(text, expected);
        };
        check(&[], "a_total 1.5\n");
        check(&[("code", &200)], "a_total{code=\"200\"} 1.5\n");
        check(&[("x", &"a\\b\"c\nd"), ("y", &"")], "a_total{x=\"a\\\\b\\\"c\\nd\",y=\"\"} 1.5\n");
    }

    #[test]
    fn scalar_has_header_and_sample() {
        let mut text = String::new();
        scalar(&mut text, "a", "gauge", "Help.", 7);
        assert_eq!(text, "# HELP a Help.\n# TYPE a gauge\na 7\n");
    }
}
