//! Differences between the kinds in the Admin API: verbs that are off, and secrets that answers do not show. It names
//! no plugin.

use std::borrow::Cow;

use http::Method;
use model::secret_reference::is_certificate_reference;
use model::{Catalog, Key, Kind, secret_field};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::auth::Role;
use crate::plan::HIDDEN;
use crate::sealing::Sealer;

/// Whether the verb is disabled for the kind (contract 2.1); the answer is then 405.
pub(super) fn is_off(kind: Kind, method: &Method) -> bool {
    match *method {
        Method::POST => matches!(
            kind,
            Kind::Consumer
                | Kind::Credential
                | Kind::PluginMetadata
                | Kind::GlobalRule
                | Kind::PluginConfig
                | Kind::ConsumerGroup
                | Kind::Secret
                | Kind::Extension
        ),
        Method::PATCH => matches!(
            kind,
            Kind::Consumer | Kind::Credential | Kind::PluginMetadata | Kind::Proto | Kind::StreamRoute
        ),
        _ => false,
    }
}

/// Whether a listing of the kind can be filtered by `service_id` and `upstream_id`.
pub(super) fn refers_to_upstreams(kind: Kind) -> bool {
    matches!(kind, Kind::Route | Kind::StreamRoute)
}

/// The stored text as an answer shows it to that role: an admin gets it without private keys, a viewer with all secrets
/// masked.
pub(super) fn shown_to<'t>(role: Role, catalog: &Catalog, key: &Key, text: &'t str) -> Cow<'t, RawValue> {
    match role {
        Role::Admin if key.kind == Kind::PluginMetadata => with_id(key, text),
        Role::Admin => shown(key.kind, text),
        Role::Viewer => raw(&hidden(catalog, key, text)),
    }
}

/// The stored object with all secrets masked. A text that is no object is masked as a whole.
pub(crate) fn hidden(catalog: &Catalog, key: &Key, text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => {
            let mut object = Value::Object(object);
            hide_secrets(catalog, key, &mut object);
            object
        }
        _ => HIDDEN.into(),
    }
}

/// The text that a write stored, as its answer shows it: values that the store encrypts are shown encrypted, as in
/// APISIX. A private key that is not encrypted is left out; a reference to one is shown.
pub(super) fn shown_as_stored(sealer: &Sealer, key: &Key, text: &str) -> Box<RawValue> {
    let sealed = sealer.seal(key, text);
    if key.kind == Kind::PluginMetadata {
        return with_id(key, &sealed).into_owned();
    }
    if key.kind != Kind::Ssl {
        return shown(key.kind, &sealed).into_owned();
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
fn with_id(key: &Key, text: &str) -> Cow<'static, RawValue> {
    #[derive(serde::Deserialize)]
    struct Probe {
        id: Option<serde::de::IgnoredAny>,
    }
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).map(str::trim);
    let is_without = serde_json::from_str::<Probe>(text).is_ok_and(|probe| probe.id.is_none());
    let (Some(inner), true) = (inner, is_without) else {
        return Cow::Owned(shown(key.kind, text).into_owned());
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
pub(crate) fn shown(kind: Kind, text: &str) -> Cow<'_, RawValue> {
    if let Some(object) = with_hidden_client_key(kind, text) {
        return raw(&object);
    }
    if kind != Kind::Ssl {
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
fn with_hidden_client_key(kind: Kind, text: &str) -> Option<Value> {
    let pointer = match kind {
        Kind::Upstream => "/tls/client_key",
        Kind::Route | Kind::Service | Kind::StreamRoute => "/upstream/tls/client_key",
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

/// The places of secrets in an object, as JSON pointers.
pub(crate) fn secret_places(catalog: &Catalog, key: &Key, object: &Value) -> Vec<String> {
    let mut places = Vec::new();
    secret_field::for_each(catalog, key, &mut object.clone(), &mut |place, _, _| {
        places.push(place.to_owned());
    });
    if key.kind == Kind::Secret {
        // Credentials for a secret manager. The store does not encrypt them, as in APISIX.
        let of_manager =
            MANAGER_FIELDS.iter().filter(|place| object.pointer(place).is_some_and(Value::is_string));
        places.extend(of_manager.map(|place| (*place).to_owned()));
    }
    if key.kind == Kind::Extension {
        // Code may hold credentials.
        add_contents(object, &mut places);
        return places;
    }
    add_unknown_plugins(catalog, key, object, &mut places);
    match key.kind {
        Kind::PluginMetadata => add_named(object, "", &mut places),
        _ => {
            object.get("plugins").into_iter().for_each(|plugins| add_named(plugins, "/plugins", &mut places))
        }
    }
    places
}

/// Masks the secrets of an object.
pub(super) fn hide_secrets(catalog: &Catalog, key: &Key, object: &mut Value) {
    for place in secret_places(catalog, key, object) {
        if let Some(secret) = object.pointer_mut(&place) {
            *secret = HIDDEN.into();
        }
    }
}

/// Adds the places of the contents of an extension.
fn add_contents(object: &Value, places: &mut Vec<String>) {
    let single = object.get("content").filter(|content| content.is_string());
    places.extend(single.map(|_| "/content".to_owned()));
    let versions = object.get("versions").and_then(Value::as_array).into_iter().flatten().enumerate();
    let with_content = versions.filter(|(_, version)| version.get("content").is_some_and(Value::is_string));
    places.extend(with_content.map(|(index, _)| format!("/versions/{index}/content")));
}

/// Adds the places of all texts of plugins that this gateway does not have, because without their schemas any text may
/// be a secret.
fn add_unknown_plugins(catalog: &Catalog, key: &Key, object: &Value, places: &mut Vec<String>) {
    if key.kind == Kind::PluginMetadata && catalog.get(key.own_id()).is_none() {
        add_texts(object, String::new(), places);
    }
    let plugins = object.get("plugins").and_then(Value::as_object);
    for (name, config) in plugins.into_iter().flatten().filter(|(name, _)| catalog.get(name).is_none()) {
        add_texts(config, below("/plugins", name), places);
    }
}

/// Adds the places of texts with the name of a secret, at any depth: configurations of plugins within others (of
/// `redis_password` in an action of a rule, of a whole upstream) and fields that APISIX does not encrypt.
fn add_named(value: &Value, place: &str, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_named(item, &below(place, &index.to_string()), places);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let place = below(place, name);
                match field {
                    Value::String(_) if has_name_of_secret(name) => places.push(place),
                    _ => add_named(field, &place, places),
                }
            }
        }
        _ => {}
    }
}

/// Whether a field with that name holds a secret, whatever it belongs to.
fn has_name_of_secret(name: &str) -> bool {
    // Names of header fields have hyphens where others have underscores.
    let name = name.to_ascii_lowercase().replace('-', "_");
    let is_word = |end: &&str| {
        let before = name.strip_suffix(*end).unwrap_or("x");
        before.is_empty() || before.ends_with(['_', '.'])
    };
    SECRET_NAMES.iter().any(is_word)
}

fn add_texts(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(place),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_texts(item, below(&place, &index.to_string()), places);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                add_texts(field, below(&place, name), places);
            }
        }
        _ => {}
    }
}

/// A JSON pointer one step further down (RFC 6901 section 3).
fn below(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
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

/// The last words of names of secrets, in small letters: `redis_password`, `tls.client_key`, `Authorization`.
const SECRET_NAMES: [&str; 9] = [
    "password",
    "secret",
    "secret_key",
    "client_key",
    "private_key",
    "authorization",
    "token",
    "api_key",
    "apikey",
];
/// Fields of an `ssl` that hold private keys.
const PRIVATE_FIELDS: [&str; 2] = ["key", "keys"];
/// Fields of a secret manager (`vault`, `aws`, `gcp`) that hold its credentials.
const MANAGER_FIELDS: [&str; 5] =
    ["/token", "/access_key_id", "/secret_access_key", "/session_token", "/auth_config/private_key"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_unknown_plugins_are_hidden() {
        let mut route = serde_json::json!({"uri": "/a", "plugins": {
            "openid/x": {"client_secret": "s3cr3t", "scopes": ["s3cr3t"], "timeout": 3},
            "count": {"count": 1},
        }});
        let key = Key::new(Kind::Route, "1").unwrap();
        hide_secrets(&crate::testing::catalog(), &key, &mut route);
        let expected = serde_json::json!({"client_secret": HIDDEN, "scopes": [HIDDEN], "timeout": 3});
        assert_eq!((&route["plugins"]["openid/x"], &route["uri"]), (&expected, &"/a".into()));
        assert_eq!(route["plugins"]["count"], serde_json::json!({"count": 1}));
    }

    #[test]
    fn secrets_within_other_configurations_are_hidden() {
        let mut route = serde_json::json!({"plugins": {"count": {
            "actions": [["limit", {"redis_password": "s3cr3t", "redis_host": "h"}]],
            "upstream": {"tls": {"client_key": "s3cr3t", "client_cert": "c"}},
            "headers": {"set": {"Authorization": "s3cr3t", "X-API-Key": "s3cr3t", "X-Token-Endpoint": "/a"}},
            "token": 3, "token_endpoint": "/t", "nonsecret": "n",
        }}, "labels": {"token": "l"}});
        let key = Key::new(Kind::Route, "1").unwrap();
        hide_secrets(&crate::testing::catalog(), &key, &mut route);
        let expected = serde_json::json!({
            "actions": [["limit", {"redis_password": HIDDEN, "redis_host": "h"}]],
            "upstream": {"tls": {"client_key": HIDDEN, "client_cert": "c"}},
            "headers": {"set": {"Authorization": HIDDEN, "X-API-Key": HIDDEN, "X-Token-Endpoint": "/a"}},
            "token": 3, "token_endpoint": "/t", "nonsecret": "n",
        });
        assert_eq!((&route["plugins"]["count"], &route["labels"]["token"]), (&expected, &"l".into()));
    }

    #[test]
    fn private_keys_are_not_shown() {
        let check = |kind, text: &str, expected: &str| assert_eq!(shown(kind, text).get(), expected);
        check(Kind::Route, r#"{ "uri":"/" , "key":1}"#, r#"{ "uri":"/" , "key":1}"#);
        check(Kind::Ssl, r#"{"cert":"c","key":"k","sni":"s","keys":["k"]}"#, r#"{"cert":"c","sni":"s"}"#);
        check(Kind::Route, "broken", r#""broken""#);
        let references = r#"{"cert":"$env://C","key":"$env://K","keys":["$secret://vault/1/a/b"]}"#;
        check(Kind::Ssl, references, references);
        check(Kind::Ssl, r#"{"key":"$env://K","keys":["$env://K","k"]}"#, r#"{"key":"$env://K"}"#);
        let upstream =
            |key: &str| format!(r#"{{"tls":{{"client_cert":"c","client_key":"{key}"}},"weight":0.50}}"#);
        let hidden = r#"{"tls":{"client_cert":"c","client_key":"(hidden)"},"weight":0.5}"#;
        check(Kind::Upstream, &upstream("k"), hidden);
        for reference in ["$env://K", "$file:///k.pem", "$secret://vault/1/a/b"] {
            check(Kind::Upstream, &upstream(reference), &upstream(reference));
        }
        for kind in [Kind::Route, Kind::Service, Kind::StreamRoute] {
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
        let key = Key::new(Kind::PluginMetadata, "log").unwrap();
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
        let key = Key::new(Kind::Ssl, "1").unwrap();
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
            Kind::ALL.into_iter().filter(|kind| is_off(*kind, &method)).map(Kind::collection).collect()
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
