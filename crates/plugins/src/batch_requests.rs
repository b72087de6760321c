//! # batch-requests
//!
//! Serves an endpoint that takes several requests in one and answers with all responses.
//!
//! ```json
//! {}
//! ```
//!
//! The endpoint is `POST /apisix/batch-requests`; a route with `public-api` opens it. Written on a route,
//! this plugin has no effect. The body of a request:
//!
//! ```json
//! {
//!   "headers": { "Accept": "application/json" },
//!   "query": { "lang": "en" },
//!   "timeout": 2000,
//!   "pipeline": [
//!     { "path": "/users/1" },
//!     { "path": "/orders", "method": "POST", "body": "{\"item\":1}", "headers": { "Content-Type": "application/json" } }
//!   ]
//! }
//! ```
//!
//! `headers` and `query` are for all requests of the `pipeline`, unless a request has a field or an argument
//! of the same name. Fields of the outer request are for all of them as well, the last choice, except those
//! about the outer message and its response: those that begin with `Content-` or `If-`, `Accept-Encoding` and
//! `Range`. The requests are served one after the other, on the worker that has the outer request and without
//! a connection: each is routed, authenticated, limited, counted and logged like a request of the same
//! client. The response is a list in the order of the requests, each with `status`, `reason`, `headers` and
//! `body` (as text; bytes that are not UTF-8 are replaced). A request that takes more than `timeout`
//! milliseconds (30,000 by default), or has its turn when 50 seconds have passed, is answered
//! `{"status": 504, "reason": "upstream timeout"}`. A request with a response of more than 16 MiB together
//! with those before it, as they are written in the list, is answered
//! `{"status": 502, "reason": "response too long"}`. If the client goes away, the request in progress ends
//! and is logged as one of a client that has gone, and no other one is sent.
//!
//! Each request has the client address of the outer one, whatever its fields say. Fields that name a client
//! (the one of the setting `real_ip_header`, `Forwarded`, `X-Forwarded-…`, `X-Real-IP`) and fields about the
//! connection are taken from the outer request, never from the body. A request of a batch reaches no endpoint
//! of a plugin, so that a batch holds no batch.
//!
//! A body of more than `max_body_size` bytes is refused with 413, one with more than `max_pipeline_items`
//! requests, or with a fault, with 400 and the reason as `{"error_msg": "…"}`. No request of a refused batch
//! is sent.

mod input;
mod output;

use std::sync::Arc;

use exchange::Exchange;
use exchange::inner::{InnerOutcome, InnerRequests};
use exchange::plugin::{
    BodyNeed, BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginApi, PluginKind, PluginPhase,
};
use message::Method;
use net::env;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;
use input::RequestBatch;
use output::Responses;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("batch-requests", 4010, NO_PHASES, schema, build)
    .global()
    .with_metadata(BatchRequestsMetadata::schema)
    .with_apis(&[PluginApi { method: Method::Post, path: "/apisix/batch-requests" }])
    .documented(include_str!("batch_requests.rs"));

/// On a route it has no effect.
const NO_PHASES: &[PluginPhase] = &[];

fn schema() -> Value {
    json!({"type": "object", "title": "Nothing to configure", "properties": {}})
}

attributes! {
    struct BatchRequestsMetadata {
        /// The longest body of a batch, in bytes.
        max_body_size: usize = MAX_BODY_BYTES_DEFAULT, { "exclusiveMinimum": 0 };
        /// The most requests of one batch.
        max_pipeline_items: usize = MAX_REQUESTS_DEFAULT, { "exclusiveMinimum": 0 };
    }
}

/// The compiled plugin.
struct BatchRequests {
    limits: BatchRequestsMetadata,
}

fn build(build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let limits = config::parse_config(build.metadata.unwrap_or(&json!({})))?;
    Ok(Arc::new(BatchRequests { limits }))
}

impl Plugin for BatchRequests {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::Buffer { limit_bytes: self.limits.max_body_size }
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        let limit_bytes = self.limits.max_body_size;
        let declared =
            exchange.request.headers.get("content-length").and_then(|text| str::from_utf8(text).ok());
        let size = declared.map_or(String::new(), |bytes| format!(" {bytes}"));
        Some(refusal(
            413,
            &format!("request size{size} is greater than the maximum size {limit_bytes} allowed"),
        ))
    }

    fn api<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let body = exchange.request_body().unwrap_or_default();
        if body.is_empty() {
            return Flow::reply(refusal(
                400,
                "no request body, you should give at least one pipeline setting",
            ));
        }
        match RequestBatch::read(body, self.limits.max_pipeline_items) {
            Ok(batch) => Flow::Wait(Box::pin(serve(batch, exchange))),
            Err(reason) => Flow::reply(refusal(400, &reason)),
        }
    }
}

async fn serve(batch: RequestBatch, exchange: &Exchange) -> PhaseDecision {
    let local = exchange.local().clone();
    let requests = InnerRequests::of(&local);
    let ends_ms = local.now_ms().saturating_add(BATCH_MAX_MS);
    let mut responses = Responses::default();
    if let Err(reason) = check(&batch, exchange).await {
        return PhaseDecision::Reply(Box::new(refusal(400, &reason)));
    }
    for index in 0..batch.len() {
        let left_ms = ends_ms.saturating_sub(local.now_ms());
        let outcome = if left_ms == 0 {
            InnerOutcome::TimedOut
        } else {
            match batch.request(index, exchange, left_ms, responses.left_bytes()) {
                Ok(request) => requests.send(request).await,
                Err(reason) => return PhaseDecision::Reply(Box::new(refusal(400, &reason))),
            }
        };
        responses.add(outcome);
    }
    PhaseDecision::Reply(Box::new(responses.into_reply()))
}

/// Checks all requests before the first one is sent, so that a refused batch has done nothing. They are made
/// again when they are sent, because a thousand heads with the fields of the outer request would take too
/// much memory.
async fn check(batch: &RequestBatch, exchange: &Exchange) -> Result<(), String> {
    for index in 0..batch.len() {
        batch.request(index, exchange, 0, 0)?;
        if index % CHECKED_PER_TURN == CHECKED_PER_TURN - 1 {
            env::yield_to_events().await;
        }
    }
    Ok(())
}

fn refusal(status: u16, reason: &str) -> BufferedReply {
    BufferedReply::json(status, &json!({ "error_msg": reason }))
}

/// As in APISIX.
const MAX_BODY_BYTES_DEFAULT: usize = 1024 * 1024;
/// As in APISIX.
const MAX_REQUESTS_DEFAULT: usize = 1_000;
/// How many requests are checked before other requests of the worker have their turn: about a millisecond of
/// work.
const CHECKED_PER_TURN: usize = 32;
/// The longest time of a whole batch, in milliseconds: less than a plugin may wait in one phase, which is 60
/// s, so that the responses that there are can be sent.
const BATCH_MAX_MS: u64 = 50_000;

#[cfg(test)]
mod tests;
