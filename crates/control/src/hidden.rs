//! Secrets that a client sends back as it was shown them: [`HIDDEN`] in the place of a secret stands for the
//! stored one, which is put back before the object is checked and stored. It does not decide which fields are
//! secrets.

pub(crate) mod places;

use std::fmt;

use model::{ObjectKey, PluginCatalog};
use serde_json::Value;

use places::{HIDDEN, secret_places};

/// A hidden secret that stands for nothing: no secret is stored in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NothingStored {
    /// The place in the object, as a JSON pointer.
    pub(crate) pointer: String,
}

impl NothingStored {
    /// The fault without its place.
    pub(crate) const REASON: &str =
        "\"(hidden)\" stands for a stored secret, and none is stored in this place: write the secret itself";
}

impl fmt::Display for NothingStored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.pointer, NothingStored::REASON)
    }
}

/// Puts the secrets of the stored text `before` back where `object` has [`HIDDEN`] in the place of a secret.
/// Other fields with that text are left alone.
///
/// # Errors
/// The first place without a stored secret. Within a list of another length than the stored one no secret is
/// put back, because an item that moved would get the secret of another one.
pub(crate) fn put_back(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    object: &mut Value,
    before: Option<&str>,
) -> Result<(), NothingStored> {
    // Nearly every write ends here.
    if !has_hidden(object) {
        return Ok(());
    }
    let stored: Value = before.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    for pointer in secret_places(catalog, key, object) {
        if object.pointer(&pointer).and_then(Value::as_str) != Some(HIDDEN) {
            continue;
        }
        let secret = stored_at(object, &stored, &pointer).map(str::to_owned);
        match (secret, object.pointer_mut(&pointer)) {
            (Some(secret), Some(place)) => *place = secret.into(),
            _ => return Err(NothingStored { pointer }),
        }
    }
    Ok(())
}

/// Whether any text of a value is [`HIDDEN`].
fn has_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN,
        Value::Array(items) => items.iter().any(has_hidden),
        Value::Object(fields) => fields.values().any(has_hidden),
        _ => false,
    }
}

/// The stored text at a place of `object`. Lists on the way must be as long as the stored ones.
fn stored_at<'s>(object: &Value, stored: &'s Value, pointer: &str) -> Option<&'s str> {
    let (mut object, mut stored) = (object, stored);
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        (object, stored) = match (object, stored) {
            (Value::Object(object), Value::Object(stored)) => (object.get(&step)?, stored.get(&step)?),
            (Value::Array(object), Value::Array(stored)) if object.len() == stored.len() => {
                let index: usize = step.parse().ok()?;
                (object.get(index)?, stored.get(index)?)
            }
            _ => return None,
        };
    }
    stored.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalog;
    use model::ObjectKind;
    use serde_json::json;

    fn check(kind: ObjectKind, id: &str, object: Value, before: Value, expected: Result<Value, &str>) {
        let mut found = object.clone();
        let before = (!before.is_null()).then(|| before.to_string());
        let key = ObjectKey::new(kind, id).unwrap();
        let result = put_back(&catalog(), &key, &mut found, before.as_deref());
        let expected_result = expected.as_ref().map(drop).map_err(|pointer| (*pointer).to_owned());
        assert_eq!(result.map_err(|fault| fault.pointer), expected_result, "{object}");
        if let Ok(expected) = expected {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn hidden_secret_is_put_back() {
        let jack = |key: &str| json!({"username": "jack", "plugins": {"auth": {"key": key}}});
        check(ObjectKind::Consumer, "jack", jack(HIDDEN), jack("k"), Ok(jack("k")));
        check(ObjectKind::Consumer, "jack", jack("new"), jack("k"), Ok(jack("new")));
        check(ObjectKind::Consumer, "jack", jack(HIDDEN), Value::Null, Err("/plugins/auth/key"));
        check(
            ObjectKind::Consumer,
            "jack",
            jack(HIDDEN),
            json!({"username": "jack"}),
            Err("/plugins/auth/key"),
        );
        let ssl = |key: &str| json!({"cert": "c", "key": key, "keys": [key]});
        check(ObjectKind::Ssl, "1", ssl(HIDDEN), ssl("k"), Ok(ssl("k")));
        let vault = |token: &str| json!({"uri": "u", "token": token});
        check(ObjectKind::Secret, "vault/1", vault(HIDDEN), vault("t"), Ok(vault("t")));
    }

    #[test]
    fn text_of_a_plain_field_stays() {
        let route = json!({"desc": HIDDEN, "uri": "/a", "labels": {"a": HIDDEN}});
        check(ObjectKind::Route, "1", route.clone(), json!({"desc": "d"}), Ok(route));
    }

    #[test]
    fn list_of_another_length_is_refused() {
        let before = json!({"keys": ["a", "b"]});
        check(ObjectKind::Ssl, "1", json!({"keys": [HIDDEN]}), before.clone(), Err("/keys/0"));
        check(ObjectKind::Ssl, "1", json!({"keys": [HIDDEN, "c"]}), before, Ok(json!({"keys": ["a", "c"]})));
    }

    #[test]
    fn field_of_an_unknown_plugin_is_put_back() {
        let route = |text: &str| json!({"plugins": {"a/b": {"x": [text]}}});
        check(ObjectKind::Route, "1", route(HIDDEN), route("s"), Ok(route("s")));
    }
}
