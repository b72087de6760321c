//! # zipkin
//!
//! Reports requests as traces to Zipkin, or to another server with its HTTP API, and passes the trace on to
//! the upstream in fields of [B3](https://github.com/openzipkin/b3-propagation). No request waits for it.
//!
//! ```json
//! {
//!   "endpoint": "http://127.0.0.1:9411/api/v2/spans",
//!   "sample_ratio": 0.01,
//!   "service_name": "gateway"
//! }
//! ```
//!
//! **The caller's context** is the field `b3`, or the fields `X-B3-TraceId`, `X-B3-SpanId`,
//! `X-B3-ParentSpanId`, `X-B3-Sampled` and `X-B3-Flags`. A `b3` without an id of a span is refused with 400;
//! `0` alone means that the request is not reported. Ids that are not valid are ignored: a new trace begins.
//! The upstream gets the fields `X-B3-…`, not `b3`.
//!
//! **Sampling.** `X-B3-Sampled` with `1` or `true` reports the request, with `0` or `false` does not;
//! otherwise `X-B3-Flags: 1` (`d` in `b3`) reports it; otherwise `sample_ratio` decides. Requests that are
//! not reported have a context as well.
//!
//! **Spans.** Of a reported request, with `span_version` 2:
//!
//! | span | from | to |
//! |---|---|---|
//! | `apisix.request` | the first byte of the request | the end of the response |
//! | `apisix.proxy` | the first byte of the request | the head of the response |
//! | `apisix.response_span` | the head of the response | its end |
//!
//! With `span_version` 1 there are `apisix.rewrite`, `apisix.access`, `apisix.proxy` and, below the last one,
//! `apisix.body_filter`. The upstream is below `apisix.proxy`. `apisix.request` has the tags `component`,
//! `http.method`, `http.url`, `http.status_code` and `apisix.response_source`, and the address of the client.
//! `service_name` and `server_addr` (by default the address of the listener) say where the span was made.
//!
//! **How it is sent.** As JSON in batches of at most 1,000 spans, when none has come for 5 seconds or the
//! oldest is a minute old. A batch that does not arrive is lost and counted in `weir_batch_entries_total`, as
//! are spans beyond 8,192 that wait. An `https` server is verified against `trusted_certificates`.
//!
//! `$zipkin_trace_id`, `$zipkin_span_id` and `$zipkin_context_traceparent` may be used in the access log and
//! in log formats. [The guide](../../guide/tracing.md) shows a whole set-up.

mod spans;

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::TraceContext;
use exchange::observe::pace::Pace;
use exchange::plugin::batch::{BatchEntry, BatchQueue, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::{HttpClient, check_uri};
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginKind, PluginPhase, ResponseStep};
use net::env::random_u64;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::tracing::b3::{self, B3Headers};
use crate::shared::tracing::ids;
use crate::shared::tracing::json_post::{JsonPost, join_json_list};
use spans::{ZipkinEndpoint, ZipkinRecording};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "zipkin",
    12011,
    &[PluginPhase::Rewrite, PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::Log],
    ZipkinConfig::schema,
    build,
)
.checked(|config| {
    let config: ZipkinConfig = config::parse_config(config)?;
    if config::is_reference(&config.endpoint) { Ok(()) } else { check_uri(&config.endpoint) }
})
.documented(include_str!("zipkin.rs"));

attributes! {
    struct ZipkinConfig {
        /// The URI that takes spans, such as http://127.0.0.1:9411/api/v2/spans.
        endpoint: String;
        /// The share of requests that are reported where the caller has not decided.
        sample_ratio: f64, { "minimum": 0.00001, "maximum": 1 };
        /// The name of the service that the spans belong to.
        service_name: Box<str> = "APISIX".into();
        /// The IPv4 address that the spans belong to; the address of the listener without it.
        server_addr: Option<Box<str>>, { "pattern": r"^[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}.[0-9]{1,3}$" };
        /// Which spans a request has.
        span_version: u64 = 2, { "type": "integer", "enum": [1, 2] };
    }
    {"title": "Report traces to Zipkin"}
}

/// The compiled plugin.
struct Zipkin {
    sample_ratio: f64,
    origin: ZipkinEndpoint,
    has_phases: bool,
    refusals: Pace,
    queue: Arc<Result<BatchQueue, String>>,
}

/// Milliseconds between two lines about fields that are not valid.
const LOG_INTERVAL_MS: u64 = 10_000;
/// Spans that may wait for the server; the batches are those of APISIX.
const PENDING_MAX: usize = 8_192;

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: ZipkinConfig = config::parse_config(config)?;
    let post = JsonPost::new(build.services, &parsed.endpoint)?;
    let settings = QueueSettings {
        name: "zipkin_report".into(),
        owner: build.owner.into(),
        batch_max_entries: 1_000,
        buffer_duration_ms: 60_000,
        inactive_timeout_ms: 5_000,
        max_retry_count: 0,
        retry_delay_ms: 1_000,
        max_pending_entries: PENDING_MAX,
    };
    let key = format!("zipkin/{}/{}", build.owner, json!(parsed.endpoint));
    let queue = build.states.keep(&key, || build.services.queue(settings, ZipkinServer(post)));
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(Arc::new(Zipkin {
        sample_ratio: parsed.sample_ratio,
        origin: ZipkinEndpoint { service_name: parsed.service_name, server_addr: parsed.server_addr },
        has_phases: parsed.span_version == 1,
        refusals: Pace::every_ms(LOG_INTERVAL_MS),
        queue,
    }))
}

/// The server that spans are sent to.
struct ZipkinServer(JsonPost);

impl Sink for ZipkinServer {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move { Ok(self.0.send(client, join_json_list(batch)).await?) })
    }
}

impl Plugin for Zipkin {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let single = exchange.request.headers.get("b3").map(<[u8]>::to_vec);
        let written = match &single {
            None => None,
            Some(text) => {
                exchange.request.headers.remove("b3");
                match b3::parse_single(text) {
                    Ok(written) => Some(written),
                    Err(reason) => {
                        self.note_refusal(exchange, text, reason);
                        return Flow::reply(BufferedReply::status(400));
                    }
                }
            }
        };
        *exchange.state::<ZipkinRecording>() = self.begin(exchange, written);
        Flow::Continue
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let now_ns = if self.has_phases { exchange.local().clock_ns() } else { 0 };
        let recording = exchange.state::<ZipkinRecording>();
        recording.access_ended_ns = now_ns;
        if let Some(fields) = recording.fields() {
            fields.set(&mut exchange.request.headers);
        }
        Flow::Continue
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        if exchange.peek_state::<ZipkinRecording>().is_some_and(ZipkinRecording::is_sampled) {
            let now_ns = exchange.local().clock_ns();
            exchange.state::<ZipkinRecording>().head_ns = now_ns;
        }
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        if let (Some(recording), Ok(queue)) = (exchange.peek_state::<ZipkinRecording>(), &*self.queue) {
            // The queue counts and reports a dropped span.
            recording.report(exchange, &self.origin, self.has_phases, |span| {
                queue.push_from(exchange.connection.local.ip(), span);
            });
        }
    }
}

impl Zipkin {
    /// Begins the spans of a request with what the caller has written in `b3`, or in the other fields.
    fn begin(&self, exchange: &mut Exchange, single: Option<B3Headers<'_>>) -> ZipkinRecording {
        let written = single.unwrap_or_else(|| b3::of_fields(&exchange.request.headers));
        let parent = written.parent();
        let is_debug = written.is_debug || exchange.request.headers.get("x-b3-flags") == Some(b"1");
        let ratio = match written.decision() {
            Some(true) => 1.0,
            Some(false) => 0.0,
            None if is_debug => 1.0,
            None => self.sample_ratio,
        };
        let is_single_debug = single.is_some() && written.is_debug;
        let context = TraceContext {
            trace_id: parent.map_or_else(ids::new_trace_id, |parent| parent.trace_id),
            span_id: ids::new_span_id(),
            is_sampled: is_drawn(ratio),
            is_short: parent.is_some_and(|parent| parent.is_short),
        };
        if is_single_debug {
            // If the head is full, the request continues without the field.
            let _ = exchange.request.headers.set("x-b3-flags", b"1");
        }
        exchange.traces.zipkin = Some(context);
        let rewrite_ended_ns = if self.has_phases { exchange.local().clock_ns() } else { 0 };
        // A caller that names a trace without a span has one that is not known.
        let parent_id = parent.map(|parent| parent.span_id.unwrap_or_else(ids::new_span_id));
        ZipkinRecording::new(context, parent_id, rewrite_ended_ns)
    }

    fn note_refusal(&self, exchange: &Exchange, text: &[u8], reason: &str) {
        if let Some(count) = self.refusals.add(1, exchange.local().now_ms()) {
            let field = String::from_utf8_lossy(&text[..text.len().min(64)]).into_owned();
            tracing::warn!(count, ?field, "invalid b3 header: {reason}; the request is refused");
        }
    }
}

/// Draws with the probability `ratio`.
fn is_drawn(ratio: f64) -> bool {
    // 53 bits fit a number without rounding.
    const NUMBERS: f64 = 9_007_199_254_740_992.0;
    ((random_u64() >> 11) as f64) < ratio * NUMBERS
}

#[cfg(test)]
mod tests;
