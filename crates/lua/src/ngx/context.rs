//! The context of a request as plugins of APISIX get it (`ctx`, `ngx.ctx`), and the fields of it that the
//! gateway's own plugins read.

use std::sync::Arc;

use mlua::{Error, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value};

use super::{Adder, session};
use crate::json::Json;
use crate::runtime::added_variables;
use crate::runtime::state::InterpreterState;

pub(super) fn install_context(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("register_variable", |state, _, name: String| {
        added_variables::register(&*state.call()?, &name);
        Ok(())
    })?;
    add.add("set_external_user", |state, lua, value: Value| {
        let user = match value {
            Value::Nil => None,
            value => Some(Arc::new(json_of(lua, &value)?)),
        };
        // A session, and a request that has ended, keep the field in their table alone.
        Ok(state.edit(|exchange| exchange.decision.external_user = user).is_ok())
    })?;
    add.add("context_field", |state, lua, name: LuaString| {
        context_field(state, lua, &name.to_string_lossy())
    })?;
    add.add("get_ctx", |state, _, ()| {
        let call = state.call()?;
        let tables = call.tables.borrow();
        tables.as_ref().map(|tables| tables.request()).transpose()
    })?;
    add.add("set_ctx", |state, _, table: Table| {
        let call = state.call()?;
        if let Some(tables) = &*call.tables.borrow() {
            *tables.request.borrow_mut() = Some(table);
        }
        Ok(())
    })
}

/// A field of APISIX's request context, and whether it stays the same for the request. The consumer is shown
/// without its secrets.
fn context_field(state: &InterpreterState, lua: &Lua, name: &str) -> mlua::Result<MultiValue> {
    let call = state.call()?;
    let owner = &*call.instance.owner;
    let conf_type = owner.trim_start_matches('/').split('/').next().unwrap_or_default();
    let of_plugin = match name {
        "conf_type" if conf_type == "stream_routes" => Some("stream/route"),
        "conf_type" => Some(conf_type.trim_end_matches('s')),
        "conf_id" => owner.rsplit('/').next(),
        "_plugin_name" => Some(call.instance.name),
        _ => None,
    };
    if let Some(text) = of_plugin {
        return lua.create_string(text)?.into_lua_multi(lua);
    }
    if name == "conf_version" {
        return call.instance.number.to_string().into_lua_multi(lua);
    }
    if let Some(value) = session::read_session_field(state, lua, name) {
        return value?.into_lua_multi(lua);
    }
    state.read(|exchange| {
        let route = exchange.route();
        let value = match (name, route) {
            ("service_name", Some(route)) => {
                let service = route.service.as_ref().and_then(|service| service.name.as_deref());
                service.into_lua(lua)?
            }
            ("matched_route", Some(route)) => {
                Value::Table(matched(lua, &route.written, &format!("/routes/{}", route.id))?)
            }
            ("curr_req_matched", _) => {
                let table = lua.create_table()?;
                table.raw_set("_path", exchange.matched_uri())?;
                Value::Table(table)
            }
            ("external_user", _) => match exchange.decision.external_user.as_deref() {
                Some(user) => value_of(lua, user.to_string().as_bytes())?,
                None => Value::Nil,
            },
            ("jwt_auth_payload", _) => match &exchange.decision.claims {
                Some(claims) => value_of(lua, &claims.to_json())?,
                None => Value::Nil,
            },
            _ => crate::access::field(lua, exchange, name)?,
        };
        // A change of the user has to come to `set_external_user`.
        let stays = value.is_table() && name != "external_user";
        (value, stays).into_lua_multi(lua)
    })?
}

/// A text in JSON as a value of Lua.
fn value_of(lua: &Lua, json: &[u8]) -> mlua::Result<Value> {
    let codec = Json::new(lua.create_table()?);
    codec.read(lua, json, &|| Ok(())).map_err(Error::runtime)
}

/// A value of Lua as JSON.
fn json_of(lua: &Lua, value: &Value) -> mlua::Result<serde_json::Value> {
    let text = Json::new(lua.create_table()?).write(value).map_err(Error::runtime)?;
    jsonx::read(&text, jsonx::Bounds::DEFAULT).map_err(Error::external)
}

/// An object as APISIX shows it in a context: its value and its key.
fn matched(lua: &Lua, written: &str, key: &str) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("value", value_of(lua, written.as_bytes())?)?;
    table.raw_set("key", key)?;
    table.raw_set("has_domain", false)?;
    Ok(table)
}
