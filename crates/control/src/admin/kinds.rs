//! Differences between the kinds in the Admin API: verbs that are off, and private keys that answers do not
//! show. It names no plugin.

use std::borrow::Cow;

use http::Method;
use model::secret_reference::is_certificate_reference;
use model::{ObjectKey, ObjectKind, PluginCatalog};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::hidden::places::{HIDDEN, with_hidden_secrets};
use crate::sealing::Sealer;
use crate::serve::role::Role;

/// Whether the verb is disabled for the kind (contract 2.1); the answer is then 405.
pub(super) fn is_off(kind: ObjectKind, method: &Method) -> bool {
    match *method {
        Method::POST => matches!(
            kind,
            ObjectKind::Consumer
                | ObjectKind::Credential
                | ObjectKind::PluginMetadata
                | ObjectKind::GlobalRule
                | ObjectKind::PluginConfig
                | ObjectKind::ConsumerGroup
                | ObjectKind::Secret
                | ObjectKind::Extension
        ),
        Method::PATCH => matches!(
            kind,
            ObjectKind::Consumer
                | ObjectKind::Credential
                | ObjectKind::PluginMetadata
                | ObjectKind::Proto
                | ObjectKind::StreamRoute
        ),
        _ => false,
    }
}

/// Whether a listing of the kind can be filtered by `service_id` and `upstream_id`.
pub(super) fn refers_to_upstreams(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Route | ObjectKind::StreamRoute)
}

/// The stored text as an answer shows it to that role: an admin gets it without private keys, a viewer with
/// all secrets masked.
pub(super) fn shown_to<'t>(
    role: Role,
    catalog: &PluginCatalog,
    key: &ObjectKey,
    text: &'t str,
) -> Cow<'t, RawValue> {
    match role {
        Role::Admin if key.kind == ObjectKind::PluginMetadata => with_id(key, text),
        Role::Admin => hide_private_keys(key.kind, text),
        Role::Viewer => raw(&with_hidden_secrets(catalog, key, text)),
    }
}

/// The text that a write stored, as its answer shows it: values that the store encrypts are shown encrypted,
/// as in APISIX. A private key that is not encrypted is left out; a reference to one is shown.
pub(super) fn shown_as_stored(sealer: &Sealer, key: &ObjectKey, text: &str) -> Box<RawValue> {
    let sealed = sealer.seal(key, text);
    if key.kind == ObjectKind::PluginMetadata {
        return with_id(key, &sealed).into_owned();
    }
    if key.kind != ObjectKind::Ssl {
        return hide_private_keys(key.kind, &sealed).into_owned();
    }
    let plain: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let mut object: Map<String, Value> = serde_json::from_str(&sealed).unwrap_or_default();
    for name in PRIVATE_FIELDS {
        let (before, after) = (plain.get(name).unwrap_or(&Value::Null), object.get(name));
        if !after.is_some_and(|after| is_harmless(before, after)) {
            object.shift_remove(name);
        }
    }
    raw(&Value::Object(object)).into_owned()
}

/// Metadata with the name of their plugin as `id`, which APISIX stores in them and answers
/// with. The id is put in front of the text, so that numbers keep their digits.
fn with_id(key: &ObjectKey, text: &str) -> Cow<'static, RawValue> {
    #[derive(serde::Deserialize)]
    struct IdProbe {
        id: Option<serde::de::IgnoredAny>,
    }
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).map(str::trim);
    let is_without = serde_json::from_str::<IdProbe>(text).is_ok_and(|probe| probe.id.is_none());
    let (Some(inner), true) = (inner, is_without) else {
        return Cow::Owned(hide_private_keys(key.kind, text).into_owned());
    };
    let comma = if inner.is_empty() { "" } else { "," };
    let with_id = format!("{{\"id\":{}{comma}{inner}}}", Value::from(key.own_id()));
    Cow::Owned(RawValue::from_string(with_id).expect("an object with one more field is JSON"))
}

/// Whether a private key, or each key of a list, was encrypted or is a reference.
fn is_harmless(plain: &Value, sealed: &Value) -> bool {
    match (plain, sealed) {
        (Value::String(plain), Value::String(sealed)) => plain != sealed || is_certificate_reference(plain),
        (Value::Array(plain), Value::Array(sealed)) => {
            plain.len() == sealed.len()
                && plain.iter().zip(sealed).all(|(plain, sealed)| is_harmless(plain, sealed))
        }
        _ => false,
    }
}

/// The stored text without private keys: those of `ssls` are left out, as in APISIX, those of upstreams are
/// [`HIDDEN`], so that an object that is read, changed and written back keeps its key.
pub(crate) fn hide_private_keys(kind: ObjectKind, text: &str) -> Cow<'_, RawValue> {
    if let Some(object) = with_hidden_client_key(kind, text) {
        return raw(&object);
    }
    if kind != ObjectKind::Ssl {
        return match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Cow::Borrowed(raw),
            // Only a damaged store holds text that is not JSON; it is shown as a string.
            Err(_) => raw(&Value::String(text.to_owned())),
        };
    }
    let mut object: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    for name in PRIVATE_FIELDS {
        // A reference to a secret is not secret, so it is shown as written.
        if !object.get(name).is_some_and(is_only_references) {
            object.shift_remove(name);
        }
    }
    raw(&Value::Object(object))
}

/// The object with the key of its upstream's client certificate hidden; none if it has no such key, or a
/// reference to one.
fn with_hidden_client_key(kind: ObjectKind, text: &str) -> Option<Value> {
    let pointer = match kind {
        ObjectKind::Upstream => "/tls/client_key",
        ObjectKind::Route | ObjectKind::Service | ObjectKind::StreamRoute => "/upstream/tls/client_key",
        _ => return None,
    };
    // Few objects have one, and parsing all of a long list takes milliseconds.
    if !text.contains("client_key") {
        return None;
    }
    let mut object: Value = serde_json::from_str(text).ok()?;
    let client_key = object.pointer_mut(pointer)?;
    if client_key.as_str().is_none_or(is_certificate_reference) {
        return None;
    }
    *client_key = HIDDEN.into();
    Some(object)
}

/// Whether a value is a reference to a secret, or a list of such references.
fn is_only_references(value: &Value) -> bool {
    match value {
        Value::String(text) => is_certificate_reference(text),
        Value::Array(items) => !items.is_empty() && items.iter().all(is_only_references),
        _ => false,
    }
}

fn raw(value: &Value) -> Cow<'static, RawValue> {
    Cow::Owned(serde_json::value::to_raw_value(value).expect("a value serializes"))
}

/// Fields of an `ssl` that hold private keys.
const PRIVATE_FIELDS: [&str; 2] = ["key", "keys"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_keys_are_not_shown() {
        let check =
            |kind, text: &str, expected: &str| assert_eq!(hide_private_keys(kind, text).get(), expected);
        check(ObjectKind::Route, r#"{ "uri":"/" , "key":1}"#, r#"{ "uri":"/" , "key":1}"#);
        check(
            ObjectKind::Ssl,
            r#"{"cert":"c","key":"k","sni":"s","keys":["k"]}"#,
            r#"{"cert":"c","sni":"s"}"#,
        );
        check(ObjectKind::Route, "broken", r#""broken""#);
        let references = r#"{"cert":"$env://C","key":"$env://K","keys":["$secret://vault/1/a/b"]}"#;
        check(ObjectKind::Ssl, references, references);
        check(ObjectKind::Ssl, r#"{"key":"$env://K","keys":["$env://K","k"]}"#, r#"{"key":"$env://K"}"#);
        let upstream =
            |key: &str| format!(r#"{{"tls":{{"client_cert":"c","client_key":"{key}"}},"weight":0.50}}"#);
        let hidden = r#"{"tls":{"client_cert":"c","client_key":"(hidden)"},"weight":0.5}"#;
        check(ObjectKind::Upstream, &upstream("k"), hidden);
        for reference in ["$env://K", "$file:///k.pem", "$secret://vault/1/a/b"] {
            check(ObjectKind::Upstream, &upstream(reference), &upstream(reference));
        }
        for kind in [ObjectKind::Route, ObjectKind::Service, ObjectKind::StreamRoute] {
            check(
                kind,
                &format!(r#"{{"upstream":{}}}"#, upstream("k")),
                &format!(r#"{{"upstream":{hidden}}}"#),
            );
            check(kind, &upstream("k"), &upstream("k"));
        }
    }

    #[test]
    fn metadata_are_shown_with_the_name_of_their_plugin() {
        let key = ObjectKey::new(ObjectKind::PluginMetadata, "log").unwrap();
        let check = |text: &str, expected: &str| assert_eq!(with_id(&key, text).get(), expected);
        check("{}", r#"{"id":"log"}"#);
        check(
            r#" {"a": 0.10000000000000000555, "b": {"id": 1}} "#,
            r#"{"id":"log","a": 0.10000000000000000555, "b": {"id": 1}}"#,
        );
        check(r#"{"id":"log","a":1}"#, r#"{"id":"log","a":1}"#);
        check("broken", r#""broken""#);
    }

    #[test]
    fn private_key_is_shown_encrypted_or_not_at_all() {
        let pem = "-----BEGIN PRIVATE KEY-----";
        let key = ObjectKey::new(ObjectKind::Ssl, "1").unwrap();
        let check = |keyring: &[&str], keys: Value, expected: &dyn Fn(&Sealer) -> Value| {
            let sealer = crate::testing::sealer(keyring);
            let mut object = keys;
            object["cert"] = "c".into();
            let shown = shown_as_stored(&sealer, &key, &object.to_string());
            let shown: Value = serde_json::from_str(shown.get()).unwrap();
            assert_eq!(shown, expected(&sealer), "{object}");
        };
        let object = serde_json::json!({"key": pem, "keys": [pem, "$env://KEY"]});
        check(&[], object.clone(), &|_| serde_json::json!({"cert": "c"}));
        check(&["qeddd145sfvddff3"], object.clone(), &|sealer| {
            let mut object = object.clone();
            object["cert"] = "c".into();
            let sealed = sealer.seal(&key, &object.to_string()).into_owned();
            assert!(!sealed.contains(pem));
            serde_json::from_str(&sealed).unwrap()
        });
        let reference = serde_json::json!({"key": "$secret://vault/1/a/b"});
        check(&[], reference, &|_| serde_json::json!({"key": "$secret://vault/1/a/b", "cert": "c"}));
        check(
            &["qeddd145sfvddff3"],
            serde_json::json!({"key": "no key"}),
            &|_| serde_json::json!({"cert": "c"}),
        );
    }

    #[test]
    fn disabled_verbs_are_those_of_apisix() {
        let off = |method: Method| -> Vec<&str> {
            ObjectKind::ALL
                .into_iter()
                .filter(|kind| is_off(*kind, &method))
                .map(ObjectKind::collection)
                .collect()
        };
        assert_eq!(
            off(Method::POST),
            [
                "extensions",
                "plugin_configs",
                "consumer_groups",
                "global_rules",
                "plugin_metadata",
                "secrets",
                "consumers",
                "credentials"
            ]
        );
        assert_eq!(
            off(Method::PATCH),
            ["plugin_metadata", "protos", "consumers", "credentials", "stream_routes"]
        );
        assert!(off(Method::PUT).is_empty() && off(Method::GET).is_empty());
    }
}
