//! The segment of one request, as JSON of SkyWalking's protocol (language-agent/Tracing.proto, version 3). It
//! sends nothing.

use std::io::Write;

use exchange::Exchange;
use router::vars::{BuiltinVariable, Variable, VariableSource};

use super::context::{self, Names, PEER, Reference};
use crate::shared::tracing::json_post::write_lossy_json_text;

/// The component "APISIX" in SkyWalking's list.
const COMPONENT: u32 = 6_002;
/// The longest id of a trace that a client may choose.
const TRACE_ID_MAX_BYTES: usize = 128;

/// A request that is reported, while it is served.
#[derive(Default)]
pub(super) struct SkywalkingRecording {
    trace_id: String,
    segment_id: String,
    reference: Option<Reference>,
}

impl SkywalkingRecording {
    /// Joins the trace of the caller or begins one, and passes it on to the upstream.
    pub(super) fn begin(exchange: &mut Exchange, names: &Names) -> SkywalkingRecording {
        let segment_id = uuid::Uuid::new_v4().to_string();
        let headers = &exchange.request.headers;
        let reference = headers.get("sw8").and_then(context::reference);
        let asked = headers.get("request-id").filter(|id| (1..=TRACE_ID_MAX_BYTES).contains(&id.len()));
        let trace_id = match (&reference, asked) {
            (Some(reference), _) => reference.trace_id.clone(),
            (None, Some(id)) => String::from_utf8_lossy(id).into_owned(),
            (None, None) => segment_id.clone(),
        };
        let endpoint = String::from_utf8_lossy(exchange.path());
        let carrier = context::carrier(&trace_id, &segment_id, names, &endpoint);
        let headers = &mut exchange.request.headers;
        // If the head is full, the request continues without the field.
        let _ = headers.set("sw8", carrier.as_bytes());
        if headers.get("sw8-correlation").is_some_and(|text| !context::is_valid_correlation(text)) {
            headers.remove("sw8-correlation");
        }
        SkywalkingRecording { trace_id, segment_id, reference }
    }

    /// Whether the request is reported.
    pub(super) fn is_on(&self) -> bool {
        !self.segment_id.is_empty()
    }

    /// The segment of a request that has ended.
    pub(super) fn segment(&self, exchange: &Exchange, names: &Names) -> Vec<u8> {
        let mut json = exchange.local().take_bytes();
        let put = |name: &str, text: &[u8], json: &mut Vec<u8>| {
            json.extend_from_slice(name.as_bytes());
            write_lossy_json_text(text, json);
        };
        put("{\"traceId\":", self.trace_id.as_bytes(), &mut json);
        put(",\"traceSegmentId\":", self.segment_id.as_bytes(), &mut json);
        put(",\"service\":", names.service.as_bytes(), &mut json);
        put(",\"serviceInstance\":", names.instance.as_bytes(), &mut json);
        json.extend_from_slice(b",\"spans\":[");
        write_exit(exchange, &mut json);
        json.push(b',');
        self.write_entry(exchange, &mut json);
        json.extend_from_slice(b"]}");
        let segment = json.clone();
        exchange.local().give_bytes(json);
        segment
    }

    fn write_entry(&self, exchange: &Exchange, json: &mut Vec<u8>) {
        let times = &exchange.times;
        let status = exchange.variable(&Variable::Builtin(BuiltinVariable::Status));
        let is_error =
            status.as_ref().and_then(|status| status.as_number()).is_some_and(|status| status >= 500.0);
        begin_span(exchange, (0, -1), (times.started_ns, times.ended_ns), json);
        write!(json, ",\"spanType\":\"Entry\",\"isError\":{is_error}").expect("a vector takes every write");
        if let Some(reference) = &self.reference {
            write_reference(reference, json);
        }
        let mut url = format!("{}://", exchange.connection.scheme.as_str()).into_bytes();
        url.extend_from_slice(exchange.host());
        if let Some(target) = exchange.variable(&Variable::Builtin(BuiltinVariable::RequestUri)) {
            target.write_to(&mut url);
        }
        json.extend_from_slice(b",\"tags\":[{\"key\":\"http.method\",\"value\":");
        write_lossy_json_text(exchange.request.method_text(), json);
        json.extend_from_slice(b"},{\"key\":\"http.params\",\"value\":");
        write_lossy_json_text(&url, json);
        json.extend_from_slice(b"},{\"key\":\"http.status_code\",\"value\":");
        write_lossy_json_text(&status.as_ref().map(|status| status.text()).unwrap_or_default(), json);
        json.extend_from_slice(b"}]}");
    }
}

/// The span to the upstream; without an attempt it has no status.
fn write_exit(exchange: &Exchange, json: &mut Vec<u8>) {
    let times = &exchange.times;
    let ended_ns = if times.upstream_ended_ns == 0 { times.ended_ns } else { times.upstream_ended_ns };
    begin_span(exchange, (1, 0), (times.started_ns, ended_ns), json);
    json.extend_from_slice(b",\"spanType\":\"Exit\",\"isError\":false,\"peer\":");
    write_lossy_json_text(PEER.as_bytes(), json);
    if let Some(attempt) = exchange.attempts.last() {
        let status = attempt.failed.map_or(attempt.status, |cause| cause.status());
        write!(json, ",\"tags\":[{{\"key\":\"http.status_code\",\"value\":\"{status}\"}}]")
            .expect("a vector takes every write");
    }
    json.push(b'}');
}

fn begin_span(
    exchange: &Exchange,
    (id, parent_id): (i32, i32),
    (started_ns, ended_ns): (u64, u64),
    json: &mut Vec<u8>,
) {
    let unix_ms = |monotonic_ns| {
        let (seconds, nanoseconds) = exchange.local().wall_at(monotonic_ns);
        seconds * 1_000 + u64::from(nanoseconds) / 1_000_000
    };
    let (started_ms, ended_ms) = (unix_ms(started_ns), unix_ms(ended_ns));
    write!(
        json,
        "{{\"spanId\":{id},\"parentSpanId\":{parent_id},\"startTime\":{started_ms},\"endTime\":{ended_ms},\
         \"spanLayer\":\"Http\",\"componentId\":{COMPONENT},\"operationName\":"
    )
    .expect("a vector takes every write");
    write_lossy_json_text(exchange.path(), json);
}

fn write_reference(reference: &Reference, json: &mut Vec<u8>) {
    let span_id = reference.span_id;
    write!(json, ",\"refs\":[{{\"refType\":\"CrossProcess\",\"parentSpanId\":{span_id}")
        .expect("a vector takes every write");
    for (name, text) in [
        ("traceId", &reference.trace_id),
        ("parentTraceSegmentId", &reference.segment_id),
        ("parentService", &reference.service),
        ("parentServiceInstance", &reference.instance),
        ("parentEndpoint", &reference.endpoint),
        ("networkAddressUsedAtPeer", &reference.peer),
    ] {
        write!(json, ",\"{name}\":").expect("a vector takes every write");
        write_lossy_json_text(text.as_bytes(), json);
    }
    json.extend_from_slice(b"}]");
}
