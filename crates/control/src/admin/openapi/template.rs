//! The short forms of the templates, written out to OpenAPI. It knows no operation.
//!
//! In a template, a text in the place of a schema, parameter, response or header names a component, and a
//! text in the place of an enumeration names a list. An operation has `body` or `body_or_yaml` (a schema),
//! `example` (of the body) and `refusals`; a response has `json` (a schema) and `tag` (whether it has an
//! entity tag).

use serde_json::{Map, Value, json};

/// A template as JSON; it is part of the program, so it parses.
pub(super) fn parse_template(text: &str) -> Value {
    serde_json::from_str(text).expect("the templates are JSON")
}

/// Writes every short form of a document out.
pub(super) fn expand_short_forms(document: &mut Value, lists: &Value) {
    let components = &mut document["components"];
    values(&mut components["schemas"]).for_each(|value| schema(value, lists));
    values(&mut components["parameters"]).for_each(|value| parameter(value, lists));
    values(&mut components["responses"]).for_each(|value| response(value, lists));
    values(&mut document["paths"]).flat_map(values).for_each(|value| operation(value, lists));
}

/// The values of an object or a list; none of anything else.
fn values(value: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values_mut()),
        Value::Array(items) => Box::new(items.iter_mut()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Makes a text a reference to the component of that name; gives back whether it was a text.
fn refer(section: &str, value: &mut Value) -> bool {
    let Some(name) = value.as_str() else { return false };
    *value = json!({ "$ref": format!("#/components/{section}/{name}") });
    true
}

fn schema(value: &mut Value, lists: &Value) {
    if refer("schemas", value) {
        return;
    }
    for (name, field) in value.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "items" | "additionalProperties" => schema(field, lists),
            "properties" | "anyOf" => values(field).for_each(|field| schema(field, lists)),
            "enum" => {
                if let Some(list) = field.as_str() {
                    *field = lists[list].clone();
                }
            }
            _ => {}
        }
    }
}

fn parameter(value: &mut Value, lists: &Value) {
    if !refer("parameters", value) {
        schema(&mut value["schema"], lists);
    }
}

/// A response has the headers of every answer to a caller with a valid key, unless it lists its own.
fn response(value: &mut Value, lists: &Value) {
    if refer("responses", value) {
        return;
    }
    let Some(fields) = value.as_object_mut() else { return };
    let common = || {
        json!({
            "Server": "Server",
            "X-API-VERSION": "ApiVersion",
            "X-Weir-Revision": "Revision",
            "X-Weir-Warning": "Warning",
        })
    };
    let mut headers = fields.shift_remove("headers").unwrap_or_else(common);
    if fields.shift_remove("tag").is_some() {
        headers["ETag"] = "Tag".into();
    }
    values(&mut headers).for_each(|header| {
        refer("headers", header);
    });
    if headers != json!({}) {
        fields.shift_insert(1, "headers".to_owned(), headers);
    }
    if let Some(json) = fields.shift_remove("json") {
        fields.insert("content".to_owned(), json!({ "application/json": { "schema": json } }));
    }
    for content in fields.get_mut("content").into_iter().flat_map(values) {
        if let Some(value) = content.get_mut("schema") {
            schema(value, lists);
        }
    }
}

/// Every operation that needs a key can be refused for its key, its origin and its arguments; one with a body
/// also for a slow body.
fn operation(value: &mut Value, lists: &Value) {
    let Some(fields) = value.as_object_mut() else { return };
    let mut refusals = Map::new();
    if !fields.contains_key("security") {
        refusals.extend(named(&KEY_REFUSALS));
    }
    if let Some(body) = request_body(fields, lists) {
        fields.insert("requestBody".to_owned(), body);
        refusals.extend(named(&[("408", "TooSlow")]));
    }
    if let Some("store" | "write") = fields.shift_remove("refusals").as_ref().and_then(Value::as_str) {
        refusals.extend(named(&STORE_REFUSALS));
    }
    if let Some(parameters) = fields.shift_remove("parameters") {
        let parameters = fields.entry("parameters").or_insert(parameters);
        values(parameters).for_each(|value| parameter(value, lists));
    }
    let own = fields.shift_remove("responses");
    refusals.extend(own.and_then(|own| own.as_object().cloned()).unwrap_or_default());
    refusals.sort_keys();
    let responses = fields.entry("responses").or_insert(Value::Object(refusals));
    values(responses).for_each(|value| response(value, lists));
}

/// Takes the short forms of a body out of an operation.
fn request_body(fields: &mut Map<String, Value>, lists: &Value) -> Option<Value> {
    let (as_json, as_either) = (fields.shift_remove("body"), fields.shift_remove("body_or_yaml"));
    let has_yaml = as_either.is_some();
    let mut body = as_json.or(as_either)?;
    schema(&mut body, lists);
    let mut content = json!({ "application/json": { "schema": body } });
    if has_yaml {
        content["application/yaml"] = content["application/json"].clone();
    }
    if let Some(example) = fields.shift_remove("example") {
        content["application/json"]["example"] = example;
    }
    Some(json!({ "required": true, "content": content }))
}

/// Responses of an operation by the names of their components.
fn named(refusals: &[(&str, &str)]) -> impl Iterator<Item = (String, Value)> {
    refusals.iter().map(|(status, name)| ((*status).to_owned(), Value::from(*name)))
}

/// Operations that need a key.
const KEY_REFUSALS: [(&str, &str); 4] =
    [("400", "Refused"), ("401", "Unauthorized"), ("403", "CrossSite"), ("429", "Paused")];
/// Operations that need a store: 405 where the configuration comes from a file, 503 while the store cannot be
/// used.
const STORE_REFUSALS: [(&str, &str); 2] = [("405", "ReadOnly"), ("503", "Unavailable")];
