//! The hook of policies in an attempt. Which policies there are, and their order, is in `attempt_policies`.

use super::active_attempt::ActiveAttempt;
use super::forwarding::Forwarding;
use super::journey::Journey;
use crate::body::DownstreamStream;
use exchange::failure::ExchangeFailure;

/// An attempt with the request that it is made for.
pub(super) struct Attempting<'a, 'j, S> {
    pub(super) journey: &'a mut Journey<'j, S>,
    pub(super) forwarding: &'a mut Forwarding<'j>,
    pub(super) attempt: ActiveAttempt<'j>,
}

/// The fate of a response after its head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterHead {
    /// It is passed on.
    PassOn,
    /// It gives way to another attempt, which is prepared.
    Discard,
}

/// A policy that takes part in attempts. It is called for every attempt, but not for a second one that
/// hedging begins beside it.
pub(super) trait AttemptPolicy {
    /// Before the head of the request is given to the stream.
    ///
    /// # Errors
    /// The request must not be sent.
    fn before_send<S: DownstreamStream>(_: &mut Attempting<'_, '_, S>) -> Result<(), ExchangeFailure> {
        Ok(())
    }

    /// When the head of the final response has arrived, before any of it is passed on.
    ///
    /// # Errors
    /// The response must not be passed on.
    fn after_head<S: DownstreamStream>(_: &mut Attempting<'_, '_, S>) -> Result<AfterHead, ExchangeFailure> {
        Ok(AfterHead::PassOn)
    }

    /// When the attempt has failed, before it is known which side is at fault; returns the failure to record.
    fn at_failure<S>(_: &Journey<'_, S>, failure: ExchangeFailure) -> ExchangeFailure {
        failure
    }
}

/// The first policy, then the second one. A discarded response reaches no later policy.
impl<A: AttemptPolicy, B: AttemptPolicy> AttemptPolicy for (A, B) {
    fn before_send<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<(), ExchangeFailure> {
        A::before_send(attempting)?;
        B::before_send(attempting)
    }

    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        match A::after_head(attempting)? {
            AfterHead::PassOn => B::after_head(attempting),
            AfterHead::Discard => Ok(AfterHead::Discard),
        }
    }

    fn at_failure<S>(journey: &Journey<'_, S>, failure: ExchangeFailure) -> ExchangeFailure {
        B::at_failure(journey, A::at_failure(journey, failure))
    }
}
