//! The metadata of `opentelemetry`: where spans go, how batches of them are formed, and which spans there
//! are. It holds for all instances.

use exchange::plugin::batch::QueueSettings;
use serde_json::{Map, Value};

use crate::shared::attributes::{attributes, words};

attributes! {
    /// The metadata as it is written.
    pub(super) struct OpentelemetryMetadata {
        /// Where the id of a new trace comes from: the field X-Request-Id of the request, if that is 32
        /// hexadecimal digits, or random numbers.
        trace_id_source: TraceIdSource = TraceIdSource::Random;
        /// Attributes of the resource that all spans belong to: texts, numbers and truth values. Without
        /// service.name the service is called APISIX.
        resource: Map<String, Value> = Map::new(), { "additionalProperties": scalar() };
        /// The collector.
        collector: OtlpCollectorConfig = OtlpCollectorConfig::default(), { "default": { "address": ADDRESS_DEFAULT, "request_timeout": 3 } };
        /// How batches are formed.
        batch_span_processor: Processor = Processor::default(), { "default": {} };
        /// Sets the variables $opentelemetry_trace_id, $opentelemetry_span_id and
        /// $opentelemetry_context_traceparent, for logs.
        set_ngx_var: bool = false;
        /// The spans below that of the request.
        spans: Spans = Spans::default();
    }
}

words! {
    /// Where the id of a new trace comes from.
    pub(super) enum TraceIdSource {
        XRequestId = "x-request-id",
        Random = "random",
    }
}

attributes! {
    /// The collector.
    pub(super) struct OtlpCollectorConfig {
        /// HOST:PORT, or a URI with http or https before it.
        address: String = ADDRESS_DEFAULT.to_owned();
        /// The protocol of OTLP.
        protocol: OtlpProtocol = OtlpProtocol::Http;
        /// Seconds until the collector has to have answered.
        request_timeout: u64 = 3, { "minimum": 1 };
        /// Further fields of requests to the collector, such as Authorization.
        request_headers: Map<String, Value> = Map::new(), { "additionalProperties": scalar() };
    }
}

words! {
    /// The protocol of OTLP.
    pub(super) enum OtlpProtocol {
        /// Protobuf in POST requests to `/v1/traces`.
        Http = "http",
        /// gRPC over HTTP/2.
        Grpc = "grpc",
    }
}

attributes! {
    /// The batch span processor.
    pub(super) struct Processor {
        /// Whether a span is dropped where max_queue_size spans wait; otherwise only the memory for queues is
        /// the limit.
        drop_on_queue_full: bool = true;
        /// How many spans may wait for the collector.
        max_queue_size: usize = 2_048, { "minimum": 1 };
        /// Seconds after which a batch is sent, full or not.
        batch_timeout: f64 = 5.0, { "minimum": 0 };
        /// Seconds without a new span after which a batch is sent.
        inactive_timeout: f64 = 2.0, { "minimum": 0 };
        /// How many spans a batch has at most.
        max_export_batch_size: usize = 256, { "minimum": 1 };
    }
}

attributes! {
    /// The spans below that of the request.
    pub(super) struct Spans {
        /// A span for each attempt at an endpoint of the upstream.
        attempts: bool = true;
        /// A span for each plugin in each phase: for all, for those that take slow_ms or longer, or for none.
        plugins: PluginSpans = PluginSpans::Slow;
        /// The milliseconds from which a plugin is slow.
        slow_ms: f64 = 1.0, { "minimum": 0 };
    }
}

words! {
    /// The plugins with a span of their own.
    pub(super) enum PluginSpans {
        All = "all",
        Slow = "slow",
        None = "none",
    }
}

fn scalar() -> Value {
    serde_json::json!({ "oneOf": [{ "type": "boolean" }, { "type": "number" }, { "type": "string" }] })
}

impl Default for OtlpCollectorConfig {
    fn default() -> OtlpCollectorConfig {
        OtlpCollectorConfig {
            address: ADDRESS_DEFAULT.to_owned(),
            protocol: OtlpProtocol::Http,
            request_timeout: 3,
            request_headers: Map::new(),
        }
    }
}

impl Default for Processor {
    fn default() -> Processor {
        Processor {
            drop_on_queue_full: true,
            max_queue_size: 2_048,
            batch_timeout: 5.0,
            inactive_timeout: 2.0,
            max_export_batch_size: 256,
        }
    }
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { attempts: true, plugins: PluginSpans::Slow, slow_ms: 1.0 }
    }
}

impl Processor {
    /// The queue of spans. The exporter repeats what can be repeated, so that the queue does not.
    pub(super) fn queue(&self) -> QueueSettings {
        let ms = |seconds: f64| (seconds * 1_000.0) as u64;
        QueueSettings {
            name: "opentelemetry".into(),
            owner: "/plugin_metadata/opentelemetry".into(),
            batch_max_entries: self.max_export_batch_size,
            buffer_duration_ms: ms(self.batch_timeout),
            inactive_timeout_ms: ms(self.inactive_timeout),
            max_retry_count: 0,
            retry_delay_ms: 0,
            max_pending_entries: if self.drop_on_queue_full { self.max_queue_size } else { usize::MAX },
        }
    }
}

impl Spans {
    /// Nanoseconds from which a plugin has a span; none if no plugin has one.
    pub(super) fn plugins_from_ns(&self) -> Option<u64> {
        match self.plugins {
            PluginSpans::All => Some(0),
            PluginSpans::Slow => Some((self.slow_ms * 1e6) as u64),
            PluginSpans::None => None,
        }
    }
}

const ADDRESS_DEFAULT: &str = "127.0.0.1:4318";
