//! Where a request goes, once its route and its upstream are known.

use super::phases::Chains;
use super::run::Run;
use crate::upstream::Upstream;
use exchange::options::Timeouts;

/// Where a request goes: what all attempts of its exchange share.
#[derive(Clone, Copy)]
pub(super) struct Forward<'r, 'w> {
    pub(super) run: &'r Run<'w>,
    pub(super) chains: &'r Chains<'r>,
    pub(super) upstream: &'r Upstream,
    pub(super) timeouts: Timeouts,
}
