//! The spans of one request: that of the gateway, which begins with the request and gets its first attributes
//! then, and those of plugins and attempts below it, which are made when the request has ended.

use std::cell::RefCell;
use std::net::IpAddr;

use exchange::Exchange;
use exchange::exchange::timeline::PluginRun;
use exchange::exchange::{Attempt, RequestScheme, TraceContext};
use exchange::observe::metrics;
use exchange::plugin::batch::BatchQueue;
use message::Method;
use router::vars::{BuiltinVariable, Variable, VariableSource};

use super::otlp::{self, OtlpSpan, OtlpValue, SpanKind, write_attribute, write_name, write_otlp_span};
use crate::shared::tracing::ids;

/// The span of a request that is reported, while the request is served.
#[derive(Default)]
pub(super) struct OpentelemetryRecording {
    pub(super) context: Option<TraceContext>,
    pub(super) parent_id: Option<[u8; 8]>,
    pub(super) state: Option<Box<[u8]>>,
    /// The name and the attributes so far. A cell, because the log phase ends the span and may not change the
    /// exchange.
    pub(super) fields: RefCell<Vec<u8>>,
}

/// Attributes that a configuration adds to the span of a request.
pub(super) struct Additional {
    /// Variables with their names.
    pub(super) variables: Vec<(String, Variable)>,
    /// Fields of the request by name.
    pub(super) fields: Vec<String>,
    /// Beginnings of fields of the request, in lower case.
    pub(super) prefixes: Vec<String>,
}

/// Which spans there are below that of the request.
pub(super) struct Below {
    pub(super) attempts: bool,
    /// Nanoseconds from which a plugin has a span; none if no plugin has one.
    pub(super) plugins_from_ns: Option<u64>,
}

/// Writes name and attributes of a request as it came in, without those that `data-mask` may change.
pub(super) fn begin_span_fields(exchange: &Exchange, fields: &mut Vec<u8>) {
    let request = &exchange.request;
    let (method, scheme) = (request.method_text(), exchange.connection.scheme.as_str());
    let matched = exchange.matched_uri();
    write_name(name_of_method(exchange), matched, fields);
    write_attribute("net.host.name", OtlpValue::Text(exchange.host()), fields);
    write_attribute("http.method", OtlpValue::Text(method), fields);
    write_attribute("http.scheme", scheme, fields);
    write_method(exchange, fields);
    write_attribute("url.scheme", scheme, fields);
    write_attribute("url.path", OtlpValue::Text(exchange.path()), fields);
    write_server(exchange, fields);
    write_peer("client.address", exchange.client_address(), fields);
    let peer = exchange.connection.socket_peer();
    write_peer("network.peer.address", peer.ip(), fields);
    write_attribute("network.peer.port", OtlpValue::Int(i64::from(peer.port())), fields);
    write_attribute("network.protocol.version", request.version.via(), fields);
    if let Some(route) = exchange.route() {
        write_attribute("apisix.route_id", &*route.id, fields);
        if let Some(name) = &route.name {
            write_attribute("apisix.route_name", &**name, fields);
        }
        if let Some(matched) = matched {
            write_attribute("http.route", matched, fields);
        }
        if let Some(service) = &route.service {
            write_attribute("apisix.service_id", &*service.id, fields);
            if let Some(name) = &service.name {
                write_attribute("apisix.service_name", &**name, fields);
            }
        }
    }
}

/// Writes the method by its registered name, or `_OTHER` and the method as it was sent: the number of its
/// values is bounded.
fn write_method(exchange: &Exchange, fields: &mut Vec<u8>) {
    let (method, text) = (exchange.request.method, exchange.request.method_text());
    if method == Method::Other {
        write_attribute("http.request.method", "_OTHER", fields);
        write_attribute("http.request.method_original", OtlpValue::Text(text), fields);
    } else {
        write_attribute("http.request.method", OtlpValue::Text(text), fields);
    }
}

/// Writes the host and the port that the client asked for; without a port in its request, that of the scheme.
fn write_server(exchange: &Exchange, fields: &mut Vec<u8>) {
    let authority = exchange.request.authority();
    if authority.is_empty() {
        return;
    }
    write_attribute("server.address", OtlpValue::Text(exchange.host()), fields);
    let written = authority.rsplit(|byte| *byte == b':').next().filter(|port| port.len() < authority.len());
    let written = written.and_then(|port| std::str::from_utf8(port).ok()?.parse::<u16>().ok());
    let port = written.unwrap_or(match exchange.connection.scheme {
        RequestScheme::Http => 80,
        RequestScheme::Https => 443,
    });
    write_attribute("server.port", OtlpValue::Int(i64::from(port)), fields);
}

fn write_peer(name: &str, address: IpAddr, fields: &mut Vec<u8>) {
    // An address has 45 characters at most.
    let mut text = stdx::address_text::AddressText::default();
    write_attribute(name, OtlpValue::Text(text.write(address)), fields);
}

/// The method in the name of a span; another than the registered ones is `HTTP` there, so that names are few.
fn name_of_method(exchange: &Exchange) -> &[u8] {
    let request = &exchange.request;
    if request.method == Method::Other { b"HTTP" } else { request.method_text() }
}

/// Ends the spans of a request and puts them into the queue.
pub(super) fn end(
    exchange: &Exchange,
    recording: &OpentelemetryRecording,
    additional: &Additional,
    below: &Below,
    queue: &BatchQueue,
) {
    let Some(context) = &recording.context else { return };
    let local = exchange.local();
    let mut fields = recording.fields.take();
    end_of_request(exchange, recording, context, additional, &mut fields);
    // The queue counts and reports a dropped span.
    queue.push_from(exchange.connection.local.ip(), otlp::encode_span_entry(&fields));
    if below.attempts {
        for (index, attempt) in exchange.attempts.iter().enumerate() {
            fields.clear();
            of_attempt(exchange, context, attempt, index, &mut fields);
            queue.push(otlp::encode_span_entry(&fields));
        }
    }
    if let Some(from_ns) = below.plugins_from_ns {
        for run in exchange.timeline.runs().iter().filter(|run| run.taken_ns >= from_ns) {
            fields.clear();
            of_plugin(exchange, context, run, &mut fields);
            queue.push(otlp::encode_span_entry(&fields));
        }
    }
    local.give_bytes(fields);
}

fn end_of_request(
    exchange: &Exchange,
    recording: &OpentelemetryRecording,
    context: &TraceContext,
    additional: &Additional,
    fields: &mut Vec<u8>,
) {
    let status = exchange.variable(&Variable::Builtin(BuiltinVariable::Status));
    let status = status.and_then(|status| status.as_number()).unwrap_or_default() as i64;
    let source = metrics::source(exchange).name();
    write_attribute("apisix.response_source", source, fields);
    write_attribute("http.status_code", OtlpValue::Int(status), fields);
    write_attribute("http.response.status_code", OtlpValue::Int(status), fields);
    let reason = exchange.reason();
    let status_text;
    let error_type = match reason {
        Some(reason) if exchange.failure.is_some() => Some(reason.cause),
        _ if status >= 500 => {
            status_text = status.to_string();
            Some(&*status_text)
        }
        _ => None,
    };
    if let Some(error_type) = error_type {
        write_attribute("error.type", error_type, fields);
    }
    if let Some(reason) = reason {
        write_attribute("weir.cause", reason.cause, fields);
        write_attribute("weir.phase", reason.phase, fields);
    }
    for (name, variable) in &additional.variables {
        if let Some(value) = exchange.variable(variable) {
            write_attribute(name, OtlpValue::Text(&value.text()), fields);
        }
    }
    add_maskable(exchange, fields);
    add_fields(exchange, additional, fields);
    let error = (status >= 500).then(|| format!("{source} error: {status}"));
    let span = OtlpSpan {
        trace_id: &context.trace_id,
        span_id: &context.span_id,
        parent_id: recording.parent_id.as_ref(),
        state: recording.state.as_deref(),
        kind: SpanKind::Server,
        started_ns: unix_ns(exchange, exchange.times.started_ns),
        ended_ns: unix_ns(exchange, exchange.times.ended_ns),
        error: error.as_deref(),
    };
    write_otlp_span(&span, fields);
}

/// Adds the query and the agent as they are at the end of the request, because `data-mask` has masked them
/// only then.
fn add_maskable(exchange: &Exchange, fields: &mut Vec<u8>) {
    if let Some(target) = exchange.variable(&Variable::Builtin(BuiltinVariable::RequestUri)) {
        write_attribute("http.target", OtlpValue::Text(&target.text()), fields);
    }
    if let Some(query) = exchange.request.query() {
        write_attribute("url.query", OtlpValue::Text(query), fields);
    }
    if let Some(agent) = exchange.request.headers.get("user-agent") {
        write_attribute("http.user_agent", OtlpValue::Text(agent), fields);
        write_attribute("user_agent.original", OtlpValue::Text(agent), fields);
    }
}

/// Adds the fields of the request that the configuration names; several of one name are one list.
fn add_fields(exchange: &Exchange, additional: &Additional, fields: &mut Vec<u8>) {
    let headers = &exchange.request.headers;
    let mut add = |name: &str| {
        let mut values = headers.get_all(name);
        let Some(first) = values.next() else { return };
        match values.next() {
            None => write_attribute(name, OtlpValue::Text(first), fields),
            Some(second) => {
                let all: Vec<&[u8]> = [first, second].into_iter().chain(values).collect();
                write_attribute(name, OtlpValue::Text(&all.join(&b", "[..])), fields);
            }
        }
    };
    additional.fields.iter().for_each(|name| add(name));
    if additional.prefixes.is_empty() {
        return;
    }
    let mut added: Vec<String> = Vec::new();
    for field in headers.iter() {
        let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
        let is_wanted = additional.prefixes.iter().any(|prefix| name.starts_with(prefix));
        if is_wanted && !added.contains(&name) {
            add(&name);
            added.push(name);
        }
    }
}

/// The span of an attempt at an endpoint.
fn of_attempt(
    exchange: &Exchange,
    context: &TraceContext,
    attempt: &Attempt,
    index: usize,
    fields: &mut Vec<u8>,
) {
    write_name(name_of_method(exchange), None, fields);
    write_method(exchange, fields);
    write_attribute("url.scheme", attempt.scheme, fields);
    write_attribute("url.full", OtlpValue::Text(&full_url(exchange, attempt)), fields);
    write_peer("server.address", attempt.address.ip(), fields);
    write_attribute("server.port", OtlpValue::Int(i64::from(attempt.address.port())), fields);
    write_peer("network.peer.address", attempt.address.ip(), fields);
    write_attribute("network.peer.port", OtlpValue::Int(i64::from(attempt.address.port())), fields);
    if index > 0 {
        write_attribute("http.request.resend_count", OtlpValue::Int(index as i64), fields);
    }
    if attempt.status != 0 {
        write_attribute("http.response.status_code", OtlpValue::Int(i64::from(attempt.status)), fields);
    }
    if attempt.connect_us != 0 {
        write_attribute("weir.connect_us", OtlpValue::Int(attempt.connect_us as i64), fields);
    }
    if attempt.head_us != 0 {
        write_attribute("weir.head_us", OtlpValue::Int(attempt.head_us as i64), fields);
    }
    let status_text;
    let error = match attempt.failed {
        Some(cause) => Some(cause.code()),
        // For a client, statuses of its own faults are errors as well, which they are not for a server.
        None if attempt.status >= 400 => {
            status_text = attempt.status.to_string();
            Some(&*status_text)
        }
        None => None,
    };
    if let Some(error) = error {
        write_attribute("error.type", error, fields);
    }
    let ended_ns = attempt.started_ns + attempt.total_us * 1_000;
    child(exchange, context, SpanKind::Client, (attempt.started_ns, ended_ns), error, fields);
}

/// The URL of an attempt, with the query as `data-mask` leaves it.
fn full_url(exchange: &Exchange, attempt: &Attempt) -> Vec<u8> {
    let mut url = format!("{}://{}", attempt.scheme, attempt.address).into_bytes();
    url.extend_from_slice(exchange.forward_path());
    if let Some(query) = exchange.forward_query() {
        url.push(b'?');
        url.extend_from_slice(query);
    }
    url
}

/// The span of a plugin in a phase.
fn of_plugin(exchange: &Exchange, context: &TraceContext, run: &PluginRun, fields: &mut Vec<u8>) {
    let phase = run.phase.name();
    write_name(format!("apisix.phase.{phase}.plugins.{}", run.plugin).as_bytes(), None, fields);
    if run.ended_ns - run.started_ns > run.taken_ns {
        write_attribute("weir.taken_us", OtlpValue::Int((run.taken_ns / 1_000) as i64), fields);
    }
    child(exchange, context, SpanKind::Internal, (run.started_ns, run.ended_ns), None, fields);
}

fn child(
    exchange: &Exchange,
    context: &TraceContext,
    kind: SpanKind,
    (started_ns, ended_ns): (u64, u64),
    error: Option<&str>,
    fields: &mut Vec<u8>,
) {
    let span = OtlpSpan {
        trace_id: &context.trace_id,
        span_id: &ids::new_span_id(),
        parent_id: Some(&context.span_id),
        state: None,
        kind,
        started_ns: unix_ns(exchange, started_ns),
        ended_ns: unix_ns(exchange, ended_ns),
        error,
    };
    write_otlp_span(&span, fields);
}

/// Nanoseconds since the Unix epoch at a reading of the monotonic clock.
fn unix_ns(exchange: &Exchange, monotonic_ns: u64) -> u64 {
    let (seconds, nanoseconds) = exchange.local().wall_at(monotonic_ns);
    seconds * 1_000_000_000 + u64::from(nanoseconds)
}
