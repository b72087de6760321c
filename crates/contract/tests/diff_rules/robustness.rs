//! Cyclic, deep, large and malformed documents: the comparison ends, within its limits and without a panic.

use contract::diff::{DiffLimit, DiffOptions, MAX_CHANGES, MAX_SCHEMA_DEPTH, diff_documents};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::FragmentPlace::Request;
use super::{changes, document, rule_lines};

/// A document with cycles, escapes and most keywords, as a base for mutations.
fn rich_document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "version": "1" },
        "security": [{ "key": [] }, { "oauth": ["read"] }],
        "paths": { "/pets/{id}": {
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
            "put": {
                "operationId": "putPet",
                "tags": ["pets"],
                "deprecated": true,
                "x-sunset": "2027-01-01",
                "parameters": [{ "$ref": "#/components/parameters/Limit" }],
                "requestBody": { "content": {
                    "application/json": { "schema": { "$ref": "#/components/schemas/a~1b%20c" } },
                } },
                "responses": { "200": {
                    "headers": { "X-Rate": { "schema": { "type": "integer" } } },
                    "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Node" } } },
                } },
            },
        } },
        "components": {
            "parameters": { "Limit": { "name": "limit", "in": "query", "schema": { "enum": [1, 2] } } },
            "schemas": {
                "a/b c": { "allOf": [{ "$ref": "#/components/schemas/Node" }, { "required": ["next"] }] },
                "Node": {
                    "type": "object",
                    "properties": {
                        "next": { "oneOf": [{ "$ref": "#/components/schemas/Node" }, { "type": "null" }] },
                        "size": { "type": "number", "multipleOf": 2, "exclusiveMaximum": 9, "default": 4 },
                        "list": { "items": { "$ref": "#/components/schemas/a~1b%20c" }, "minItems": 1 },
                    },
                    "patternProperties": { "^x": { "pattern": "a" } },
                    "dependentRequired": { "size": ["list"] },
                    "discriminator": { "propertyName": "kind", "mapping": { "n": "Node" } },
                    "if": { "required": ["size"] },
                    "then": { "maxProperties": 3 },
                },
            },
            "securitySchemes": {
                "oauth": { "type": "oauth2", "flows": { "implicit": { "scopes": { "read": "" } } } },
            },
        },
    })
}

/// Replaces the value at the `position`-th place of a depth-first walk.
fn replace_at(value: &mut Value, position: &mut usize, replacement: &Value) -> bool {
    if *position == 0 {
        *value = replacement.clone();
        return true;
    }
    *position -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| replace_at(item, position, replacement)),
        Value::Object(members) => {
            members.values_mut().any(|member| replace_at(member, position, replacement))
        }
        _ => false,
    }
}

fn replacements() -> impl Strategy<Value = Value> {
    let reference = |target: &str| json!({ "$ref": target });
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~ä]{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "a", [], {}])),
        Just(json!({ "type": ["string", "null", 3], "enum": "x", "oneOf": {}, "properties": [] })),
        Just(json!({ "type": "null", "oneOf": [{ "type": "null" }, true, false, 3] })),
        Just(reference("#")),
        Just(reference("#/components")),
        Just(reference("#/components/schemas/Node")),
        Just(reference("#/components/schemas/Node/properties/next")),
        Just(reference("#/paths/~1pets~1%7Bid%7D/put")),
        Just(reference("#/%zz~9")),
        Just(reference("other.yaml#/a")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_documents_do_not_panic(
        edits in prop::collection::vec((any::<bool>(), 0usize..220, replacements()), 1..6),
        is_wire in any::<bool>(),
    ) {
        let (mut old, mut new) = (rich_document(), rich_document());
        for (is_old, position, replacement) in edits {
            let mut position = position;
            replace_at(if is_old { &mut old } else { &mut new }, &mut position, &replacement);
        }
        let mut options = DiffOptions { today: Some(0), ..DiffOptions::default() };
        options.property_order_is_wire = is_wire;
        let first = diff_documents(&old, &new, &options);
        prop_assert_eq!(&first, &diff_documents(&old, &new, &options));
        for document in [&old, &new] {
            prop_assert_eq!(diff_documents(document, document, &options), Ok(Vec::new()));
        }
        for change in first.unwrap_or_default() {
            let is_found = old.pointer(&change.place).is_some() || new.pointer(&change.place).is_some();
            prop_assert!(is_found, "{:?}", change);
        }
    }
}

#[test]
fn cyclic_schemas_end_and_report_once() {
    let mut new = rich_document();
    new["components"]["schemas"]["Node"]["properties"]["size"]["multipleOf"] = json!(3);
    let found = changes(&rich_document(), &new);
    let expected = [
        "E response-property-multiple-of-changed",
        "W request-property-multiple-of-changed",
        "W response-property-multiple-of-changed",
    ];
    assert_eq!(rule_lines(&found), expected);
    assert!(found.len() < 10, "{found:?}");
}

#[test]
fn reference_chains_without_end_are_absent() {
    let paths = json!({ "$ref": "#/paths" });
    let chain = json!({ "openapi": "3.1.0", "paths": paths, "components": { "$ref": "#/components" } });
    assert_eq!(changes(&chain, &chain), []);
    assert_eq!(changes(&chain, &json!({})), []);
}

/// A request with a schema that leads to the last one of `length` schemas; each names the next.
fn chain_document(length: usize, is_cycle: bool, last_type: &str) -> Value {
    let reference = |index: usize| json!({ "$ref": format!("#/components/schemas/S{index}") });
    let link =
        |index: usize| (format!("S{index}"), json!({ "properties": { "next": reference(index + 1) } }));
    let mut schemas: serde_json::Map<String, Value> = (0..length).map(link).collect();
    let back = if is_cycle { json!({ "a": reference(0) }) } else { json!({}) };
    schemas.insert(format!("S{length}"), json!({ "type": last_type, "properties": back }));
    let mut document = document(Request, r##"{"$ref":"#/components/schemas/S0"}"##);
    document["components"]["schemas"] = Value::Object(schemas);
    document
}

#[test]
fn long_cycles_are_followed() {
    let (old, new) = (chain_document(500, true, "string"), chain_document(500, true, "integer"));
    let found = changes(&old, &new);
    assert_eq!(rule_lines(&found), ["E request-property-type-changed"]);
    assert_eq!(found[0].place, "/components/schemas/S500");
    assert!(found[0].text.len() < 1024, "{}", found[0].text.len());
}

#[test]
fn deep_schemas_are_an_error() {
    let length = MAX_SCHEMA_DEPTH + 1;
    let (old, new) = (chain_document(length, false, "string"), chain_document(length, false, "integer"));
    assert_eq!(diff_documents(&old, &new, &DiffOptions::default()), Err(DiffLimit::Depth));
}

#[test]
fn too_many_changes_are_an_error() {
    let paths: serde_json::Map<String, Value> =
        (0..=MAX_CHANGES).map(|index| (format!("/{index}"), json!({ "get": {} }))).collect();
    let old = json!({ "openapi": "3.0.3", "paths": paths });
    assert_eq!(diff_documents(&old, &json!({}), &DiffOptions::default()), Err(DiffLimit::Changes));
}

#[test]
fn exponential_references_are_walked_once() {
    // Each schema names the next one twice, so that a walk without memory would take 2^60 steps.
    let schemas: serde_json::Map<String, Value> = (0..60)
        .map(|index| {
            let next = json!({ "$ref": format!("#/components/schemas/S{}", index + 1) });
            (format!("S{index}"), json!({ "oneOf": [next, { "properties": { "a": next } }] }))
        })
        .collect();
    let mut old = document(Request, r##"{"$ref":"#/components/schemas/S0"}"##);
    old["components"]["schemas"] = Value::Object(schemas);
    old["components"]["schemas"]["S60"] = json!({ "type": "string" });
    let mut new = old.clone();
    new["components"]["schemas"]["S60"] = json!({ "type": "integer" });
    let found = changes(&old, &new);
    assert!(!found.is_empty() && found.len() < 10, "{}", found.len());
}
