//! The request as `ngx.var`, `ngx.req` and `ctx` show it, and what programs change of it.

use exchange::Exchange;
use exchange::exchange::own_variables::{OWN_VARIABLES_MAX, OWN_VARIABLES_MAX_BYTES, TooManyVariables};
use message::Method;
use mlua::{Either, Error, Lua, LuaString, Value};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};
use router::vars::{Value as Found, Variable, VariableSource};

use super::fields::fields_table;
use super::texts::text_of;
use super::{Adder, at_once, session};
use crate::runtime::state::InterpreterState;

/// Bytes of a path that are escaped on the way to the upstream; `ngx.req.set_uri` takes the path decoded.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');
/// Methods by the numbers that the constants of `ngx` have.
const METHODS: [(i64, &str); 15] = [
    (2, "GET"),
    (4, "HEAD"),
    (8, "POST"),
    (16, "PUT"),
    (32, "DELETE"),
    (64, "MKCOL"),
    (128, "COPY"),
    (256, "MOVE"),
    (512, "OPTIONS"),
    (1_024, "PROPFIND"),
    (2_048, "PROPPATCH"),
    (4_096, "LOCK"),
    (8_192, "UNLOCK"),
    (16_384, "PATCH"),
    (32_768, "TRACE"),
];
/// Variables of the gateway that programs set.
const SETTABLE: [&[u8]; 3] = [b"upstream_uri", b"upstream_host", b"args"];
/// Fields that Weir writes itself: they follow from the body and the connection.
const OWN_FIELDS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

pub(super) fn install_request(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("get_variable", |state, lua, name: Either<String, Value>| match name {
        Either::Left(name) => variable(state, lua, name.as_bytes()),
        Either::Right(name) => text_of(&name).map_or(Ok(Value::Nil), |name| variable(state, lua, &name)),
    })?;
    add.add("set_variable", |state, _, (name, value): (LuaString, Value)| {
        let (name, text) = (name.as_bytes(), text_of(&value));
        if let Some(set) = session::set_session_variable(state, &name, text.as_deref()) {
            return set;
        }
        let variable = state.variable(&name);
        let is_read_only = state.read(|_| ()).is_ok() && state.edit(|_| ()).is_err();
        if is_read_only && !SETTABLE.contains(&&*name) {
            // The request has ended: what a program sets now is for programs alone.
            return Ok(false);
        }
        state.edit(|exchange| {
            if set_variable(exchange, &name, text.as_deref())? {
                return Ok(true);
            }
            let value = match value {
                Value::Boolean(value) => Some(Found::Boolean(value)),
                _ => text.map(Found::owned),
            };
            set_own_variable(exchange, variable.as_deref(), value).map(|()| false)
        })?
    })?;
    add.add("own_variables", |state, _, ()| {
        let call = state.call()?;
        let tables = call.tables.borrow();
        tables.as_ref().map(|tables| tables.variables().cloned()).transpose()
    })?;
    add.add("request_headers", |state, lua, is_raw: bool| {
        state.read(|exchange| fields_table(state, lua, &exchange.request.headers, is_raw))?
    })?;
    add.add("request_header", |state, lua, name: String| {
        state.read(|exchange| {
            let found = exchange.request.headers.get_all_alike(&name).next();
            found.map(|value| at_once(lua, || lua.create_string(value))).transpose()
        })?
    })?;
    add.add("set_request_header", |state, _, (name, value): (String, Either<String, Value>)| {
        state.edit(|exchange| set_header(exchange, &name, &value, false))?
    })?;
    add.add("add_request_header", |state, _, (name, value): (String, Either<String, Value>)| {
        state.edit(|exchange| set_header(exchange, &name, &value, true))?
    })?;
    add.add("get_method", |state, lua, ()| {
        state.read(|exchange| lua.create_string(exchange.request.method_text()))?
    })?;
    add.add("set_method", |state, _, number: i64| {
        let method = METHODS.iter().find(|(own, _)| *own == number).map(|(_, name)| *name);
        let method = method.ok_or_else(|| Error::runtime(format!("unsupported HTTP method: {number}")))?;
        state.edit(|exchange| {
            if (exchange.request.method == Method::Head) != (method == "HEAD") {
                return Err(Error::runtime(
                    "a method cannot be changed from or to HEAD: the response has another form",
                ));
            }
            exchange.request.set_method(method).map_err(|error| Error::runtime(format!("{error:?}")))
        })?
    })?;
    add.add("set_uri", |state, _, uri: LuaString| {
        let uri = uri.as_bytes();
        state.edit(|exchange| {
            let path: String = percent_encode(&uri, IN_PATH).collect();
            exchange.set_canonical_forward_path(path.as_bytes()).map_err(refused)
        })?
    })?;
    add.add("http_version", |state, _, ()| {
        state.read(|exchange| {
            exchange.request.version.as_str().trim_start_matches("HTTP/").parse::<f64>().ok()
        })
    })?;
    add.add("raw_header", |state, lua, ()| {
        state.read(|exchange| {
            let mut text = Vec::new();
            for field in exchange.request.headers.iter() {
                text.extend_from_slice(field.name);
                text.extend_from_slice(b": ");
                text.extend_from_slice(field.value);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"\r\n");
            lua.create_string(text)
        })?
    })
}

pub(super) fn refused(error: message::FieldError) -> Error {
    Error::runtime(format!("it cannot stand in a request: {error:?}"))
}

fn variable(state: &InterpreterState, lua: &Lua, name: &[u8]) -> mlua::Result<Value> {
    if let Some(value) = session::read_session_variable(state, lua, name) {
        return value;
    }
    let rewritten = match name {
        b"uri" | b"document_uri" => state.read(|exchange| {
            let path = exchange.target.rewritten_path.as_deref()?;
            Some(percent_decode(path).collect::<Vec<u8>>())
        })?,
        b"args" | b"query_string" => {
            state.read(|exchange| exchange.target.forward_query.clone().filter(|query| !query.is_empty()))?
        }
        b"upstream_uri" => state.read(|exchange| exchange.target.rewritten_path.clone())?,
        b"upstream_host" => state.read(|exchange| exchange.target.forward_host.clone())?,
        _ => None,
    };
    if let Some(text) = rewritten {
        return lua.create_string(text).map(Value::String);
    }
    let Some(variable) = state.variable(name) else { return Ok(Value::Nil) };
    state.read(|exchange| match exchange.variable(&variable) {
        Some(value) => at_once(lua, || lua.create_string(value.text()).map(Value::String)),
        None => Ok(Value::Nil),
    })?
}

/// Whether the gateway has the variable and it was set.
fn set_variable(exchange: &mut Exchange, name: &[u8], value: Option<&[u8]>) -> mlua::Result<bool> {
    let value = value.unwrap_or_default();
    match name {
        b"upstream_uri" => {
            let (path, query) = match memchr::memchr(b'?', value) {
                Some(at) => (&value[..at], Some(&value[at + 1..])),
                None => (value, None),
            };
            exchange.set_canonical_forward_path(path).map_err(refused)?;
            if let Some(query) = query {
                exchange.set_forward_query(query).map_err(refused)?;
            }
        }
        b"upstream_host" => {
            let host = str::from_utf8(value).map_err(|_| Error::runtime("a host is text"))?;
            exchange.set_forward_host(host).map_err(refused)?;
        }
        b"args" => exchange.set_forward_query(value).map_err(refused)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Sets a variable that the gateway does not have, so that templates, conditions, keys and logs read it; none
/// takes it away. The gateway's own variables are facts of the request: a value in their place is for
/// programs alone.
fn set_own_variable(
    exchange: &mut Exchange,
    variable: Option<&Variable>,
    value: Option<Found<'static>>,
) -> mlua::Result<()> {
    let Some(variable) = variable.filter(|variable| !matches!(variable, Variable::Builtin(_))) else {
        return Ok(());
    };
    exchange.own_variables.set(variable, value).map_err(|TooManyVariables| {
        Error::runtime(format!(
            "a request has at most {OWN_VARIABLES_MAX} variables with {OWN_VARIABLES_MAX_BYTES} bytes in all"
        ))
    })
}

fn set_header(
    exchange: &mut Exchange,
    name: &str,
    value: &Either<String, Value>,
    is_added: bool,
) -> mlua::Result<()> {
    if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Ok(());
    }
    let invalid = |error: message::FieldError| Error::runtime(format!("invalid field {name:?}: {error:?}"));
    // Every request has one Host, so that another one replaces it, and none leaves it.
    let is_host = name.eq_ignore_ascii_case("host");
    if !is_added && !is_host {
        exchange.remove_request_field(name);
    }
    let mut write = |text: &[u8]| {
        if is_host {
            let host = str::from_utf8(text).map_err(|_| Error::runtime("a host is text"))?;
            return exchange.set_forward_host(host).map_err(invalid);
        }
        exchange.request.headers.append(name, text).map_err(invalid)
    };
    let value = match value {
        Either::Left(text) => return write(text.as_bytes()),
        Either::Right(value) => value,
    };
    let mut append = |value: &Value| match text_of(value) {
        Some(text) => write(&text),
        None => Err(Error::runtime(format!(
            "bad argument #2 (string, number, or table expected, got {})",
            crate::type_name(value)
        ))),
    };
    match value {
        Value::Nil => Ok(()),
        Value::Table(list) => {
            for item in list.sequence_values::<Value>() {
                append(&item?)?;
            }
            Ok(())
        }
        value => append(value),
    }
}
