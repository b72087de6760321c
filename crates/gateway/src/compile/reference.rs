//! References to secrets in plugin configurations (`model::secret_reference`), replaced when a configuration
//! is compiled. It fetches no value itself: the look-up is passed in and does not wait. A reference that
//! cannot be resolved keeps its text; where that text would open access, access is denied.

use std::borrow::Cow;

use model::secret_reference::{SecretValues, is_secret_reference};
use serde_json::Value;
use stdx::hash::hash_bytes;

/// The look-up of a compiler without secret values: it knows none.
pub(super) struct NoValues;

impl SecretValues for NoValues {
    fn value(&self, _reference: &str) -> Result<String, String> {
        Err("references are not resolved here".to_owned())
    }
}

/// The look-up of a trial, in which every reference stands for the same text: an answer about a configuration
/// that is not saved would otherwise show any secret to its author.
pub(super) struct HiddenValues;

impl SecretValues for HiddenValues {
    fn value(&self, _reference: &str) -> Result<String, String> {
        Ok("hidden-value-of-a-reference".to_owned())
    }
}

/// A configuration with its references replaced as far as that can be done.
#[derive(Debug, PartialEq)]
pub(super) struct Resolved<'a> {
    /// The configuration; borrowed where it has no reference.
    pub(super) config: Cow<'a, Value>,
    /// A number that changes with the resolved values; 0 if the configuration has no reference.
    pub(super) version: u64,
    /// Whether a reference could not be resolved.
    pub(super) incomplete: bool,
}

/// `config` with every text that is a reference replaced by what it refers to.
pub(super) fn resolve<'a>(config: &'a Value, values: &dyn SecretValues) -> Resolved<'a> {
    if !has_reference(config) {
        return Resolved { config: Cow::Borrowed(config), version: 0, incomplete: false };
    }
    let mut resolved = config.clone();
    let (mut version, mut incomplete) = (1, false);
    replace(&mut resolved, &mut |text| match values.value(text) {
        Ok(found) => {
            version = hash_bytes(version, found.as_bytes());
            *text = found;
        }
        Err(_) => {
            version = hash_bytes(version, text.as_bytes());
            incomplete = true;
        }
    });
    Resolved { config: Cow::Owned(resolved), version, incomplete }
}

/// Refuses a configuration with an unresolved reference in a field that `schema` names as a secret: the text
/// of a reference is no secret, so that a client could compute what is signed or encrypted with it.
///
/// # Errors
/// The field, in a sentence.
pub(super) fn require_secrets(schema: &Value, config: &Value) -> Result<(), String> {
    let fields = schema.get("encrypt_fields").and_then(Value::as_array);
    for field in fields.into_iter().flatten().filter_map(Value::as_str) {
        let found = field.split('.').try_fold(config, |value, name| value.get(name));
        if found.is_some_and(has_reference) {
            return Err(format!("{field}: its reference cannot be resolved"));
        }
    }
    Ok(())
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => is_secret_reference(text),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(fields) => fields.values().any(has_reference),
        _ => false,
    }
}

fn replace(value: &mut Value, with: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) if is_secret_reference(text) => with(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, with)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, with)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct One(&'static str);

    impl SecretValues for One {
        fn value(&self, reference: &str) -> Result<String, String> {
            if reference.ends_with("/KEY") { Ok(self.0.to_owned()) } else { Err("gone".to_owned()) }
        }
    }

    #[test]
    fn references_are_replaced_and_all_else_stays() {
        let check = |config: Value, expected: Value, incomplete: bool| {
            let resolved = resolve(&config, &One("secret"));
            assert_eq!((&*resolved.config, resolved.incomplete), (&expected, incomplete));
        };
        check(json!({"key": "$ENV://KEY"}), json!({"key": "secret"}), false);
        check(json!({"a": [{"b": "$env://KEY"}, 1]}), json!({"a": [{"b": "secret"}, 1]}), false);
        check(
            json!({"a": "$env://GONE", "b": "$env://KEY"}),
            json!({"a": "$env://GONE", "b": "secret"}),
            true,
        );
        check(json!(["$secret://vault/1/a/KEY"]), json!(["secret"]), false);
        check(json!(["$secret://vault"]), json!(["$secret://vault"]), true);
        check(json!({"$env://KEY": "$"}), json!({"$env://KEY": "$"}), false);
    }

    #[test]
    fn unresolved_secret_is_refused() {
        let schema = json!({"encrypt_fields": ["key", "session.secret"]});
        let check = |config: Value, expected: Result<(), &str>| {
            let resolved = resolve(&config, &One("secret"));
            assert_eq!(
                require_secrets(&schema, &resolved.config),
                expected.map_err(str::to_owned),
                "{config}"
            );
        };
        check(json!({"key": "$env://KEY", "other": "$env://GONE"}), Ok(()));
        check(json!({"session": "$env://GONE"}), Ok(()));
        check(json!({"key": "$ENV://GONE"}), Err("key: its reference cannot be resolved"));
        let session = json!({"session": {"secret": "$secret://vault/1/a/GONE"}});
        check(session, Err("session.secret: its reference cannot be resolved"));
        assert_eq!(require_secrets(&json!({}), &json!({"key": "$env://GONE"})), Ok(()));
    }

    #[test]
    fn a_version_changes_with_the_values() {
        let config = json!({"a": "$env://KEY", "b": "$env://GONE"});
        let version = |value: &'static str| resolve(&config, &One(value)).version;
        assert_eq!(version("one"), version("one"));
        assert_ne!(version("one"), version("two"));
        assert_ne!(version("one"), resolve(&config, &NoValues).version);
        let plain = json!({"count": 1});
        let resolved = resolve(&plain, &One(""));
        assert!(matches!(resolved.config, Cow::Borrowed(_)) && resolved.version == 0);
    }
}
