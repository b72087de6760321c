//! Rewrites a schema of fields so that the names of fields in it are those of the checked object, whatever
//! their case. Does not follow `$ref`.

use serde_json::{Map, Value};

use super::decode::field_name;

/// Keywords with an object of schemas or of lists of names by name.
const BY_NAME: [&str; 4] = ["properties", "dependencies", "dependentRequired", "dependentSchemas"];
/// Keywords with one schema for the same object.
const SINGLE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with several schemas for the same object.
const SEVERAL: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The schema with the names of fields as `field_name` writes them.
pub(super) fn with_field_names(schema: Value) -> Value {
    let Value::Object(keywords) = schema else { return schema };
    let rewritten = keywords.into_iter().map(|(keyword, value)| {
        let value = match (keyword.as_str(), value) {
            ("required", names) => lower(names),
            (found, Value::Object(entries)) if BY_NAME.contains(&found) => {
                by_name(entries, found != "properties")
            }
            (found, Value::Array(schemas)) if SEVERAL.contains(&found) => {
                Value::Array(schemas.into_iter().map(with_field_names).collect())
            }
            (found, schema) if SINGLE.contains(&found) => with_field_names(schema),
            (_, other) => other,
        };
        (keyword, value)
    });
    Value::Object(rewritten.collect())
}

/// Entries by field name. Values of `properties` are schemas of values, which hold no names of fields.
fn by_name(entries: Map<String, Value>, holds_names: bool) -> Value {
    let entries = entries.into_iter().map(|(name, value)| {
        let value = match value {
            names @ Value::Array(_) if holds_names => lower(names),
            schema if holds_names => with_field_names(schema),
            schema => schema,
        };
        (field_name(&name), value)
    });
    Value::Object(entries.collect())
}

/// A list of names; another value, which the schema's compiler refuses, stays.
fn lower(names: Value) -> Value {
    let Value::Array(names) = names else { return names };
    let names = names.into_iter().map(|name| match name {
        Value::String(name) => Value::String(field_name(&name)),
        other => other,
    });
    Value::Array(names.collect())
}
