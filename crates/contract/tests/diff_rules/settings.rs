//! Options, order and places of the list of changes.

use contract::diff::{ChangeLevel, DiffOptions, change_rules, diff_documents, is_change_rule};
use serde_json::json;

use super::FragmentPlace::{Operation, Request};
use super::{changes, document, options, rule_lines};

#[test]
fn overrides_change_or_drop_rules() {
    let old = document(Operation, r#"{"tags":["a"],"parameters":[{"name":"q","in":"query"}]}"#);
    let new = document(Operation, "{}");
    let mut options = options();
    options.levels.insert("request-parameter-removed".into(), Some(ChangeLevel::Breaking));
    options.levels.insert("api-tag-removed".into(), None);
    let found = diff_documents(&old, &new, &options).unwrap();
    assert_eq!(rule_lines(&found), ["E request-parameter-removed"]);
}

#[test]
fn rule_names_can_be_checked() {
    assert!(is_change_rule("request-property-became-required"));
    assert!(!is_change_rule("request-property-became-green"));
    assert!(change_rules().count() > 700);
}

#[test]
fn changes_have_order_operation_and_place() {
    let old = json!({ "openapi": "3.1.0", "paths": {
        "/a~b": { "get": { "operationId": "one", "responses": { "200": {}, "404": {} } } },
        "/0": { "put": {} },
    } });
    let new = json!({ "openapi": "3.1.0", "paths": {
        "/a~b": { "get": { "operationId": "one", "responses": { "201": {} } } },
    } });
    let found = changes(&old, &new);
    let lines: Vec<String> = found
        .iter()
        .map(|change| format!("{:?} {} {}", change.level, change.operation, change.place))
        .collect();
    let expected = [
        "Breaking GET /a~b /paths/~1a~0b/get/responses/200",
        "Breaking PUT /0 /paths/~10/put",
        "Info GET /a~b /paths/~1a~0b/get/responses/201",
        "Info GET /a~b /paths/~1a~0b/get/responses/404",
    ];
    assert_eq!(lines, expected);
    assert_eq!(found[0].operation_id.as_deref(), Some("one"));
    assert_eq!(found[0].text, "The response status `200` was removed.");
}

#[test]
fn property_order_counts_only_on_demand() {
    let old = document(Request, r#"{"properties":{"a":{"enum":[1,2]},"b":{}}}"#);
    let appended = document(Request, r#"{"properties":{"a":{"enum":[1,2,3]},"b":{},"c":{}}}"#);
    let moved = document(Request, r#"{"properties":{"b":{},"a":{"enum":[2,1]}}}"#);
    assert_eq!(changes(&old, &moved), []);
    let wire = DiffOptions { property_order_is_wire: true, ..options() };
    let found = rule_lines(&diff_documents(&old, &moved, &wire).unwrap());
    assert_eq!(found, ["E wire-enum-order-changed", "E wire-property-order-changed"]);
    let found = diff_documents(&old, &appended, &wire).unwrap();
    assert!(found.iter().all(|change| change.level != ChangeLevel::Breaking), "{found:?}");
}

#[test]
fn parameter_order_counts_only_on_demand() {
    let old = document(Operation, r#"{"parameters":[{"name":"a","in":"query"},{"name":"b","in":"query"}]}"#);
    let new = document(Operation, r#"{"parameters":[{"name":"b","in":"query"},{"name":"a","in":"query"}]}"#);
    assert_eq!(changes(&old, &new), []);
    let wire = DiffOptions { property_order_is_wire: true, ..options() };
    let found = rule_lines(&diff_documents(&old, &new, &wire).unwrap());
    assert_eq!(found, ["E wire-parameter-order-changed"]);
}

#[test]
fn both_openapi_versions_mean_the_same() {
    let schema_30 = r#"{"type":"integer","nullable":true,"minimum":1,"exclusiveMinimum":true}"#;
    let schema_31 = r#"{"type":["integer","null"],"exclusiveMinimum":1}"#;
    let mut old = document(Request, schema_30);
    old["openapi"] = json!("3.0.3");
    assert_eq!(changes(&old, &document(Request, schema_31)), []);
}
