//! JSON to values of Lua and back, as lua-cjson does it: `null` is a light userdata, tables with positive
//! integer keys are arrays, an empty table is an object unless it was an empty array.

use std::borrow::Cow;

use mlua::{Lua, LuaString, Table, Value};
use model::lenient_json;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::wide_bytes::{narrow, widen};

/// Objects and arrays inside each other, both ways; the reader of JSON has the same limit.
pub(crate) const DEPTH_MAX: usize = 128;
/// The longest text that is made of a value, in bytes.
pub const RESULT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// An array may have so many elements however few of them are set; a longer one at most twice as many
/// (lua-cjson's defaults).
const SPARSE_MAX: usize = 10;

/// The codec of one interpreter.
#[derive(Clone)]
pub struct Json {
    /// The metatable of empty arrays.
    array: Table,
    /// Marks each array that is read, takes marked tables for arrays, and leaves slashes as they are: APISIX
    /// sets its codec so.
    is_apisix: bool,
}

impl Json {
    /// A codec with the metatable `array` for empty arrays.
    pub(super) fn new(array: Table) -> Json {
        Json { array, is_apisix: false }
    }

    /// A codec as APISIX sets it, with the metatable `array` for all arrays.
    pub(crate) fn of_apisix(array: Table) -> Json {
        Json { array, is_apisix: true }
    }

    /// The metatable of empty arrays.
    pub(super) fn array(&self) -> &Table {
        &self.array
    }

    /// Reads `text`, with one call of `charge` for each value of an array or object.
    ///
    /// # Errors
    /// The text is not JSON, or the error of `charge`, as a sentence.
    pub fn read(
        &self,
        lua: &Lua,
        text: &[u8],
        charge: &dyn Fn() -> mlua::Result<()>,
    ) -> Result<Value, String> {
        // Bytes of another encoding in a string stay as they are, as lua-cjson keeps them.
        let (text, is_utf8) = widen(text);
        let read = |text: &str| -> Result<Value, String> {
            let mut reader = serde_json::Deserializer::from_str(text);
            let value = JsonReader { lua, json: self, is_utf8, charge }
                .deserialize(&mut reader)
                .map_err(|error| error.to_string())?;
            reader.end().map_err(|error| error.to_string())?;
            Ok(value)
        };
        read(&text).or_else(|reason| {
            // Control characters inside strings are read as lua-cjson reads them.
            match lenient_json::escape_controls(text.as_bytes()) {
                Cow::Owned(escaped) => read(&String::from_utf8_lossy(&escaped)),
                Cow::Borrowed(_) => Err(reason),
            }
        })
    }

    /// Writes `value`.
    ///
    /// # Errors
    /// JSON cannot express it, as a sentence.
    pub fn write(&self, value: &Value) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        self.append(value, JsonStyle { depth: 0, is_sorted: false }, &mut text)?;
        Ok(text)
    }

    /// Writes `value` with the names of objects in order, so that equal values have equal texts.
    ///
    /// # Errors
    /// As for [`Json::write`].
    pub(crate) fn write_sorted(&self, value: &Value) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        self.append(value, JsonStyle { depth: 0, is_sorted: true }, &mut text)?;
        Ok(text)
    }

    fn append(&self, value: &Value, form: JsonStyle, text: &mut Vec<u8>) -> Result<(), String> {
        if text.len() > RESULT_MAX_BYTES {
            return Err(format!("the text is longer than {RESULT_MAX_BYTES} bytes"));
        }
        match value {
            Value::Boolean(true) => text.extend_from_slice(b"true"),
            Value::Boolean(false) => text.extend_from_slice(b"false"),
            Value::Integer(number) => append_number(*number as f64, text)?,
            Value::Number(number) => append_number(*number, text)?,
            Value::String(string) => self.append_string(&string.as_bytes(), text),
            Value::Table(table) => self.append_table(table, form, text)?,
            Value::Nil => text.extend_from_slice(b"null"),
            value if value.is_null() => text.extend_from_slice(b"null"),
            other => return Err(format!("Cannot serialise {}: type not supported", other.type_name())),
        }
        Ok(())
    }

    fn append_table(&self, table: &Table, form: JsonStyle, text: &mut Vec<u8>) -> Result<(), String> {
        if form.depth >= DEPTH_MAX {
            return Err(format!("Cannot serialise, excessive depth ({})", form.depth + 1));
        }
        let inner = JsonStyle { depth: form.depth + 1, ..form };
        if let Some(length) = self.array_length(table)? {
            text.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    text.push(b',');
                }
                let item: Value = table.raw_get(index).map_err(|error| error.to_string())?;
                self.append(&item, inner, text)?;
            }
            text.push(b']');
            return Ok(());
        }
        let mut fields = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, item) = pair.map_err(|error| error.to_string())?;
            let mut name = Vec::new();
            match &key {
                Value::String(key) => self.append_string(&key.as_bytes(), &mut name),
                Value::Integer(key) => append_key(*key as f64, &mut name)?,
                Value::Number(key) => append_key(*key, &mut name)?,
                _ => return Err("Cannot serialise table: table key must be a number or string".to_owned()),
            }
            fields.push((name, item));
        }
        if form.is_sorted {
            fields.sort_by(|left, right| left.0.cmp(&right.0));
        }
        text.push(b'{');
        for (index, (name, item)) in fields.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(name);
            text.push(b':');
            self.append(item, inner, text)?;
        }
        text.push(b'}');
        Ok(())
    }

    /// The number of elements of an array; none for an object.
    fn array_length(&self, table: &Table) -> Result<Option<usize>, String> {
        let is_marked = || table.metatable().is_some_and(|metatable| metatable == self.array);
        if self.is_apisix && is_marked() {
            return Ok(Some(table.raw_len()));
        }
        let (mut count, mut longest) = (0_usize, 0_usize);
        for pair in table.pairs::<Value, Value>() {
            let (key, _) = pair.map_err(|error| error.to_string())?;
            let index = match key {
                Value::Integer(index) if index > 0 => index as usize,
                Value::Number(index) if index >= 1.0 && index.fract() == 0.0 && index < 1e9 => index as usize,
                _ => return Ok(None),
            };
            (count, longest) = (count + 1, longest.max(index));
        }
        if longest > SPARSE_MAX && longest > count * 2 {
            return Err("Cannot serialise table: excessively sparse array".to_owned());
        }
        Ok((longest > 0 || is_marked()).then_some(longest))
    }

    /// A string with the escapes of lua-cjson. Bytes that are not UTF-8 stay as they are.
    fn append_string(&self, bytes: &[u8], text: &mut Vec<u8>) {
        text.push(b'"');
        for &byte in bytes {
            match byte {
                b'"' => text.extend_from_slice(b"\\\""),
                b'\\' => text.extend_from_slice(b"\\\\"),
                b'/' if !self.is_apisix => text.extend_from_slice(b"\\/"),
                0x08 => text.extend_from_slice(b"\\b"),
                b'\t' => text.extend_from_slice(b"\\t"),
                b'\n' => text.extend_from_slice(b"\\n"),
                0x0c => text.extend_from_slice(b"\\f"),
                b'\r' => text.extend_from_slice(b"\\r"),
                0..0x20 | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => text.push(byte),
            }
        }
        text.push(b'"');
    }
}

/// How a value is written.
#[derive(Clone, Copy)]
struct JsonStyle {
    /// Tables around the value.
    depth: usize,
    is_sorted: bool,
}

fn append_key(number: f64, text: &mut Vec<u8>) -> Result<(), String> {
    text.push(b'"');
    append_number(number, text)?;
    text.push(b'"');
    Ok(())
}

/// A number as `%.14g` of C writes it, which lua-cjson uses.
fn append_number(number: f64, text: &mut Vec<u8>) -> Result<(), String> {
    if !number.is_finite() {
        return Err("Cannot serialise number: must not be NaN or Infinity".to_owned());
    }
    if number.fract() == 0.0 && number.abs() < 1e14 {
        text.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return Ok(());
    }
    let scientific = format!("{number:.13e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    let written = match exponent {
        -4..14 => trimmed(&format!("{number:.*}", (13 - exponent) as usize)),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
        }
    };
    text.extend_from_slice(written.as_bytes());
    Ok(())
}

/// Makes values of Lua while the text is read, without a tree between.
#[derive(Clone, Copy)]
struct JsonReader<'a> {
    lua: &'a Lua,
    json: &'a Json,
    is_utf8: bool,
    charge: &'a dyn Fn() -> mlua::Result<()>,
}

impl JsonReader<'_> {
    fn charge<E: serde::de::Error>(&self) -> Result<(), E> {
        (self.charge)().map_err(|error| E::custom(super::describe(&error)))
    }

    fn string<E: serde::de::Error>(&self, text: &str) -> Result<LuaString, E> {
        let made = match self.is_utf8 || text.is_ascii() {
            true => self.lua.create_string(text),
            false => self.lua.create_string(narrow(text)),
        };
        made.map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for JsonReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.string(value).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let table = self.lua.create_table().map_err(A::Error::custom)?;
        let mut length = 0;
        while let Some(item) = items.next_element_seed(self)? {
            self.charge()?;
            length += 1;
            table.raw_set(length, item).map_err(A::Error::custom)?;
        }
        if length == 0 || self.json.is_apisix {
            table.set_metatable(Some(self.json.array.clone())).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let table = self.lua.create_table().map_err(A::Error::custom)?;
        while let Some(key) = fields.next_key_seed(FieldNameReader(self))? {
            self.charge()?;
            table.raw_set(key, fields.next_value_seed(self)?).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }
}

/// Reads the name of a field.
struct FieldNameReader<'a>(JsonReader<'a>);

impl<'de> DeserializeSeed<'de> for FieldNameReader<'_> {
    type Value = LuaString;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LuaString, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldNameReader<'_> {
    type Value = LuaString;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<LuaString, E> {
        self.0.string(value)
    }
}
