//! The Prometheus text format: the lines in front of a metric, and values of labels.

use std::fmt::Write;

/// Appends the lines that announce a metric.
pub fn header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A label's value with what the format reserves escaped.
pub struct Escaped<'a>(pub &'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => formatter.write_str("\\\\")?,
                '"' => formatter.write_str("\\\"")?,
                '\n' => formatter.write_str("\\n")?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}
