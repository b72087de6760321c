//! Parses a plugin's configuration into its Rust type, after the schema has checked it. It knows no plugin.

use serde::de::DeserializeOwned;
use serde_json::Value;
use stdx::nearest::nearest;

/// The configuration as `T`, without `_meta`, which every plugin may have.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn parse<T: DeserializeOwned>(config: &Value) -> Result<T, String> {
    parse_among(config, &[])
}

/// As [`parse`], for a configuration from which the fields `others` were taken before; the messages list them too.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn parse_among<T: DeserializeOwned>(config: &Value, others: &[&str]) -> Result<T, String> {
    let mut config = config.clone();
    if let Value::Object(fields) = &mut config {
        fields.shift_remove("_meta");
    }
    serde_json::from_value(config).map_err(|error| with_hint(&error.to_string(), others))
}

/// The message for an unknown field, which lists the known fields, with the nearest one added.
fn with_hint(reason: &str, others: &[&str]) -> String {
    let mut quoted = reason.split('`').skip(1).step_by(2);
    let near = match (reason.starts_with("unknown field"), quoted.next()) {
        (true, Some(written)) => nearest(written, quoted.chain(["_meta"]).chain(others.iter().copied())),
        _ => None,
    };
    near.map_or_else(|| reason.to_owned(), |near| format!("{reason}; did you mean `{near}`?"))
}

/// The identity of a configuration: its text without `_meta`, with the names in order.
pub(crate) fn identity(config: &Value) -> String {
    let mut config = config.clone();
    if let Value::Object(fields) = &mut config {
        fields.shift_remove("_meta");
    }
    config.sort_all_objects();
    config.to_string()
}

/// Whether a text is a reference to a secret (contract section 2.3), in upper or lower case. Its value is unknown until
/// it is resolved; one that cannot be resolved keeps its text.
pub(crate) fn is_reference(text: &str) -> bool {
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    REFERENCE_SCHEMES.iter().any(|scheme| begins(scheme))
}

/// A pattern and its template in a form that can be checked before use: a reference has an unknown value, so another
/// text replaces it.
pub(crate) fn checkable_pair<'a>(pattern: &'a str, template: &'a str) -> Option<(&'a str, &'a str)> {
    match (is_reference(pattern), is_reference(template)) {
        (true, _) => None,
        (false, true) => Some((pattern, "")),
        (false, false) => Some((pattern, template)),
    }
}

const REFERENCE_SCHEMES: [&str; 2] = ["$secret://", "$env://"];

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only what is refused is looked at")]
    struct Config {
        #[serde(default)]
        time_window: u32,
        #[serde(default)]
        count: u32,
    }

    #[test]
    fn references_are_checked_when_they_are_resolved() {
        assert_eq!(checkable_pair("(", "$x"), Some(("(", "$x")));
        assert_eq!(checkable_pair("^/a", "$ENV://B"), Some(("^/a", "")));
        assert_eq!(checkable_pair("$secret://vault/1/a/b", "$x"), None);
    }

    #[test]
    fn unknown_field_is_refused_with_nearest() {
        let check = |config: Value, expected: &str| {
            assert_eq!(parse::<Config>(&config).unwrap_err(), expected);
        };
        check(
            json!({"cuont": 1}),
            "unknown field `cuont`, expected `time_window` or `count`; did you mean `count`?",
        );
        check(
            json!({"time-windows": 1}),
            "unknown field `time-windows`, expected `time_window` or `count`; did you mean `time_window`?",
        );
        check(
            json!({"_mata": {}}),
            "unknown field `_mata`, expected `time_window` or `count`; did you mean `_meta`?",
        );
        check(json!({"colour": 1}), "unknown field `colour`, expected `time_window` or `count`");
        check(json!({"count": "`count`"}), "invalid type: string \"`count`\", expected u32");
        assert!(parse::<Config>(&json!({"count": 1, "_meta": {}})).is_ok());
    }
}
