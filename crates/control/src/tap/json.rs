//! The JSON of the record of one request. Texts of clients are JSON strings, which serde escapes.

use std::borrow::Cow;

use model::report::{RequestRecord, TimelineSpan};
use serde_json::{Value, json};

/// The record as readers get it. With `hides_queries` the query of the path is `?…`, because it may hold a
/// secret.
pub(super) fn describe_record(record: &RequestRecord, hides_queries: bool, has_spans: bool) -> Value {
    let path = if hides_queries { without_query(&record.path) } else { Cow::Borrowed(&*record.path) };
    let spans: Vec<Value> = if has_spans { record.spans.iter().map(span).collect() } else { Vec::new() };
    json!({
        "id": record.id,
        "t_ms": record.t_ms,
        "worker": record.worker,
        "revision": record.revision,
        "client": record.client,
        "protocol": record.protocol,
        "scheme": record.scheme,
        "method": record.method,
        "host": record.host,
        "path": path,
        "route": record.route.as_deref(),
        "route_name": record.route_name.as_deref(),
        "service": record.service.as_deref(),
        "consumer": record.consumer.as_deref(),
        "upstream": record.upstream,
        "endpoint": record.endpoint,
        "status": record.status,
        "cause": record.cause,
        "blame": record.blame,
        "phase": record.phase,
        "detail": record.detail,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "total_us": record.total_us,
        "gateway_us": record.gateway_us,
        "upstream_us": record.upstream_us,
        "attempts": record.attempts,
        "spans": spans,
    })
}

fn span(span: &TimelineSpan) -> Value {
    json!({
        "name": span.name,
        "group": span.group.to_string(),
        "at_us": span.at_us,
        "us": span.us,
        "failed": span.failed,
        "detail": span.detail,
    })
}

fn without_query(path: &str) -> Cow<'_, str> {
    match path.split_once('?') {
        Some((path, _)) => Cow::Owned(format!("{path}?…")),
        None => Cow::Borrowed(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_hidden_as_a_whole() {
        assert_eq!(without_query("/a?token=1&b=?2"), "/a?…");
        assert_eq!(without_query("/a"), "/a");
    }
}
