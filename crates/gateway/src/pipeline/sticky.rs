//! Sessions in the pipeline: the response tells the client which node its session is at.

use super::attempt_policy::{AfterHead, AttemptPolicy, Attempting};
use crate::body::DownstreamStream;
use exchange::failure::ExchangeFailure;

/// Sets the cookie of a session that has begun or moved.
pub(super) struct StickySession;

impl AttemptPolicy for StickySession {
    fn after_head<S: DownstreamStream>(
        attempting: &mut Attempting<'_, '_, S>,
    ) -> Result<AfterHead, ExchangeFailure> {
        let Attempting { journey, forwarding, attempt } = attempting;
        let (run, upstream) = (journey.run, forwarding.upstream);
        let upstreams = &run.context.upstreams;
        if let Some(sticky) = &upstream.policies.sticky
            && let Some(tag) = upstreams.tag_of(upstream, attempt.in_flight.selected)
        {
            let may_move = !upstreams.keeps_session(upstream, &forwarding.wanted, &forwarding.retries.nodes);
            sticky.answered(journey.exchange, tag, run.local().now_ms(), may_move);
        }
        Ok(AfterHead::PassOn)
    }
}
