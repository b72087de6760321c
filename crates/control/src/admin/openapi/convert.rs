//! Converts JSON Schema draft 7, which the checks and APISIX's tools use, to 2020-12, which OpenAPI 3.1 uses.

use serde_json::{Map, Value};

/// The same rules in the newer dialect. The keywords for tuples, dependencies and definitions have changed.
pub(super) fn to_2020_12(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(object(fields)),
        other => other.clone(),
    }
}

fn object(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut made = Map::new();
    let is_tuple = fields.get("items").is_some_and(Value::is_array);
    for (name, value) in fields {
        match name.as_str() {
            // OpenAPI 3.1 implies the dialect.
            "$schema" => {}
            "definitions" => {
                made.insert("$defs".to_owned(), each(value));
            }
            "items" if is_tuple => {
                made.insert("prefixItems".to_owned(), list(value));
            }
            "additionalItems" if is_tuple => {
                made.insert("items".to_owned(), to_2020_12(value));
            }
            // It has no effect without a tuple.
            "additionalItems" => {}
            // Readers without Unicode properties in their patterns, such as those in Python, would refuse the
            // whole document.
            "pattern" if value.as_str().is_some_and(|pattern| pattern.contains(r"\p{")) => {}
            "dependencies" => dependencies(value, &mut made),
            "properties" | "patternProperties" => {
                made.insert(name.clone(), each(value));
            }
            "allOf" | "anyOf" | "oneOf" => {
                made.insert(name.clone(), list(value));
            }
            "items"
            | "additionalProperties"
            | "propertyNames"
            | "contains"
            | "not"
            | "if"
            | "then"
            | "else" => {
                made.insert(name.clone(), to_2020_12(value));
            }
            // Other keywords hold no schema but texts, numbers, defaults, or values of an enumeration.
            _ => {
                made.insert(name.clone(), value.clone());
            }
        }
    }
    made
}

/// Converts each value of an object; its names are not keywords.
fn each(named: &Value) -> Value {
    let fields = named.as_object().into_iter().flatten();
    Value::Object(fields.map(|(name, schema)| (name.clone(), to_2020_12(schema))).collect())
}

fn list(schemas: &Value) -> Value {
    schemas.as_array().into_iter().flatten().map(to_2020_12).collect()
}

/// Draft 7 has one keyword for lists of names and for schemas; 2020-12 has two.
fn dependencies(value: &Value, made: &mut Map<String, Value>) {
    let (mut required, mut schemas) = (Map::new(), Map::new());
    for (cause, needed) in value.as_object().into_iter().flatten() {
        if needed.is_array() {
            required.insert(cause.clone(), needed.clone());
        } else {
            schemas.insert(cause.clone(), to_2020_12(needed));
        }
    }
    for (name, map) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
        if !map.is_empty() {
            made.insert(name.to_owned(), Value::Object(map));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changed_keywords_are_converted() {
        let check = |draft_7: Value, expected: Value| assert_eq!(to_2020_12(&draft_7), expected);
        check(json!({"$schema": "x", "type": "object"}), json!({"type": "object"}));
        check(
            json!({"items": {"dependencies": {"a": ["b"]}}}),
            json!({"items": {"dependentRequired": {"a": ["b"]}}}),
        );
        check(
            json!({"dependencies": {"a": ["b"], "c": {"items": [true], "additionalItems": false}}}),
            json!({
                "dependentRequired": {"a": ["b"]},
                "dependentSchemas": {"c": {"prefixItems": [true], "items": false}},
            }),
        );
        check(
            json!({"items": {"type": "string"}, "additionalItems": false}),
            json!({"items": {"type": "string"}}),
        );
        check(json!({"definitions": {"x": {"$schema": "y"}}}), json!({"$defs": {"x": {}}}));
        check(json!({"items": {"pattern": r"^\p{L}", "minLength": 1}}), json!({"items": {"minLength": 1}}));
        check(json!({"pattern": "^a"}), json!({"pattern": "^a"}));
        check(
            json!({"anyOf": [{"not": {"definitions": {}}}], "additionalProperties": false}),
            json!({"anyOf": [{"not": {"$defs": {}}}], "additionalProperties": false}),
        );
    }

    #[test]
    fn keyword_as_a_property_name_is_unchanged() {
        let schema = json!({"properties": {"dependencies": {"type": "array"}, "items": {"type": "string"}}});
        assert_eq!(to_2020_12(&schema), schema);
        let schema = json!({"default": {"$schema": "x"}, "enum": [{"definitions": 1}]});
        assert_eq!(to_2020_12(&schema), schema);
    }
}
