//! # degraphql
//!
//! Sends a stored GraphQL query to the upstream, so that clients call a GraphQL API as they call any other:
//! with GET and arguments, or with POST and a body of JSON.
//!
//! ```json
//! {
//!   "query": "query($name: String!) { persons(filter: { name: $name }) { id name blog } }",
//!   "variables": ["name"]
//! }
//! ```
//!
//! **GET.** The upstream gets `query`, `operationName` and `variables` as arguments, in place of those of the
//! client. The value of a variable is the argument of its name: a text, `true` for an argument without a
//! value, a list for one that is repeated. The schema of the upstream has to accept a text there. A body is
//! not passed on.
//!
//! **POST.** The upstream gets a body of JSON with these three members, under
//! `Content-Type: application/json`. The value of a variable is the member of its name in the client's body,
//! of any type. Without `variables` the client's body does not matter. The arguments `query`,
//! `operationName`, `variables` and `extensions` of the client are removed, because many servers prefer them
//! to the body.
//!
//! A variable for which the client sends nothing is left out. Other fields of the request, the path among
//! them, stay; use [proxy-rewrite](proxy-rewrite.md) where the upstream has GraphQL under another path.
//!
//! **Refusals.** Other methods are answered 405. A POST without a body, or with one that is neither a JSON
//! object nor an array, or that has more than 100,000 values, is answered 400 where there are `variables`. A
//! body of more than `max_req_body_size` bytes is answered 503, and so is one of more than 64 KiB while too
//! many wait for the thread that reads them.
//!
//! **Query.** It is checked when the configuration is written: its syntax, at most 100 levels, and
//! `operation_name`, which has to name an operation of it and is needed if it has several.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase,
};
use jsonx::{Bounds, Object};
use message::Method;
use serde_json::{Map, Value};

use crate::shared::api_call;
use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::graphql::GraphqlDocument;
use crate::shared::graphql::request::is_part_of_request;
use crate::shared::side_thread;
use message::query::{arguments, decode};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "degraphql",
    509,
    &[PluginPhase::RequestBody, PluginPhase::Access],
    DegraphqlConfig::schema,
    build,
)
.checked(check)
.documented(include_str!("degraphql.rs"));

attributes! {
    struct DegraphqlConfig {
        /// The longest body, in bytes, of a request; a longer one is refused.
        max_req_body_size: usize = 67_108_864, { "minimum": 1 };
        /// The GraphQL document that is sent to the upstream.
        query: String, { "minLength": 1, "maxLength": 1024 };
        /// The variables that get their values from the request.
        variables: Option<Vec<String>>, { "minItems": 1 };
        /// The operation of the document that is to run.
        operation_name: Option<String>, { "minLength": 1, "maxLength": 1024 };
    }
}

/// Longer bodies are read on the side thread: at about 100 MB/s this many bytes take less than a millisecond.
const READ_AT_ONCE_BYTES: usize = 64 * 1024;
/// Values in a body, those inside lists and objects included: they take about ten megabytes.
const VALUES_MAX: usize = 100_000;

/// The compiled plugin.
struct Degraphql {
    /// The body without variables and without its last brace.
    body: Box<str>,
    /// The arguments without variables.
    arguments: Box<str>,
    variables: Option<Arc<[String]>>,
    body_bytes_max: usize,
}

fn check(config: &Value) -> Result<(), String> {
    let config: DegraphqlConfig = config::parse_config(config)?;
    // The value of a reference is unknown until it is resolved.
    if config::is_reference(&config.query) {
        return Ok(());
    }
    let document =
        GraphqlDocument::parse(&config.query).map_err(|fault| format!("failed to parse query: {fault}"))?;
    match (&document.operations[..], &config.operation_name) {
        ([], _) => Err("failed to parse query: it has no operation".to_owned()),
        ([_, _, ..], None) => {
            Err("operation_name is required if multiple operations are present in the query".to_owned())
        }
        (operations, Some(name)) if !operations.iter().any(|known| known.name.as_deref() == Some(name)) => {
            Err(format!("operation_name: the query has no operation {name}"))
        }
        _ => Ok(()),
    }
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    check(config)?;
    let config: DegraphqlConfig = config::parse_config(config)?;
    let mut fields = vec![("query", &*config.query)];
    fields.extend(config.operation_name.as_deref().map(|name| ("operationName", name)));
    let mut body: Map<String, Value> = Map::new();
    body.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    let mut body = Value::Object(body).to_string();
    body.pop();
    Ok(Arc::new(Degraphql {
        body: body.into(),
        arguments: api_call::encode_form(fields).into(),
        variables: config.variables.map(Arc::from),
        body_bytes_max: config.max_req_body_size,
    }))
}

impl Plugin for Degraphql {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        match exchange.request.method {
            // Without variables, and of a GET, it is read as well, because it is replaced.
            Method::Post | Method::Get => BodyNeed::Buffer { limit_bytes: self.body_bytes_max },
            _ => BodyNeed::None,
        }
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        matches!(exchange.request.method, Method::Post | Method::Get).then(|| BufferedReply::status(503))
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let status = match exchange.request.method {
            Method::Post => match &self.variables {
                Some(names) => return self.with_variables(exchange, names),
                None => self.write_body(exchange, None),
            },
            Method::Get => self.write_arguments(exchange),
            _ => Err(405),
        };
        status.map_or_else(|status| Flow::reply(BufferedReply::status(status)), |()| Flow::Continue)
    }
}

impl Degraphql {
    /// Writes the body with these variables out of the client's body.
    fn with_variables<'a>(&'a self, exchange: &'a mut Exchange, names: &Arc<[String]>) -> Flow<'a> {
        let refuse = |status: u16| Flow::reply(BufferedReply::status(status));
        let Some(written) = exchange.request_body().filter(|written| !written.is_empty()) else {
            return refuse(400);
        };
        if written.len() <= READ_AT_ONCE_BYTES {
            let status = variables(names, written).and_then(|text| self.write_body(exchange, Some(&text)));
            return status.map_or_else(refuse, |()| Flow::Continue);
        }
        // Before the body is copied, because the thread may be behind with many copies.
        let Some(held) = side_thread::hold_job_bytes(written.len()) else { return refuse(503) };
        let (names, written) = (names.clone(), written.to_vec());
        Flow::Wait(Box::pin(async move {
            let read = move || {
                let _held = held;
                variables(&names, &written)
            };
            let text = side_thread::run_on_side_thread(read).await.unwrap_or(Err(503));
            match text.and_then(|text| self.write_body(exchange, Some(&text))) {
                Ok(()) => PhaseDecision::Continue,
                Err(status) => PhaseDecision::Reply(Box::new(BufferedReply::status(status))),
            }
        }))
    }

    /// The body for the upstream, with this object of variables; the error is a status.
    fn write_body(&self, exchange: &mut Exchange, variables: Option<&str>) -> Result<(), u16> {
        let mut body = self.body.to_string();
        if let Some(variables) = variables {
            body.push_str(",\"variables\":");
            body.push_str(variables);
        }
        body.push('}');
        exchange.set_request_body(body.into_bytes()).map_err(|_| 503_u16)?;
        drop_arguments_of_requests(exchange)?;
        let headers = &mut exchange.request.headers;
        headers.remove("content-encoding");
        headers.set("Content-Type", b"application/json").map_err(|_| 400_u16)
    }

    /// The arguments for the upstream; the error is a status.
    fn write_arguments(&self, exchange: &mut Exchange) -> Result<(), u16> {
        let mut query = self.arguments.to_string();
        if let Some(names) = &self.variables {
            let mut given = Object::default();
            for (whole, name, value) in arguments(exchange.request.query().unwrap_or_default()) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(&decode(bytes)).into_owned();
                let name = text(name);
                if names.contains(&name) {
                    let is_bare = !whole.contains(&b'=');
                    let value = match is_bare {
                        true => jsonx::Value::Boolean(true),
                        false => jsonx::Value::Text(text(value).into()),
                    };
                    given.append(&name, value);
                }
            }
            query.push_str("&variables=");
            query.push_str(&api_call::encode_form_text(&chosen(names, given).to_string()));
        }
        if exchange.request_body().is_some_and(|body| !body.is_empty()) {
            // Some servers read the request from the body of a GET too.
            exchange.set_request_body(Vec::new()).map_err(|_| 503_u16)?;
            exchange.request.headers.remove("content-type");
            exchange.request.headers.remove("content-encoding");
        }
        exchange.set_forward_query(query.as_bytes()).map_err(|_| 400_u16)
    }
}

/// Removes the arguments that a server could run in place of the body; the error is a status.
fn drop_arguments_of_requests(exchange: &mut Exchange) -> Result<(), u16> {
    let all = || arguments(exchange.forward_query().unwrap_or_default()).map(|(whole, _, _)| whole);
    if !all().any(is_part_of_request) {
        return Ok(());
    }
    let kept: Vec<&[u8]> = all().filter(|whole| !is_part_of_request(whole)).collect();
    let kept = kept.join(&b'&');
    exchange.set_forward_query(&kept).map_err(|_| 400_u16)
}

/// The variables of these names in a body, as JSON; the error is a status.
fn variables(names: &[String], body: &[u8]) -> Result<String, u16> {
    let given = match jsonx::parse(body, Bounds::BODY.with_values(VALUES_MAX)).map(|parsed| parsed.value) {
        Ok(jsonx::Value::Object(given)) => given,
        // An array has no member of any name.
        Ok(jsonx::Value::List(_)) => Object::default(),
        _ => return Err(400),
    };
    Ok(chosen(names, given).to_string())
}

/// The values of these names, in their order, as they were sent.
fn chosen(names: &[String], mut given: Object) -> jsonx::Value {
    let value = |name: &String| Some((name.as_str().into(), given.remove(name)?));
    jsonx::Value::Object(names.iter().filter_map(value).collect())
}

#[cfg(test)]
mod tests;
