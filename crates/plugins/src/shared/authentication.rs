//! The part of authentication that all methods share: finding the consumer, letting a request pass as a
//! consumer or as the anonymous one, and refusing it. It knows no method; [`places`] are the parts of a
//! request where credentials are.
//!
//! A plugin changes nothing of a request before its credential has proved good, so that `multi-auth` can try
//! another method.

pub(crate) mod places;

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::observe::pace::Pace;
use exchange::plugin::{BufferedReply, Flow};

use super::config::is_reference;
use super::consumer::set_consumer_headers;

/// Printable ASCII that needs no escape in a quoted string (RFC 9110 section 5.6.4).
pub(crate) const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\]-\x7E]+$";

/// Milliseconds between two lines about one fault.
const LOG_INTERVAL_MS: u64 = 10_000;

/// The treatment of requests by one instance of an authentication plugin.
pub(crate) struct Authentication {
    anonymous_consumer: Option<Box<str>>,
    /// The value of `WWW-Authenticate`.
    challenge: Box<str>,
    /// Of the lines about a missing anonymous consumer.
    pace: Pace,
}

/// Why a request is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthenticationRefusal {
    /// The message to the client; it says nothing about the credential.
    message: &'static str,
    /// The request passes neither as the anonymous consumer nor by another method of `multi-auth`.
    is_final: bool,
}

impl AuthenticationRefusal {
    /// The credential is missing or wrong.
    pub(crate) const fn new(message: &'static str) -> AuthenticationRefusal {
        AuthenticationRefusal { message, is_final: false }
    }

    /// A part of the request has two credentials: two readers could each use a different one.
    pub(crate) const fn doubled(message: &'static str) -> AuthenticationRefusal {
        AuthenticationRefusal { message, is_final: true }
    }
}

impl AuthenticationRefusal {
    /// The message to the client.
    pub(crate) const fn message(&self) -> &'static str {
        self.message
    }

    /// Whether no other method may accept the request either.
    pub(crate) const fn is_final(&self) -> bool {
        self.is_final
    }
}

impl Authentication {
    /// Refusals name `scheme` and `realm`; with `anonymous_consumer` requests without a good credential count
    /// as its requests.
    pub(crate) fn new(scheme: &str, realm: &str, anonymous_consumer: Option<Box<str>>) -> Authentication {
        let challenge = format!("{scheme} realm=\"{realm}\"").into();
        Authentication { anonymous_consumer, challenge, pace: Pace::every_ms(LOG_INTERVAL_MS) }
    }

    /// Lets the request pass as `consumer`.
    pub(crate) fn admit(&self, exchange: &mut Exchange, consumer: Arc<Consumer>) -> Flow<'static> {
        set_consumer_headers(exchange, &consumer);
        exchange.authenticate(consumer);
        Flow::Continue
    }

    /// Lets the request pass as the anonymous consumer, after `hide` has removed its credentials, or refuses
    /// it.
    pub(crate) fn refuse(
        &self,
        exchange: &mut Exchange,
        refusal: AuthenticationRefusal,
        hide: impl FnOnce(&mut Exchange),
    ) -> Flow<'static> {
        let Some(name) = self.anonymous_consumer.as_ref().filter(|_| !refusal.is_final) else {
            return match self.refuse_with(refusal.message) {
                Flow::Reply(reply) if refusal.is_final => Flow::reply(reply.into_final()),
                refused => refused,
            };
        };
        match exchange.consumer_named(name) {
            Some(consumer) => {
                hide(exchange);
                self.admit(exchange, consumer)
            }
            None => {
                if let Some(requests) = self.pace.add(1, exchange.local().now_ms()) {
                    tracing::warn!(consumer = &**name, requests, "the anonymous_consumer does not exist");
                }
                self.refuse_with("Invalid user authorization")
            }
        }
    }

    /// Refuses the request.
    pub(crate) fn refuse_with(&self, message: &str) -> Flow<'static> {
        Flow::reply(BufferedReply::message(401, message).with_header("WWW-Authenticate", &*self.challenge))
    }
}

/// The consumer that `key` finds in `plugin`. Keys are found by a hash with a secret seed. The text of a
/// reference to a secret finds none, because a reference that cannot be resolved keeps its text.
pub(crate) fn find_consumer(exchange: &Exchange, plugin: &str, key: &str) -> Option<Arc<Consumer>> {
    if is_reference(key) {
        return None;
    }
    exchange.find_consumer(plugin, key)
}
