//! The query and the body of the request, for `ngx.req`.

use mlua::{Error, LuaString, MultiValue, Value};

use super::Adder;
use super::request::refused;
use super::texts::{decode_arguments, encode_arguments, text_of};
use crate::runtime::limits::BODY_MAX_BYTES;

pub(super) fn install_request_args(add: &Adder<'_>) -> mlua::Result<()> {
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
    add.add("has_body", |state, _, ()| {
        let is_read = state.read(|exchange| exchange.request_body().is_some())?;
        Ok(is_read || state.may_wait().is_err())
    })?;
    add.add("start_read_body", |state, _, ()| {
        let call = state.call()?;
        let (left_bytes, demand) = state.read(|exchange| {
            (exchange.missing_request_body(BODY_MAX_BYTES), exchange.body_demand().clone())
        })?;
        state.wait(async move {
            // A body that is too long is sent on, and the script sees none of it.
            if let Ok(Some(left_bytes)) = left_bytes {
                let read = demand.ask(left_bytes).await;
                *call.collected.borrow_mut() = read;
            }
            Ok(MultiValue::new())
        })
    })?;
    add.add("keep_body", |state, _, ()| {
        let read = state.call()?.collected.take();
        state.edit(|exchange| read.is_none_or(|read| exchange.keep_collected_body(read).is_ok()))
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
