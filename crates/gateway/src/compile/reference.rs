//! References to environment variables in plugin configurations, `$ENV://NAME` and `$ENV://NAME/key` (contract section
//! 2.3), replaced when a configuration is compiled. It reads no environment itself: the look-up is handed in. What
//! cannot be resolved stays as it is written, and the plugin decides what that opens: for authentication, nothing.

use std::borrow::Cow;

use serde_json::Value;

/// Finds the value of an environment variable.
pub type Lookup = fn(&str) -> Option<String>;

/// `config` with every text that is a reference replaced by what it refers to; borrowed where there is none.
pub(super) fn resolve<'a>(config: &'a Value, owner: &str, lookup: Lookup) -> Cow<'a, Value> {
    if !has_reference(config) {
        return Cow::Borrowed(config);
    }
    let mut resolved = config.clone();
    replace(&mut resolved, owner, lookup);
    Cow::Owned(resolved)
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => parse(text).is_some(),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(fields) => fields.values().any(has_reference),
        _ => false,
    }
}

fn replace(value: &mut Value, owner: &str, lookup: Lookup) {
    match value {
        Value::String(text) => {
            let Some((name, key)) = parse(text) else { return };
            match find(name, key, lookup) {
                Some(found) => *text = found,
                None => {
                    tracing::warn!(owner, reference = %text, "a reference to the environment leads nowhere")
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, owner, lookup)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, owner, lookup)),
        _ => {}
    }
}

/// The variable's name, and the key within it if it holds a JSON object.
fn parse(text: &str) -> Option<(&str, Option<&str>)> {
    let scheme = text.get(..SCHEME.len())?;
    let rest = &text[SCHEME.len()..];
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    Some(rest.split_once('/').map_or((rest, None), |(name, key)| (name, Some(key))))
}

fn find(name: &str, key: Option<&str>, lookup: Lookup) -> Option<String> {
    let text = lookup(name)?;
    let Some(key) = key else { return Some(text) };
    let object: Value = serde_json::from_str(&text).ok()?;
    match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        scalar => Some(scalar.to_string()),
    }
}

/// How a reference begins; the case does not matter.
const SCHEME: &str = "$ENV://";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("secret".to_owned()),
            "JSON" => Some(r#"{"a": "one", "b": 2, "c": {}}"#.to_owned()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced_and_all_else_stays() {
        let check = |config: Value, expected: Value| {
            assert_eq!(*resolve(&config, "/routes/1", lookup), expected);
        };
        check(json!({"key": "$ENV://KEY"}), json!({"key": "secret"}));
        check(json!({"a": [{"b": "$env://KEY"}, 1]}), json!({"a": [{"b": "secret"}, 1]}));
        check(json!({"a": "$ENV://JSON/a", "b": "$ENV://JSON/b"}), json!({"a": "one", "b": "2"}));
        for unresolved in
            ["$ENV://GONE", "$ENV://JSON/c", "$ENV://JSON/d", "$ENV://KEY/a", "$secret://vault/1/a/b"]
        {
            check(json!([unresolved]), json!([unresolved]));
        }
        for plain in ["", "$", "ENV://KEY", " $ENV://KEY", "$ENV:/KEY", "ü$ENV://"] {
            check(json!(plain), json!(plain));
        }
        assert!(matches!(resolve(&json!({"count": 1}), "", lookup), Cow::Borrowed(_)));
    }
}
