//! `weir/tap` and `weir/failures`: single requests as they pass, and the failures that were kept.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use model::search::TRAFFIC_FIELDS;
use serde_json::json;

use super::events::event_stream;
use crate::admin::call::{AdminParts, Call};
use crate::serve::list_query::{limit, number_to, parse_filter};
use crate::serve::role::Role;
use crate::serve::streamed::Streamed;
use crate::serve::{RefusalResponse, respond};
use crate::tap::{QUEUE, RATE_MAX, READERS_MAX, TapHub, TapQuery};

/// Follows requests as server-sent events, with the arguments `q`, `rate` and `timeline`.
pub(super) fn answer_tap(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    try_follow(parts, call).unwrap_or_else(|refusal| *refusal)
}

fn try_follow(parts: &AdminParts, call: &Call) -> Result<Response<Bytes>, RefusalResponse> {
    let hub = hub(parts)?;
    let rate = number_to(&call.query, "rate", RATE_DEFAULT, RATE_MAX as usize)?;
    let wanted = TapQuery {
        filter: parse_filter(&call.query, &TRAFFIC_FIELDS)?,
        rate: u32::try_from(rate).unwrap_or(RATE_MAX),
        timeline: matches!(call.query.get("timeline"), Some("1" | "true" | "")),
        hides_queries: hides_queries(call),
    };
    let (sender, streamed) = Streamed::channel(QUEUE);
    // A comment, so that the head of the answer is sent before the first request passes.
    let _ = sender.try_send(Bytes::from_static(b": open\n\n"));
    if !hub.follow(wanted, sender) {
        let message = format!(
            "requests have as many readers as they may have ({READERS_MAX}); close one of them first"
        );
        return Err(Box::new(respond::error_response(StatusCode::TOO_MANY_REQUESTS, message)));
    }
    tracing::info!(by = %call.author, "requests are being followed");
    Ok(event_stream(streamed))
}

/// `{"list": [...], "lost"}`: failures of the gateway and of upstreams, the newest first.
pub(super) fn failures(parts: &Arc<AdminParts>, call: &Call) -> Response<Bytes> {
    let answered = || {
        let (hub, filter) = (hub(parts)?, parse_filter(&call.query, &TRAFFIC_FIELDS)?);
        let limit = limit(&call.query, FAILURES_DEFAULT, FAILURES_MAX)?;
        let (list, lost) = hub.failures(&filter, hides_queries(call), limit);
        Ok(respond::json(StatusCode::OK, &json!({ "list": list, "lost": lost })))
    };
    answered().unwrap_or_else(|refusal: RefusalResponse| *refusal)
}

fn hub(parts: &AdminParts) -> Result<&TapHub, RefusalResponse> {
    parts.reports.tap.as_ref().ok_or_else(|| Box::new(respond::not_found()))
}

fn hides_queries(call: &Call) -> bool {
    call.role == Role::Viewer
}

/// Requests a second that a reader gets without `rate`: as many as a page can show.
const RATE_DEFAULT: usize = 50;
/// Failures in one answer without `limit`.
const FAILURES_DEFAULT: usize = 256;
/// The most failures in one answer: all that 64 workers keep.
const FAILURES_MAX: usize = 4_096;
