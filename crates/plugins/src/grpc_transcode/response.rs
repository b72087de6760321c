//! JSON of messages in the shape that the contract's `pb_option` asks for: names of the definition, bytes as
//! text, and for a `oneof` also its name with the name of the field that is set. It knows no response.

use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Syntax,
    Value,
};

use super::number::{Wide, write_float, write_integer};

/// The longest JSON of one message, in bytes. A message of a few megabytes can be gigabytes of JSON, because
/// the names and the defaults of its fields are written each time.
const JSON_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Which fields that are not set are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Defaults {
    /// As `All` in proto3, as `Nothing` in proto2.
    #[default]
    Auto,
    /// None.
    Nothing,
    /// All but messages and members of a `oneof`; in proto2 those that declare a default.
    All,
    /// Lists and maps in proto3.
    Lists,
}

/// The form of JSON that a route asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonOptions {
    pub(super) wide: Wide,
    pub(super) defaults: Defaults,
    pub(super) enums_as_numbers: bool,
}

impl JsonOptions {
    /// The form of these options; one that is not given has its default.
    pub(super) fn of(options: &[String]) -> JsonOptions {
        let mut form = JsonOptions::default();
        for option in options {
            match &**option {
                "int64_as_number" => form.wide = Wide::Number,
                "int64_as_string" => form.wide = Wide::Text,
                "int64_as_hexstring" => form.wide = Wide::Hex,
                "enum_as_name" => form.enums_as_numbers = false,
                "enum_as_value" => form.enums_as_numbers = true,
                "auto_default_values" => form.defaults = Defaults::Auto,
                "no_default_values" => form.defaults = Defaults::Nothing,
                "use_default_values" => form.defaults = Defaults::All,
                "use_default_metatable" => form.defaults = Defaults::Lists,
                // Hooks are functions of Lua, which no configuration can set.
                _ => {}
            }
        }
        form
    }

    /// Whether a field that is not set is written.
    fn writes_default(self, field: &FieldDescriptor, is_proto3: bool) -> bool {
        let defaults = match self.defaults {
            Defaults::Auto if is_proto3 => Defaults::All,
            Defaults::Auto => Defaults::Nothing,
            defaults => defaults,
        };
        let has_several = field.cardinality() == Cardinality::Repeated;
        match defaults {
            Defaults::Auto | Defaults::Nothing => false,
            _ if has_several => is_proto3,
            Defaults::Lists => false,
            Defaults::All if field.containing_oneof().is_some() => false,
            Defaults::All if matches!(field.kind(), Kind::Message(_)) => false,
            Defaults::All => is_proto3 || field.field_descriptor_proto().default_value.is_some(),
        }
    }
}

/// A message that has no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoJson {
    /// It has a number that is infinite or none.
    Number,
    /// Its JSON is too long.
    Length,
}

/// Appends the JSON of a message. The depth of messages is limited where they are decoded: 100.
///
/// # Errors
/// It has no JSON; `out` has a part of it then.
pub(super) fn write_message_json(
    out: &mut Vec<u8>,
    message: &DynamicMessage,
    form: JsonOptions,
) -> Result<(), NoJson> {
    let descriptor = message.descriptor();
    let is_proto3 = is_proto3(&descriptor);
    out.push(b'{');
    let mut is_first = true;
    for field in descriptor.fields() {
        let is_set = message.has_field(&field);
        if !is_set && !form.writes_default(&field, is_proto3) {
            continue;
        }
        let oneof = field.containing_oneof().filter(|oneof| is_set && !oneof.is_synthetic());
        if let Some(oneof) = oneof {
            name(out, &mut is_first, oneof.name());
            write_json_text(out, field.name());
        }
        name(out, &mut is_first, field.name());
        value(out, &field, &message.get_field(&field), form)?;
        if out.len() > JSON_MAX_BYTES {
            return Err(NoJson::Length);
        }
    }
    out.push(b'}');
    Ok(())
}

fn is_proto3(descriptor: &MessageDescriptor) -> bool {
    descriptor.parent_file().syntax() == Syntax::Proto3
}

fn name(out: &mut Vec<u8>, is_first: &mut bool, name: &str) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
    write_json_text(out, name);
    out.push(b':');
}

fn value(out: &mut Vec<u8>, field: &FieldDescriptor, value: &Value, form: JsonOptions) -> Result<(), NoJson> {
    match value {
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                one(out, &field.kind(), item, form)?;
            }
            out.push(b']');
        }
        Value::Map(entries) => {
            let Kind::Message(entry) = field.kind() else { return Ok(()) };
            let kind = entry.map_entry_value_field().kind();
            let mut sorted: Vec<_> = entries.iter().collect();
            // The order of a map's entries is not fixed, so that equal messages would differ.
            sorted.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            let mut is_first = true;
            for (key, item) in sorted {
                name(out, &mut is_first, &key_text(key));
                one(out, &kind, item, form)?;
            }
            out.push(b'}');
        }
        other => one(out, &field.kind(), other, form)?,
    }
    Ok(())
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(is) => is.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
        MapKey::String(text) => text.clone(),
    }
}

fn one(out: &mut Vec<u8>, kind: &Kind, value: &Value, form: JsonOptions) -> Result<(), NoJson> {
    match value {
        Value::Bool(is) => out.extend_from_slice(if *is { b"true" } else { b"false" }),
        Value::I32(number) => write_integer(out, i128::from(*number), form.wide),
        Value::I64(number) => write_integer(out, i128::from(*number), form.wide),
        Value::U32(number) => write_integer(out, i128::from(*number), form.wide),
        Value::U64(number) => write_integer(out, i128::from(*number), form.wide),
        Value::F32(number) if write_float(out, f64::from(*number)) => {}
        Value::F64(number) if write_float(out, *number) => {}
        Value::F32(_) | Value::F64(_) => return Err(NoJson::Number),
        Value::String(text) => write_json_text(out, text),
        Value::Bytes(bytes) => write_json_bytes(out, bytes),
        Value::EnumNumber(number) => write_enum(out, kind, *number, form),
        Value::Message(message) => write_message_json(out, message, form)?,
        // They are values of fields, not of kinds.
        Value::List(_) | Value::Map(_) => {}
    }
    if out.len() > JSON_MAX_BYTES { Err(NoJson::Length) } else { Ok(()) }
}

fn write_enum(out: &mut Vec<u8>, kind: &Kind, number: i32, form: JsonOptions) {
    let named = match kind {
        Kind::Enum(descriptor) if !form.enums_as_numbers => descriptor.get_value(number),
        _ => None,
    };
    match named {
        Some(value) => write_json_text(out, value.name()),
        None => write_integer(out, i128::from(number), form.wide),
    }
}

/// Appends a text in quotes.
pub(super) fn write_json_text(out: &mut Vec<u8>, text: &str) {
    let written = serde_json::to_writer(out, text);
    debug_assert!(written.is_ok(), "a text has a form in JSON, and a vector takes it");
}

/// Bytes that are UTF-8 are their text, as in the contract. Of others each byte is the character with its
/// number, because JSON has no other bytes.
pub(super) fn write_json_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => write_json_text(out, text),
        Err(_) => write_json_text(out, &bytes.iter().copied().map(char::from).collect::<String>()),
    }
}
