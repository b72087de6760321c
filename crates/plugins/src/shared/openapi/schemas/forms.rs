//! Forms of schemas: those that OpenAPI has beside JSON Schema, and the place of a part in the schema that
//! refers to it.

use serde_json::{Map, Value, json};

/// A property with `mark` does not have to be there: `readOnly` in a request, `writeOnly` in a response.
pub(crate) fn without_required(mark: &str, fields: &Map<String, Value>, translated: &mut Map<String, Value>) {
    let is_marked = |name: &Value| {
        let property = fields.get("properties").and_then(|all| all.get(name.as_str()?));
        property.is_some_and(|property| property.get(mark) == Some(&Value::Bool(true)))
    };
    let Some(Value::Array(required)) = translated.get_mut("required") else { return };
    required.retain(|name| !is_marked(name));
    // Draft 4 allows no empty list.
    if required.is_empty() {
        translated.remove("required");
    }
}

/// `nullable` of OpenAPI 3.0, which counts beside a `type` only.
pub(crate) fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(name)) = schema.get("type") {
        schema.insert("type".to_owned(), json!([name, "null"]));
        if let Some(Value::Array(allowed)) = schema.get_mut("enum")
            && !allowed.contains(&Value::Null)
        {
            allowed.push(Value::Null);
        }
    }
}

/// Puts `value` at a pointer into objects, which are made where they are missing.
pub(crate) fn insert(root: &mut Value, pointer: &str, value: Value) {
    let mut target = root;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if target.is_array() {
            // The part stands in one that is there already.
            return;
        }
        if !target.is_object() {
            *target = json!({});
        }
        target = &mut target[step];
    }
    match (target, value) {
        // A part of this one stands there already, because it is referred to as well.
        (Value::Object(present), Value::Object(more)) => present.extend(more),
        (target, value) => *target = value,
    }
}
