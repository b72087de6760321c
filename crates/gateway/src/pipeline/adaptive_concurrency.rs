//! The limit by latency in the pipeline: its place is measured from the selection to the response head.

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use crate::body::DownstreamStream;
use exchange::failure::ExchangeFailure;

/// Tells the limit how long the upstream took to answer.
pub(super) struct AdaptiveConcurrency;

impl AttemptPolicy for AdaptiveConcurrency {
    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let run = attempting.journey.run;
        if let Some(permit) = run.permit.take() {
            permit.answered(run.local().recent_ns() / 1_000);
        }
        Ok(AfterHead::PassOn)
    }
}
