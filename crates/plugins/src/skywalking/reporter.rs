//! Sends segments to the OAP server, and tells it of the instance: once its properties, then that it is
//! alive. It knows no request.

use std::sync::atomic::{AtomicBool, Ordering};

use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;
use serde_json::json;

use super::context::Names;
use crate::shared::tracing::json_post::{JsonPost, join_json_list};

/// The most segments in a request.
const BATCH_MAX: usize = 100;
/// Segments that may wait for the server.
const PENDING_MAX: usize = 8_192;

/// See the module.
pub(super) struct SkywalkingReporter {
    segments: JsonPost,
    properties: JsonPost,
    alive: JsonPost,
    /// The bodies that introduce the instance: its names, and its properties.
    instance: bytes::Bytes,
    described: bytes::Bytes,
    is_known: AtomicBool,
}

/// The queue of segments.
pub(super) fn queue(report_interval_seconds: u64) -> QueueSettings {
    let interval_ms = report_interval_seconds.saturating_mul(1_000);
    QueueSettings {
        name: "skywalking".into(),
        owner: "/plugin_metadata/skywalking".into(),
        batch_max_entries: BATCH_MAX,
        buffer_duration_ms: interval_ms,
        inactive_timeout_ms: interval_ms,
        max_retry_count: 0,
        retry_delay_ms: 0,
        max_pending_entries: PENDING_MAX,
    }
}

impl SkywalkingReporter {
    /// The server at `address`, for the instance of `names`.
    ///
    /// # Errors
    /// Why it cannot be reached, a sentence.
    pub(super) fn new(
        services: &Services,
        address: &str,
        names: &Names,
    ) -> Result<SkywalkingReporter, String> {
        let address = address.trim_end_matches('/');
        let post = |path: &str| JsonPost::new(services, &format!("{address}{path}"));
        let (service, instance) = (&*names.service, &*names.instance);
        let described = json!({
            "service": service,
            "serviceInstance": instance,
            "properties": [{"key": "language", "value": "rust"}],
        });
        Ok(SkywalkingReporter {
            segments: post("/v3/segments")?,
            properties: post("/v3/management/reportProperties")?,
            alive: post("/v3/management/keepAlive")?,
            instance: json!({"service": service, "serviceInstance": instance}).to_string().into(),
            described: described.to_string().into(),
            is_known: AtomicBool::new(false),
        })
    }

    /// Tells the server of the instance. That it fails does not hold segments back.
    async fn introduce(&self, client: &HttpClient) {
        let outcome = if self.is_known.load(Ordering::Relaxed) {
            self.alive.send(client, self.instance.clone()).await
        } else {
            let outcome = self.properties.send(client, self.described.clone()).await;
            self.is_known.store(outcome.is_ok(), Ordering::Relaxed);
            outcome
        };
        if let Err(reason) = outcome {
            tracing::debug!(%reason, "the service instance could not be reported to SkyWalking");
        }
    }
}

impl Sink for SkywalkingReporter {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            self.introduce(client).await;
            Ok(self.segments.send(client, join_json_list(batch)).await?)
        })
    }
}
