//! References to values that are kept elsewhere, as users write them: `$ENV://NAME`, `$ENV://NAME/key`,
//! `$secret://{manager}/{id}/{path}/{key}` (contract section 2.3), and for certificates `$file:///PATH`.
//! Knows their grammar and where objects have them; finds no value.

use serde_json::Value;

use crate::fault::extend_pointer;
use crate::resource::Resource;

/// A reference, taken apart. Pieces of the text it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretReference<'t> {
    /// `$ENV://NAME` or `$ENV://NAME/key`.
    Environment {
        /// The variable.
        name: &'t str,
        /// The key within it, if it holds a JSON object.
        key: Option<&'t str>,
    },
    /// `$secret://{manager}/{id}/{path}/{key}`.
    Managed {
        /// The secret manager object, as its key has it: `vault/1`.
        manager: &'t str,
        /// The path to ask it for; may have slashes.
        path: &'t str,
        /// The field of what it answers.
        key: &'t str,
    },
    /// `$secret://` and something that is none of this.
    Malformed,
}

/// Finds what references stand for. Looking does not wait for anybody.
pub trait SecretValues: Send + Sync {
    /// The value that `reference`, as it is written, stands for now.
    ///
    /// # Errors
    /// Why there is none, a sentence without any secret.
    fn value(&self, reference: &str) -> Result<String, String>;
}

impl<'t> SecretReference<'t> {
    /// Takes a text apart; none if it is no reference. The case of `$ENV` does not matter, nor does that of
    /// `$secret`, because a reference that a slip turns into plain text would be a key that opens access.
    #[must_use]
    pub fn parse(text: &'t str) -> Option<SecretReference<'t>> {
        if let Some(rest) = after(text, ENVIRONMENT) {
            let (name, key) = rest.split_once('/').map_or((rest, None), |(name, key)| (name, Some(key)));
            return Some(SecretReference::Environment { name, key: key.filter(|key| !key.is_empty()) });
        }
        let rest = after(text, MANAGED)?;
        Some(managed(rest).unwrap_or(SecretReference::Malformed))
    }
}

/// Whether a text is written as a reference.
#[must_use]
pub fn is_secret_reference(text: &str) -> bool {
    SecretReference::parse(text).is_some()
}

/// The path of a reference to a file, `$file:///PATH`. Only certificates and keys may be such references: a
/// plugin would show the file to clients.
#[must_use]
pub fn file_path(text: &str) -> Option<&str> {
    text.strip_prefix(FILE)
}

/// Whether the text of a certificate or key is a reference.
#[must_use]
pub fn is_certificate_reference(text: &str) -> bool {
    is_secret_reference(text) || file_path(text).is_some()
}

/// Every reference in `value`, with the JSON pointer to it below `place`.
pub fn for_each_secret_reference<'v>(value: &'v Value, place: &str, visit: &mut dyn FnMut(String, &'v str)) {
    match value {
        Value::String(text) if is_secret_reference(text) => visit(place.to_owned(), text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for_each_secret_reference(item, &format!("{place}/{index}"), visit);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                if may_hold_reference(field) {
                    for_each_secret_reference(field, &extend_pointer(place, name), visit);
                }
            }
        }
        _ => {}
    }
}

/// Every reference of an object, with the JSON pointer to it: those in plugins, metadata and certificates,
/// which are resolved (contract section 2.3).
#[must_use]
pub fn list_secret_references(resource: &Resource) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for plugin in resource.plugins() {
        if may_hold_reference(&plugin.config) {
            let place = extend_pointer("/plugins", &plugin.name);
            for_each_secret_reference(&plugin.config, &place, &mut |place, text| found.push((place, text)));
        }
    }
    if let Resource::PluginMetadata(metadata) = resource {
        for_each_secret_reference(&metadata.value, "", &mut |place, text| found.push((place, text)));
    }
    add_of_certificates(resource, &mut found);
    found
}

/// The references to files of an object, `$file:///PATH`, as pointer and path. Only certificates and keys
/// have such.
#[must_use]
pub fn files_of(resource: &Resource) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    add_of_certificates(resource, &mut found);
    found.into_iter().filter_map(|(place, text)| Some((place, file_path(text)?))).collect()
}

/// Adds the references in the places of certificates and keys.
fn add_of_certificates<'r>(resource: &'r Resource, found: &mut Vec<(String, &'r str)>) {
    if let Resource::Ssl(ssl) = resource {
        for (index, (cert, key)) in ssl.pairs.iter().enumerate() {
            let place = |name: &str| match index {
                0 => format!("/{name}"),
                further => format!("/{name}s/{}", further - 1),
            };
            for (name, text) in [("cert", cert), ("key", key)] {
                if is_certificate_reference(text) {
                    found.push((place(name), &**text));
                }
            }
        }
        if let Some(client) = &ssl.client {
            for (place, text) in [("/client/ca", Some(&client.ca)), ("/client/crl", client.crl.as_ref())] {
                if let Some(text) = text.filter(|text| is_certificate_reference(text)) {
                    found.push((place.to_owned(), &**text));
                }
            }
        }
    }
    if let Some(tls) = resource.upstream().and_then(|upstream| upstream.tls.as_deref()) {
        let place = if matches!(resource, Resource::Upstream(_)) { "/tls" } else { "/upstream/tls" };
        let fields =
            [("ca_certs", &tls.ca_certs), ("client_cert", &tls.client_cert), ("client_key", &tls.client_key)];
        for (name, text) in fields {
            if let Some(text) = text.as_deref().filter(|text| is_certificate_reference(text)) {
                found.push((extend_pointer(place, name), text));
            }
        }
    }
}

/// A quick look that spares most configurations the building of pointers.
fn may_hold_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('$'),
        Value::Array(items) => items.iter().any(may_hold_reference),
        Value::Object(fields) => fields.values().any(may_hold_reference),
        _ => false,
    }
}

fn managed(rest: &str) -> Option<SecretReference<'_>> {
    let slash = rest.find('/')?;
    let id_end = slash + 1 + rest[slash + 1..].find('/')?;
    let (path, key) = rest[id_end + 1..].rsplit_once('/')?;
    let manager = &rest[..id_end];
    let whole = slash > 0 && id_end > slash + 1 && !path.is_empty() && !key.is_empty();
    whole.then_some(SecretReference::Managed { manager, path, key })
}

fn after<'t>(text: &'t str, scheme: &str) -> Option<&'t str> {
    let start = text.get(..scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
}

const ENVIRONMENT: &str = "$env://";
const MANAGED: &str = "$secret://";
const FILE: &str = "$file://";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKind;
    use serde_json::json;

    #[test]
    fn references_are_taken_apart() {
        let check = |text: &str, expected: Option<SecretReference<'_>>| {
            assert_eq!(SecretReference::parse(text), expected, "{text}");
        };
        let environment = |name, key| Some(SecretReference::Environment { name, key });
        check("$ENV://KEY", environment("KEY", None));
        check("$env://KEY/", environment("KEY", None));
        check("$Env://KEY/a/b", environment("KEY", Some("a/b")));
        let managed = |manager, path, key| Some(SecretReference::Managed { manager, path, key });
        check("$secret://vault/1/jack/key", managed("vault/1", "jack", "key"));
        check("$SECRET://vault/1/a/b/c", managed("vault/1", "a/b", "c"));
        for malformed in
            ["", "vault", "vault/1", "vault/1/a", "vault/1/a/", "vault//a/b", "/1/a/b", "vault/1//b"]
        {
            check(&format!("$secret://{malformed}"), Some(SecretReference::Malformed));
        }
        for plain in ["", "$", "ENV://KEY", " $ENV://KEY", "$ENV:/KEY", "ü$ENV://", "$secret:/vault/1/a/b"] {
            check(plain, None);
        }
    }

    #[test]
    fn object_references_are_found_with_their_paths() {
        let check = |kind: ObjectKind, object: Value, expected: &[(&str, &str)]| {
            let resource = Resource::read(kind, &object).unwrap();
            let found = list_secret_references(&resource);
            let found: Vec<(&str, &str)> = found.iter().map(|(place, text)| (&**place, *text)).collect();
            assert_eq!(found, expected, "{kind:?}");
        };
        check(
            ObjectKind::Route,
            json!({"uri": "$env://NO", "plugins": {"a/b": {"x": ["$", {"y": "$env://A"}], "$env://k": 1}, "c": {}}}),
            &[("/plugins/a~1b/x/1/y", "$env://A")],
        );
        check(
            ObjectKind::Ssl,
            json!({"cert": "$env://C", "key": "$secret://vault/1/a/b", "certs": ["c"], "keys": ["$env://K"]}),
            &[("/cert", "$env://C"), ("/key", "$secret://vault/1/a/b"), ("/keys/0", "$env://K")],
        );
        check(
            ObjectKind::Ssl,
            json!({"cert": "$file:///c", "key": "$file:///k", "client": {"ca": "$file:///ca", "crl": "$env://CRL"}}),
            &[
                ("/cert", "$file:///c"),
                ("/key", "$file:///k"),
                ("/client/ca", "$file:///ca"),
                ("/client/crl", "$env://CRL"),
            ],
        );
        // A plugin reads no file.
        check(ObjectKind::Route, json!({"uri": "/", "plugins": {"a": {"x": "$file:///k"}}}), &[]);
        check(ObjectKind::PluginMetadata, json!({"a": {"b": "$env://M"}}), &[("/a/b", "$env://M")]);
        let tls = json!({"client_cert": "$env://C", "client_key": "$secret://vault/1/a/k", "ca_certs": "$file:///ca"});
        let upstream = json!({"nodes": {}, "tls": tls});
        check(
            ObjectKind::Upstream,
            upstream.clone(),
            &[
                ("/tls/ca_certs", "$file:///ca"),
                ("/tls/client_cert", "$env://C"),
                ("/tls/client_key", "$secret://vault/1/a/k"),
            ],
        );
        check(
            ObjectKind::Service,
            json!({"upstream": upstream}),
            &[
                ("/upstream/tls/ca_certs", "$file:///ca"),
                ("/upstream/tls/client_cert", "$env://C"),
                ("/upstream/tls/client_key", "$secret://vault/1/a/k"),
            ],
        );
        // The login of a manager is resolved where it is used.
        check(ObjectKind::Secret, json!({"uri": "http://v", "prefix": "kv", "token": "$env://T"}), &[]);
    }
}
