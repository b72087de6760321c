//! The session of layer 4 as `ngx.var`, `ctx` and `ngx.req.socket` show it. Each function gives nothing for
//! calls of requests.

use std::future::poll_fn;
use std::task::Poll;

use exchange::local::WorkerLocal;
use exchange::plugin::stream::{PREREAD_MAX_BYTES, StreamSession};
use mlua::{Error, Lua, MultiValue, Value};
use router::vars::{BuiltinVariable, Variable, VariableSource};

use super::Adder;
use crate::runtime::limits::{SESSION_VARIABLE_MAX_BYTES, SESSION_VARIABLES_MAX};
use crate::runtime::state::InterpreterState;

/// Variables of nginx that have other names here.
const ALIASES: [(&[u8], &str); 1] = [(b"ssl_preread_server_name", "ssl_server_name")];

pub(super) fn install_session(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("is_session", |state, _, ()| Ok(state.read_session(|_| ()).is_some()))?;
    add.add("may_peek", |state, _, ()| {
        let call = state.call()?;
        match (state.read_session(|_| ()), call.phase) {
            (Some(()), "preread") => Ok(true),
            (Some(()), phase) => Err(Error::runtime(format!("API disabled in the context of {phase}"))),
            (None, _) => Ok(false),
        }
    })?;
    add.add_shared("start_peek", |state, _, size: f64| {
        if !(1.0..=PREREAD_MAX_BYTES as f64).contains(&size) {
            return Err(Error::runtime(format!(
                "bad argument #1 to 'peek' (a size from 1 to {PREREAD_MAX_BYTES} expected)"
            )));
        }
        let (call, size) = (state.call()?, size as usize);
        // The plugin asks for more bytes and polls again once they are there.
        state.wait(poll_fn(move |_| {
            if call.first_bytes.get() >= size {
                return Poll::Ready(Ok(MultiValue::new()));
            }
            call.wants_bytes.set(true);
            Poll::Pending
        }))
    })?;
    add.add("first_bytes", |state, lua, size: usize| {
        let bytes = |session: &StreamSession| session.first_bytes.get(..size).map(<[u8]>::to_vec);
        match state.read_session(bytes).flatten() {
            Some(bytes) => lua.create_string(bytes).map(Value::String),
            None => Ok(Value::Nil),
        }
    })
}

/// A variable of the session.
pub(super) fn read_session_variable(
    state: &InterpreterState,
    lua: &Lua,
    name: &[u8],
) -> Option<mlua::Result<Value>> {
    state.read_session(|session| {
        if name == b"ssl_preread_alpn_protocols" {
            let text = session.alpn.join(",");
            return lua.create_string(text).map(Value::String);
        }
        let alias = ALIASES.iter().find(|(of_nginx, _)| *of_nginx == name);
        let name = alias.map_or(name, |(_, own)| own.as_bytes());
        let Some(variable) = state.variable(name) else { return Ok(Value::Nil) };
        match session.variable(&variable) {
            Some(value) => lua.create_string(value.text()).map(Value::String),
            None => Ok(Value::Nil),
        }
    })
}

/// Sets a variable of the session, which filters, keys of balancers and log formats then see; whether it was
/// set: those that the gateway counts and knows by itself are kept for programs alone.
pub(super) fn set_session_variable(
    state: &InterpreterState,
    name: &[u8],
    value: Option<&[u8]>,
) -> Option<mlua::Result<bool>> {
    state.read_session(|_| ())?;
    let Some(variable) = state.variable(name) else { return Some(Ok(false)) };
    let text = match std::str::from_utf8(value.unwrap_or_default()) {
        Ok(text) if text.len() <= SESSION_VARIABLE_MAX_BYTES => text,
        Ok(_) => {
            let reason = format!("a variable of a session has at most {SESSION_VARIABLE_MAX_BYTES} bytes");
            return Some(Err(Error::runtime(reason)));
        }
        Err(_) => return Some(Err(Error::runtime("a variable of a session is text in UTF-8"))),
    };
    let set = state.edit_session(|session| match &*variable {
        Variable::Builtin(BuiltinVariable::MqttClientId) => {
            session.mqtt_client_id = Some(text.into());
            Ok(true)
        }
        Variable::Named(name) if !exchange::plugin::stream::session::OWN_VARIABLES.contains(&&**name) => {
            let is_known = session.variables.iter().any(|(known, _)| **known == **name);
            if !is_known && session.variables.len() >= SESSION_VARIABLES_MAX {
                return Err(Error::runtime(format!(
                    "a session has at most {SESSION_VARIABLES_MAX} variables"
                )));
            }
            session.set_variable(name.to_string(), text);
            Ok(true)
        }
        _ => Ok(false),
    });
    // The session of the phase `log` is only read.
    Some(set.unwrap_or(Ok(false)))
}

/// A field of APISIX's context of a session.
pub(super) fn read_session_field(
    state: &InterpreterState,
    lua: &Lua,
    name: &str,
) -> Option<mlua::Result<Value>> {
    state.read_session(|session| {
        let text = match name {
            "route_id" => session.route_id.as_deref(),
            "route_name" => session.route_name.as_deref(),
            "service_id" => session.service_id.as_deref(),
            "mqtt_client_id" => session.mqtt_client_id.as_deref(),
            _ => None,
        };
        text.map_or(Ok(Value::Nil), |text| lua.create_string(text).map(Value::String))
    })
}

/// When the session was accepted, in seconds of the Unix epoch.
pub(super) fn start_time(state: &InterpreterState) -> Option<f64> {
    state.read_session(|session| {
        let local = session.find_held::<WorkerLocal>()?;
        let (seconds, nanoseconds) = local.wall_at(session.started_ns);
        Some(seconds as f64 + f64::from(nanoseconds / 1_000_000) / 1_000.0)
    })?
}

/// The number of the session's worker.
pub(super) fn worker(state: &InterpreterState) -> Option<f64> {
    state.read_session(|session| session.find_held::<WorkerLocal>().map(|local| local.index as f64))?
}
