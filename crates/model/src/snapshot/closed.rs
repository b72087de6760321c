//! The closed form of a faulty object: as much of it as is needed to answer its requests with 503, so that
//! they never fall through to an object that protects less. It makes no object good and knows nothing of
//! references.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::SnapshotObject;
use crate::catalog::PluginCatalog;
use crate::resource::{OneOrMany, Resource, Ssl};
use crate::{ObjectKind, WrittenObject, check};

/// The closed form of the written text; `value` is null where the text is no JSON. None for a route with a
/// match that cannot be read, and for kinds with objects that are harmless when they are absent: an unknown
/// consumer is answered 401.
pub(super) fn form(
    catalog: &PluginCatalog,
    written: &WrittenObject,
    value: &Value,
) -> Option<Arc<SnapshotObject>> {
    let form = match written.key.kind {
        ObjectKind::Route => route(catalog, written, value)?,
        ObjectKind::Service => kept(value, &SERVICE_FIELDS),
        ObjectKind::Ssl => return ssl(written, value),
        ObjectKind::Contract => return contract(written, value),
        ObjectKind::GlobalRule => json!({ "id": written.key.own_id(), "plugins": {} }),
        _ => return None,
    };
    let checked = check::check_object(catalog, &written.key, &form);
    let checked = match (checked, written.key.kind) {
        (Ok(checked), _) => checked,
        // Its hosts cannot be read: its routes are closed for every host.
        (Err(_), ObjectKind::Service) => check::check_object(catalog, &written.key, &json!({})).ok()?,
        (Err(_), _) => return None,
    };
    let resource = checked.resource;
    Some(Arc::new(SnapshotObject::new(written.clone(), resource, Box::default(), Box::default())))
}

/// The match of a route. The service is kept for its hosts; where the reference is faulty, the route matches
/// every host.
fn route(catalog: &PluginCatalog, written: &WrittenObject, value: &Value) -> Option<Value> {
    let mut form = kept(value, &MATCH_FIELDS);
    // A route needs something that answers.
    form["plugins"] = json!({});
    let with_service = value.get("service_id").map(|id| {
        let mut form = form.clone();
        form["service_id"] = id.clone();
        form
    });
    let is_good = |form: &Value| check::check_object(catalog, &written.key, form).is_ok();
    if let Some(form) = with_service.filter(is_good) {
        return Some(form);
    }
    // These two do not say which requests are the route's: without them it is on, and goes with the others.
    if !is_good(&form) {
        for name in ["priority", "status"] {
            form.as_object_mut()?.shift_remove(name);
        }
    }
    Some(form)
}

/// The names of a certificate of the server's side that is on, so that no certificate of a wildcard serves
/// them. Names that cannot be read are left out.
fn ssl(written: &WrittenObject, value: &Value) -> Option<Arc<SnapshotObject>> {
    let is_off = value.get("status").and_then(Value::as_f64) == Some(0.0);
    let is_of_client = value.get("type").is_some_and(|side| side == "client");
    let list = value.get("snis").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names = value.get("sni").into_iter().chain(list).filter_map(Value::as_str);
    let names: Vec<Box<str>> = names.filter(|name| is_server_name(name)).map(Into::into).collect();
    if is_off || is_of_client || names.is_empty() {
        return None;
    }
    let resource = Resource::Ssl(Ssl::of_names(OneOrMany::of(None, Some(names))).into());
    Some(Arc::new(SnapshotObject::new(written.clone(), resource, Box::default(), Box::default())))
}

/// The hosts and the base path of a contract, of which no operation is served. None where neither is known,
/// because then every request would be its own.
fn contract(written: &WrittenObject, value: &Value) -> Option<Arc<SnapshotObject>> {
    let mut form = kept(value, &CONTRACT_FIELDS);
    form["content"] = "".into();
    let Ok(Resource::Contract(mut contract)) = Resource::read(ObjectKind::Contract, &form) else {
        return None;
    };
    contract.routes = Arc::new(crate::contract::closed_routes(&written.key, &contract)?);
    let resource = Resource::Contract(contract);
    Some(Arc::new(SnapshotObject::new(written.clone(), resource, Box::default(), Box::default())))
}

/// Whether a handshake can ask for the name, with an asterisk only in front.
fn is_server_name(name: &str) -> bool {
    let rest = name.strip_prefix('*').unwrap_or(name);
    !name.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The object with these fields alone.
fn kept(value: &Value, fields: &[&str]) -> Value {
    let field = |name: &&str| Some(((*name).to_owned(), value.get(*name)?.clone()));
    Value::Object(fields.iter().filter_map(field).collect::<Map<_, _>>())
}

/// The fields that decide which requests are a route's. `filter_func` is left out: this gateway runs none, so
/// that the route is closed for all requests that the other fields match.
const MATCH_FIELDS: [&str; 10] =
    ["uri", "uris", "host", "hosts", "methods", "remote_addr", "remote_addrs", "vars", "priority", "status"];
/// The fields of a contract that decide which requests are its routes', besides the document.
const CONTRACT_FIELDS: [&str; 5] = ["base_path", "hosts", "service_id", "priority", "status"];
/// The fields of a service that decide which requests are its routes'.
const SERVICE_FIELDS: [&str; 1] = ["hosts"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectKey;

    fn check(kind: ObjectKind, value: Value, expected: bool) {
        let key = ObjectKey::new(kind, "1").unwrap();
        let text = value.to_string();
        let written = WrittenObject { key, text: text.into(), created_index: 1, modified_index: 1 };
        let found = form(&PluginCatalog::default(), &written, &value);
        assert_eq!(found.is_some(), expected, "{value}");
    }

    #[test]
    fn a_route_keeps_its_place_if_its_match_is_good() {
        check(ObjectKind::Route, json!({"uri": "/a", "plugins": {"nope": {}}}), true);
        check(ObjectKind::Route, json!({"uri": "/a", "colour": 1, "upstream": 3}), true);
        check(
            ObjectKind::Route,
            json!({"uri": "/a", "service_id": [], "vars": [["arg_a", "==", "1"]]}),
            true,
        );
        check(ObjectKind::Route, json!({"uri": "/a", "priority": "10", "plugins": {"nope": {}}}), true);
        check(ObjectKind::Route, json!({"uri": "/a", "status": "1"}), true);
        check(ObjectKind::Route, json!({"uri": "/a", "filter_func": "function(vars) return true end"}), true);
        check(ObjectKind::Route, json!({"uri": "/a", "host": "a", "hosts": ["b"]}), false);
        check(ObjectKind::Route, json!({"uri": "/a", "vars": [["arg_a", "~~", "("]]}), false);
        check(ObjectKind::Route, json!({"uri": "/a", "methods": ["get"]}), false);
        check(ObjectKind::Route, json!({"urri": "/a"}), false);
        check(ObjectKind::Route, json!(null), false);
    }

    #[test]
    fn certificate_keeps_the_names_that_can_be_read() {
        check(ObjectKind::Ssl, json!({"sni": "a.example", "cert": "x"}), true);
        check(ObjectKind::Ssl, json!({"snis": ["*.a.example", 7], "colour": 1}), true);
        check(ObjectKind::Ssl, json!({"snis": ["a b"], "sni": 7}), false);
        check(ObjectKind::Ssl, json!({"sni": "a.example", "status": 0}), false);
        check(ObjectKind::Ssl, json!({"sni": "a.example", "type": "client"}), false);
        check(ObjectKind::Ssl, json!(null), false);
    }

    #[test]
    fn services_and_global_rules_always_have_one() {
        check(ObjectKind::Service, json!({"hosts": ["a.example"], "colour": 1}), true);
        check(ObjectKind::Service, json!({"hosts": 7}), true);
        check(ObjectKind::GlobalRule, json!({"plugins": {"nope": {}}}), true);
        check(ObjectKind::GlobalRule, json!(null), true);
        check(ObjectKind::Upstream, json!({"nodes": 7}), false);
        check(ObjectKind::Consumer, json!({"username": "1", "plugins": {"nope": {}}}), false);
    }
}
