//! Where objects hold secrets: what plugins name in `encrypt_fields` of their schemas, and the private keys
//! of certificates and upstreams. It finds and hands over texts; ciphers and masks are others' business.

use serde_json::{Map, Value};

use crate::catalog::{PluginCatalog, SchemaType};
use crate::{ObjectKey, ObjectKind};

/// The kind of text that a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// Any text.
    Any,
    /// A private key: PEM, or a reference to one.
    PrivateKey,
}

/// Hands every secret of an object to `visit`, with the place where it stands (a JSON pointer) and its form.
pub fn for_each_secret(
    catalog: &PluginCatalog,
    key: &ObjectKey,
    object: &mut Value,
    visit: &mut dyn FnMut(&str, SecretForm, &mut String),
) {
    for path in private_keys(key.kind) {
        walk(object, path, String::new(), &mut |place, text| visit(place, SecretForm::PrivateKey, text));
    }
    let mut any = |place: &str, text: &mut String| visit(place, SecretForm::Any, text);
    if key.kind == ObjectKind::PluginMetadata {
        for_each_of_plugin(catalog, SchemaType::Metadata, key.own_id(), object, "", &mut any);
        return;
    }
    let schema_type = match key.kind {
        ObjectKind::Consumer | ObjectKind::Credential => SchemaType::Consumer,
        _ => SchemaType::Plugin,
    };
    for plugins_place in plugin_places(key.kind, object) {
        let Some(plugins) = object.pointer_mut(&plugins_place).and_then(Value::as_object_mut) else {
            continue;
        };
        for (name, config) in plugins {
            let place = crate::fault::extend_pointer(&plugins_place, name);
            for_each_of_plugin(catalog, schema_type, name, config, &place, &mut any);
        }
    }
}

/// The places (JSON pointers) at which an object of that kind has plugins by their names. A contract has
/// some for each operation and security scheme as well.
#[must_use]
pub fn plugin_places(kind: ObjectKind, object: &Value) -> Vec<String> {
    let mut places = vec!["/plugins".to_owned()];
    if kind == ObjectKind::Contract {
        for (field, inner) in [("security", &[""][..]), ("operations", &["/plugins", "/auth"][..])] {
            for name in object.get(field).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                let place = crate::fault::extend_pointer(&format!("/{field}"), name);
                places.extend(inner.iter().map(|inner| format!("{place}{inner}")));
            }
        }
    }
    places
}

fn for_each_of_plugin(
    catalog: &PluginCatalog,
    schema_type: SchemaType,
    name: &str,
    config: &mut Value,
    place: &str,
    visit: &mut dyn FnMut(&str, &mut String),
) {
    let Some(plugin) = catalog.get(name) else { return };
    let own = plugin.schema_for(schema_type);
    // A plugin without a form for consumers is written there as elsewhere.
    let schema =
        if schema_type == SchemaType::Consumer { own.or(plugin.schema_for(SchemaType::Plugin)) } else { own };
    let fields = schema.and_then(|schema| schema.get(ENCRYPT_FIELDS)).and_then(Value::as_array);
    for field in fields.into_iter().flatten().filter_map(Value::as_str) {
        let path: Vec<&str> = match config.get(field) {
            Some(_) => vec![field],
            None => field.split('.').collect(),
        };
        walk(config, &path, place.to_owned(), visit);
    }
}

/// Every text at the end of `path` below `value`; lists on the way are gone through, and of an object at its
/// end the texts.
fn walk(value: &mut Value, path: &[&str], place: String, visit: &mut dyn FnMut(&str, &mut String)) {
    match (value, path) {
        (Value::String(text), []) => visit(&place, text),
        (Value::Array(items), path) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, path, format!("{place}/{index}"), visit);
            }
        }
        // A named object is a table of secrets, such as the fields of requests to a server.
        (Value::Object(fields), []) => {
            for (name, field) in fields.iter_mut().filter(|(_, field)| field.is_string()) {
                walk(field, &[], crate::fault::extend_pointer(&place, name), visit);
            }
        }
        (Value::Object(fields), [name, rest @ ..]) => {
            if let Some(field) = Map::get_mut(fields, *name) {
                walk(field, rest, crate::fault::extend_pointer(&place, name), visit);
            }
        }
        _ => {}
    }
}

/// Where objects of that kind hold private keys.
fn private_keys(kind: ObjectKind) -> &'static [&'static [&'static str]] {
    match kind {
        ObjectKind::Ssl => &[&["key"], &["keys"]],
        ObjectKind::Upstream => &[&["tls", "client_key"]],
        ObjectKind::Route | ObjectKind::Service | ObjectKind::StreamRoute | ObjectKind::Contract => {
            &[&["upstream", "tls", "client_key"]]
        }
        _ => &[],
    }
}

/// The keyword by which a plugin's schema names its secrets, `a.b` for one within another (contract section
/// 2.2).
const ENCRYPT_FIELDS: &str = "encrypt_fields";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PluginInfo;
    use serde_json::json;

    fn catalog() -> PluginCatalog {
        let mut auth = PluginInfo::new("auth", 2, json!({"type": "object"}));
        auth.consumer_schema = Some(json!({"type": "object", "encrypt_fields": ["key"]}).into());
        let mut log =
            PluginInfo::new("log", 1, json!({"type": "object", "encrypt_fields": ["a.b", "x.y", "t"]}));
        log.metadata_schema = Some(json!({"type": "object", "encrypt_fields": ["m"]}).into());
        PluginCatalog::new(vec![auth, log]).unwrap()
    }

    fn found(key: &ObjectKey, mut object: Value) -> Vec<String> {
        let mut found = Vec::new();
        for_each_secret(&catalog(), key, &mut object, &mut |place, form, text| {
            found.push(format!("{place} {form:?} {text}"));
        });
        found
    }

    #[test]
    fn every_secret_is_found_where_it_stands() {
        let check = |kind: ObjectKind, id: &str, object: Value, expected: &[&str]| {
            assert_eq!(found(&ObjectKey::new(kind, id).unwrap(), object), expected, "{kind:?}");
        };
        let auth = json!({"plugins": {"auth": {"key": "k", "other": "o"}, "unknown": {"key": "u"}}});
        check(ObjectKind::Consumer, "jack", auth.clone(), &["/plugins/auth/key Any k"]);
        check(ObjectKind::Credential, "jack/credentials/1", auth.clone(), &["/plugins/auth/key Any k"]);
        check(ObjectKind::Route, "1", auth, &[]);
        let of_contract = json!({
            "plugins": {"log": {"x.y": "1"}}, "security": {"s/1": {"log": {"x.y": "2"}}, "none": {}},
            "operations": {"o": {"plugins": {"log": {"x.y": "3"}}, "auth": {"log": {"x.y": "4"}}}},
            "upstream": {"tls": {"client_key": "5"}},
        });
        check(
            ObjectKind::Contract,
            "1",
            of_contract,
            &[
                "/upstream/tls/client_key PrivateKey 5",
                "/plugins/log/x.y Any 1",
                "/security/s~11/log/x.y Any 2",
                "/operations/o/plugins/log/x.y Any 3",
                "/operations/o/auth/log/x.y Any 4",
            ],
        );
        let log = json!({"plugins": {"log": {"a": [{"b": "1"}, {"b": 2}, {"b": ["3"]}], "x.y": "4", "t": {"h": "5", "n": 6}}}});
        let places = [
            "/plugins/log/a/0/b Any 1",
            "/plugins/log/a/2/b/0 Any 3",
            "/plugins/log/x.y Any 4",
            "/plugins/log/t/h Any 5",
        ];
        for kind in [
            ObjectKind::Route,
            ObjectKind::Service,
            ObjectKind::GlobalRule,
            ObjectKind::PluginConfig,
            ObjectKind::ConsumerGroup,
        ] {
            check(kind, "1", log.clone(), &places);
        }
        check(ObjectKind::Consumer, "jack", log, &places);
        check(
            ObjectKind::PluginMetadata,
            "log",
            json!({"m": "s", "plugins": {"log": {"t": "n"}}}),
            &["/m Any s"],
        );
        let upstream = json!({"tls": {"client_key": "p", "client_cert": "c"}});
        check(ObjectKind::Upstream, "1", upstream.clone(), &["/tls/client_key PrivateKey p"]);
        check(
            ObjectKind::Service,
            "1",
            json!({"upstream": upstream}),
            &["/upstream/tls/client_key PrivateKey p"],
        );
        let ssl = json!({"cert": "c", "key": "k", "certs": ["c"], "keys": ["l"]});
        check(ObjectKind::Ssl, "1", ssl, &["/key PrivateKey k", "/keys/0 PrivateKey l"]);
        check(ObjectKind::Secret, "vault/1", json!({"token": "t"}), &[]);
        check(ObjectKind::Route, "1", json!("no object"), &[]);
    }
}
