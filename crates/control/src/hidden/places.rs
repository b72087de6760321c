//! The places of secrets in an object, and the object with its secrets masked, as answers, plans and
//! explanations show it. It names no plugin.

use model::{ObjectKey, ObjectKind, PluginCatalog, secret_field};
use serde_json::Value;

/// The stored object with all secrets masked. A text that is no object is masked as a whole.
pub(crate) fn with_hidden_secrets(catalog: &PluginCatalog, key: &ObjectKey, text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => {
            let mut object = Value::Object(object);
            hide_secrets(catalog, key, &mut object);
            object
        }
        _ => HIDDEN.into(),
    }
}

/// The places of secrets in an object, as JSON pointers.
pub(crate) fn secret_places(catalog: &PluginCatalog, key: &ObjectKey, object: &Value) -> Vec<String> {
    let mut places = Vec::new();
    secret_field::for_each_secret(catalog, key, &mut object.clone(), &mut |place, _, _| {
        places.push(place.to_owned());
    });
    if key.kind == ObjectKind::Secret {
        // Credentials for a secret manager. The store does not encrypt them, as in APISIX.
        let of_manager =
            MANAGER_FIELDS.iter().filter(|place| object.pointer(place).is_some_and(Value::is_string));
        places.extend(of_manager.map(|place| (*place).to_owned()));
    }
    if key.kind == ObjectKind::Extension {
        // Code may hold credentials.
        add_contents(object, &mut places);
        return places;
    }
    add_unknown_plugins(catalog, key, object, &mut places);
    match key.kind {
        ObjectKind::PluginMetadata => add_named(object, "", &mut places),
        kind => {
            for place in secret_field::plugin_places(kind, object) {
                object
                    .pointer(&place)
                    .into_iter()
                    .for_each(|plugins| add_named(plugins, &place, &mut places));
            }
        }
    }
    if key.kind == ObjectKind::Contract {
        // The document may hold configurations of plugins.
        let content = object.get("content").and_then(Value::as_str);
        places
            .extend(content.filter(|text| text.contains(PLUGINS_IN_DOCUMENT)).map(|_| "/content".to_owned()));
    }
    places
}

/// Masks the secrets of an object.
pub(crate) fn hide_secrets(catalog: &PluginCatalog, key: &ObjectKey, object: &mut Value) {
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

/// Adds the places of all texts of plugins that this gateway does not have, because without their schemas any
/// text may be a secret.
fn add_unknown_plugins(catalog: &PluginCatalog, key: &ObjectKey, object: &Value, places: &mut Vec<String>) {
    if key.kind == ObjectKind::PluginMetadata && catalog.get(key.own_id()).is_none() {
        add_texts(object, String::new(), places);
    }
    for place in secret_field::plugin_places(key.kind, object) {
        let plugins = object.pointer(&place).and_then(Value::as_object).into_iter().flatten();
        for (name, config) in plugins.filter(|(name, _)| catalog.get(name).is_none()) {
            add_texts(config, below(&place, name), places);
        }
    }
}

/// Adds the places of texts with the name of a secret, at any depth: configurations of plugins within others
/// (of `redis_password` in an action of a rule, of a whole upstream) and fields that APISIX does not encrypt.
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

/// The beginning of the fields of a document that hold plugins.
const PLUGINS_IN_DOCUMENT: &str = "x-weir-";
/// Stands for a secret.
pub(crate) const HIDDEN: &str = "(hidden)";
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
        let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
        hide_secrets(&crate::testing::catalog(), &key, &mut route);
        let expected = serde_json::json!({"client_secret": HIDDEN, "scopes": [HIDDEN], "timeout": 3});
        assert_eq!((&route["plugins"]["openid/x"], &route["uri"]), (&expected, &"/a".into()));
        assert_eq!(route["plugins"]["count"], serde_json::json!({"count": 1}));
    }

    #[test]
    fn secrets_of_contract_are_hidden_in_all_places() {
        let key = ObjectKey::new(ObjectKind::Contract, "1").unwrap();
        let check = |mut contract: Value, expected: Value| {
            hide_secrets(&crate::testing::catalog(), &key, &mut contract);
            assert_eq!(contract, expected);
        };
        let plugins = |text: &str| serde_json::json!({"openid/x": {"client_secret": text}});
        let contract = |text: &str, content: &str| {
            serde_json::json!({
                "plugins": plugins(text), "security": {"sso": plugins(text)}, "content": content,
                "operations": {"o": {"plugins": plugins(text), "auth": plugins(text)}},
            })
        };
        check(contract("s3cr3t", "openapi: 3.0.0"), contract(HIDDEN, "openapi: 3.0.0"));
        check(
            contract("s3cr3t", "x-weir-auth: {openid/x: {client_secret: s3cr3t}}"),
            contract(HIDDEN, HIDDEN),
        );
    }

    #[test]
    fn secrets_within_other_configurations_are_hidden() {
        let mut route = serde_json::json!({"plugins": {"count": {
            "actions": [["limit", {"redis_password": "s3cr3t", "redis_host": "h"}]],
            "upstream": {"tls": {"client_key": "s3cr3t", "client_cert": "c"}},
            "headers": {"set": {"Authorization": "s3cr3t", "X-API-Key": "s3cr3t", "X-Token-Endpoint": "/a"}},
            "token": 3, "token_endpoint": "/t", "nonsecret": "n",
        }}, "labels": {"token": "l"}});
        let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
        hide_secrets(&crate::testing::catalog(), &key, &mut route);
        let expected = serde_json::json!({
            "actions": [["limit", {"redis_password": HIDDEN, "redis_host": "h"}]],
            "upstream": {"tls": {"client_key": HIDDEN, "client_cert": "c"}},
            "headers": {"set": {"Authorization": HIDDEN, "X-API-Key": HIDDEN, "X-Token-Endpoint": "/a"}},
            "token": 3, "token_endpoint": "/t", "nonsecret": "n",
        });
        assert_eq!((&route["plugins"]["count"], &route["labels"]["token"]), (&expected, &"l".into()));
    }
}
