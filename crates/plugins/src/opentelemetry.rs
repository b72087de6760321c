//! # opentelemetry
//!
//! Reports requests as traces to a collector of OpenTelemetry, and passes the trace on to the upstream in
//! `traceparent` ([W3C Trace Context](https://www.w3.org/TR/trace-context/)). No request waits for it.
//!
//! ```json
//! {
//!   "sampler": { "name": "parent_base", "options": { "root": { "name": "trace_id_ratio", "options": { "fraction": 0.01 } } } },
//!   "additional_attributes": ["consumer_name", "http_x_tenant"],
//!   "additional_header_prefix_attributes": ["x-my-*"]
//! }
//! ```
//!
//! **The plugin needs metadata**, which say where the collector is; an empty object takes the defaults.
//! Without metadata it does nothing, and says so in the error log when it is built:
//!
//! ```json
//! {
//!   "resource": { "service.name": "gateway", "deployment.environment": "production" },
//!   "collector": { "address": "127.0.0.1:4318", "request_timeout": 3, "request_headers": { "Authorization": "token" } },
//!   "batch_span_processor": { "max_queue_size": 2048, "max_export_batch_size": 256, "batch_timeout": 5, "inactive_timeout": 2 },
//!   "set_ngx_var": true
//! }
//! ```
//!
//! **Sampling.** `always_on` reports every request, `always_off` (the default) none, `trace_id_ratio` the
//! share `fraction` of traces: by the last eight bytes of the id, as the SDKs do, so that services with the
//! same share report the same traces. `parent_base` follows the flag in the caller's `traceparent`, and asks
//! the sampler `root` where there is none. A request that is not reported has a `traceparent` as well, with
//! the flag 00.
//!
//! **The caller's context.** A `traceparent` that is not valid, or is there twice, is ignored: a new trace
//! begins, and the `tracestate` is removed. A valid `tracestate` (at most 1,024 bytes) is passed on.
//!
//! **The span of a request** is called by method and path pattern, `GET /orders/*`, and has these attributes:
//!
//! | attribute | value |
//! |---|---|
//! | `http.request.method`, `http.method` | the method; `_OTHER` in the first, beside `http.request.method_original`, for one that is not registered |
//! | `url.scheme`, `http.scheme` | `http` or `https` |
//! | `url.path` | the canonical path |
//! | `url.query` | the query, as `data-mask` leaves it |
//! | `http.target` | path and query, as `data-mask` leaves them |
//! | `server.address`, `net.host.name` | the host that the client asked for |
//! | `server.port` | the port that it asked for, otherwise that of the scheme |
//! | `client.address` | the client |
//! | `network.peer.address`, `network.peer.port` | the other end of the connection |
//! | `user_agent.original`, `http.user_agent` | User-Agent, if there is one, as it is at the end of the request |
//! | `network.protocol.version` | `1.0`, `1.1`, `2` or `3` |
//! | `http.route` | the path pattern of the route that matched |
//! | `apisix.route_id`, `apisix.route_name`, `apisix.service_id`, `apisix.service_name` | the route and its service |
//! | `http.response.status_code`, `http.status_code` | the status |
//! | `apisix.response_source` | `upstream`, `apisix` (the gateway or a plugin) or `nginx` (the gateway, because an endpoint failed) |
//! | `error.type` | the [cause](../../guide/errors.md) of a failure, otherwise a status from 500 on |
//! | `weir.cause`, `weir.phase` | why the request got an error, refusals of plugins included |
//!
//! [The guide](../../guide/tracing.md#attributes-of-spans) compares them with the semantic conventions.
//!
//! `additional_attributes` adds variables by their names, `additional_header_prefix_attributes` fields of the
//! request: one by its name, all with a beginning by `beginning*`. A status of 500 and up is an error of the
//! span. Texts are cut at 4 KiB.
//!
//! **Spans below it.** `spans` in the metadata says which there are: one for each attempt at an endpoint
//! (`url.full`, `server.address`, `server.port`, `http.response.status_code`, `error.type`,
//! `http.request.resend_count` from the second one on, `weir.connect_us` and `weir.head_us`: microseconds
//! until the connection was open and until the response head was there), and one for each plugin in each
//! phase, `apisix.phase.access.plugins.forward-auth`, by default for those that take 1 ms or longer. Plugins
//! that run before this one are not seen. `{"attempts": false, "plugins": "none"}` reports the one span of a
//! request as APISIX does.
//!
//! **How it is sent.** In batches of OTLP: protobuf over HTTP, to `/v1/traces`, or with `collector.protocol`
//! `grpc` over gRPC. `https://` before the address means TLS, verified against `trusted_certificates`. A
//! batch is repeated up to three times, 1, 2 and 4 seconds apart or as the collector asks with Retry-After,
//! where the failure may pass: no connection, 429, 502, 503, 504. Spans for which `max_queue_size` has no
//! room are dropped and counted in `weir_batch_entries_total`; all instances share one queue.
//!
//! With `set_ngx_var`, `$opentelemetry_trace_id`, `$opentelemetry_span_id` and
//! `$opentelemetry_context_traceparent` may be used in the access log and in log formats. [The
//! guide](../../guide/tracing.md) shows a whole set-up.

mod exporter;
mod metadata;
mod otlp;
mod spans;

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::TraceContext;
use exchange::plugin::batch::BatchQueue;
use exchange::plugin::{Build, Flow, Plugin, PluginKind, PluginPhase};
use message::FieldId;
use router::vars::Variable;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::tracing::host;
use crate::shared::tracing::ids;
use crate::shared::tracing::sampler::{RootSampler, Sampler};
use crate::shared::tracing::w3c;
use exporter::Exporter;
use metadata::{OpentelemetryMetadata, TraceIdSource};
use spans::{Additional, Below, OpentelemetryRecording};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "opentelemetry",
    12009,
    &[PluginPhase::Rewrite, PluginPhase::Log],
    OpentelemetryConfig::schema,
    build,
)
.checked(|config| compile(config).map(drop))
.with_metadata(OpentelemetryMetadata::schema)
.checked_metadata(|metadata| exporter::check(&OpentelemetryMetadata::read(metadata.clone())?.collector))
.documented(include_str!("opentelemetry.rs"));

attributes! {
    struct OpentelemetryConfig {
        /// Which requests are reported.
        sampler: SamplerConfig = SamplerConfig::default();
        /// Variables that become attributes of the span, by their names.
        additional_attributes: Vec<String> = Vec::new(), { "items": { "type": "string", "minLength": 1 } };
        /// Fields of the request that become attributes of the span; `beginning*` means all with this
        /// beginning.
        additional_header_prefix_attributes: Vec<String> = Vec::new(), { "items": { "type": "string", "minLength": 1 } };
    }
    {"title": "Report traces to OpenTelemetry"}
}

attributes! {
    struct SamplerConfig {
        /// The way of sampling.
        name: SamplerName = SamplerName::AlwaysOff;
        /// Its options.
        options: SamplerOptions = SamplerOptions::default();
    }
}

words! {
    enum SamplerName {
        AlwaysOn = "always_on",
        AlwaysOff = "always_off",
        TraceIdRatio = "trace_id_ratio",
        ParentBase = "parent_base",
    }
}

attributes! {
    struct SamplerOptions {
        /// The share of traces that trace_id_ratio reports, from 0 to 1.
        fraction: f64 = 0.0;
        /// The sampler of parent_base for requests without a trace of the caller.
        root: RootConfig = RootConfig::default();
    }
}

attributes! {
    struct RootConfig {
        /// The way of sampling.
        name: RootName = RootName::AlwaysOff;
        /// Its options.
        options: RootOptions = RootOptions::default();
    }
}

words! {
    enum RootName {
        AlwaysOn = "always_on",
        AlwaysOff = "always_off",
        TraceIdRatio = "trace_id_ratio",
    }
}

attributes! {
    #[derive(Default)]
    struct RootOptions {
        /// The share of traces that trace_id_ratio reports, from 0 to 1.
        fraction: f64 = 0.0;
    }
}

impl Default for SamplerConfig {
    fn default() -> SamplerConfig {
        SamplerConfig { name: SamplerName::AlwaysOff, options: SamplerOptions::default() }
    }
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions { fraction: 0.0, root: RootConfig::default() }
    }
}

impl Default for RootConfig {
    fn default() -> RootConfig {
        RootConfig { name: RootName::AlwaysOff, options: RootOptions::default() }
    }
}

/// The compiled plugin.
struct Opentelemetry {
    sampler: Sampler,
    additional: Additional,
    /// None without metadata.
    tracer: Option<Tracer>,
}

/// The part that the metadata decides.
struct Tracer {
    trace_id_source: TraceIdSource,
    sets_variables: bool,
    below: Below,
    /// The queue of the process, which all instances share.
    queue: Arc<Result<BatchQueue, String>>,
}

fn compile(config: &Value) -> Result<(Sampler, Additional), String> {
    let OpentelemetryConfig { sampler, additional_attributes, additional_header_prefix_attributes } =
        config::parse_config(config)?;
    let options = sampler.options;
    let sampler = match sampler.name {
        SamplerName::AlwaysOn => Sampler::Root(RootSampler::Always),
        SamplerName::AlwaysOff => Sampler::Root(RootSampler::Never),
        SamplerName::TraceIdRatio => Sampler::Root(RootSampler::ratio(options.fraction)),
        SamplerName::ParentBase => Sampler::ParentOr(match options.root.name {
            RootName::AlwaysOn => RootSampler::Always,
            RootName::AlwaysOff => RootSampler::Never,
            RootName::TraceIdRatio => RootSampler::ratio(options.root.options.fraction),
        }),
    };
    let variable = |name: String| match Variable::parse(&name) {
        Ok(variable) => Ok((name, variable)),
        Err(error) => Err(format!("additional_attributes: {error}")),
    };
    let (prefixes, fields) = additional_header_prefix_attributes
        .into_iter()
        .partition::<Vec<_>, _>(|name| name.len() >= 2 && name.ends_with('*'));
    let prefix = |name: String| name[..name.len() - 1].to_ascii_lowercase();
    let additional = Additional {
        variables: additional_attributes.into_iter().map(variable).collect::<Result<_, _>>()?,
        fields,
        prefixes: prefixes.into_iter().map(prefix).collect(),
    };
    Ok((sampler, additional))
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let (sampler, additional) = compile(config)?;
    let tracer = match build.metadata {
        Some(metadata) => Some(Tracer::new(build, metadata)?),
        None => {
            tracing::warn!(
                owner = build.owner,
                "plugin_metadata is required for opentelemetry plugin to working properly"
            );
            None
        }
    };
    Ok(Arc::new(Opentelemetry { sampler, additional, tracer }))
}

impl Tracer {
    fn new(build: &Build<'_>, written: &Value) -> Result<Tracer, String> {
        let metadata = OpentelemetryMetadata::read(written.clone())?;
        let exporter = Exporter::new(build.services, &metadata.collector, frame(&metadata))?;
        let key = format!("opentelemetry/{}", config::identity(written));
        let settings = metadata.batch_span_processor.queue();
        let queue = build.states.keep(&key, || build.services.queue(settings, exporter));
        if let Err(reason) = &*queue {
            return Err(reason.clone());
        }
        Ok(Tracer {
            trace_id_source: metadata.trace_id_source,
            sets_variables: metadata.set_ngx_var,
            below: Below {
                attempts: metadata.spans.attempts,
                plugins_from_ns: metadata.spans.plugins_from_ns(),
            },
            queue,
        })
    }

    /// The id of a trace that begins here.
    fn new_trace_id(&self, exchange: &Exchange) -> [u8; 16] {
        let random = ids::new_trace_id;
        match self.trace_id_source {
            TraceIdSource::Random => random(),
            TraceIdSource::XRequestId => {
                let mut fields = exchange.request.headers.get_all("x-request-id");
                match (fields.next(), fields.next()) {
                    (Some(only), None) => ids::read_id(only),
                    (None, _) => ids::read_id(exchange.request_id.get().as_bytes()),
                    _ => None,
                }
                .unwrap_or_else(random)
            }
        }
    }
}

/// The parts of every batch.
fn frame(metadata: &OpentelemetryMetadata) -> otlp::OtlpEnvelope {
    let hostname = host::read_machine_name();
    let own = [
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.name", "weir"),
        ("telemetry.sdk.version", VERSION),
        ("hostname", &*hostname),
        ("service.name", "APISIX"),
    ];
    let own = own.into_iter().filter(|(name, _)| !metadata.resource.contains_key(*name));
    let own = own.map(|(name, text)| (name, otlp::OtlpValue::from(text)));
    let written = metadata.resource.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => otlp::OtlpValue::from(&**text),
            Value::Bool(value) => otlp::OtlpValue::Bool(*value),
            other => otlp::OtlpValue::Double(other.as_f64()?),
        };
        Some((&**name, value))
    });
    otlp::OtlpEnvelope::new(own.chain(written), "weir", VERSION)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Plugin for Opentelemetry {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if let Some(tracer) = &self.tracer {
            tracer.begin(self.sampler, exchange);
        }
        Flow::Continue
    }

    fn log(&self, exchange: &Exchange) {
        if let (Some(tracer), Some(recording)) =
            (&self.tracer, exchange.peek_state::<OpentelemetryRecording>())
            && let Ok(queue) = &*tracer.queue
        {
            spans::end(exchange, recording, &self.additional, &tracer.below, queue);
        }
    }
}

impl Tracer {
    fn begin(&self, sampler: Sampler, exchange: &mut Exchange) {
        let parent = w3c::parent(&exchange.request.headers);
        let trace_id = parent.map_or_else(|| self.new_trace_id(exchange), |parent| parent.trace_id);
        let is_sampled = sampler.samples(&trace_id, parent.as_ref());
        let context = TraceContext { trace_id, span_id: ids::new_span_id(), is_sampled, is_short: false };
        let headers = &mut exchange.request.headers;
        let state = parent.and_then(|_| w3c::state(headers));
        if state.is_none() {
            headers.remove_known(FieldId::Tracestate);
        }
        // If the head is full, the request continues without the field.
        let _ = headers.set_known(FieldId::Traceparent, &context.traceparent());
        exchange.traces.opentelemetry = Some(context);
        exchange.traces.has_opentelemetry_variables = self.sets_variables;
        if !is_sampled {
            return;
        }
        let mut fields = exchange.local().take_bytes();
        spans::begin_span_fields(exchange, &mut fields);
        if self.below.plugins_from_ns.is_some() {
            exchange.timeline.switch_on();
        }
        *exchange.state::<OpentelemetryRecording>() = OpentelemetryRecording {
            context: Some(context),
            parent_id: parent.map(|parent| parent.span_id),
            state: state.map(Vec::into_boxed_slice),
            fields: fields.into(),
        };
    }
}

#[cfg(test)]
mod tests;
