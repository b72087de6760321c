//! The formats of bodies: which one a message has, and its value for templates.

use mlua::{Lua, Table, Value};

use super::multipart::Multipart;
use super::xml;
use crate::shared::attributes::words;
use lua::{DecodingBudget, Json};
use message::query::{arguments, decode};

/// Arguments of a query or a form that count, as in APISIX; further ones are left out.
const ARGUMENTS_MAX: usize = 100;

words! {
    pub(super) enum Format {
        Xml = "xml",
        Json = "json",
        Encoded = "encoded",
        Args = "args",
        Plain = "plain",
        Multipart = "multipart",
    }
}

impl Format {
    /// The format that a `Content-Type` tells. APISIX compares the first two with regard to case.
    pub(super) fn guess(content_type: &[u8]) -> Option<Format> {
        let lower = content_type.to_ascii_lowercase();
        let has = |text: &[u8], part: &str| memchr::memmem::find(text, part.as_bytes()).is_some();
        match () {
            () if has(content_type, "text/xml") => Some(Format::Xml),
            () if has(content_type, "application/json") => Some(Format::Json),
            () if has(&lower, "application/x-www-form-urlencoded") => Some(Format::Encoded),
            () if has(&lower, "multipart/") => Some(Format::Multipart),
            () => None,
        }
    }

    /// Whether APISIX takes a template for Base64 without `template_is_base64`, if it can be decoded.
    pub(super) fn tries_base64(self) -> bool {
        !matches!(self, Format::Encoded | Format::Args)
    }
}

/// A decoded body.
pub(super) struct DecodedBody {
    pub(super) fields: Table,
    /// The body as parts, where it is of several.
    pub(super) multipart: Option<Multipart>,
}

/// A body to decode.
pub(super) struct EncodedBody<'a> {
    pub(super) format: Option<Format>,
    pub(super) content_type: &'a [u8],
    pub(super) query: &'a [u8],
    pub(super) body: Option<&'a [u8]>,
}

impl EncodedBody<'_> {
    /// The fields that a template sees of the body; none where it cannot be told what the body is, and
    /// without a body.
    ///
    /// # Errors
    /// The body is not of its format, or exceeds a limit of decoding, as a sentence.
    pub(super) fn decode(&self, lua: &Lua, json: &Json) -> Result<DecodedBody, String> {
        let body = self.body.unwrap_or_default();
        let budget = DecodingBudget::begin();
        let mut multipart = None;
        let fields = match self.format {
            Some(Format::Args) => form(lua, self.query),
            Some(Format::Xml) if self.body.is_some() => {
                return Ok(DecodedBody { fields: xml::read_xml(lua, body, &budget)?, multipart });
            }
            Some(Format::Json) if self.body.is_some() => match json.read(lua, body, &|| budget.charge())? {
                Value::Table(fields) => Ok(fields),
                _ => return Err("it is neither an object nor an array".to_owned()),
            },
            Some(Format::Encoded) if self.body.is_some() => form(lua, body),
            Some(Format::Multipart) if self.body.is_some() => {
                let parts = multipart.insert(Multipart::read(self.content_type, body)?);
                parts.values(lua, true)
            }
            _ => lua.create_table(),
        };
        Ok(DecodedBody { fields: fields.map_err(|error| error.to_string())?, multipart })
    }
}

/// The arguments by name: `true` for one without a value, a list for one that repeats.
fn form(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let named = arguments(text).filter(|(_, name, _)| !name.is_empty());
    for (whole, name, value) in named.take(ARGUMENTS_MAX) {
        let has_value = whole.len() > name.len();
        let value = match has_value {
            true => Value::String(lua.create_string(decode(value))?),
            false => Value::Boolean(true),
        };
        let name = lua.create_string(decode(name))?;
        match table.raw_get(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(list) => list.raw_push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, value])?)?,
        }
    }
    Ok(table)
}
