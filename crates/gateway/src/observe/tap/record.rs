//! The record of one ended request. Texts of clients are cut to limits, because a ring of records must not
//! hold the longest request lines that the gateway accepts.

use exchange::Exchange;
use exchange::failure::Blame;
use message::Version;
use model::report::RequestRecord;
use router::vars::{BuiltinVariable, Variable, VariableSource};

use super::spans;

/// Longest path with its query, in bytes.
const PATH_BYTES_MAX: usize = 2_048;
/// Longest host: that of a name (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;
/// Longest method; the longest registered one has 17 characters.
const METHOD_BYTES_MAX: usize = 32;
/// Longest id of a request; plugins may take one from a header field.
const ID_BYTES_MAX: usize = 128;
/// Longest detail of a failure.
const DETAIL_BYTES_MAX: usize = 512;

/// The record of `exchange`, which was served by `revision`; `upstream` is the identity of its upstream.
pub(super) fn build_request_record(
    exchange: &Exchange,
    revision: u64,
    upstream: Option<&str>,
) -> RequestRecord {
    let text = |builtin| exchange.variable(&Variable::Builtin(builtin));
    let local = exchange.local();
    let (seconds, nanoseconds) = local.wall_at(exchange.times.started_ns);
    let route = exchange.route();
    let reason = exchange.reason();
    let path = text(BuiltinVariable::RequestUri);
    let status = text(BuiltinVariable::Status).and_then(|status| status.as_number()).unwrap_or_default();
    RequestRecord {
        id: cut(exchange.request_id.get().as_bytes(), ID_BYTES_MAX),
        t_ms: seconds * 1_000 + u64::from(nanoseconds / 1_000_000),
        worker: local.index,
        revision,
        client: exchange.client_address(),
        protocol: protocol(exchange.request.version),
        scheme: exchange.connection.scheme.as_str(),
        method: cut(exchange.request.method_text(), METHOD_BYTES_MAX),
        host: cut(exchange.host(), HOST_BYTES_MAX),
        path: path.map(|path| cut(&path.text(), PATH_BYTES_MAX)).unwrap_or_default(),
        route: route.map(|route| route.id.clone()),
        route_name: route.and_then(|route| route.name.clone()),
        service: route.and_then(|route| route.service.as_ref()).map(|service| service.id.clone()),
        consumer: exchange.consumer().map(|consumer| consumer.username.clone()),
        upstream: upstream.map(upstream_name),
        endpoint: exchange.attempts.last().map(|attempt| attempt.address),
        status: status as u16,
        cause: reason.map(|reason| reason.cause),
        blame: reason.map(|reason| blame(reason.blame)),
        phase: reason.map(|reason| reason.phase),
        detail: reason
            .and_then(|reason| reason.detail)
            .map(|detail| cut(detail.as_bytes(), DETAIL_BYTES_MAX)),
        bytes_in: exchange.stats.request_bytes,
        bytes_out: exchange.stats.response_bytes,
        total_us: exchange.times.total_ns() / 1_000,
        gateway_us: exchange.times.gateway_ns() / 1_000,
        upstream_us: exchange.times.upstream_ns() / 1_000,
        attempts: exchange.attempts.len(),
        spans: if exchange.timeline.is_on() || exchange.failure.is_some() {
            spans::build_request_spans(exchange)
        } else {
            Vec::new()
        },
    }
}

/// The id of an upstream object; for an upstream inside another object, that object (`routes/1`).
fn upstream_name(identity: &str) -> Box<str> {
    let plain = identity.strip_prefix("/upstreams/").or_else(|| identity.strip_prefix('/'));
    plain.unwrap_or(identity).into()
}

fn blame(blame: Blame) -> &'static str {
    match blame {
        Blame::Client => "client",
        Blame::Gateway => "gateway",
        Blame::Upstream => "upstream",
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
        Version::Http2 => "HTTP/2",
        Version::Http3 => "HTTP/3",
    }
}

/// The beginning of a text, as UTF-8; `…` stands for the rest.
fn cut(text: &[u8], bytes_max: usize) -> Box<str> {
    let whole = String::from_utf8_lossy(&text[..text.len().min(bytes_max)]);
    if text.len() <= bytes_max { whole.into() } else { format!("{whole}…").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_binary_texts_are_cut() {
        assert_eq!(&*cut(b"abc", 3), "abc");
        assert_eq!(&*cut(b"abcd", 3), "abc…");
        assert_eq!(&*cut(b"a\xff", 3), "a\u{fffd}");
    }

    #[test]
    fn upstream_is_named_by_its_object() {
        for (identity, name) in
            [("/upstreams/u", "u"), ("/routes/1", "routes/1"), ("/routes/1#up", "routes/1#up")]
        {
            assert_eq!(&*upstream_name(identity), name);
        }
    }
}
