//! Merges schemas that a value has to match at the same time.

use serde_json::{Map, Value, json};

use super::number_value::common_multiple;

/// Adds the constraints of `from`, except the fields in `without`. A field of which no combination is known
/// keeps its value in `into`.
pub(super) fn merge_into(into: &mut Map<String, Value>, from: &Map<String, Value>, without: &[&str]) {
    let numeric = numeric_bounds(from);
    for (field, value) in numeric.as_ref().unwrap_or(from) {
        if without.contains(&&**field) {
            continue;
        }
        let Some(before) = into.get_mut(field) else {
            into.insert(field.clone(), value.clone());
            continue;
        };
        match &**field {
            "properties" => {
                if let (Value::Object(before), Value::Object(added)) = (before, value) {
                    added.iter().for_each(|(name, schema)| merge_property(before, name, schema));
                }
            }
            "required" => {
                if let (Value::Array(before), Value::Array(added)) = (before, value) {
                    before.extend(added.iter().cloned());
                }
            }
            "type" => *before = common_type(before, value),
            "enum" => {
                if let (Value::Array(before), Value::Array(added)) = (before, value) {
                    before.retain(|value| added.contains(value));
                }
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties"
                if value.as_f64() > before.as_f64() =>
            {
                *before = value.clone();
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties"
                if value.as_f64() < before.as_f64() =>
            {
                *before = value.clone();
            }
            "multipleOf" => *before = common_multiple(before, value).unwrap_or_else(|| before.clone()),
            "uniqueItems" if value == &json!(true) => *before = json!(true),
            "items" | "additionalProperties"
                if before.is_object() && value.is_object() && before != value =>
            {
                *before = json!({ "allOf": [before, value] });
            }
            "items" | "additionalProperties" if value == &json!(false) || before == &json!(true) => {
                *before = value.clone();
            }
            _ => {}
        }
    }
}

/// Adds the schema of a property; one that is there already has to be matched as well.
pub(super) fn merge_property(properties: &mut Map<String, Value>, name: &str, schema: &Value) {
    match properties.get_mut(name) {
        None => {
            properties.insert(name.to_owned(), schema.clone());
        }
        Some(before) if before == schema => {}
        // An example decides alone, see `examples_into_properties`.
        Some(before) if before.get("example").is_some() => {}
        Some(before) if schema.get("example").is_some() => *before = schema.clone(),
        Some(before) => *before = json!({ "allOf": [before, schema] }),
    }
}

/// A member of `allOf` with its example spread over its properties, because the example of a member is no
/// example of the whole.
pub(super) fn examples_into_properties(member: &Map<String, Value>) -> Map<String, Value> {
    let mut member = member.clone();
    for field in ["default", "examples", "example"] {
        let Some(example) = member.get(field) else { continue };
        let example = match (field, example) {
            ("examples", Value::Array(list)) => list.first().and_then(Value::as_object),
            (_, example) => example.as_object(),
        };
        let Some(example) = example.cloned() else { continue };
        member.shift_remove(field);
        let properties = member.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            for (name, value) in example {
                let is_write_only = properties.get(&name).and_then(|schema| schema.get("writeOnly")).cloned();
                let mut schema = json!({ "example": value });
                if let Some(is_write_only) = is_write_only {
                    schema["writeOnly"] = is_write_only;
                }
                properties.insert(name, schema);
            }
        }
    }
    member
}

/// The schema with `exclusiveMinimum` and `exclusiveMaximum` as numbers instead of marks at the bound
/// (OpenAPI 3.0); nothing where it has no such marks.
fn numeric_bounds(fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    const PAIRS: [(&str, &str); 2] = [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")];
    if !PAIRS.iter().any(|(mark, _)| fields.get(*mark).is_some_and(Value::is_boolean)) {
        return None;
    }
    let mut numeric = fields.clone();
    for (mark, bound) in PAIRS {
        let Some(Value::Bool(is_exclusive)) = numeric.get(mark).cloned() else { continue };
        numeric.shift_remove(mark);
        if is_exclusive && let Some(number) = numeric.shift_remove(bound) {
            numeric.insert(mark.to_owned(), number);
        }
    }
    Some(numeric)
}

/// The types that both schemas allow. Integers are numbers.
fn common_type(first: &Value, second: &Value) -> Value {
    let names = |value: &Value| match value {
        Value::Array(names) => names.clone(),
        other => vec![other.clone()],
    };
    let (first, second) = (names(first), names(second));
    let mut common: Vec<Value> = Vec::new();
    for name in &first {
        if second.contains(name) || (name == "integer" && second.contains(&json!("number"))) {
            common.push(name.clone());
        } else if name == "number" && second.contains(&json!("integer")) {
            common.push(json!("integer"));
        }
    }
    match common.len() {
        1 => common.remove(0),
        _ => Value::Array(common),
    }
}
