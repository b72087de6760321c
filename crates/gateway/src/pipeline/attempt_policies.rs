//! The policies that take part in each attempt, and the order in which they are called. A policy that is off
//! costs one look at its setting.

use super::adaptive_concurrency::AdaptiveConcurrency;
use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use super::deadline::UpstreamDeadline;
use super::grpc::GrpcCall;
use super::hedge_times::HedgeTimes;
use super::journey::Journey;
use super::retry_on_response::RetryOnResponse;
use super::sticky::StickySession;
use super::websocket::WebSocketUpgrade;
use crate::body::DownstreamStream;
use exchange::failure::ExchangeFailure;

/// All policies in the order in which they are called:
///
/// 1. the deadline of the upstream, and that of a gRPC call, so that the endpoint is told the time that is
///    left now;
/// 2. the key of a WebSocket, before anything is sent that would need an answer to it;
/// 3. the times of hedging, which count a response even if it is discarded then;
/// 4. the retry policy, which may discard the response: no later policy sees a response that the client does
///    not get;
/// 5. the time of the head, the session and the limit by latency, of the response that is passed on;
/// 6. the agreement to a WebSocket, which changes the status that all others have seen.
pub(super) type AttemptPolicies = (
    UpstreamDeadline,
    (
        GrpcCall,
        (
            HedgeTimes,
            (RetryOnResponse, (PassedOnHead, (StickySession, (AdaptiveConcurrency, WebSocketUpgrade)))),
        ),
    ),
);

/// Notes when the head of the response that is passed on has arrived.
pub(super) struct PassedOnHead;

impl AttemptPolicy for PassedOnHead {
    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let exchange = &mut *attempting.journey.exchange;
        let head_us = exchange.attempts.last().map_or(0, |record| record.head_us);
        exchange.times.upstream_head_ns = attempting.attempt.in_flight.started_ns + head_us * 1_000;
        Ok(AfterHead::PassOn)
    }
}

/// The failure to record for one of an attempt.
#[cold]
pub(super) fn judge_attempt<S>(journey: &Journey<'_, S>, failure: ExchangeFailure) -> ExchangeFailure {
    AttemptPolicies::at_failure(journey, failure)
}
