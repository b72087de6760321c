//! The wording of faults, keyword by keyword.

use crate::validate::{SchemaFault, Validator};
use serde_json::{Value, json};

fn check(schema: Value, value: Value, expected: &str) {
    let faults = Validator::new(schema.clone()).faults(&value);
    let message = faults.first().map(SchemaFault::contract_message).unwrap_or_default();
    assert_eq!(message, expected, "{value} against {schema}");
}

#[test]
fn the_wording_is_that_of_the_lua_validator() {
    check(json!({"type": "string"}), json!(1), "wrong type: expected string, got number");
    check(json!({"type": "object"}), json!(null), "wrong type: expected object, got userdata");
    check(
        json!({"type": ["string", "number"]}),
        json!([]),
        "wrong type: expected one of string, number, got table",
    );
    check(json!({"required": ["a"]}), json!({}), "property \"a\" is required");
    check(
        json!({"properties": {"a": {"required": ["b"]}}}),
        json!({"a": {}}),
        "property \"a\" validation failed: property \"b\" is required",
    );
    check(
        json!({"additionalProperties": false}),
        json!({"x": 1}),
        "additional properties forbidden, found x",
    );
    check(json!({"enum": ["a"]}), json!("b"), "matches none of the enum values; allowed are a");
    check(json!({"minimum": 1}), json!(0), "expected 0 to be at least 1");
    check(json!({"exclusiveMinimum": 0}), json!(0), "expected 0 to be greater than 0");
    check(json!({"maximum": 5}), json!(6), "expected 6 to be at most 5");
    check(json!({"minLength": 2}), json!("a"), "string too short, expected at least 2, got 1");
    check(json!({"maxLength": 1}), json!("éé"), "string too long, expected at most 1, got 2");
    check(
        json!({"pattern": "^[a]\\.$"}),
        json!("b\""),
        "failed to match pattern \"^[a]\\\\.$\" with \"b\\\"\"",
    );
    check(json!({"minItems": 1}), json!([]), "expect array to have at least 1 items");
    check(
        json!({"uniqueItems": true}),
        json!([1, 2, 1]),
        "expected unique items but items 1 and 3 are equal",
    );
    check(
        json!({"items": {"type": "string"}}),
        json!(["a", 1]),
        "failed to validate item 2: wrong type: expected string, got number",
    );
    check(
        json!({"patternProperties": {".*": {"type": "string"}}}),
        json!({"k": 1}),
        "failed to validate k (matching \".*\"): wrong type: expected string, got number",
    );
    check(
        json!({"allOf": [{}, {"oneOf": [{"required": ["a"]}]}]}),
        json!({}),
        "allOf 2 failed: value should match only one schema, but matches none; needs `a`",
    );
    check(
        json!({"oneOf": [{"required": ["z"]}, {}, {}]}),
        json!({}),
        "value should match only one schema, but matches both schemas 2 and 3",
    );
    check(
        json!({"anyOf": [{"required": ["a", "b"]}, {"required": ["c"]}]}),
        json!({}),
        "object matches none of the required: [\"a\",\"b\"] or [\"c\"]; needs `a` with `b` or `c`",
    );
    check(json!({"not": {}}), json!(1), "value wasn't supposed to match schema");
    check(
        json!({"dependencies": {"a": ["b"]}}),
        json!({"a": 1}),
        "property \"b\" is required when \"a\" is set",
    );
    check(
        json!({"dependencies": {"a": {"required": ["b"]}}}),
        json!({"a": 1}),
        "failed to validate dependent schema for \"a\": property \"b\" is required",
    );
    check(
        json!({"properties": {"tls": {"dependencies": {"a": {"not": {"required": ["b"]}}}}}}),
        json!({"tls": {"a": 1, "b": 1}}),
        "property \"tls\" validation failed: failed to validate dependent schema for \"a\": \
         value wasn't supposed to match schema",
    );
    check(
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
        json!({"a": 1}),
        "then clause did not match",
    );
    check(
        json!({"properties": {"items": {"type": "string"}}}),
        json!({"items": 1}),
        "property \"items\" validation failed: wrong type: expected string, got number",
    );
}

#[test]
fn first_fault_is_luas_first_and_all_are_listed() {
    let schema = json!({
        "properties": {"a": {"type": "string"}},
        "additionalProperties": false,
        "allOf": [{"required": ["z"]}],
    });
    let faults = Validator::new(schema.clone()).faults(&json!({"b": 1, "c": 2, "a": 1}));
    let pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, ["/a", "/b", "/c", ""]);
}

#[test]
fn unknown_property_is_reported_with_nearest() {
    let schema = json!({"type": "object", "properties": {"weight": {}}, "additionalProperties": false});
    let faults = Validator::new(schema).faults(&json!({"wieght": 1}));
    let contract = "additional properties forbidden, found wieght";
    let full = format!("{contract}; did you mean `weight`?");
    assert_eq!((faults[0].contract_message().as_str(), &faults[0].full_reason()), (contract, &full));
    assert_eq!(faults[0].plugin_message(), full, "APISIX lets most plugins have it, and has no words for it");
}
