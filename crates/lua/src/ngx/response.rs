//! The response as `ngx.status`, `ngx.header`, `ngx.print` and `ngx.exit` make it. Before there is a
//! response, fields are kept for it, and the output of a call becomes its body.

use exchange::Exchange;
use mlua::{Error, IntoLuaMulti, Lua, LuaString, Table, Value};

use super::Adder;
use super::texts::{push, text_of};
use crate::runtime::call::ProgramCall;
use crate::runtime::state::InterpreterState;

/// Tables inside each other that `ngx.print` writes.
const PRINT_DEPTH_MAX: usize = 16;

pub(super) fn install_response(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("get_status", |state, _, ()| {
        let call = state.call()?;
        let of_call = call.status.get().or_else(|| call.has_output.get().then_some(200));
        let begun = || state.read(|exchange| exchange.begun_reply.status()).ok().flatten();
        if let Some(status) = begun().or(of_call) {
            return Ok(f64::from(status));
        }
        state.read(|exchange| f64::from(exchange.response.status))
    })?;
    add.add("set_status", |state, _, status: Value| {
        let number = status.as_f64().or_else(|| router::vars::Value::owned(text_of(&status)?).as_number());
        let status = number.filter(|status| (100.0..=999.0).contains(status));
        let status = status.ok_or_else(|| Error::runtime("a status from 100 to 999 expected"))? as u16;
        let call = state.call()?;
        if has_response(&call) {
            return state.edit(|exchange| exchange.response.status = status);
        }
        if is_begun(state, &call) {
            refuse_late("ngx.status", &call);
            return Ok(());
        }
        call.status.set(Some(status));
        Ok(())
    })?;
    add.add("get_header", |state, lua, name: LuaString| get_header(state, lua, &field_name(&name)?))?;
    add.add("set_header", |state, _, (name, value): (LuaString, Value)| {
        set_header(state, &field_name(&name)?, &value, false)
    })?;
    add.add("add_header", |state, _, (name, value): (LuaString, Value)| {
        set_header(state, &field_name(&name)?, &value, true)
    })?;
    add.add("response_headers", |state, lua, is_raw: bool| response_headers(state, lua, is_raw))?;
    add.add("print", |state, _, values: mlua::Variadic<Value>| {
        let call = state.call()?;
        may_print(&call)?;
        values.iter().try_for_each(|value| print(&call, value, 0))
    })?;
    add.add("start_exit", |state, _, status: i64| {
        let call = state.call()?;
        call.exit.set(Some(status));
        state.budget.exit();
        state.budget.check()
    })?;
    // The header filter still changes them.
    let are_sent = |phase: &str| matches!(phase, "body_filter" | "log");
    add.add("headers_sent", move |state, _, ()| {
        Ok(state.call().is_ok_and(|call| are_sent(call.phase) || is_begun(state, &call)))
    })?;
    add.add("get_chunk", |state, lua, index: i64| {
        let call = state.call()?;
        let chunk = call.chunk.borrow();
        match (&*chunk, index) {
            (Some((text, _)), 1) => text.clone().into_lua_multi(lua),
            (Some((_, is_last)), 2) => is_last.into_lua_multi(lua),
            _ => Value::Nil.into_lua_multi(lua),
        }
    })?;
    add.add("set_chunk", |state, lua, (index, value): (i64, Value)| {
        let call = state.call()?;
        let mut chunk = call.chunk.borrow_mut();
        let Some((text, is_last)) = &mut *chunk else {
            return Err(Error::runtime(format!("API disabled in the context of {}", call.phase)));
        };
        match (index, value) {
            (1, Value::Table(list)) => {
                let mut joined = Vec::new();
                for item in list.sequence_values::<Value>() {
                    joined.extend(text_of(&item?).unwrap_or_default());
                }
                *text = Value::String(lua.create_string(joined)?);
            }
            (1, value) => {
                *text = match text_of(&value) {
                    Some(text) => Value::String(lua.create_string(text)?),
                    None => Value::Nil,
                }
            }
            (2, value) => *is_last = value.as_boolean().unwrap_or(true),
            _ => {}
        }
        Ok(())
    })
}

/// Whether the phase has the response before it.
fn has_response(call: &ProgramCall) -> bool {
    matches!(call.phase, "header_filter" | "body_filter" | "log")
}

/// Whether functions have begun to write the reply of the request, so that its head is fixed.
fn is_begun(state: &InterpreterState, call: &ProgramCall) -> bool {
    let is_before = matches!(call.phase, "rewrite" | "access" | "content");
    is_before
        && (call.has_output.get()
            || state.read(|exchange| exchange.begun_reply.is_begun()).unwrap_or_default())
}

/// Tells that a change of the head has no effect, as in OpenResty.
fn refuse_late(changed: &str, call: &ProgramCall) {
    tracing::error!(
        plugin = call.instance.name,
        phase = call.phase,
        "attempt to set {changed} after sending out response headers"
    );
}

fn may_print(call: &ProgramCall) -> mlua::Result<()> {
    match call.phase {
        "access" | "content" => Ok(()),
        phase => Err(Error::runtime(format!("API disabled in the context of {phase}"))),
    }
}

/// The name of a field: `ngx.header.content_type` means `content-type`.
fn field_name(name: &LuaString) -> mlua::Result<String> {
    Ok(name.to_str()?.replace('_', "-"))
}

fn get_header(state: &InterpreterState, lua: &Lua, name: &str) -> mlua::Result<Value> {
    let call = state.call()?;
    state.read(|exchange| {
        let found: Vec<&[u8]> = if has_response(&call) {
            exchange.response.headers.get_all(name).collect()
        } else {
            let own = exchange.early_fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
            own.map(|(_, value)| value.as_bytes()).collect()
        };
        match found.as_slice() {
            [] => Ok(Value::Nil),
            [one] => lua.create_string(one).map(Value::String),
            many => {
                let many = many.iter().map(|value| lua.create_string(value));
                let many = many.collect::<mlua::Result<Vec<_>>>()?;
                lua.create_sequence_from(many).map(Value::Table)
            }
        }
    })?
}

fn response_headers(state: &InterpreterState, lua: &Lua, is_raw: bool) -> mlua::Result<Table> {
    let call = state.call()?;
    state.read(|exchange| {
        let table = lua.create_table()?;
        let add = |name: &[u8], value: &[u8]| {
            let name = if is_raw { name.to_vec() } else { name.to_ascii_lowercase() };
            push(lua, &table, &lua.create_string(name)?, Value::String(lua.create_string(value)?))
        };
        if has_response(&call) {
            for field in exchange.response.headers.iter() {
                add(field.name, field.value)?;
            }
        } else {
            for (name, value) in &exchange.early_fields {
                add(name.as_bytes(), value.as_bytes())?;
            }
        }
        Ok(table)
    })?
}

fn set_header(state: &InterpreterState, name: &str, value: &Value, is_added: bool) -> mlua::Result<()> {
    let values = match value {
        Value::Nil => Vec::new(),
        Value::Table(list) => list
            .sequence_values::<Value>()
            .map(|item| Ok(text_of(&item?)))
            .collect::<mlua::Result<Vec<_>>>()?,
        value => vec![text_of(value)],
    };
    let values = values.into_iter().collect::<Option<Vec<_>>>();
    let values = values.ok_or_else(|| Error::runtime(format!("the value of the field {name} is no text")))?;
    let call = state.call()?;
    let invalid = |error: message::FieldError| Error::runtime(format!("invalid field {name:?}: {error:?}"));
    if is_begun(state, &call) {
        refuse_late(&format!("ngx.header.{name}"), &call);
        return Ok(());
    }
    state.edit(|exchange| {
        if !has_response(&call) {
            return set_early(exchange, name, &values, is_added).map_err(invalid);
        }
        // The gateway writes the length and the coding of what it sends.
        let is_length = name.eq_ignore_ascii_case("content-length");
        if name.eq_ignore_ascii_case("transfer-encoding") || (is_length && !values.is_empty()) {
            return Ok(());
        }
        let headers = &mut exchange.response.headers;
        if !is_added {
            headers.remove(name);
        }
        values.iter().try_for_each(|value| headers.append(name, value)).map_err(invalid)
    })?
}

/// Keeps a field for the response. Several values of one name become a list (RFC 9110 section 5.3), cookies
/// aside.
fn set_early(
    exchange: &mut Exchange,
    name: &str,
    values: &[Vec<u8>],
    is_added: bool,
) -> Result<(), message::FieldError> {
    let mut texts: Vec<String> =
        values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    if !is_added {
        exchange.early_fields.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    }
    if !name.eq_ignore_ascii_case("set-cookie") {
        let kept = exchange.early_fields.iter().position(|(own, _)| own.eq_ignore_ascii_case(name));
        if let Some(index) = kept {
            let (_, value) = exchange.early_fields.remove(index);
            texts.insert(0, value.into());
        }
        if !texts.is_empty() {
            texts = vec![texts.join(", ")];
        }
    }
    texts.iter().try_for_each(|value| exchange.add_response_field(name, value))
}

fn print(call: &ProgramCall, value: &Value, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Nil => call.write(b"nil"),
        Value::Boolean(value) => call.write(value.to_string().as_bytes()),
        value if value.is_null() => call.write(b"null"),
        Value::Table(list) if depth < PRINT_DEPTH_MAX => {
            list.sequence_values::<Value>().try_for_each(|item| print(call, &item?, depth + 1))
        }
        value => match text_of(value) {
            Some(text) => call.write(&text),
            None => Err(Error::runtime(format!(
                "string, number, boolean, nil, ngx.null, or array table expected, but got {}",
                crate::type_name(value)
            ))),
        },
    }
}
