//! Codings and digests of `ngx`: query strings, MD5, SHA-1, CRC-32, HMAC, Base64 of URLs.

use aws_lc_rs::{digest, hmac};
use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER};
use message::query::{arguments, decode};
use mlua::{Error, Lua, LuaString, Table, Value};
use percent_encoding::percent_encode;

use super::Adder;
use crate::UNRESERVED;
use crate::md5::md5;

/// Arguments that are read of a query, as in nginx unless a call says another number.
const ARGUMENTS_MAX: usize = 100;
/// Bytes of input that count as one step: digests walk about as many in the time of an instruction.
const BYTES_A_STEP: usize = 8;

pub(super) fn install_text_codings(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("encode_args", |_, lua, arguments: Table| lua.create_string(encode_arguments(&arguments)?))?;
    add.add("decode_args", |_, lua, (text, most): (LuaString, Option<i64>)| {
        decode_arguments(lua, &text.as_bytes(), most)
    })?;
    add.add("md5", |state, _, text: LuaString| {
        let text = text.as_bytes();
        state.budget.charge((text.len() / BYTES_A_STEP) as u64)?;
        Ok(HEXLOWER.encode(&md5(&text)))
    })?;
    add.add("md5_bin", |state, lua, text: LuaString| {
        let text = text.as_bytes();
        state.budget.charge((text.len() / BYTES_A_STEP) as u64)?;
        lua.create_string(md5(&text))
    })?;
    add.add("sha1_bin", |state, lua, text: LuaString| {
        let text = text.as_bytes();
        state.budget.charge((text.len() / BYTES_A_STEP) as u64)?;
        lua.create_string(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text))
    })?;
    add.add("hmac_sha1", |state, lua, (key, text): (LuaString, LuaString)| {
        let text = text.as_bytes();
        state.budget.charge((text.len() / BYTES_A_STEP) as u64)?;
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key.as_bytes());
        lua.create_string(hmac::sign(&key, &text))
    })?;
    add.add("crc32", |state, _, text: LuaString| {
        let text = text.as_bytes();
        state.budget.charge((text.len() / BYTES_A_STEP) as u64)?;
        Ok(f64::from(crc32(&text)))
    })?;
    add.add("encode_base64url", |_, lua, text: LuaString| {
        lua.create_string(BASE64URL_NOPAD.encode(&text.as_bytes()))
    })?;
    add.add("decode_base64url", |_, lua, text: LuaString| {
        let text = text.as_bytes();
        let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
        BASE64URL_NOPAD.decode(&text[..end]).ok().map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    add.add("encode_base64_unpadded", |_, lua, text: LuaString| {
        lua.create_string(BASE64_NOPAD.encode(&text.as_bytes()))
    })?;
    add.add("charge_bytes", |state, _, bytes: f64| state.budget.charge(bytes as u64 / BYTES_A_STEP as u64))
}

/// The query of a table: `true` is an argument without a value, a list stands for several of one name.
pub(super) fn encode_arguments(arguments: &Table) -> mlua::Result<Vec<u8>> {
    let mut query = Vec::new();
    for pair in arguments.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let Some(name) = text_of(&name) else {
            return Err(Error::runtime("attempt to use a key that is no string as the name of an argument"));
        };
        match &value {
            Value::Table(list) => {
                for item in list.sequence_values::<Value>() {
                    append_argument(&mut query, &name, &item?)?;
                }
            }
            value => append_argument(&mut query, &name, value)?,
        }
    }
    Ok(query)
}

fn append_argument(query: &mut Vec<u8>, name: &[u8], value: &Value) -> mlua::Result<()> {
    if *value == Value::Boolean(false) {
        return Ok(());
    }
    if !query.is_empty() {
        query.push(b'&');
    }
    query.extend(percent_encode(name, UNRESERVED).flat_map(str::bytes));
    if *value == Value::Boolean(true) {
        return Ok(());
    }
    let Some(text) = text_of(value) else {
        return Err(Error::runtime(format!("attempt to use {} as query arg value", crate::type_name(value))));
    };
    query.push(b'=');
    query.extend(percent_encode(&text, UNRESERVED).flat_map(str::bytes));
    Ok(())
}

/// The text of a string or number.
pub(crate) fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(router::vars::Value::Number(*number).text().into_owned()),
        _ => None,
    }
}

/// The table of a query: an argument without a value is `true`, several of one name are a list.
pub(super) fn decode_arguments(lua: &Lua, query: &[u8], most: Option<i64>) -> mlua::Result<Table> {
    let most = match most {
        None => ARGUMENTS_MAX,
        Some(0) => usize::MAX,
        Some(most) => usize::try_from(most).unwrap_or(ARGUMENTS_MAX),
    };
    let table = lua.create_table()?;
    for (whole, name, value) in arguments(query).take(most) {
        let has_value = whole.len() > name.len();
        let name = lua.create_string(decode(name))?;
        let value =
            if has_value { Value::String(lua.create_string(decode(value))?) } else { Value::Boolean(true) };
        push(lua, &table, &name, value)?;
    }
    Ok(table)
}

/// Adds a value under `name`; a second one makes a list.
pub(super) fn push(lua: &Lua, table: &Table, name: &LuaString, value: Value) -> mlua::Result<()> {
    match table.raw_get(name)? {
        Value::Nil => table.raw_set(name, value),
        Value::Table(list) => list.raw_push(value),
        first => table.raw_set(name, lua.create_sequence_from([first, value])?),
    }
}

/// CRC-32 of IEEE 802.3, as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc_is_that_of_the_standard() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32(b""), 0);
    }
}
