//! The text of [`crate::prometheus_text`] as OpenMetrics 1.0, for readers that take exemplars. It knows no
//! metric.
//!
//! The names and labels of the samples are the same in both formats, so that a reader that changes to this
//! one goes on with the same series. For that, a counter without the suffix `_total`, as the contract has, is
//! `unknown` here, and the bounds of buckets are written without a fraction.

use std::fmt::Write;

use crate::prometheus_text::EXEMPLAR;

/// The media type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const MEDIA_TYPE: &str = "application/openmetrics-text";

/// Whether a reader with this `Accept` (RFC 9110 section 12.5.1) wants OpenMetrics: it lists the type, with
/// no smaller weight than plain text.
pub fn is_wanted(accept: &str) -> bool {
    let weight = |name: &str| {
        let entries = accept.split(',').map(|entry| entry.split(';').map(str::trim));
        let weights = entries.filter_map(|mut parts| {
            let is_named = parts.next().is_some_and(|found| found.eq_ignore_ascii_case(name));
            let given = parts.find_map(|part| part.strip_prefix("q="));
            is_named.then(|| given.map_or(1.0, |given| given.parse::<f64>().unwrap_or(0.0)))
        });
        weights.fold(0.0, f64::max)
    };
    let wanted = weight(MEDIA_TYPE);
    wanted > 0.0 && wanted >= weight("text/plain")
}

/// The text in OpenMetrics.
pub fn from_text(text: &str) -> String {
    let mut made = String::with_capacity(text.len() + text.len() / 8);
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The name that it is written under depends on the type, which is on the next line.
            help = rest.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (name, kind) = match (name.strip_suffix("_total"), kind) {
                (Some(family), "counter") => (family, kind),
                (None, "counter") | (_, "untyped") => (name, "unknown"),
                _ => (name, kind),
            };
            // Writing to a text cannot fail.
            let _ = writeln!(made, "# TYPE {name} {kind}");
            if let Some(help) = help.take() {
                let _ = writeln!(made, "# HELP {name} {help}");
            }
        } else if let Some(exemplar) = line.strip_prefix(EXEMPLAR) {
            // Behind the sample, before the end of its line.
            made.truncate(made.trim_end_matches('\n').len());
            let _ = writeln!(made, " # {exemplar}");
        } else if !line.is_empty() && !line.starts_with('#') {
            made.push_str(line);
            made.push('\n');
        }
    }
    made.push_str("# EOF\n");
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus_text::{exemplar, header, sample};

    #[test]
    fn samples_keep_their_names_and_get_exemplars() {
        let mut text = String::new();
        header(&mut text, "a_total", "counter", "Of a.");
        sample(&mut text, "a_total", &[("x", &"1")], 3);
        header(&mut text, "b", "counter", "Of b.");
        sample(&mut text, "b", &[], 4);
        header(&mut text, "c", "histogram", "Of c.");
        sample(&mut text, "c_bucket", &[("le", &1)], 1);
        exemplar(&mut text, &[("trace_id", &"ab")], 0.5, 1_700_000_000_042);
        sample(&mut text, "c_bucket", &[("le", &"+Inf")], 1);
        let expected = "# TYPE a counter\n# HELP a Of a.\na_total{x=\"1\"} 3\n\
                        # TYPE b unknown\n# HELP b Of b.\nb 4\n\
                        # TYPE c histogram\n# HELP c Of c.\n\
                        c_bucket{le=\"1\"} 1 # {trace_id=\"ab\"} 0.5 1700000000.042\n\
                        c_bucket{le=\"+Inf\"} 1\n# EOF\n";
        assert_eq!(from_text(&text), expected);
        assert_eq!(from_text(""), "# EOF\n");
    }

    #[test]
    fn format_is_what_the_reader_prefers() {
        let check = |accept: &str, expected: bool| assert_eq!(is_wanted(accept), expected, "{accept}");
        check("", false);
        check("*/*", false);
        check("text/plain", false);
        check("application/openmetrics-text", true);
        check("application/openmetrics-text; version=1.0.0", true);
        check("application/openmetrics-text;q=0", false);
        check("application/openmetrics-text;q=x", false);
        // As Prometheus 2.42 asks.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        check(prometheus, true);
        check("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", false);
    }
}
