//! The request of a call, as scripts see it: variables, fields, and what is known of its route and consumer.
//! Scripts only read.

use exchange::Exchange;
use jsonx::Decimal;
use mlua::{Lua, LuaString, Value};
use router::vars::{Value as Found, Variable, VariableSource};

/// The answer to a script that asks for `name` of `kind`.
///
/// # Errors
/// The interpreter has no memory left.
pub(super) fn answer(
    lua: &Lua,
    exchange: &Exchange,
    kind: &LuaString,
    name: Option<&LuaString>,
) -> mlua::Result<Value> {
    let name = name.map(LuaString::to_string_lossy).unwrap_or_default();
    match &*kind.as_bytes() {
        b"variable" => variable(lua, exchange, &name),
        b"headers" => headers(lua, exchange),
        _ => field(lua, exchange, &name),
    }
}

fn variable(lua: &Lua, exchange: &Exchange, name: &str) -> mlua::Result<Value> {
    let found = Variable::parse(name).ok();
    Ok(match found.as_ref().and_then(|variable| exchange.variable(variable)) {
        Some(Found::Boolean(value)) => Value::Boolean(value),
        Some(Found::Number(value)) => Value::Number(value),
        Some(Found::Digits(digits)) => number_of_digits(lua, &digits)?,
        Some(Found::Bytes(value)) => Value::String(lua.create_string(&*value)?),
        Some(Found::List(_)) | None => Value::Nil,
    })
}

/// A number of JSON: a number of Lua where its text is the same decimal, otherwise the text, because a number
/// of Lua would have lost digits.
fn number_of_digits(lua: &Lua, digits: &str) -> mlua::Result<Value> {
    let rounded = digits.parse::<f64>().ok();
    let is_kept = rounded.and_then(Decimal::from_f64) == Decimal::parse(digits.as_bytes());
    match rounded.filter(|_| is_kept) {
        Some(number) => Ok(Value::Number(number)),
        None => lua.create_string(digits).map(Value::String),
    }
}

/// The fields of the request by name in lower case; one that was sent more than once is a list.
fn headers(lua: &Lua, exchange: &Exchange) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    for field in exchange.request.headers.iter() {
        let name = lua.create_string(field.name.to_ascii_lowercase())?;
        let value = lua.create_string(field.value)?;
        match table.raw_get(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(list) => list.raw_push(value)?,
            first => table.raw_set(name, lua.create_sequence_from([first, Value::String(value)])?)?,
        }
    }
    Ok(Value::Table(table))
}

/// A field of APISIX's request context. The consumer is shown without its secrets.
pub(crate) fn field(lua: &Lua, exchange: &Exchange, name: &str) -> mlua::Result<Value> {
    let consumer = exchange.consumer();
    let route = exchange.route();
    let text = match name {
        "consumer_name" => consumer.map(|consumer| &*consumer.username),
        "consumer_group_id" => consumer.and_then(|consumer| consumer.group_id.as_deref()),
        "route_id" => route.map(|route| &*route.id),
        "route_name" => route.and_then(|route| route.name.as_deref()),
        "service_id" => route.and_then(|route| route.service.as_ref()).map(|service| &*service.id),
        "consumer" => {
            let Some(consumer) = consumer else { return Ok(Value::Nil) };
            let table = lua.create_table()?;
            table.raw_set("username", &*consumer.username)?;
            table.raw_set("consumer_name", &*consumer.username)?;
            table.raw_set("group_id", consumer.group_id.as_deref())?;
            table.raw_set("credential_id", consumer.credential_id.as_deref())?;
            let labels = consumer.labels.iter().map(|(name, value)| (&**name, &**value));
            table.raw_set("labels", lua.create_table_from(labels)?)?;
            return Ok(Value::Table(table));
        }
        _ => None,
    };
    text.map_or(Ok(Value::Nil), |text| lua.create_string(text).map(Value::String))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_with_more_digits_is_a_text() {
        let lua = Lua::new();
        for (digits, is_number) in [
            ("1.5", true),
            ("1.50", true),
            ("9007199254740992", true),
            ("9007199254740993", false),
            ("18446744073709551616", false),
            ("18446744073709551617", false),
            ("0.1", true),
            ("0.1000000000000000055511151231257827", false),
            ("1E400", false),
        ] {
            let value = number_of_digits(&lua, digits).unwrap();
            assert_eq!(value.is_number(), is_number, "{digits}");
            if let Value::String(text) = value {
                assert_eq!(text.to_string_lossy(), digits);
            }
        }
    }
}
