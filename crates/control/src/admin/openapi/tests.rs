//! The document agrees with the API: verbs, references, parameters, and the dialect of the schemas.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::*;
use crate::testing::{Rig, ask, block_on, catalog};

/// Calls `visit` with every object within `value` and its path.
fn walk(value: &Value, at: &str, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            visit(at, fields);
            fields.iter().for_each(|(name, inner)| walk(inner, &format!("{at}/{name}"), visit));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, at, visit)),
        _ => {}
    }
}

#[test]
fn references_resolve_and_names_are_unique() {
    let document = document(&catalog());
    let mut references = 0;
    walk(&document, "", &mut |at, fields| {
        if let Some(target) = fields.get("$ref").and_then(Value::as_str) {
            assert!(document.pointer(target.trim_start_matches('#')).is_some(), "{at}: {target}");
            references += 1;
        }
    });
    assert!(references > 300, "{references}");
    let mut names = HashSet::new();
    walk(&document["paths"], "", &mut |at, fields| {
        if let Some(name) =
            fields.get("operationId").and_then(Value::as_str).filter(|_| !at.contains("links"))
        {
            assert!(names.insert(name.to_owned()), "{name} is repeated");
        }
    });
    walk(&document["paths"], "", &mut |at, fields| {
        if at.contains("/links/") && fields.contains_key("operationId") {
            assert!(names.contains(fields["operationId"].as_str().unwrap()), "{at}");
        }
    });
}

#[test]
fn path_parameters_are_described() {
    let document = document(&catalog());
    for (path, item) in document["paths"].as_object().unwrap() {
        let wanted: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        for (verb, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = parameters.iter().map(|parameter| match parameter["$ref"].as_str() {
                Some(target) => document.pointer(&target[1..]).unwrap().clone(),
                None => parameter.clone(),
            });
            let found: Vec<String> = named
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(found, wanted, "{verb} {path}");
        }
    }
}

#[test]
fn templates_leave_no_gap() {
    let mut document = document(&catalog());
    document["components"]["schemas"].take();
    walk(&document, "", &mut |at, fields| {
        for (name, value) in fields {
            assert!(!value.is_null() || at == "/components", "{at}/{name} is null");
            let is_short = matches!(name.as_str(), "json" | "body" | "body_or_yaml" | "refusals" | "tag");
            assert!(!is_short || at.ends_with("/properties"), "{at}/{name} is not written out");
        }
    });
    assert!(!document.to_string().contains('@'), "a name is not filled in");
}

#[test]
fn schemas_have_no_keyword_of_draft_7() {
    let document = document(&catalog());
    walk(&document["components"]["schemas"], "", &mut |at, fields| {
        let names_fields = at.ends_with("/properties") || at.ends_with("/patternProperties");
        if !names_fields {
            for old in ["$schema", "definitions", "dependencies", "additionalItems"] {
                assert!(!fields.contains_key(old), "{at} has {old}");
            }
        }
    });
}

#[test]
fn document_has_the_verbs_of_the_api() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let document = document(&catalog());
    for (path, item) in document["paths"].as_object().unwrap() {
        let Some(tag) = item["get"]["tags"][0].as_str().and_then(ObjectKind::from_collection) else {
            continue;
        };
        let target = path.replace("{id}", "none").replace("{username}", "none").replace("{name}", "count");
        for verb in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            let (status, answer) = rig.json(verb, &format!("/apisix/admin{target}"), &json!({}));
            let is_described = item.get(verb.to_lowercase()).is_some();
            let lacks_an_id = ["missing ", "no secret id", "wrong "]
                .iter()
                .any(|start| answer["error_msg"].as_str().is_some_and(|text| text.starts_with(start)));
            let is_there = status != 405 && answer["error_msg"] != "not found" && !lacks_an_id;
            // A PUT to a collection reads the id from its body, and this body has none.
            assert!(
                is_described == is_there || (is_described && lacks_an_id),
                "{verb} {path} ({tag}): {status} {answer}"
            );
        }
    }
}

#[test]
fn document_is_served_only_with_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::store(directory.path());
    let (status, found) = rig.json("GET", "/apisix/admin/openapi.json", &Value::Null);
    assert_eq!((status, found), (200, document(&catalog())));
    let (status, _, _) = block_on(ask(&rig.admin, "GET", "/apisix/admin/openapi.json", &[], ""));
    assert_eq!(status, 401);
    assert_eq!(rig.json("PUT", "/apisix/admin/openapi.json", &json!({})).0, 404);
}

#[test]
fn shown_schemas_have_no_private_keys() {
    let document = document(&catalog());
    let shown = document["components"]["schemas"]["SslShown"]["properties"].as_object().unwrap();
    assert!(shown.contains_key("cert") && !shown.contains_key("key") && !shown.contains_key("keys"));
    let route = &document["components"]["schemas"]["Route"];
    assert!(route["properties"].get("create_time").is_none(), "the gateway sets the times");
    assert!(document["components"]["schemas"]["RouteShown"]["properties"].get("create_time").is_some());
    let rule = &document["components"]["schemas"]["GlobalRule"]["required"];
    assert_eq!(rule, &json!(["plugins"]), "the id may be in the path only");
}
