//! The retry policy as a part of each attempt: a response that it wants to replace is not passed on.

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use super::forwarding::Forwarding;
use crate::body::DownstreamStream;
use exchange::failure::ExchangeFailure;

/// Discards a response that the retry policy wants to replace by that of another attempt.
pub(super) struct RetryOnResponse;

impl AttemptPolicy for RetryOnResponse {
    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let Attempting { journey, forwarding, attempt } = attempting;
        let Forwarding { upstream, upload, retries, .. } = &mut **forwarding;
        let Some(policy) = &upstream.retry else { return Ok(AfterHead::PassOn) };
        let selected = attempt.in_flight.selected;
        match retries.discards_response(policy, journey, upstream, upload, selected) {
            true => Ok(AfterHead::Discard),
            false => Ok(AfterHead::PassOn),
        }
    }
}
