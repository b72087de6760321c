//! # skywalking
//!
//! Reports requests as trace segments to Apache SkyWalking, over the HTTP receiver of its OAP server, and
//! passes the trace on to the upstream in `sw8`. No request waits for it.
//!
//! ```json
//! {
//!   "sample_ratio": 0.1
//! }
//! ```
//!
//! The server and the names are in the metadata, which APISIX has in its `config.yaml` under `plugin_attr`.
//! These are the defaults; `$hostname` as `service_instance_name` is the name of the machine:
//!
//! ```json
//! {
//!   "endpoint_addr": "http://127.0.0.1:12800",
//!   "service_name": "APISIX",
//!   "service_instance_name": "APISIX Instance Name",
//!   "report_interval": 3
//! }
//! ```
//!
//! **Segments.** A segment has two spans called by the path: one of type `Entry` with the tags `http.method`,
//! `http.params` (the whole URL) and `http.status_code`, an error from status 500 on; and below it one of
//! type `Exit` to the peer `upstream service`, which ends with the upstream's response and has its status. A
//! valid `sw8` of the caller joins its trace; one that is not valid is ignored. Otherwise the trace has the
//! id of the field `Request-Id`, or a new one. At most three elements of `sw8-correlation` are passed on.
//!
//! Requests that `sample_ratio` leaves out are not touched. In a global rule the plugin does not run for
//! routes that have it themselves.
//!
//! **How it is sent.** Every `report_interval` seconds, at most 100 segments in a request, to `/v3/segments`.
//! The instance registers itself at `/v3/management/reportProperties` before its first segments and keeps
//! itself alive with later ones. Segments that do not arrive are lost and counted in
//! `weir_batch_entries_total`, as are those beyond 8,192 that wait. An `https` server is verified against
//! `trusted_certificates`. [The guide](../../guide/tracing.md) shows a whole set-up.

mod context;
mod reporter;
mod segment;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::batch::BatchQueue;
use exchange::plugin::outbound::check_uri;
use exchange::plugin::{Build, Flow, Plugin, PluginKind, PluginPhase};
use net::env::random_u64;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use crate::shared::tracing::host;
use context::Names;
use reporter::SkywalkingReporter;
use segment::SkywalkingRecording;

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "skywalking",
    12010,
    &[PluginPhase::Rewrite, PluginPhase::Log],
    SkywalkingConfig::schema,
    build,
)
.with_metadata(SkywalkingMetadata::schema)
.checked_metadata(|metadata| {
    let address = SkywalkingMetadata::read(metadata.clone())?.endpoint_addr;
    check_uri(&address).map_err(|reason| format!("endpoint_addr: {reason}"))
})
.prefers_route()
.documented(include_str!("skywalking.rs"));

attributes! {
    struct SkywalkingConfig {
        /// The share of requests that are reported.
        sample_ratio: f64 = 1.0, { "minimum": 0.00001, "maximum": 1 };
    }
    {"title": "Report traces to SkyWalking"}
}

attributes! {
    struct SkywalkingMetadata {
        /// The name of the service.
        service_name: String = "APISIX".to_owned();
        /// The name of this instance of the service; $hostname is the name of the machine.
        service_instance_name: String = "APISIX Instance Name".to_owned();
        /// The HTTP receiver of the OAP server.
        endpoint_addr: String = "http://127.0.0.1:12800".to_owned();
        /// Seconds between two reports.
        report_interval: u64 = 3, { "minimum": 1 };
    }
}

/// The compiled plugin.
struct Skywalking {
    sample_ratio: f64,
    names: Arc<Names>,
    /// The queue of the process, which all instances share.
    queue: Arc<Result<BatchQueue, String>>,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let parsed: SkywalkingConfig = config::parse_config(config)?;
    let written = build.metadata.cloned().unwrap_or_else(|| Value::Object(Default::default()));
    let metadata = SkywalkingMetadata::read(written.clone())?;
    let instance = match &*metadata.service_instance_name {
        "$hostname" => host::read_machine_name(),
        name => name.to_owned(),
    };
    let names = Arc::new(Names::new(&metadata.service_name, &instance));
    let reporter = SkywalkingReporter::new(build.services, &metadata.endpoint_addr, &names)?;
    let settings = reporter::queue(metadata.report_interval);
    let key = format!("skywalking/{}", config::identity(&written));
    let queue = build.states.keep(&key, || build.services.queue(settings, reporter));
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(Arc::new(Skywalking { sample_ratio: parsed.sample_ratio, names, queue }))
}

impl Plugin for Skywalking {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        // 53 bits fit a number without rounding.
        let drawn = (random_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        if drawn < self.sample_ratio {
            *exchange.state::<SkywalkingRecording>() = SkywalkingRecording::begin(exchange, &self.names);
        }
        Flow::Continue
    }

    fn log(&self, exchange: &Exchange) {
        if let (Some(recording), Ok(queue)) = (exchange.peek_state::<SkywalkingRecording>(), &*self.queue)
            && recording.is_on()
        {
            // The queue counts and reports a dropped segment.
            queue.push_from(exchange.connection.local.ip(), recording.segment(exchange, &self.names));
        }
    }
}

#[cfg(test)]
mod tests;
