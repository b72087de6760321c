//! All parts of a request written as JSON at once, as [`super::super::build_full_entry`] makes them as
//! values.

use std::borrow::Cow;

use exchange::Exchange;
use message::Headers;
use router::vars::{BuiltinVariable as Builtin, Variable, VariableSource};

use super::super::{ARGUMENTS_MAX, BodyPart, LogFormat, LoggedBodies, hostname, response_body, start_ms};
use super::{JsonObjectWriter, in_scratch, write_escaped, write_text};
use message::query::{arguments, decode};

/// All parts, the ids of the route and of its service, and further fields that have the name of no part; a
/// request without a route has `no-matched` in place of its id.
pub(crate) fn render_full_entry(
    exchange: &Exchange,
    bodies: &LoggedBodies,
    extra: Option<&LogFormat>,
) -> Vec<u8> {
    in_scratch(exchange, |out| write(out, exchange, bodies, extra))
}

fn write(out: &mut Vec<u8>, exchange: &Exchange, bodies: &LoggedBodies, extra: Option<&LogFormat>) {
    let mut entry = JsonObjectWriter::inside(out);
    entry.name("request");
    request(entry.out, exchange, bodies);
    entry.name("response");
    response(entry.out, exchange, bodies);
    entry.name("server");
    server(entry.out);
    let is_sent = !exchange.attempts.is_empty();
    if is_sent {
        entry.add_builtin("upstream", Builtin::UpstreamAddr, exchange);
    }
    let consumer = exchange.consumer();
    if let Some(consumer) = consumer {
        entry.name("consumer");
        let mut inside = JsonObjectWriter::inside(entry.out);
        inside.add_text("username", &consumer.username);
        inside.end();
    }
    entry.add_builtin("client_ip", Builtin::RemoteAddr, exchange);
    entry.add_number("start_time", start_ms(exchange));
    let times = &exchange.times;
    entry.add_ms("latency", times.total_ns());
    if is_sent {
        entry.add_ms("upstream_latency", times.upstream_ns());
    }
    entry.add_ms("apisix_latency", times.gateway_ns());
    let route = exchange.route();
    match route.map(|route| route.service.as_ref()) {
        Some(service) => entry.add_text("service_id", service.map_or("", |service| &service.id)),
        None => {
            entry.name("service_id");
            write_text(exchange.host(), entry.out);
        }
    }
    if let Some(route) = route {
        entry.add_text("route_id", &route.id);
    }
    let mut names_route = route.is_some();
    for (name, field) in extra.into_iter().flat_map(|extra| &extra.fields) {
        let is_part = match &**name {
            "upstream" | "upstream_latency" => is_sent,
            "consumer" => consumer.is_some(),
            "route_id" => names_route,
            name => PARTS.contains(&name),
        };
        if !is_part {
            names_route |= entry.add(name, field, exchange) && name == "route_id";
        }
    }
    if !names_route {
        entry.add_text("route_id", "no-matched");
    }
    entry.end();
}

/// The names of parts that every entry has.
const PARTS: [&str; 8] =
    ["request", "response", "server", "client_ip", "start_time", "latency", "apisix_latency", "service_id"];

fn request(out: &mut Vec<u8>, exchange: &Exchange, bodies: &LoggedBodies) {
    let mut request = JsonObjectWriter::inside(out);
    let uri = exchange.variable(&Variable::Builtin(Builtin::RequestUri));
    request.name("url");
    url(request.out, exchange, uri.as_ref().map(|uri| uri.text()).as_deref().unwrap_or_default());
    request.add_builtin("uri", Builtin::RequestUri, exchange);
    request.add_builtin("method", Builtin::RequestMethod, exchange);
    request.name("headers");
    fields(request.out, &exchange.request.headers);
    request.name("querystring");
    query(request.out, exchange.request.query().unwrap_or_default());
    request.add_number("size", exchange.stats.request_bytes);
    if let Some(part) = bodies.request.as_ref().filter(|part| part.applies(exchange)) {
        exchange.read_request_body(|body| add_body(&mut request, body, part));
    }
    request.end();
}

fn response(out: &mut Vec<u8>, exchange: &Exchange, bodies: &LoggedBodies) {
    let mut response = JsonObjectWriter::inside(out);
    response.add_number("status", exchange.status().into());
    response.name("headers");
    fields(response.out, &exchange.response.headers);
    response.add_number("size", exchange.stats.response_bytes);
    if let Some(part) = bodies.response.as_ref().filter(|part| part.applies(exchange))
        && let Some(body) = response_body(exchange, part.max_bytes)
    {
        add_body(&mut response, &body, part);
    }
    response.end();
}

fn server(out: &mut Vec<u8>) {
    let mut server = JsonObjectWriter::inside(out);
    server.add_text("hostname", hostname());
    server.add_text("version", env!("CARGO_PKG_VERSION"));
    server.end();
}

fn add_body(object: &mut JsonObjectWriter<'_>, body: &[u8], part: &BodyPart) {
    object.name("body");
    write_text(&body[..body.len().min(part.max_bytes)], object.out);
}

fn url(out: &mut Vec<u8>, exchange: &Exchange, uri: &[u8]) {
    let port = exchange.connection.local.port();
    let scheme = exchange.connection.scheme.as_str();
    out.push(b'"');
    out.extend_from_slice(scheme.as_bytes());
    out.extend_from_slice(b"://");
    write_escaped(String::from_utf8_lossy(exchange.host()).as_bytes(), out);
    out.push(b':');
    out.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
    write_escaped(String::from_utf8_lossy(uri).as_bytes(), out);
    out.push(b'"');
}

/// The fields by name in lower case; several of a name are a list.
fn fields(out: &mut Vec<u8>, headers: &Headers) {
    let mut object = JsonObjectWriter::inside(out);
    for (index, field) in headers.iter().enumerate() {
        let is_same = |name: &[u8]| name.eq_ignore_ascii_case(field.name);
        if headers.iter().take(index).any(|other| is_same(other.name)) {
            continue;
        }
        let start = object.out.len();
        object.name_of_bytes(field.name);
        object.out[start..].make_ascii_lowercase();
        let further =
            headers.iter().skip(index + 1).filter(|other| is_same(other.name)).map(|other| other.value);
        write_values(object.out, field.value, further, write_text);
    }
    object.end();
}

/// The name and the value of an argument, decoded.
type Argument<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

/// The arguments by name; several of a name are a list, and one without a value is `true`.
fn query(out: &mut Vec<u8>, query: &[u8]) {
    let argument = |(whole, name, value): (&_, _, _)| {
        let whole: &[u8] = whole;
        let (name, value): (&[u8], &[u8]) = (name, value);
        (decode(name), (whole.len() != name.len()).then(|| decode(value)))
    };
    let all: Vec<Argument<'_>> = arguments(query).take(ARGUMENTS_MAX).map(argument).collect();
    let mut object = JsonObjectWriter::inside(out);
    for (index, (name, value)) in all.iter().enumerate() {
        if all[..index].iter().any(|(other, _)| other == name) {
            continue;
        }
        object.name_of_bytes(name);
        let further = all[index + 1..].iter().filter(|(other, _)| other == name).map(|(_, value)| value);
        write_values(object.out, value, further, |value, out| match value {
            Some(value) => write_text(value, out),
            None => out.extend_from_slice(b"true"),
        });
    }
    object.end();
}

/// One value as it is, several as a list.
fn write_values<T>(
    out: &mut Vec<u8>,
    first: T,
    further: impl Iterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    let mut further = further.peekable();
    if further.peek().is_none() {
        return write(first, out);
    }
    out.push(b'[');
    write(first, out);
    for value in further {
        out.push(b',');
        write(value, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, consumer, respond, route};
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::log_entry::{self, BodyLimits, add_route_ids};

    /// The written entry is the object that the parts make as values, with further fields that replace none.
    #[test]
    fn written_entry_equals_parts_as_values() {
        let extra =
            json!({"latency": 1, "mine": "$host", "upstream": "u", "route_id": "own", "consumer": "c"});
        let limits = BodyLimits { request_bytes: 9, response_bytes: 9 };
        let extra = LogFormat::compile("log_format_extra", extra.as_object().unwrap(), limits).unwrap();
        let bodies = LoggedBodies { request: None, response: None };
        let requests: [&[u8]; 3] = [
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET /a%20b?x=1&y&x=%22two+2&z= HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-b: \"\\\r\nx-a: 2\r\nX-A: 3\r\n\r\n",
            b"POST /?%C3=%FF&%C3 HTTP/1.1\r\nHost: h:80\r\n\r\n",
        ];
        for has_route in [true, false] {
            for (request, extra) in requests.iter().flat_map(|one| [(one, None), (one, Some(&extra))]) {
                let mut scene = if has_route { Scene::new().with_route(route("r")) } else { Scene::new() }
                    .with_named_consumer(consumer("jack"));
                let mut exchange = scene.exchange(request);
                exchange.times.ended_ns = exchange.times.started_ns + 5_250_000;
                respond(&mut exchange, 201, &[("Set-Cookie", "a"), ("X-One", "1"), ("set-cookie", "b")]);
                if has_route {
                    let jack = exchange.consumer_named("jack").unwrap();
                    exchange.authenticate(jack);
                }
                let mut parts = log_entry::build_full_entry(&exchange, &bodies);
                add_route_ids(&mut parts, &exchange, true);
                for (name, value) in extra.map(|extra| extra.render(&exchange)).unwrap_or_default() {
                    parts.entry(name).or_insert(value);
                }
                parts.entry("route_id").or_insert_with(|| "no-matched".into());
                let written = render_full_entry(&exchange, &bodies, extra);
                let written: Value = serde_json::from_slice(&written).unwrap();
                assert_eq!(written, Value::Object(parts), "{}", String::from_utf8_lossy(request));
            }
        }
    }
}
