//! The query and the body of the request, for `ngx.req`.

use mlua::{Error, LuaString, Value};

use super::Adder;
use super::request::refused;
use super::texts::{decode_arguments, encode_arguments, text_of};

pub(super) fn install(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("get_uri_args", |state, lua, most: Option<i64>| {
        state.read(|exchange| decode_arguments(lua, exchange.forward_query().unwrap_or_default(), most))?
    })?;
    add.add("set_uri_args", |state, _, query: Value| {
        let query = match &query {
            Value::Table(table) => encode_arguments(table)?,
            other => text_of(other).ok_or_else(|| Error::runtime("a table or text of arguments expected"))?,
        };
        state.edit(|exchange| exchange.set_forward_query(&query).map_err(refused))?
    })?;
    add.add("get_post_args", |state, lua, most: Option<i64>| {
        state.read(|exchange| decode_arguments(lua, exchange.request_body().unwrap_or_default(), most))?
    })?;
    add.add("get_body_data", |state, lua, ()| {
        state.read(|exchange| {
            let body = exchange.request_body().filter(|body| !body.is_empty());
            body.map(|body| lua.create_string(body)).transpose()
        })?
    })?;
    add.add("set_body_data", |state, _, body: LuaString| {
        let body = body.as_bytes().to_vec();
        state.edit(|exchange| {
            exchange.set_request_body(body).map_err(|_| Error::runtime("request body not read yet"))
        })?
    })
}
