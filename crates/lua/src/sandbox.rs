//! Opens an interpreter with nothing in it that reaches outside: no files, processes, modules, byte code,
//! debug library, foreign functions, control of the compiler, coroutines or environments of other functions.
//! `library.lua` and `modules.lua` list the parts that scripts have.

use std::rc::Rc;

use data_encoding::BASE64;
use mlua::{
    HookTriggers, IntoLuaMulti, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState,
};

use super::budget::CallBudget;
use super::compiler::CompilerUse;
use super::json::Json;
use super::patterns::{self, Capture};
use crate::base64;

/// Memory of one interpreter in bytes, garbage included. A script that needs more gets an error.
pub(crate) const MEMORY_MAX_BYTES: usize = 128 * 1024 * 1024;
/// Instructions between two charges to the budget.
const CHARGED_INSTRUCTIONS: u32 = 1_000;
/// The longest line that a script writes into the log, in bytes.
const LOG_LINE_MAX_BYTES: usize = 2_048;

/// An interpreter and the functions of its parts that are written in Lua.
pub(super) struct Sandbox {
    pub(super) lua: Lua,
    pub(super) request: Table,
    pub(super) modules: Table,
    pub(super) templates: Table,
    pub(super) json: Json,
}

/// Opens an interpreter that charges `budget`.
///
/// # Errors
/// There is no memory for it.
pub(super) fn open(budget: &Rc<CallBudget>) -> mlua::Result<Sandbox> {
    let Base { lua, native, library, json } =
        open_base(budget, CHARGED_INSTRUCTIONS, CompilerUse::IfInterruptible)?;
    let request: Table =
        lua.load(include_str!("request.lua")).set_name("=request").call((&native, &library))?;
    let modules: Table =
        lua.load(include_str!("modules.lua")).set_name("=modules").call((&native, &library, &request))?;
    let templates: Table =
        lua.load(include_str!("templates.lua")).set_name("=templates").call((&native, &library))?;
    Ok(Sandbox { lua, request, modules, templates, json })
}

/// An interpreter with the library and without a request.
pub(crate) struct Base {
    pub(crate) lua: Lua,
    pub(crate) native: Table,
    pub(crate) library: Table,
    pub(crate) json: Json,
}

/// Opens an interpreter that charges `budget` each time after `charged_instructions`.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn open_base(
    budget: &Rc<CallBudget>,
    charged_instructions: u32,
    compiler: CompilerUse,
) -> mlua::Result<Base> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS | StdLib::BIT;
    // `pcall` stays the interpreter's own: the wrapper that lets panics through calls it from native code, so
    // that no function inside it could wait.
    let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
    lua.set_memory_limit(MEMORY_MAX_BYTES)?;
    let json = Json::new(lua.create_table()?);
    let native = native_functions(&lua, budget, &json)?;
    let library: Table = lua.load(include_str!("library.lua")).set_name("=library").call(&native)?;
    let charged = Rc::clone(budget);
    let triggers = HookTriggers::new().every_nth_instruction(charged_instructions);
    lua.set_global_hook(triggers, move |_, _| {
        charged.charge_counted(charged_instructions).map(|()| VmState::Continue)
    })?;
    if let Some(interruptible) = compiler.enable(&lua, charged_instructions)? {
        budget.set_interruptible(interruptible);
    }
    Ok(Base { lua, native, library, json })
}

fn native_functions(lua: &Lua, budget: &Rc<CallBudget>, json: &Json) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("null", Value::NULL)?;
    native.raw_set("array", json.array())?;
    let charged = Rc::clone(budget);
    native.raw_set("check", lua.create_function(move |_, ()| charged.check())?)?;
    let charged = Rc::clone(budget);
    let find =
        lua.create_function(move |lua, (text, pattern, from): (LuaString, LuaString, Option<i64>)| {
            find(lua, &charged, &text, &pattern, from)
        })?;
    native.raw_set("find", find)?;
    let plain = lua.create_function(|lua, (text, part, from): (LuaString, LuaString, Option<i64>)| {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        let from = first_byte(from, text.len());
        match memchr::memmem::find(&text[from..], &part) {
            Some(at) => (from + at + 1, from + at + part.len()).into_lua_multi(lua),
            None => Value::Nil.into_lua_multi(lua),
        }
    })?;
    native.raw_set("find_plain", plain)?;
    let (codec, charged) = (json.clone(), Rc::clone(budget));
    let decode = lua.create_function(move |lua, text: LuaString| {
        let read = codec.read(lua, &text.as_bytes(), &|| charged.charge(1));
        charged.check()?;
        match read {
            Ok(value) => value.into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    })?;
    native.raw_set("decode", decode)?;
    let codec = json.clone();
    let encode = lua.create_function(move |lua, value: Value| match codec.write(&value) {
        Ok(text) => lua.create_string(text)?.into_lua_multi(lua),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    })?;
    native.raw_set("encode", encode)?;
    add_texts(lua, &native)?;
    Ok(native)
}

/// Adds the functions that convert texts, the clock and the log.
fn add_texts(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let encode =
        lua.create_function(|lua, text: LuaString| lua.create_string(BASE64.encode(&text.as_bytes())))?;
    native.raw_set("encode_base64", encode)?;
    let decode = lua.create_function(|lua, text: LuaString| {
        base64::decode_leniently(&text.as_bytes()).map(|bytes| lua.create_string(bytes)).transpose()
    })?;
    native.raw_set("decode_base64", decode)?;
    let escape = lua.create_function(|lua, text: LuaString| {
        let escaped = percent_encoding::percent_encode(&text.as_bytes(), crate::UNRESERVED).to_string();
        lua.create_string(escaped)
    })?;
    native.raw_set("escape_uri", escape)?;
    let unescape = lua.create_function(|lua, text: LuaString| {
        lua.create_string(message::query::decode(&text.as_bytes()))
    })?;
    native.raw_set("unescape_uri", unescape)?;
    let now = lua.create_function(|_, ()| Ok(stdx::clock::unix_time().as_millis() as f64 / 1_000.0))?;
    native.raw_set("now", now)?;
    let log = lua.create_function(|_, (level, text): (LuaString, LuaString)| {
        let text = text.as_bytes();
        let line = String::from_utf8_lossy(&text[..text.len().min(LOG_LINE_MAX_BYTES)]);
        match &*level.as_bytes() {
            b"error" => tracing::error!("a script says: {line}"),
            b"warn" => tracing::warn!("a script says: {line}"),
            b"debug" => tracing::debug!("a script says: {line}"),
            _ => tracing::info!("a script says: {line}"),
        }
        Ok(())
    })?;
    native.raw_set("log", log)
}

/// The byte that a search begins at, from the number that a script gives: from 1, or from the end where it is
/// negative.
fn first_byte(from: Option<i64>, length: usize) -> usize {
    let length_i64 = i64::try_from(length).unwrap_or(i64::MAX);
    let from = match from.unwrap_or(1) {
        from if from < 0 => length_i64.saturating_add(from).max(0),
        from => (from - 1).max(0),
    };
    usize::try_from(from).unwrap_or(length).min(length)
}

fn find(
    lua: &Lua,
    budget: &CallBudget,
    text: &LuaString,
    pattern: &LuaString,
    from: Option<i64>,
) -> mlua::Result<MultiValue> {
    let text = text.as_bytes();
    let Some(found) =
        patterns::find_pattern(budget, &text, &pattern.as_bytes(), first_byte(from, text.len()))?
    else {
        return Value::Nil.into_lua_multi(lua);
    };
    let mut values = vec![Value::Number((found.start + 1) as f64), Value::Number(found.end as f64)];
    for capture in found.captures {
        values.push(match capture {
            Capture::Text(start, length) => Value::String(lua.create_string(&text[start..start + length])?),
            Capture::Place(at) | Capture::Open(at) => Value::Number((at + 1) as f64),
        });
    }
    Ok(MultiValue::from_vec(values))
}
