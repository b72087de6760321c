//! The fields and the body of a request as values that a schema can check. Refuses nothing itself except what
//! cannot be decoded.

use jsonx::Bounds;
use message::Headers;
use serde_json::{Map, Value};

use message::query::{arguments, decode};

/// A decoded body.
pub(super) struct ParsedRequestBody {
    pub(super) value: Value,
    /// The body to forward in its place, where the upstream could read another value out of it.
    pub(super) rewritten: Option<Vec<u8>>,
}

/// Decodes `body`, a form if `content_type` says so, otherwise JSON.
pub(super) fn body_value(content_type: Option<&[u8]>, body: &[u8]) -> Result<ParsedRequestBody, String> {
    let is_form = content_type.is_some_and(|found| {
        found.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM.as_bytes()))
    });
    if is_form {
        return Ok(ParsedRequestBody { value: form(body), rewritten: None });
    }
    match jsonx::parse(body, BOUNDS) {
        Ok(parsed) => Ok(ParsedRequestBody {
            value: parsed.value.to_serde(),
            rewritten: parsed.repeats_names.then(|| parsed.value.to_json()),
        }),
        Err(error) if error.is_excess() => Err(format!("the body has {error}")),
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

/// The bounds of a body of JSON. Its length is bounded where it is read; the values take at most
/// [`TREE_BYTES_MAX`].
const BOUNDS: Bounds = Bounds::BODY;
/// Memory of a value while it is checked, names and texts left out.
const VALUE_BYTES: usize = 128;
/// Memory of all values of a body while it is checked.
const TREE_BYTES_MAX: usize = BOUNDS.values_max * VALUE_BYTES;

/// The memory that the values of a body with this length take at most while it is checked. A value may be two
/// bytes of it.
pub(super) fn tree_bytes(body_bytes: usize) -> usize {
    (body_bytes / 2).saturating_mul(VALUE_BYTES).min(TREE_BYTES_MAX)
}

const FORM: &str = "application/x-www-form-urlencoded";
