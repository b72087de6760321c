//! The fields and the body of a request as values that a schema can check. Refuses nothing itself except what cannot be
//! decoded.

use message::Headers;
use serde_json::{Map, Value};

use message::query::{arguments, decode};

/// A decoded body.
pub(super) struct Decoded {
    pub(super) value: Value,
    /// Whether the body is JSON; otherwise it is a form.
    pub(super) is_json: bool,
}

/// Decodes `body`, a form if `content_type` says so, otherwise JSON.
pub(super) fn body_value(content_type: Option<&[u8]>, body: &[u8]) -> Result<Decoded, String> {
    let is_form = content_type.is_some_and(|found| {
        found.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM.as_bytes()))
    });
    if is_form {
        return Ok(Decoded { value: form(body), is_json: false });
    }
    match serde_json::from_slice(body) {
        Ok(value) => Ok(Decoded { value, is_json: true }),
        Err(error) => Err(format!("the body is not JSON: {error}")),
    }
}

fn form(body: &[u8]) -> Value {
    let mut object = Map::new();
    for (whole, name, value) in arguments(body) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&decode(bytes)).into_owned();
        let has_value = whole.len() > name.len();
        add(&mut object, text(name), if has_value { text(value).into() } else { Value::Bool(true) });
    }
    Value::Object(object)
}

/// The fields by name, as [`field_name`] writes it.
pub(super) fn field_values(headers: &Headers) -> Value {
    let mut object = Map::new();
    for field in headers.iter() {
        let value = String::from_utf8_lossy(field.value).into_owned();
        add(&mut object, field_name(&String::from_utf8_lossy(field.name)), value.into());
    }
    Value::Object(object)
}

/// A field's name in lower case and with `-` for `_`, because APISIX finds `X_Api` in a schema under `x-api`.
pub(super) fn field_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Adds a value; values of the same name become an array.
fn add(object: &mut Map<String, Value>, name: String, value: Value) {
    match object.get_mut(&name) {
        None => {
            object.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(single) => *single = Value::Array(vec![single.take(), value]),
    }
}

const FORM: &str = "application/x-www-form-urlencoded";
