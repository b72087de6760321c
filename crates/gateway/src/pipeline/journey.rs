//! The context that the steps of one request share: the facts of its run, the exchange, the client's side,
//! and its chains.

use super::chains::Chains;
use super::run::PipelineRun;
use exchange::Exchange;

/// See the module. Steps get it whole in place of its parts, so that a new part reaches all of them.
pub(super) struct Journey<'j, S> {
    /// The worker, the generation and the deadline of the request, and the facts that steps have noted.
    pub(super) run: &'j PipelineRun<'j>,
    /// The plugins; those of no route until the route is known.
    pub(super) chains: Chains<'j>,
    pub(super) exchange: &'j mut Exchange,
    /// The client's side: its body is read here, and its response written.
    pub(super) downstream: &'j mut S,
}
