//! The destination of a request with a known route and upstream.

use super::phases::Chains;
use super::run::Run;
use crate::upstream::Upstream;
use exchange::options::Timeouts;

/// The destination of a request, shared by all attempts of its exchange.
#[derive(Clone, Copy)]
pub(super) struct Forward<'r, 'w> {
    pub(super) run: &'r Run<'w>,
    pub(super) chains: &'r Chains<'r>,
    pub(super) upstream: &'r Upstream,
    pub(super) timeouts: Timeouts,
}
