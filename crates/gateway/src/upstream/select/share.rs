//! Shares of requests.

/// All requests; the shares of a plan's groups add up to it.
pub(crate) const WHOLE: u32 = 10_000;
