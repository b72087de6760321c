//! Tables of accepted and refused objects, kind by kind.

mod files;
mod names;
mod original_dst;
mod protection;
mod retries;
mod routes;
mod stream_routes;
mod upstreams;

use std::sync::Arc;

use serde_json::{Value, json};

use super::certificate::testing;
use crate::catalog::{PluginCatalog, PluginInfo, SchemaType, Subsystem};
use crate::extension::{ExtensionLoader, LoadedVersion};
use crate::{ObjectKey, ObjectKind, check};

pub(crate) fn catalog() -> PluginCatalog {
    let mut auth = PluginInfo::new("auth", 2500, json!({"type": "object"}));
    auth.is_auth = true;
    auth.consumer_key = &["key"];
    auth.consumer_schema = Some(
        json!({
            "type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"],
        })
        .into(),
    );
    let mut count = PluginInfo::new(
        "count",
        1002,
        json!({"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]}),
    );
    count.metadata_schema = Some(
        json!({
            "type": "object", "properties": {"log_format": {"type": "object"}}, "additionalProperties": false,
        })
        .into(),
    );
    count.check_proto =
        Some(|content| if content == "faulty" { Err("line 1: faulty".to_owned()) } else { Ok(()) });
    count.subsystems = &[Subsystem::Http, Subsystem::Stream];
    let catalog = PluginCatalog::new(vec![auth, count]).unwrap().with_registries(["dns".into()]);
    catalog.with_loader(Arc::new(TinyLanguage))
}

/// A language of which the content is the name of the one field that configurations must have; `broken`
/// cannot be loaded.
struct TinyLanguage;

impl ExtensionLoader for TinyLanguage {
    fn languages(&self) -> Vec<&'static str> {
        vec!["tiny"]
    }

    fn is_binary(&self, _language: &str) -> bool {
        false
    }

    fn load(&self, name: &str, _language: &str, content: &[u8]) -> Result<LoadedVersion, String> {
        let field = String::from_utf8_lossy(content).into_owned();
        if field == "broken" {
            return Err("line 1: it is broken".to_owned());
        }
        let schema = match &*field {
            "no schema" => json!({"type": 7}),
            _ => json!({"type": "object", "required": [field]}),
        };
        let info = PluginInfo::new(name.to_owned(), 7, schema);
        Ok(LoadedVersion { info, serial: 1, code: Arc::new(()) })
    }
}

fn stored(kind: ObjectKind, id: &str, object: Value, expected: &str) {
    let result = check::check_object(&catalog(), &ObjectKey::new(kind, id).unwrap(), &object);
    let message =
        result.as_ref().err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default();
    assert_eq!(message, expected, "{kind} {object}");
}

#[test]
fn extensions_have_one_form_and_known_versions() {
    let check = |object: Value, expected: &str| {
        let expected =
            if expected.is_empty() { String::new() } else { format!("invalid configuration: {expected}") };
        stored(ObjectKind::Extension, "mine", object, &expected);
    };
    let digest = crate::extension::version_of(b"a");
    check(json!({"language": "tiny", "content": "a"}), "");
    check(json!({"language": "tiny", "content": "a", "active": digest}), "");
    check(json!({"language": "tiny", "versions": [{"version": digest, "content": "a"}]}), "");
    let two = json!([{"version": "1", "content": "a"}, {"version": "2", "content": "broken"}]);
    check(json!({"language": "tiny", "versions": two, "active": "1"}), "");
    check(json!({"language": "tiny", "versions": two, "active": "1", "enabled": false}), "");
    check(json!({"language": "tiny", "versions": two, "enabled": false}), "");
    for (object, reason) in [
        (json!({"language": "tiny", "versions": two}), "mine cannot be loaded: line 1: it is broken"),
        (
            json!({"language": "tiny", "versions": two, "active": "1", "canary": {"version": "2"}}),
            "mine cannot be loaded: line 1: it is broken",
        ),
        (json!({"language": "tiny", "versions": two, "active": "3"}), "there is no version 3"),
        (json!({"language": "tiny"}), "an extension has either `content` or `versions`"),
        (json!({"language": "perl", "content": "a"}), "this program has no language perl; it has tiny"),
        (
            json!({"language": "tiny", "versions": [{"content": "a"}, {"content": "a"}]}),
            &format!("the version {digest} is there twice"),
        ),
        (
            json!({"language": "tiny", "versions": [{"version": digest.replace('c', "d"), "content": "a"}]}),
            &format!("its SHA-256 is {digest}, and its version says {}", digest.replace('c', "d")),
        ),
    ] {
        check(object, reason);
    }
    let no_schema = json!({"language": "tiny", "content": "no schema"});
    let refused =
        check::check_object(&catalog(), &ObjectKey::new(ObjectKind::Extension, "mine").unwrap(), &no_schema);
    assert!(refused.unwrap_err().contract_message().contains("its schema is no JSON Schema"));
    stored(
        ObjectKind::Extension,
        "count",
        json!({"language": "tiny", "content": "a"}),
        "invalid configuration: there is a plugin count already, built in or named by the settings",
    );
}

/// Accepted when `expected` is empty, else refused with that contract line.
fn check(kind: ObjectKind, object: Value, expected: &str) {
    let result = check::value(&catalog(), kind, &object);
    let message =
        result.as_ref().err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default();
    assert_eq!(message, expected, "{kind} {object}");
}

/// As `check`, of an object with the fields of a good one beside its own.
fn route(fields: Value, expected: &str) {
    check(
        ObjectKind::Route,
        merged(json!({"uri": "/a", "upstream": {"nodes": {"a:80": 1}}}), fields),
        expected,
    );
}

fn upstream(fields: Value, expected: &str) {
    check(ObjectKind::Upstream, merged(json!({"nodes": {"a:80": 1}}), fields), expected);
}

/// The object with these fields over its own; fields that are null are taken out.
pub(super) fn merged(mut base: Value, fields: Value) -> Value {
    let base_fields = base.as_object_mut().unwrap();
    for (name, value) in fields.as_object().unwrap() {
        base_fields.insert(name.clone(), value.clone());
    }
    base_fields.retain(|_, value| !value.is_null());
    base
}

/// The refusal of a plugin that neither this catalog nor APISIX has.
const UNKNOWN_X: &str =
    "unknown plugin [x]: neither Weir nor APISIX has a plugin of this name; this gateway has auth, count";

#[test]
fn services_and_shared_plugins() {
    check(ObjectKind::Service, json!({}), "");
    check(
        ObjectKind::Service,
        json!({"upstream_id": 1, "hosts": ["a.com"], "plugins": {"count": {"count": 1}}}),
        "",
    );
    check(
        ObjectKind::Service,
        json!({"hosts": ["a b"]}),
        concat!(
            "invalid configuration: ",
            "property \"hosts\" validation failed: failed to validate item 1: ",
            "failed to match pattern \"^\\\\*$|^\\\\*?[0-9a-zA-Z-._\\\\[\\\\]:]+$\" with \"a b\"; ",
            "the host holds a character that no host name has"
        ),
    );
    check(
        ObjectKind::Service,
        json!({"upstream_ids": 1}),
        "invalid configuration: additional properties forbidden, found upstream_ids; did you mean `upstream_id`?",
    );
    check(
        ObjectKind::Service,
        json!({"upstream": {"nodes": {}, "x": 1}}),
        concat!(
            "invalid configuration: ",
            "property \"upstream\" validation failed: additional properties forbidden, found x"
        ),
    );
    for kind in [ObjectKind::PluginConfig, ObjectKind::ConsumerGroup, ObjectKind::GlobalRule] {
        check(kind, json!({"id": 1, "plugins": {}}), "");
        check(kind, json!({"plugins": {}}), "invalid configuration: property \"id\" is required");
        check(kind, json!({"id": "1", "plugins": {"x": {}}}), UNKNOWN_X);
        check(kind, json!({"id": "1", "plugins": {"count": 1}}), "invalid plugin conf 1 for plugin [count]");
        check(
            kind,
            json!({"id": "1", "plugins": {"count": {}}}),
            "failed to check the configuration of plugin count err: property \"count\" is required",
        );
    }
    let meta = |meta: Value, expected: &str| {
        let plugins = json!({"count": {"count": 1, "_meta": meta}});
        check(ObjectKind::PluginConfig, json!({"id": "1", "plugins": plugins}), expected);
    };
    meta(
        json!({"disable": true, "priority": 5, "error_response": {"a": 1}, "filter": [["uri", "==", "/"]]}),
        "",
    );
    meta(json!({"error_response": "no"}), "");
    meta(
        json!({"prefunction": 1}),
        concat!(
            "failed to check the configuration of plugin count err: ",
            "property \"_meta\" validation failed: additional properties forbidden, found prefunction"
        ),
    );
    meta(
        json!({"error_response": true}),
        concat!(
            "failed to check the configuration of plugin count err: ",
            "property \"_meta\" validation failed: property \"error_response\" validation failed: ",
            "value should match only one schema, but matches none; ",
            "wrong type: expected string or object, got boolean"
        ),
    );
    meta(json!({"pre_function": "return function() end"}), "");
}

#[test]
fn consumers_and_credentials() {
    check(ObjectKind::Consumer, json!({"username": "jack-1", "plugins": {"auth": {"key": "a"}}}), "");
    check(ObjectKind::Consumer, json!({"username": "jack", "plugins": {"count": {"count": 2}}}), "");
    check(ObjectKind::Consumer, json!({}), "invalid configuration: property \"username\" is required");
    check(
        ObjectKind::Consumer,
        json!({"username": "a b"}),
        concat!(
            "invalid configuration: ",
            "property \"username\" validation failed: ",
            "failed to match pattern \"^[a-zA-Z0-9_\\\\-]+$\" with \"a b\""
        ),
    );
    check(
        ObjectKind::Consumer,
        json!({"username": "a", "plugins": {"auth": {}}}),
        concat!(
            "invalid plugins configuration: ",
            "failed to check the configuration of plugin auth err: property \"key\" is required"
        ),
    );
    check(
        ObjectKind::Consumer,
        json!({"username": "a", "plugins": {"x": {}}}),
        &format!("invalid plugins configuration: {UNKNOWN_X}"),
    );
    check(ObjectKind::Credential, json!({"plugins": {"auth": {"key": "a"}}, "name": "n"}), "");
    check(
        ObjectKind::Credential,
        json!({"plugins": {"count": {"count": 1}}}),
        "only supports auth type plugins in consumer credential",
    );
    check(
        ObjectKind::Credential,
        json!({"plugins": {"auth": {"key": "a"}, "count": {"count": 1}}}),
        "invalid configuration: property \"plugins\" validation failed: expect object to have at most 1 properties",
    );
}

#[test]
fn the_rest() {
    certificates();
    check(ObjectKind::Proto, json!({"content": "syntax = \"proto3\";"}), "");
    check(ObjectKind::Proto, json!({"content": "faulty"}), "content: line 1: faulty");
    check(ObjectKind::Proto, json!({}), "invalid configuration: property \"content\" is required");
}

fn certificates() {
    let (cert, key) = testing::pair();
    let (_, other_key) = testing::pair();
    let junk = "x".repeat(200);
    let ssl = |fields: Value, expected: &str| {
        check(ObjectKind::Ssl, merged(json!({"sni": "a.com", "cert": cert, "key": key}), fields), expected);
    };
    let no_cert = "failed to parse cert: it has no PEM block that begins with -----BEGIN CERTIFICATE-----";
    let no_key =
        "failed to parse key: it has no PEM block of a private key, such as -----BEGIN PRIVATE KEY-----";
    let not_its_own = "failed to parse key: it does not belong to the certificate";
    ssl(json!({}), "");
    ssl(json!({"cert": "$secret://vault/1/a/b", "key": "$env://KEY"}), "");
    ssl(json!({"sni": null, "type": "client"}), "");
    ssl(json!({"certs": [cert, "$env://C"], "keys": [key, "$env://K"], "client": {"ca": cert}}), "");
    ssl(
        json!({"sni": null}),
        "invalid configuration: a certificate needs cert and key, and sni or snis unless its type is client (then clause \
         did not match)",
    );
    ssl(json!({"certs": [cert]}), "mismatched number of certs and keys");
    ssl(json!({"cert": junk}), no_cert);
    ssl(json!({"key": junk}), no_key);
    ssl(json!({"type": "client", "key": junk}), no_key);
    ssl(json!({"key": other_key}), not_its_own);
    ssl(
        json!({"cert": "short"}),
        &format!(
            "invalid configuration: property \"cert\" validation failed: string too short, expected at least 128, got \
             5; {no_cert}"
        ),
    );
    let second = "failed to handle cert-key pair[2]: ";
    ssl(json!({"certs": [cert, junk], "keys": [key, key]}), &format!("{second}{no_cert}"));
    ssl(json!({"certs": [cert, cert], "keys": [key, other_key]}), &format!("{second}{not_its_own}"));
    ssl(json!({"client": {"ca": junk}}), &format!("failed to validate client_cert: {no_cert}"));
    let tls = |cert: &str, key: &str, expected: &str| {
        upstream(json!({"tls": {"client_cert": cert, "client_key": key}}), expected);
    };
    tls(&junk, &key, no_cert);
    tls(&cert, &other_key, not_its_own);
    tls(&cert, &key, "");
}

/// As `check`, of an object with its key.
fn keyed(kind: ObjectKind, id: &str, object: Value, expected: &str) {
    let result = check::check_object(&catalog(), &ObjectKey::new(kind, id).unwrap(), &object);
    let message = result.err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default();
    assert_eq!(message, expected, "{kind} {id} {object}");
}

#[test]
fn the_key_and_the_object_agree() {
    keyed(ObjectKind::Route, "1", json!({"id": 1, "uri": "/", "plugins": {}}), "");
    keyed(ObjectKind::Route, "1", json!({"id": 1.0, "uri": "/", "plugins": {}}), "");
    keyed(ObjectKind::Route, "1", json!({"id": "2", "uri": "/", "plugins": {}}), "wrong route id");
    keyed(ObjectKind::PluginConfig, "1", json!({"id": "2", "plugins": {}}), "wrong plugin config id");
    keyed(ObjectKind::Consumer, "jack", json!({"username": "jill"}), "wrong username");
    keyed(
        ObjectKind::Credential,
        "jack/credentials/c1",
        json!({"id": "c1", "plugins": {"auth": {"key": "k"}}}),
        "",
    );
    keyed(ObjectKind::PluginMetadata, "count", json!({"id": "count", "log_format": {}}), "");
    keyed(
        ObjectKind::PluginMetadata,
        "count",
        json!({"x": 1}),
        "invalid configuration: additional properties forbidden, found x",
    );
    keyed(ObjectKind::PluginMetadata, "nope", json!({}), "invalid plugin name");
    keyed(ObjectKind::Secret, "vault/1", json!({"uri": "http://a:1", "prefix": "p", "token": "t"}), "");
    keyed(
        ObjectKind::Secret,
        "vault/1",
        json!({"uri": "http://a:1"}),
        "invalid configuration: property \"prefix\" is required",
    );
    keyed(ObjectKind::Secret, "keep/1", json!({}), "invalid secret manager: keep");
}

#[test]
fn every_fault_is_listed_with_its_place() {
    let object = json!({
        "uri": 1, "hosts": [], "x": 1,
        "plugins": {"count": {"count": 0}, "nope": {}},
        "upstream": {"nodes": {"a:b": 1}, "scheme": "tcp"},
    });
    let refusal = check::value(&catalog(), ObjectKind::Route, &object).unwrap_err();
    let pointers: Vec<_> = refusal.faults().iter().map(|fault| fault.pointer.as_str()).collect();
    for place in ["/uri", "/hosts", "/x", "/plugins/count/count", "/plugins/nope", "/upstream/nodes/a:b"] {
        assert!(pointers.contains(&place), "{place} in {pointers:?}");
    }
    assert!(pointers.contains(&"/upstream/scheme"), "what is not supported is listed too: {pointers:?}");
}

#[test]
fn plugin_schemas_shown_have_meta() {
    let catalog = catalog();
    let shown = catalog.get("count").unwrap().schema_for(SchemaType::Plugin).unwrap();
    assert!(shown["properties"]["_meta"]["properties"]["disable"].is_object());
}
