//! The message of a call from the JSON or the arguments of a request, by the names of the definition. Fields
//! that the definition does not have are left out. It knows no request.

use std::collections::HashMap;

use jsonx::Bounds;
use message::Method;
use prost_reflect::bytes::Bytes;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::{Map, Value as Json};

use super::number::{read_integer, to_exact_integer};
use message::query::{arguments, decode};

/// The values that a request gives, under the names of fields.
///
/// # Errors
/// The body is no JSON object.
pub(super) fn collect_request_fields(
    input: &MessageDescriptor,
    method: Method,
    content_type: &[u8],
    query: &[u8],
    body: &[u8],
) -> Result<Map<String, Json>, String> {
    let has_json = String::from_utf8_lossy(content_type).to_ascii_lowercase().contains("application/json");
    if has_json && !body.is_empty() && matches!(method, Method::Post | Method::Put | Method::Patch) {
        return jsonx::read(body, Bounds::BODY)
            .map_err(|error| format!("the body is no JSON object: {error}"));
    }
    Ok(from_arguments(input, if method == Method::Post { body } else { query }))
}

/// A name that is there more than once has a list of values; a repeated field has one always.
fn from_arguments(input: &MessageDescriptor, text: &[u8]) -> Map<String, Json> {
    let mut fields: Map<String, Json> = Map::new();
    for (whole, name, value) in arguments(text) {
        let name = String::from_utf8_lossy(&decode(name)).into_owned();
        let Some(field) = input.get_field_by_name(&name) else { continue };
        let value = match whole.contains(&b'=') {
            true => Json::String(String::from_utf8_lossy(&decode(value)).into_owned()),
            false => Json::Bool(true),
        };
        match fields.get_mut(&name) {
            Some(Json::Array(values)) => values.push(value),
            Some(first) => *first = Json::Array(vec![first.take(), value]),
            None if field.is_list() => drop(fields.insert(name, Json::Array(vec![value]))),
            None => drop(fields.insert(name, value)),
        }
    }
    fields
}

/// The message with these fields.
///
/// # Errors
/// The field with a value that does not fit.
pub(super) fn build_request_message(
    descriptor: &MessageDescriptor,
    fields: &Map<String, Json>,
) -> Result<DynamicMessage, String> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in fields {
        if value.is_null() {
            continue;
        }
        if let Some(field) = descriptor.get_field_by_name(name) {
            let value = field_value(&field, value)?;
            message.set_field(&field, value);
        }
    }
    Ok(message)
}

fn field_value(field: &FieldDescriptor, value: &Json) -> Result<Value, String> {
    let misfit = || format!("field {}: {} does not fit", field.full_name(), kind_of(value));
    if field.is_map() {
        let entries = value.as_object().ok_or_else(misfit)?;
        let Kind::Message(entry) = field.kind() else { return Err(misfit()) };
        let (key, of) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let pairs = entries.iter().map(|(name, value)| {
            let key = map_key(&key.kind(), name).ok_or_else(misfit)?;
            Ok((key, one(&of, value)?))
        });
        return pairs.collect::<Result<HashMap<_, _>, String>>().map(Value::Map);
    }
    if field.is_list() {
        let items = value.as_array().ok_or_else(misfit)?;
        return items.iter().map(|item| one(field, item)).collect::<Result<_, _>>().map(Value::List);
    }
    one(field, value)
}

/// One value of a field, also of a repeated one.
fn one(field: &FieldDescriptor, value: &Json) -> Result<Value, String> {
    let fitting = match field.kind() {
        Kind::Message(descriptor) => match value {
            // By the depth of the JSON, which is limited, and not by that of the definition, which may have
            // cycles.
            Json::Object(fields) => return build_request_message(&descriptor, fields).map(Value::Message),
            _ => None,
        },
        Kind::Double => float(value).map(Value::F64),
        Kind::Float => float(value).map(|number| Value::F32(number as f32)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => integer(value).map(Value::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => integer(value).map(Value::I64),
        Kind::Uint32 | Kind::Fixed32 => integer(value).map(Value::U32),
        Kind::Uint64 | Kind::Fixed64 => integer(value).map(Value::U64),
        Kind::Bool => boolean(value).map(Value::Bool),
        Kind::String => value.as_str().map(|text| Value::String(text.to_owned())),
        Kind::Bytes => value.as_str().map(|text| Value::Bytes(Bytes::from(text.to_owned()))),
        Kind::Enum(descriptor) => match value {
            Json::String(name) => descriptor
                .get_value_by_name(name)
                .map(|value| value.number())
                .or_else(|| integer(value))
                .map(Value::EnumNumber),
            other => integer(other).map(Value::EnumNumber),
        },
    };
    fitting.ok_or_else(|| format!("field {}: {} does not fit", field.full_name(), kind_of(value)))
}

/// Says what a value is, without its text, which may be a secret.
fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "this number",
        Json::String(_) => "this text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn integer<T: TryFrom<i128>>(value: &Json) -> Option<T> {
    let number = match value {
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => i128::from(number),
            (None, Some(number)) => i128::from(number),
            (None, None) => to_exact_integer(number.as_f64()?)?,
        },
        Json::String(text) => read_integer(text)?,
        _ => return None,
    };
    T::try_from(number).ok()
}

fn float(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn boolean(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(is) => Some(*is),
        Json::String(text) => match &**text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Json::Number(number) => match number.as_u64() {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn map_key(kind: &Kind, name: &str) -> Option<MapKey> {
    let number = || read_integer(name);
    Some(match kind {
        Kind::String => MapKey::String(name.to_owned()),
        Kind::Bool => MapKey::Bool(boolean(&Json::from(name))?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(number()?.try_into().ok()?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(number()?.try_into().ok()?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(number()?.try_into().ok()?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(number()?.try_into().ok()?),
        _ => return None,
    })
}
