//! Requests that a limit cannot count because its store fails: what becomes of them, and a line in the log.
//! It counts nothing.

use exchange::plugin::{BufferedReply, Build, PhaseDecision};

use crate::shared::outages::Outages;
use crate::shared::redis::error::RedisError;

/// See the module.
pub(crate) struct Failures {
    plugin: &'static str,
    /// The reply to a request that cannot be counted; none: it passes.
    reply: Option<BufferedReply>,
    outages: Outages,
}

impl Failures {
    /// Answers with `reply`, unless requests pass that cannot be counted.
    pub(crate) fn new(
        build: &Build<'_>,
        plugin: &'static str,
        allow_degradation: bool,
        reply: BufferedReply,
    ) -> Failures {
        let reply = (!allow_degradation).then_some(reply);
        Failures { plugin, reply, outages: Outages::new(build, plugin) }
    }

    /// The decision on a request that a limit with variables has no number for.
    pub(crate) fn without_number(&self) -> Option<BufferedReply> {
        // The fault is the client's or the configuration's; a store has nothing to do with it.
        self.reply.as_ref().map(|reply| BufferedReply::status(reply.status))
    }

    /// The decision on a request that cannot be counted because of `error`.
    pub(crate) fn decide(&self, error: &RedisError, now_ms: u64) -> PhaseDecision {
        self.note(error, now_ms);
        match &self.reply {
            Some(reply) => PhaseDecision::Reply(Box::new(reply.clone())),
            None => PhaseDecision::Continue,
        }
    }

    /// Counts a failure, and writes a line in the log if it is time.
    pub(crate) fn note(&self, error: &RedisError, now_ms: u64) {
        if let Some(requests) = self.outages.add(now_ms) {
            let (plugin, passes) = (self.plugin, self.reply.is_none());
            tracing::warn!(%error, plugin, requests, passes, "requests cannot be counted in Redis");
        }
    }
}
