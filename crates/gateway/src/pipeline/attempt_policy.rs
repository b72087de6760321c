//! The policies that take part in each attempt, and the order in which they are called. A policy that is off costs one
//! look at its setting.

use super::active_attempt::ActiveAttempt;
use super::adaptive_concurrency::AdaptiveConcurrency;
use super::attempt::PassedOnHead;
use super::deadline::UpstreamDeadline;
use super::forwarding::Forwarding;
use super::grpc::GrpcCall;
use super::hedge_times::HedgeTimes;
use super::journey::Journey;
use super::retries::RetryOnResponse;
use super::sticky::StickySession;
use super::websocket::WebSocketUpgrade;
use crate::body::DownstreamStream;
use exchange::failure::Failure;

/// All policies in the order in which they are called:
///
/// 1. the deadline of the upstream, and that of a gRPC call, so that the endpoint is told the time that is left now;
/// 2. the key of a WebSocket, before anything is sent that would need an answer to it;
/// 3. the times of hedging, which count a response even if it is discarded then;
/// 4. the retry policy, which may discard the response: no later policy sees a response that the client does not get;
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

/// An attempt with the request that it is made for.
pub(super) struct Attempting<'a, 'j, S> {
    pub(super) journey: &'a mut Journey<'j, S>,
    pub(super) forwarding: &'a mut Forwarding<'j>,
    pub(super) attempt: ActiveAttempt<'j>,
}

/// What becomes of a response of which the head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterHead {
    /// It is passed on.
    PassOn,
    /// It gives way to another attempt, which is prepared.
    Discard,
}

/// A policy that takes part in attempts. It sees every attempt, except that a second one beside it is begun by hedging.
pub(super) trait AttemptPolicy {
    /// Before the head of the request is given to the stream.
    ///
    /// # Errors
    /// The request must not be sent.
    fn before_send<S: DownstreamStream>(_: &mut Attempting<'_, '_, S>) -> Result<(), Failure> {
        Ok(())
    }

    /// When the head of the final response has arrived, before any of it is passed on.
    ///
    /// # Errors
    /// The response must not be passed on.
    fn after_head<S: DownstreamStream>(_: &mut Attempting<'_, '_, S>) -> Result<AfterHead, Failure> {
        Ok(AfterHead::PassOn)
    }

    /// When the attempt has failed, before it is known which side is at fault; returns the failure to record.
    fn at_failure<S>(_: &Journey<'_, S>, failure: Failure) -> Failure {
        failure
    }
}

/// The first policy, then the second one. A discarded response reaches no later policy.
impl<A: AttemptPolicy, B: AttemptPolicy> AttemptPolicy for (A, B) {
    fn before_send<S: DownstreamStream>(attempting: &mut Attempting<'_, '_, S>) -> Result<(), Failure> {
        A::before_send(attempting)?;
        B::before_send(attempting)
    }

    fn after_head<S: DownstreamStream>(attempting: &mut Attempting<'_, '_, S>) -> Result<AfterHead, Failure> {
        match A::after_head(attempting)? {
            AfterHead::PassOn => B::after_head(attempting),
            AfterHead::Discard => Ok(AfterHead::Discard),
        }
    }

    fn at_failure<S>(journey: &Journey<'_, S>, failure: Failure) -> Failure {
        B::at_failure(journey, A::at_failure(journey, failure))
    }
}

/// The failure to record for one of an attempt.
#[cold]
pub(super) fn judge<S>(journey: &Journey<'_, S>, failure: Failure) -> Failure {
    AttemptPolicies::at_failure(journey, failure)
}
