//! Variables that lie in the request body: arguments of forms, paths into JSON, parts of a GraphQL query. The body is
//! there only where matching or a plugin asked for it; without it they are unset.

use http1::FieldId;
use router::vars::{GraphqlVariable, JsonPath, Value};

use super::forms;
use crate::exchange::Exchange;

/// `post_arg_x`.
pub(super) fn form_argument<'a>(exchange: &'a Exchange, name: &str) -> Option<Value<'a>> {
    let body = exchange.request_body.as_deref()?;
    if has_type(exchange, b"application/x-www-form-urlencoded") { forms::argument(body, name) } else { None }
}

/// `post_arg.a.b[*]`.
pub(super) fn json_argument<'a>(exchange: &Exchange, path: &JsonPath) -> Option<Value<'a>> {
    let body = exchange.request_body.as_deref()?;
    if !has_type(exchange, b"application/json") {
        return None;
    }
    let root: serde_json::Value = serde_json::from_slice(body).ok()?;
    path.value(&root).map(owned)
}

/// `graphql_name`, `graphql_operation`, `graphql_root_fields`: unset, since no part of this gateway reads GraphQL.
pub(super) fn graphql<'a>(_exchange: &Exchange, _part: GraphqlVariable) -> Option<Value<'a>> {
    None
}

fn has_type(exchange: &Exchange, media_type: &[u8]) -> bool {
    let value = exchange.request.headers.get_known(FieldId::ContentType).unwrap_or_default();
    let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    value.eq_ignore_ascii_case(media_type)
}

fn owned<'a>(value: Value<'_>) -> Value<'a> {
    match value {
        Value::Boolean(value) => Value::Boolean(value),
        Value::Number(value) => Value::Number(value),
        Value::Bytes(bytes) => Value::owned(bytes.into_owned()),
        Value::List(items) => Value::List(items.into_iter().map(owned).collect()),
    }
}
