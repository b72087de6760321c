//! Examples of random schemas are accepted by a validator of another origin.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::example::example_of;
use crate::example::generate::ExampleMaker;

/// A schema of one type with constraints that can be met.
fn any_leaf() -> impl Strategy<Value = Value> {
    let patterns = prop::sample::select(vec![
        "^[a-z]{2,5}$",
        "^\\d+(\\.\\d{2})?$",
        "^(red|green|blue)-[A-F0-9]{4}$",
        "x|y",
        "^[^0-9]+$",
        "^\\S+@\\S+$",
    ]);
    let formats = prop::sample::select(vec![
        "date-time",
        "date",
        "time",
        "uuid",
        "email",
        "uri",
        "hostname",
        "ipv4",
        "ipv6",
        "duration",
        "json-pointer",
        "regex",
        "uri-reference",
    ]);
    prop_oneof![
        (-50_i64..50, 0_i64..50, 1_i64..9).prop_map(|(low, size, step)| {
            json!({ "type": "integer", "minimum": low, "maximum": low + size + step, "multipleOf": step })
        }),
        (-500_i64..500, 1_i64..50, any::<bool>()).prop_map(|(low, size, is_exclusive)| {
            let field = if is_exclusive { "exclusiveMinimum" } else { "minimum" };
            let (low, high) = (low as f64 / 100.0, (low + size) as f64 / 100.0);
            json!({ "type": "number", field: low, "exclusiveMaximum": high })
        }),
        (1_i64..200)
            .prop_map(|step| json!({ "type": "number", "multipleOf": step as f64 / 100.0, "minimum": 0.3 })),
        (0_usize..20, 0_usize..20).prop_map(
            |(least, size)| json!({ "type": "string", "minLength": least, "maxLength": least + size })
        ),
        (patterns, 0_usize..9).prop_map(|(pattern, _)| json!({ "type": "string", "pattern": pattern })),
        formats.prop_map(|format| json!({ "type": "string", "format": format })),
        Just(json!({ "type": ["null", "boolean"] })),
        Just(json!({ "enum": [1, "a", null] })),
        Just(json!({ "const": { "a": 1 } })),
    ]
}

/// Objects, lists and combinations of schemas.
fn any_schema() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(4, 40, 5, |inner| {
        let properties = prop::collection::btree_map("[a-e]", (inner.clone(), any::<bool>()), 0..5);
        prop_oneof![
            (properties, 0_usize..4).prop_map(|(properties, least)| {
                let required: Vec<_> =
                    properties.iter().filter(|(_, (_, is_required))| *is_required).map(|(name, _)| name.clone()).collect();
                let properties: Map<_, _> = properties.into_iter().map(|(name, (schema, _))| (name, schema)).collect();
                json!({ "type": "object", "required": required, "properties": properties, "minProperties": least })
            }),
            (inner.clone(), 0_usize..4)
                .prop_map(|(items, least)| json!({ "type": "array", "items": items, "minItems": least })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|branches| json!({ "anyOf": branches })),
            (inner.clone(), inner).prop_map(|(first, second)| json!({ "allOf": [
                { "type": "object", "required": ["x"], "properties": { "x": first } },
                { "properties": { "y": second } },
            ] })),
        ]
    })
}

proptest! {
    #[test]
    fn examples_are_accepted(schema in any_schema(), seed in any::<u64>()) {
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let document = json!({ "openapi": "3.1.0" });
        let plain = example_of(&document, &schema);
        prop_assert!(validator.is_valid(&plain), "{plain} for {schema}");
        let random = ExampleMaker::new(&document, Some(seed)).make_whole(&schema).unwrap();
        prop_assert!(validator.is_valid(&random), "random {random} for {schema}");
    }

    #[test]
    fn unique_items_are_accepted(leaf in any_leaf()) {
        let schema = json!({ "type": "array", "items": leaf, "minItems": 2, "uniqueItems": true });
        let made = example_of(&json!({ "openapi": "3.1.0" }), &schema);
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        prop_assert!(made.is_null() || validator.is_valid(&made), "{made} for {schema}");
    }
}
