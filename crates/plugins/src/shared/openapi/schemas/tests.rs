//! Tests of the schemas.

use model::validate::SchemaSteps;

use super::*;

fn check(document: &Value, is_31: bool, schema: &Value, good: &[Value], bad: &[Value]) {
    let mut schemas = Schemas::new(document, is_31);
    let compiled = schemas.compile(schema, "/x").unwrap_or_else(|reason| panic!("{schema}: {reason}"));
    for value in good {
        assert_eq!(compiled.schema.fault(value, &mut SchemaSteps::on_worker()), None, "{schema}: {value}");
    }
    for value in bad {
        assert!(compiled.schema.fault(value, &mut SchemaSteps::on_worker()).is_some(), "{schema}: {value}");
    }
}

#[test]
fn circles_of_references_are_followed() {
    let document = json!({"components": {"schemas": {
        "Node": {"type": "object", "required": ["value"], "properties": {
            "value": {"$ref": "#/components/schemas/a~1b"}, "next": {"$ref": "#/components/schemas/Node"},
        }},
        "a/b": {"type": "integer"},
    }}});
    let node = json!({"$ref": "#/components/schemas/Node"});
    let nested = |last: Value| json!({"value": 1, "next": {"value": 2, "next": {"value": last}}});
    for is_31 in [true, false] {
        check(&document, is_31, &node, &[nested(json!(3))], &[nested(json!("x")), json!({})]);
    }
    let inner = json!({"$ref": "#/components/schemas/Node/properties/value"});
    check(&document, false, &inner, &[json!(1)], &[json!("a")]);
}

#[test]
fn forms_of_openapi_30_are_translated() {
    let none = json!({});
    check(
        &none,
        false,
        &json!({"type": "string", "nullable": true, "enum": ["a"]}),
        &[json!("a"), Value::Null],
        &[json!("b"), json!(1)],
    );
    check(
        &none,
        false,
        &json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
        &[json!(2)],
        &[json!(1)],
    );
    check(&none, false, &json!({"type": "integer", "exclusiveMinimum": 1}), &[json!(2)], &[json!(1)]);
    let id = json!({"type": "object", "required": ["id", "name"], "properties": {
        "id": {"type": "integer", "readOnly": true}, "name": {"type": "string"},
        "example": {"type": "integer"},
    }, "example": {"$ref": "nothing"}, "additionalProperties": false});
    check(
        &none,
        false,
        &id,
        &[json!({"name": "a"})],
        &[json!({"id": 1}), json!({"name": "a", "example": "b"}), json!({"name": "a", "z": 1})],
    );
    check(
        &none,
        true,
        &json!({"type": ["integer", "null"], "exclusiveMinimum": 1}),
        &[json!(2), Value::Null],
        &[json!(1)],
    );
    check(
        &none,
        true,
        &json!({"type": "array", "prefixItems": [{"type": "string"}]}),
        &[json!(["a", 1])],
        &[json!([1])],
    );
}

#[test]
fn faulty_schemas_are_told_with_their_place() {
    let document = json!({"components": {"schemas": {
        "Circle": {"$ref": "#/components/schemas/Circle"},
        "Bad": {"properties": {"a": {"type": "text"}}},
    }}});
    let check = |schema: Value, expected: &str| {
        let got = Schemas::new(&document, false).compile(&schema, "/x").err().unwrap_or_default();
        assert!(got.contains(expected), "{schema}: {got}");
    };
    check(json!({"$ref": "http://example.com/a.json"}), "/x: $ref `http://example.com/a.json` is not inside");
    check(
        json!({"items": {"$ref": "#/components/schemas/No"}}),
        "/x/items: $ref `#/components/schemas/No` leads nowhere",
    );
    check(json!({"$ref": "#/components/schemas/Circle"}), "refers to itself");
    check(json!({"type": "text"}), "/x: ");
    check(json!({"$ref": "#/components/schemas/Bad"}), "/components/schemas/Bad/properties/a/type");
    check(json!({"properties": {"a": 1}}), "/x/properties/a: a schema is an object");
    let mut deep = json!({});
    for _ in 0..LEVELS_MAX + 2 {
        deep = json!({ "items": deep });
    }
    check(deep, "more than 100 levels");
}

#[test]
fn types_are_those_of_all_alternatives() {
    let document = json!({"components": {"schemas": {"Id": {"type": "integer"}}}});
    let mut schemas = Schemas::new(&document, true);
    let schema = json!({"anyOf": [{"$ref": "#/components/schemas/Id"}, {"type": ["boolean", "null"]}]});
    let types = &schemas.compile(&schema, "/x").unwrap().types;
    assert_eq!(*types, ValueTypes { number: true, boolean: true, null: true, ..ValueTypes::default() });
    let list = json!({"type": "array", "items": {"type": "number"}});
    let types = &schemas.compile(&list, "/x").unwrap().types;
    assert_eq!(types.items, Some(Box::new(ValueTypes { number: true, ..ValueTypes::default() })));
}
