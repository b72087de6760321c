//! Tests of examples and of mocked responses.

mod mocks;
mod random_schemas;

use serde_json::{Value, json};

use super::example_of;
use super::pattern::pattern_example;

/// The example of a schema in a document of OpenAPI 3.0 with two components.
fn example(schema: Value) -> Value {
    let document = json!({ "openapi": "3.0.3", "components": { "schemas": {
        "Node": { "type": "object", "properties": {
            "id": { "type": "integer" },
            "next": { "$ref": "#/components/schemas/Node" },
            "children": { "type": "array", "items": { "$ref": "#/components/schemas/Node" } },
        } },
        "Endless": { "type": "object", "required": ["self"], "properties": {
            "self": { "$ref": "#/components/schemas/Endless" } } },
        "Ending": { "type": "object", "required": ["self"], "properties": {
            "self": { "nullable": true, "allOf": [{ "$ref": "#/components/schemas/Ending" }] } } },
        "Pet": { "type": "object", "required": ["kind"], "discriminator": { "propertyName": "kind" },
            "properties": { "kind": { "type": "string" }, "name": { "type": "string" } } },
        "Dog": { "allOf": [
            { "$ref": "#/components/schemas/Pet" },
            { "type": "object", "properties": { "bark": { "type": "boolean" } } } ] },
    } } });
    example_of(&document, &schema)
}

#[test]
fn written_values_come_first() {
    let cases = [
        (json!({ "type": "string", "example": "e", "default": "d", "enum": ["a"] }), json!("e")),
        (json!({ "type": "string", "examples": ["x", "y"], "default": "d" }), json!("x")),
        (json!({ "type": "string", "default": "d", "enum": ["a", "d"] }), json!("d")),
        (json!({ "const": 7 }), json!(7)),
        (json!({ "type": "string", "enum": ["a", "b"] }), json!("a")),
        (json!({ "type": "string", "nullable": true }), json!("string")),
        (json!({ "type": ["null", "integer"] }), json!(0)),
        (json!({ "type": "null" }), json!(null)),
        (json!(true), json!({})),
        (json!(false), json!(null)),
    ];
    for (schema, expected) in cases {
        assert_eq!(example(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn numbers_respect_bounds_and_multiples() {
    let cases = [
        (json!({ "type": "integer" }), json!(0)),
        (json!({ "type": "integer", "minimum": 3 }), json!(3)),
        (json!({ "type": "integer", "minimum": 3, "exclusiveMinimum": true }), json!(4)),
        (json!({ "type": "integer", "exclusiveMinimum": 3.5 }), json!(4)),
        (json!({ "type": "integer", "maximum": -2 }), json!(-2)),
        (json!({ "type": "integer", "minimum": 7, "multipleOf": 5 }), json!(10)),
        (json!({ "type": "integer", "minimum": 1, "multipleOf": 0.4 }), json!(2)),
        (json!({ "type": "number", "minimum": 0.05, "multipleOf": 0.02 }), json!(0.06)),
        (json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5 }), json!(0.1)),
        (json!({ "type": "number", "minimum": 1.5, "maximum": 1.5 }), json!(1.5)),
        (json!({ "type": "integer", "minimum": 5, "maximum": 4 }), json!(null)),
        (json!({ "type": "integer", "minimum": 18_446_744_073_709_551_615_u64 }), json!(u64::MAX)),
    ];
    for (schema, expected) in cases {
        assert_eq!(example(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn strings_respect_length_and_format() {
    let cases = [
        (json!({ "type": "string" }), "string"),
        (json!({ "type": "string", "minLength": 8 }), "stringst"),
        (json!({ "type": "string", "maxLength": 3 }), "str"),
        (json!({ "type": "string", "format": "date-time" }), "2019-08-24T14:15:22Z"),
        (json!({ "type": "string", "format": "date" }), "2019-08-24"),
        (json!({ "type": "string", "format": "email", "minLength": 20 }), "aaaauser@example.com"),
        (json!({ "type": "string", "format": "byte" }), "aW5nc3Ry"),
        (json!({ "type": "string", "format": "uuid" }), "095be615-a8ad-4c33-8e9c-c7612fbf6c9f"),
        (json!({ "type": "string", "format": "date", "maxLength": 4 }), "stri"),
        (json!({ "type": "string", "pattern": "^[A-Z]{2}\\d{3}$" }), "AA000"),
        (json!({ "type": "string", "pattern": "^(?=x)" }), "string"),
    ];
    for (schema, expected) in cases {
        assert_eq!(example(schema.clone()), json!(expected), "{schema}");
    }
}

#[test]
fn patterns_give_matching_texts() {
    let cases = [
        ("^a|b$", 0, Some("a")),
        ("^(foo|bar)-\\w+$", 8, Some("foo-aaaa")),
        ("^[^a-z]?x*$", 0, Some("Ax")),
        ("^\\+?[1-9]\\d{1,14}$", 0, Some("+10")),
        ("[a-z]+@[a-z]+\\.com", 0, Some("a@a.com")),
        ("^\\u0041{2,}$", 4, Some("AAAA")),
        ("^[\\w.-]+$", 0, Some("a")),
        ("^x$", 2, None),
        ("\\bword", 0, None),
        ("(?i)a", 0, None),
        ("\\1", 0, None),
        ("a**", 0, None),
        ("(", 0, None),
        ("[", 0, None),
        ("a{", 0, None),
        ("a{2,1}", 0, None),
        ("a^b", 0, None),
        ("a{999999999}", 0, None),
        ("(a{9999}){9999}", 0, None),
    ];
    for (pattern, least, expected) in cases {
        assert_eq!(pattern_example(pattern, least, 100, 0).as_deref(), expected, "{pattern}");
    }
}

#[test]
fn objects_have_optional_properties() {
    let schema = json!({ "type": "object", "required": ["z", "free"], "properties": {
        "z": { "type": "integer" }, "secret": { "type": "string", "writeOnly": true },
        "id": { "type": "string", "readOnly": true }, "a": { "type": "boolean" },
    } });
    assert_eq!(example(schema).to_string(), r#"{"z":0,"id":"string","a":true,"free":{}}"#);
    let map = json!({ "type": "object", "additionalProperties": { "type": "integer" } });
    assert_eq!(example(map), json!({ "property1": 0 }));
    let least =
        json!({ "type": "object", "minProperties": 2, "properties": { "property1": { "type": "null" } } });
    assert_eq!(example(least), json!({ "property1": null, "property2": {} }));
    let most = json!({ "maxProperties": 1, "required": ["b"], "properties": {
        "a": { "type": "null" }, "b": { "type": "null" } } });
    assert_eq!(example(most), json!({ "b": null }));
}

#[test]
fn arrays_have_as_many_items_as_needed() {
    let integers = json!({ "type": "integer", "minimum": 1, "maximum": 3 });
    let cases = [
        (json!({ "type": "array", "items": { "type": "string" } }), json!(["string"])),
        (json!({ "type": "array" }), json!([])),
        (json!({ "type": "array", "items": integers, "minItems": 2 }), json!([1, 1])),
        (json!({ "type": "array", "items": integers, "minItems": 3, "uniqueItems": true }), json!([1, 2, 3])),
        (json!({ "type": "array", "items": integers, "minItems": 4, "uniqueItems": true }), json!(null)),
        (json!({ "type": "array", "items": { "type": "string" }, "maxItems": 0 }), json!([])),
        (json!({ "type": "array", "prefixItems": [{ "const": 1 }, { "const": 2 }] }), json!([1, 2])),
        (
            json!({ "type": "array", "minItems": 2, "uniqueItems": true,
                    "items": { "properties": { "a": { "type": "string", "example": "e" } } } }),
            json!([{ "a": "e" }, { "a": "string1" }]),
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(example(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn combinations_are_merged() {
    let all = json!({ "allOf": [
        { "type": "object", "properties": { "a": { "type": "integer" }, "b": { "minimum": 2 } },
          "example": { "a": 9 } },
        { "required": ["c"], "properties": { "b": { "type": "integer", "minimum": 5 }, "c": {} } },
    ] });
    assert_eq!(example(all), json!({ "a": 9, "b": 5, "c": {} }));
    let one = json!({ "properties": { "a": { "const": 1 } }, "oneOf": [
        { "required": ["b"], "properties": { "b": { "const": 2 } } }, { "type": "string" } ] });
    assert_eq!(example(one), json!({ "a": 1, "b": 2 }));
    assert_eq!(example(json!({ "anyOf": [{ "$ref": "#/none" }, { "type": "integer" }] })), json!(0));
    let dog = json!({ "kind": "Dog", "name": "string", "bark": true });
    assert_eq!(example(json!({ "$ref": "#/components/schemas/Dog" })), dog);
    let choice = json!({
        "oneOf": [{ "$ref": "#/components/schemas/Dog" }],
        "discriminator": { "propertyName": "kind", "mapping": { "dog": "#/components/schemas/Dog" } },
    });
    assert_eq!(example(choice)["kind"], "dog");
}

#[test]
fn cycles_end() {
    let named = |name: &str| example(json!({ "$ref": format!("#/components/schemas/{name}") }));
    assert_eq!(named("Node"), json!({ "id": 0, "children": [] }));
    assert_eq!(named("Endless"), Value::Null);
    assert_eq!(named("Ending"), json!({ "self": { "self": { "self": null } } }));
    assert_eq!(named("Missing"), Value::Null);
    let mut deep = json!({ "type": "string" });
    for _ in 0..100 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    assert!(example(deep)["a"]["a"]["a"].is_object());
}

#[test]
fn wide_documents_are_bounded() {
    let leaf: Value = (0..30).map(|number| (format!("p{number}"), json!({ "type": "string" }))).collect();
    let mut schemas = json!({ "S0": { "properties": leaf } });
    for level in 1..8 {
        let reference = json!({ "$ref": format!("#/components/schemas/S{}", level - 1) });
        let properties: Value = (0..30).map(|number| (format!("p{number}"), reference.clone())).collect();
        schemas[format!("S{level}")] = json!({ "type": "object", "properties": properties });
    }
    let document = json!({ "openapi": "3.0.3", "components": { "schemas": schemas } });
    let made = example_of(&document, &json!({ "$ref": "#/components/schemas/S7" }));
    assert!(made["p0"].is_object() && made.to_string().len() < 1_000_000);
    let many = json!({ "type": "array", "minItems": 1_000_000_000, "items": { "type": "integer" } });
    assert_eq!(example(many), Value::Null);
    assert_eq!(example(json!({ "type": "string", "minLength": 1_000_000_000 })), Value::Null);
}
