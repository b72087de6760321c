//! The destination of a request with a known upstream, and the progress of sending it there, shared by all
//! its attempts.

use super::journey::Journey;
use super::retries::Retries;
use super::upload::Upload;
use crate::body::DownstreamStream;
use crate::upstream::Upstream;
use crate::upstream::wanted::WantedNode;
use exchange::options::AttemptTimeouts;

/// See the module.
pub(super) struct Forwarding<'j> {
    pub(super) upstream: &'j Upstream,
    /// Those of the route, else of the upstream.
    pub(super) timeouts: AttemptTimeouts,
    /// The node that sessions, hashes and subsets ask for.
    pub(super) wanted: WantedNode,
    pub(super) retries: Retries,
    pub(super) upload: Upload,
}

impl<'j> Forwarding<'j> {
    /// Directs the attempts to `upstream`.
    pub(super) fn direct_to<S: DownstreamStream>(
        &mut self,
        journey: &mut Journey<'j, S>,
        upstream: &'j Upstream,
    ) {
        self.upstream = upstream;
        self.timeouts = timeouts_of(journey, upstream);
        self.wanted = WantedNode::of(upstream, journey.exchange, journey.run.local().now_ms());
    }
}

/// The timeouts of a request to `upstream`.
pub(super) fn timeouts_of<S>(journey: &Journey<'_, S>, upstream: &Upstream) -> AttemptTimeouts {
    journey.chains.route().and_then(|route| route.timeouts).unwrap_or(upstream.timeouts)
}
