//! Why a request got an error: the failure of the exchange, the reply of a plugin, or the error status of an
//! upstream, in the same words for logs, metrics, response fields and readers of single requests.

use std::net::SocketAddr;

use super::{Attempt, Exchange, PluginReply};
use crate::failure::{Blame, Cause, FailurePhase};
use crate::plugin::phase_name::PluginPhase;

/// The cause of an error status that an upstream sent.
pub const UPSTREAM_STATUS: &str = "upstream_status";
/// The cause of an error status that a plugin has given to the response of an upstream.
pub const STATUS_CHANGED: &str = "status_changed";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReason<'e> {
    /// A code of [`Cause`], the name of the plugin that replied, [`UPSTREAM_STATUS`] or [`STATUS_CHANGED`].
    pub cause: &'static str,
    /// The side that has to act.
    pub blame: Blame,
    /// The phase of the exchange, or that of the plugin.
    pub phase: &'static str,
    /// The endpoint at which it happened.
    pub endpoint: Option<SocketAddr>,
    /// The plugin that replied or failed.
    pub plugin: Option<&'static str>,
    /// Details of a failure, for a person.
    pub detail: Option<&'e str>,
}

impl Exchange {
    /// Why the request got an error; none for a status below 400, and for one below 500 that an upstream
    /// sent. Two comparisons for a request without an error.
    #[inline]
    pub fn reason(&self) -> Option<ErrorReason<'_>> {
        if self.failure.is_none() && self.response.status < 400 { None } else { self.find_reason() }
    }

    #[cold]
    fn find_reason(&self) -> Option<ErrorReason<'_>> {
        self.reason_of_failure().or_else(|| self.reason_of_status())
    }

    fn reason_of_failure(&self) -> Option<ErrorReason<'_>> {
        let failure = self.failure.as_ref()?;
        let (cause, blame, phase) = (failure.cause, failure.cause.blame(), failure.cause.phase());
        let is_at_endpoint =
            !matches!(phase, FailurePhase::Request | FailurePhase::Route) && blame != Blame::Client;
        let last = self.attempts.last().filter(|_| is_at_endpoint);
        let replying = || self.decision.plugin_reply.filter(|_| cause == Cause::PluginFailed);
        Some(ErrorReason {
            cause: cause.code(),
            blame,
            phase: phase.as_str(),
            endpoint: failure.node.or(last.map(|attempt| attempt.address)),
            plugin: failure.plugin.or_else(|| replying().map(|reply| reply.plugin)),
            detail: Some(&failure.detail),
        })
    }

    fn reason_of_status(&self) -> Option<ErrorReason<'_>> {
        let status = self.response.status;
        let plain = |cause, blame, phase| ErrorReason {
            cause,
            blame,
            phase,
            endpoint: None,
            plugin: None,
            detail: None,
        };
        if let Some(PluginReply { plugin, phase }) = self.decision.plugin_reply {
            let blame = if status < 500 { Blame::Client } else { Blame::Gateway };
            return Some(ErrorReason { plugin: Some(plugin), ..plain(plugin, blame, phase.name()) });
        }
        if status < 500 {
            return None;
        }
        // Of two attempts at the same time the later one may have lost, and a plugin may have changed one
        // error to another.
        let has_sent = |attempt: &&Attempt| attempt.status == status;
        let sent = self.attempts.iter().rev().find(has_sent);
        match sent.or(self.attempts.last().filter(|attempt| attempt.status >= 500)) {
            Some(attempt) => Some(ErrorReason {
                endpoint: Some(attempt.address),
                ..plain(UPSTREAM_STATUS, Blame::Upstream, FailurePhase::Wait.as_str())
            }),
            None => Some(plain(STATUS_CHANGED, Blame::Gateway, PluginPhase::ResponseHead.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ExchangeFailure;
    use crate::testing::{Scene, respond};

    const NODE: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

    fn attempt(status: u16, failed: Option<Cause>) -> Attempt {
        Attempt {
            address: SocketAddr::from(NODE),
            endpoint_id: 1,
            scheme: "http",
            upstream: 0,
            status,
            failed,
            started_ns: 0,
            connect_us: 0,
            head_us: 0,
            total_us: 0,
        }
    }

    fn reason_of(exchange: &Exchange) -> Option<(&'static str, &'static str, &'static str, bool)> {
        let reason = exchange.reason()?;
        Some((reason.cause, reason.blame.as_str(), reason.phase, reason.endpoint.is_some()))
    }

    #[test]
    fn status_of_upstream_is_a_reason_from_500_on() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        for (sent, received, expected) in [
            (200, 200, None),
            (404, 404, None),
            (503, 503, Some((UPSTREAM_STATUS, "origin", "wait", true))),
            (500, 503, Some((UPSTREAM_STATUS, "origin", "wait", true))),
            (200, 503, Some((STATUS_CHANGED, "gateway", "header_filter", false))),
        ] {
            exchange.attempts.clear();
            exchange.attempts.push(attempt(sent, None));
            respond(&mut exchange, received, &[]);
            assert_eq!(reason_of(&exchange), expected, "{sent} {received}");
        }
    }

    #[test]
    fn reply_of_plugin_names_it_as_cause() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        exchange.decision.plugin_reply =
            Some(PluginReply { plugin: "key-auth", phase: PluginPhase::Rewrite });
        for (status, expected) in [
            (200, None),
            (401, Some(("key-auth", "client", "rewrite", false))),
            (503, Some(("key-auth", "gateway", "rewrite", false))),
        ] {
            respond(&mut exchange, status, &[]);
            assert_eq!(reason_of(&exchange), expected, "{status}");
        }
        exchange.failure = Some(ExchangeFailure::new(Cause::PluginFailed, "it stalls"));
        let reason = exchange.reason().unwrap();
        assert_eq!((reason.cause, reason.plugin), ("plugin_failed", Some("key-auth")));
        exchange.reset();
        assert_eq!(reason_of(&exchange), None);
    }

    #[test]
    fn failure_has_endpoint_of_last_attempt() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        exchange.attempts.push(attempt(0, Some(Cause::ConnectFailed)));
        for (cause, expected) in [
            (Cause::ConnectFailed, ("connect_failed", "origin", "connect", true)),
            (Cause::DeadlineExceeded, ("deadline_exceeded", "gateway", "response", true)),
            (Cause::ClientGone, ("client_gone", "client", "response", false)),
            (Cause::NoRoute, ("route_not_found", "client", "route", false)),
        ] {
            exchange.failure = Some(ExchangeFailure::new(cause, "a test"));
            assert_eq!(reason_of(&exchange), Some(expected));
        }
    }
}
