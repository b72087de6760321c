//! Reading a plugin's configuration, its identity, and texts in it that stand for others. It knows no plugin;
//! schemas have had their say before.

use serde_json::{Map, Value};

use super::attributes::{Attribute, AttributeFields, FieldSet};

/// The configuration as `T`, without `_meta`, which every plugin may have.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn parse_config<T: Attribute>(config: &Value) -> Result<T, String> {
    T::read(config.clone())
}

/// The attributes `T` of metadata that have other fields too; without metadata they have their defaults.
///
/// # Errors
/// What does not fit, as a sentence.
pub(crate) fn fields_of<T: FieldSet>(metadata: Option<&Value>) -> Result<T, String> {
    T::take(&mut AttributeFields::of(metadata.cloned().unwrap_or_else(|| Value::Object(Map::new())))?)
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

/// Whether a text is a reference to a secret (contract section 2.3), in upper or lower case. Its value is
/// unknown until it is resolved; one that cannot be resolved keeps its text.
pub(crate) fn is_reference(text: &str) -> bool {
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    REFERENCE_SCHEMES.iter().any(|scheme| begins(scheme))
}

/// A pattern and its template in a form that can be checked before use: a reference has an unknown value, so
/// another text replaces it.
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
    use super::*;

    #[test]
    fn references_are_checked_when_they_are_resolved() {
        assert_eq!(checkable_pair("(", "$x"), Some(("(", "$x")));
        assert_eq!(checkable_pair("^/a", "$ENV://B"), Some(("^/a", "")));
        assert_eq!(checkable_pair("$secret://vault/1/a/b", "$x"), None);
    }
}
