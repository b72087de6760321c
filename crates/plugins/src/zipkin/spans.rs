//! The spans of one request in Zipkin's JSON (its API, version 2). It sends nothing.

use std::io::Write;
use std::net::IpAddr;

use exchange::Exchange;
use exchange::exchange::TraceContext;
use exchange::exchange::trace::write_hexadecimal;
use exchange::observe::metrics;
use message::Headers;
use router::vars::{BuiltinVariable, Variable, VariableSource};

use crate::shared::tracing::ids;
use crate::shared::tracing::json_post::write_lossy_json_text;

/// Where spans are made, as the configuration says.
pub(super) struct ZipkinEndpoint {
    pub(super) service_name: Box<str>,
    pub(super) server_addr: Option<Box<str>>,
}

/// The spans of a request while it is served.
#[derive(Default)]
pub(super) struct ZipkinRecording {
    context: Option<TraceContext>,
    parent_id: Option<[u8; 8]>,
    /// The span that the upstream is below.
    proxy_id: [u8; 8],
    rewrite_ended_ns: u64,
    pub(super) access_ended_ns: u64,
    /// When the head of the response was there; 0 before.
    pub(super) head_ns: u64,
    /// Whether the access phase was reached.
    has_proxied: bool,
}

/// The fields that the upstream gets.
pub(super) struct UpstreamB3Fields {
    trace_id: Vec<u8>,
    span_id: [u8; 16],
    parent_id: Option<[u8; 16]>,
    is_sampled: bool,
}

/// A span with a begin and an end, in nanoseconds of the monotonic clock.
struct ZipkinSpan {
    name: &'static str,
    id: [u8; 8],
    parent_id: Option<[u8; 8]>,
    started_ns: u64,
    ended_ns: u64,
}

impl ZipkinRecording {
    pub(super) fn new(
        context: TraceContext,
        parent_id: Option<[u8; 8]>,
        rewrite_ended_ns: u64,
    ) -> ZipkinRecording {
        let proxy_id = ids::new_span_id();
        ZipkinRecording {
            context: Some(context),
            parent_id,
            proxy_id,
            rewrite_ended_ns,
            ..ZipkinRecording::default()
        }
    }

    /// Whether the request is reported.
    pub(super) fn is_sampled(&self) -> bool {
        self.context.is_some_and(|context| context.is_sampled)
    }

    /// The fields of the span that the upstream is below.
    pub(super) fn fields(&mut self) -> Option<UpstreamB3Fields> {
        let context = self.context?;
        self.has_proxied = true;
        let (id, parent_id) = match context.is_sampled {
            true => (self.proxy_id, Some(context.span_id)),
            false => (context.span_id, self.parent_id),
        };
        Some(UpstreamB3Fields {
            trace_id: context.trace_id_text(),
            span_id: digits(&id),
            parent_id: parent_id.as_ref().map(digits),
            is_sampled: context.is_sampled,
        })
    }

    /// Writes the spans of a request that has ended, if it is reported, and gives each to `take`.
    pub(super) fn report(
        &self,
        exchange: &Exchange,
        origin: &ZipkinEndpoint,
        has_phases: bool,
        mut take: impl FnMut(Vec<u8>),
    ) {
        let Some(context) = self.context.as_ref().filter(|context| context.is_sampled) else { return };
        let (started_ns, ended_ns) = (exchange.times.started_ns, exchange.times.ended_ns);
        let trace_id = context.trace_id_text();
        let mut buffer = exchange.local().take_bytes();
        let mut write = |span: &ZipkinSpan, is_request: bool| {
            buffer.clear();
            write_span(span, &trace_id, exchange, origin, &mut buffer);
            if is_request {
                write_request(exchange, &mut buffer);
            } else {
                buffer.extend_from_slice(b",\"remoteEndpoint\":null,\"tags\":{}}");
            }
            take(buffer.clone());
        };
        let child = |name, id, started_ns, ended_ns| ZipkinSpan {
            name,
            id,
            parent_id: Some(context.span_id),
            started_ns,
            ended_ns,
        };
        if has_phases {
            write(&child("apisix.rewrite", ids::new_span_id(), started_ns, self.rewrite_ended_ns), false);
            if self.has_proxied {
                let access_ended_ns = self.access_ended_ns;
                write(
                    &child("apisix.access", ids::new_span_id(), self.rewrite_ended_ns, access_ended_ns),
                    false,
                );
                if self.head_ns != 0 {
                    let span = child("apisix.body_filter", ids::new_span_id(), self.head_ns, ended_ns);
                    write(&ZipkinSpan { parent_id: Some(self.proxy_id), ..span }, false);
                }
                write(&child("apisix.proxy", self.proxy_id, access_ended_ns, ended_ns), false);
            }
        } else if self.head_ns != 0 {
            write(&child("apisix.proxy", self.proxy_id, started_ns, self.head_ns), false);
            write(&child("apisix.response_span", ids::new_span_id(), self.head_ns, ended_ns), false);
        }
        let parent_id = self.parent_id;
        let span =
            ZipkinSpan { name: "apisix.request", id: context.span_id, parent_id, started_ns, ended_ns };
        write(&span, true);
        exchange.local().give_bytes(buffer);
    }
}

impl UpstreamB3Fields {
    /// Puts them into the request.
    pub(super) fn set(&self, headers: &mut Headers) {
        // If the head is full, the request continues without them.
        let _ = headers.set("x-b3-traceid", &self.trace_id);
        let _ = headers.set("x-b3-spanid", &self.span_id);
        let _ = headers.set("x-b3-sampled", if self.is_sampled { b"1" } else { b"0" });
        if let Some(parent_id) = &self.parent_id {
            let _ = headers.set("x-b3-parentspanid", parent_id);
        } else {
            headers.remove("x-b3-parentspanid");
        }
    }
}

/// Writes the parts that every span has, without the end of the object.
fn write_span(
    span: &ZipkinSpan,
    trace_id: &[u8],
    exchange: &Exchange,
    origin: &ZipkinEndpoint,
    buffer: &mut Vec<u8>,
) {
    let mut put = |name: &str, digits: &[u8]| {
        buffer.extend_from_slice(name.as_bytes());
        buffer.extend_from_slice(digits);
        buffer.push(b'"');
    };
    put("{\"traceId\":\"", trace_id);
    put(",\"id\":\"", &digits(&span.id));
    if let Some(parent_id) = &span.parent_id {
        put(",\"parentId\":\"", &digits(parent_id));
    }
    let duration_us = span.ended_ns.saturating_sub(span.started_ns) / 1_000;
    let timestamp_us = unix_us(exchange, span.started_ns);
    let local = exchange.connection.local;
    write!(
        buffer,
        ",\"name\":\"{}\",\"timestamp\":{timestamp_us},\"duration\":{duration_us},\"localEndpoint\":{{\"serviceName\":",
        span.name
    )
    .expect("a vector takes every write");
    write_lossy_json_text(origin.service_name.as_bytes(), buffer);
    match &origin.server_addr {
        Some(address) => {
            buffer.extend_from_slice(b",\"ipv4\":");
            write_lossy_json_text(address.as_bytes(), buffer);
        }
        None => {
            buffer.push(b',');
            write_address(local.ip(), buffer);
        }
    }
    write!(buffer, ",\"port\":{}}}", local.port()).expect("a vector takes every write");
}

/// Writes the parts that only the span of the request has, and the end of the object.
fn write_request(exchange: &Exchange, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(b",\"kind\":\"SERVER\",\"remoteEndpoint\":{");
    write_address(exchange.client.address, buffer);
    if let Some(port) = exchange.client.port {
        write!(buffer, ",\"port\":{port}").expect("a vector takes every write");
    }
    buffer.extend_from_slice(b"},\"tags\":{\"component\":\"apisix\",\"http.method\":");
    write_lossy_json_text(exchange.request.method_text(), buffer);
    for (name, variable) in
        [("http.url", BuiltinVariable::RequestUri), ("http.status_code", BuiltinVariable::Status)]
    {
        let value = exchange.variable(&Variable::Builtin(variable));
        write!(buffer, ",\"{name}\":").expect("a vector takes every write");
        write_lossy_json_text(&value.as_ref().map(|value| value.text()).unwrap_or_default(), buffer);
    }
    buffer.extend_from_slice(b",\"apisix.response_source\":");
    write_lossy_json_text(metrics::source(exchange).name().as_bytes(), buffer);
    buffer.extend_from_slice(b"}}");
}

fn write_address(address: IpAddr, buffer: &mut Vec<u8>) {
    let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
    write!(buffer, "\"{family}\":\"{address}\"").expect("a vector takes every write");
}

fn digits(id: &[u8; 8]) -> [u8; 16] {
    let mut text = [0; 16];
    write_hexadecimal(id, &mut text);
    text
}

/// Microseconds since the Unix epoch at a reading of the monotonic clock.
fn unix_us(exchange: &Exchange, monotonic_ns: u64) -> u64 {
    let (seconds, nanoseconds) = exchange.local().wall_at(monotonic_ns);
    seconds * 1_000_000 + u64::from(nanoseconds) / 1_000
}
