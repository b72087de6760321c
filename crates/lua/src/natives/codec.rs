//! JSON as APISIX's Lua reads and writes it, texts of hexadecimal and URL-safe Base64, and gzip.

use std::io::Read;

use data_encoding::{BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use flate2::read::MultiGzDecoder;
use mlua::{Lua, LuaString, Table, Value};

use super::schema::ARRAY_MARK;
use super::{charge, result};
use crate::json::Json;

/// Bytes of JSON for which one step is charged.
const BYTES_PER_STEP: u64 = 16;
/// The longest body that is decoded, in bytes: a short one may stand for gigabytes.
const DECODED_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) fn install_codecs(lua: &Lua, native: &Table) -> mlua::Result<()> {
    // The interpreter's own arrays have the same metatable.
    let array = native.raw_get::<Option<Table>>("array")?.map_or_else(|| lua.create_table(), Ok)?;
    array.raw_set(ARRAY_MARK, true)?;
    native.raw_set("null", Value::NULL)?;
    native.raw_set("array_mt", &array)?;
    let json = Json::of_apisix(array);
    let codec = json.clone();
    let decode = lua.create_function(move |lua, text: LuaString| {
        let read = codec.read(lua, &text.as_bytes(), &|| charge(lua, 1));
        charge(lua, 0)?;
        result(lua, read)
    })?;
    native.raw_set("json_decode", decode)?;
    let codec = json.clone();
    let encode = lua.create_function(move |lua, value: Value| encoded(lua, codec.write(&value)))?;
    native.raw_set("json_encode", encode)?;
    let canonical = lua.create_function(move |lua, value: Value| encoded(lua, json.write_sorted(&value)))?;
    native.raw_set("json_canonical", canonical)?;
    add_texts(lua, native)
}

fn encoded(lua: &Lua, written: Result<Vec<u8>, String>) -> mlua::Result<mlua::MultiValue> {
    if let Ok(text) = &written {
        charge(lua, text.len() as u64 / BYTES_PER_STEP)?;
    }
    result(lua, written.map(mlua::BString::from))
}

fn add_texts(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let hex = lua.create_function(|_, bytes: LuaString| Ok(HEXLOWER.encode(&bytes.as_bytes())))?;
    native.raw_set("to_hex", hex)?;
    let unhex = lua.create_function(|lua, text: LuaString| {
        HEXLOWER_PERMISSIVE.decode(&text.as_bytes()).ok().map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    native.raw_set("from_hex", unhex)?;
    let encode = lua.create_function(|_, (bytes, is_padded): (LuaString, Option<bool>)| {
        let encoding = if is_padded == Some(true) { BASE64URL } else { BASE64URL_NOPAD };
        Ok(encoding.encode(&bytes.as_bytes()))
    })?;
    native.raw_set("base64url_encode", encode)?;
    let decode = lua.create_function(|lua, text: LuaString| {
        let text = text.as_bytes();
        let end = memchr::memchr(b'=', &text).unwrap_or(text.len());
        BASE64URL_NOPAD.decode(&text[..end]).ok().map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    native.raw_set("base64url_decode", decode)?;
    let gunzip = lua.create_function(|lua, data: LuaString| {
        let decoded = gunzip(&data.as_bytes());
        if let Ok(bytes) = &decoded {
            charge(lua, bytes.len() as u64 / BYTES_PER_STEP)?;
        }
        result(lua, decoded.map(mlua::BString::from))
    })?;
    native.raw_set("gunzip", gunzip)
}

fn gunzip(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut limited = MultiGzDecoder::new(data).take(DECODED_BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > DECODED_BYTES_MAX {
        return Err(format!("the body is longer than {DECODED_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}
