//! A logger's entry for one request: the fields that a user chose, or all fields (contract: APISIX's log
//! utilities). It knows no logger and sends nothing.

pub(crate) mod json;
pub(crate) mod session;

use std::borrow::Cow;

use exchange::Exchange;
pub(crate) use exchange::exchange::hostname;
use router::vars::{
    BuiltinVariable as Builtin, Expression, Template, Value as VariableValue, Variable, VariableSource,
};
use serde_json::{Map, Value, json};

use super::encoding::decode as codings;
use message::query::{arguments, decode};

/// Levels of objects inside a format; a deeper one is empty, as in APISIX, and a warning names it.
const DEPTH_MAX: usize = 5;
/// Most arguments of a query that are logged separately, as in nginx.
const ARGUMENTS_MAX: usize = 100;

/// The fields a user chose: names, and texts, variables or objects of such.
pub(crate) struct LogFormat {
    fields: Vec<(String, LogField)>,
}

enum LogField {
    Constant(Value),
    Variable(Variable),
    /// The first bytes of the request body, at most so many.
    RequestBody(usize),
    /// The first bytes of the response body, at most so many.
    ResponseBody(usize),
    Text(Template),
    Object(LogFormat),
}

/// The most bytes of a body in one field of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
}

/// Which parts of the bodies an entry holds.
pub(crate) struct LoggedBodies {
    /// The request body, if its expression holds.
    pub(crate) request: Option<BodyPart>,
    /// The response body, if its expression holds.
    pub(crate) response: Option<BodyPart>,
}

/// How much of a body is logged, and when.
pub(crate) struct BodyPart {
    pub(crate) condition: Option<Expression>,
    pub(crate) max_bytes: usize,
}

impl LogFormat {
    /// Compiles the format that stands in the field `place`. A text that begins with `$` holds variables, any
    /// other is constant.
    ///
    /// # Errors
    /// A malformed variable, with the place where it stands.
    pub(crate) fn compile(
        place: &str,
        written: &Map<String, Value>,
        limits: BodyLimits,
    ) -> Result<LogFormat, String> {
        LogFormat::compile_at(place, written, limits, 1)
    }

    fn compile_at(
        place: &str,
        written: &Map<String, Value>,
        limits: BodyLimits,
        depth: usize,
    ) -> Result<LogFormat, String> {
        let mut fields = Vec::new();
        for (name, value) in written {
            let place = format!("{place}.{name}");
            let field = match value {
                Value::String(text) if text.starts_with('$') => variables(&place, text, limits)?,
                Value::Object(_) if depth >= DEPTH_MAX => {
                    tracing::warn!(
                        field = place,
                        "log_format nesting exceeds max depth {DEPTH_MAX}, truncating"
                    );
                    LogField::Object(LogFormat { fields: Vec::new() })
                }
                Value::Object(inside) => {
                    LogField::Object(LogFormat::compile_at(&place, inside, limits, depth + 1)?)
                }
                other => LogField::Constant(other.clone()),
            };
            fields.push((name.clone(), field));
        }
        Ok(LogFormat { fields })
    }

    /// The rendered fields; an unset variable leaves its field out.
    pub(crate) fn render(&self, exchange: &Exchange) -> Map<String, Value> {
        let value = |(name, field): &(String, LogField)| Some((name.clone(), field.value(exchange)?));
        self.fields.iter().filter_map(value).collect()
    }

    /// Whether a field may read the request's body.
    pub(crate) fn uses_request_body(&self) -> bool {
        self.fields.iter().any(|(_, field)| match field {
            LogField::RequestBody(_) => true,
            LogField::Variable(variable) => variable.uses_request_body(),
            LogField::Text(text) => text.uses_request_body(),
            LogField::Object(inside) => inside.uses_request_body(),
            LogField::Constant(_) | LogField::ResponseBody(_) => false,
        })
    }

    /// Whether a field holds the response's body.
    pub(crate) fn uses_response_body(&self) -> bool {
        self.fields.iter().any(|(_, field)| match field {
            LogField::ResponseBody(_) => true,
            LogField::Text(text) => text.variables().any(|variable| is_body(variable, Builtin::RespBody)),
            LogField::Object(inside) => inside.uses_response_body(),
            LogField::Constant(_) | LogField::Variable(_) | LogField::RequestBody(_) => false,
        })
    }
}

fn is_body(variable: &Variable, body: Builtin) -> bool {
    *variable == Variable::Builtin(body)
}

/// A single variable keeps its type, and is left out if it is unset; with other text around it the value is a
/// text.
fn variables(place: &str, text: &str, limits: BodyLimits) -> Result<LogField, String> {
    let template = Template::compile(text).map_err(|error| format!("{place}: {error}"))?;
    let inside = text.strip_prefix("${").and_then(|inside| inside.strip_suffix('}'));
    let is_braced = inside.is_some_and(|inside| !inside.contains(['{', '}']));
    let is_plain = template.as_variable().is_some();
    let first = template.variables().next().cloned();
    Ok(match first {
        Some(variable) if is_braced || is_plain => match variable {
            Variable::Builtin(Builtin::RequestBody) => LogField::RequestBody(limits.request_bytes),
            Variable::Builtin(Builtin::RespBody) => LogField::ResponseBody(limits.response_bytes),
            variable => LogField::Variable(variable),
        },
        Some(_) => LogField::Text(template),
        None => LogField::Constant(Value::from(text)),
    })
}

impl LogField {
    fn value(&self, exchange: &Exchange) -> Option<Value> {
        match self {
            LogField::Constant(value) => Some(value.clone()),
            LogField::Variable(variable) => exchange.variable(variable).map(|value| typed(variable, &value)),
            LogField::RequestBody(max_bytes) => {
                exchange.read_request_body(|body| beginning(body, *max_bytes))
            }
            LogField::ResponseBody(max_bytes) => {
                response_body(exchange, *max_bytes).map(|body| beginning(&body, *max_bytes))
            }
            LogField::Text(template) => {
                let mut text = Vec::new();
                template.render(exchange, &mut text);
                Some(lossy(&text))
            }
            LogField::Object(inside) => Some(Value::Object(inside.render(exchange))),
        }
    }
}

/// In the contract's data plane these three are numbers and every other variable is a text.
const NUMBERS: [Builtin; 3] = [Builtin::Status, Builtin::RequestLength, Builtin::BytesSent];

fn typed(variable: &Variable, value: &VariableValue<'_>) -> Value {
    match (variable, value) {
        (Variable::Builtin(builtin), VariableValue::Number(number)) if NUMBERS.contains(builtin) => {
            // Counts of bytes and statuses are whole and far below where a double loses digits.
            Value::from(*number as u64)
        }
        _ => lossy(&value.text()),
    }
}

/// The kept part of the response body, up to `max_bytes`. One that the upstream has compressed is decoded as
/// far as its copy goes, because compressed bytes cannot be read in a log.
fn response_body(exchange: &Exchange, max_bytes: usize) -> Option<Cow<'_, [u8]>> {
    let body = exchange.response_copy()?;
    let coding = codings::codings(&exchange.response.headers);
    let decoded = (!coding.is_empty() && !exchange.response_is_coded)
        .then(|| codings::decode_content_prefix(&coding, body, max_bytes))
        .flatten();
    Some(decoded.map_or_else(|| Cow::Borrowed(&body[..body.len().min(max_bytes)]), Cow::Owned))
}

/// A text as JSON can hold it: bytes that are no UTF-8 become the replacement character.
fn lossy(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}

/// All fields of a request, as APISIX logs them if no format was chosen.
pub(crate) fn build_full_entry(exchange: &Exchange, bodies: &LoggedBodies) -> Map<String, Value> {
    let text = |builtin: Builtin| {
        exchange.variable(&Variable::Builtin(builtin)).map(|value| lossy(&value.text())).unwrap_or_default()
    };
    let uri = text(Builtin::RequestUri);
    let url = format!(
        "{}://{}:{}{}",
        exchange.connection.scheme.as_str(),
        String::from_utf8_lossy(exchange.host()),
        exchange.connection.local.port(),
        uri.as_str().unwrap_or_default()
    );
    let mut request = json!({
        "url": url,
        "uri": uri,
        "method": text(Builtin::RequestMethod),
        "headers": fields(&exchange.request.headers),
        "querystring": query_arguments(exchange.request.query().unwrap_or_default()),
        "size": exchange.stats.request_bytes,
    });
    let mut response = json!({
        "status": exchange.status(),
        "headers": fields(&exchange.response.headers),
        "size": exchange.stats.response_bytes,
    });
    if let Some(part) = bodies.request.as_ref().filter(|part| part.applies(exchange))
        && let Some(body) = exchange.read_request_body(|body| part.of(body))
    {
        request["body"] = body;
    }
    if let Some(part) = bodies.response.as_ref().filter(|part| part.applies(exchange))
        && let Some(body) = response_body(exchange, part.max_bytes)
    {
        response["body"] = part.of(&body);
    }
    let mut entry = Map::new();
    let mut add = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    add("request", request);
    add("response", response);
    add("server", json!({ "hostname": hostname(), "version": env!("CARGO_PKG_VERSION") }));
    if !exchange.attempts.is_empty() {
        add("upstream", text(Builtin::UpstreamAddr));
    }
    if let Some(consumer) = exchange.consumer() {
        add("consumer", json!({ "username": &*consumer.username }));
    }
    add("client_ip", text(Builtin::RemoteAddr));
    add("start_time", start_ms(exchange).into());
    add("latency", ms(exchange.times.total_ns()));
    if !exchange.attempts.is_empty() {
        add("upstream_latency", ms(exchange.times.upstream_ns()));
    }
    add("apisix_latency", ms(exchange.times.gateway_ns()));
    entry
}

/// Adds the ids of the route, if one was matched, and of its service.
pub(crate) fn add_route_ids(entry: &mut Map<String, Value>, exchange: &Exchange, is_full: bool) {
    let service = exchange.route().map(|route| route.service.as_ref().map(|service| &*service.id));
    let service = match service {
        Some(Some(id)) => Some(id.to_owned()),
        // Only the full entry says that there is none, and of a request without a route which host it asked
        // for.
        Some(None) => is_full.then(String::new),
        None => is_full.then(|| String::from_utf8_lossy(exchange.host()).into_owned()),
    };
    if let Some(service) = service {
        entry.insert("service_id".to_owned(), service.into());
    }
    if let Some(route) = exchange.route() {
        entry.insert("route_id".to_owned(), (&*route.id).into());
    }
}

impl BodyPart {
    /// Whether the body is logged for this exchange.
    pub(crate) fn applies(&self, exchange: &Exchange) -> bool {
        self.condition.as_ref().is_none_or(|condition| condition.verdict(exchange) != Ok(false))
    }

    fn of(&self, body: &[u8]) -> Value {
        beginning(body, self.max_bytes)
    }
}

fn beginning(body: &[u8], max_bytes: usize) -> Value {
    lossy(&body[..body.len().min(max_bytes)])
}

/// The fields by name in lower case; several of a name are a list.
fn fields(headers: &message::Headers) -> Value {
    let mut all = Map::new();
    for field in headers {
        let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
        push(&mut all, name, lossy(field.value));
    }
    Value::Object(all)
}

/// The arguments by name; several of a name are a list, and one without a value is `true`.
fn query_arguments(query: &[u8]) -> Value {
    let mut all = Map::new();
    for (whole, name, value) in arguments(query).take(ARGUMENTS_MAX) {
        let name_text = String::from_utf8_lossy(&decode(name)).into_owned();
        let value = if whole.len() == name.len() { Value::Bool(true) } else { lossy(&decode(value)) };
        push(&mut all, name_text, value);
    }
    Value::Object(all)
}

fn push(all: &mut Map<String, Value>, name: String, value: Value) {
    match all.get_mut(&name) {
        None => {
            all.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn ms(ns: u64) -> Value {
    Value::from(ns as f64 / 1e6)
}

/// When the request began, in milliseconds since the Unix epoch.
fn start_ms(exchange: &Exchange) -> u64 {
    let (seconds, nanoseconds) = exchange.local().wall_at(exchange.times.started_ns);
    seconds * 1_000 + u64::from(nanoseconds) / 1_000_000
}

#[cfg(test)]
mod tests;
