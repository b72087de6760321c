//! Refusals of PROXY protocol headers: counted, and told to the operator. It reads no byte.

use std::fmt::Display;

use super::arrival::ConnectionIdentity;
use super::h1::timer::ConnectionTimer;
use crate::observe::failures::ConnectionRefusal;
use exchange::observe::pace::Pace;

/// Of the line about headers that were refused.
static REFUSED: Pace = Pace::every_ms(10_000);

/// The reason for a header of a peer that is not trusted.
pub(super) const UNTRUSTED_HEADER: &str =
    "its peer is not in proxy_protocol_from and sends a PROXY protocol header";

/// Counts a connection with a header that is refused, and tells the operator.
pub(super) fn refuse_proxy_header(
    timer: &ConnectionTimer,
    identity: &ConnectionIdentity,
    reason: &dyn Display,
) {
    let context = &timer.context;
    context.status.failures.refused(ConnectionRefusal::ProxyProtocol);
    if let Some(count) = REFUSED.add(1, context.local.now_ms()) {
        let sender = identity.peer.ip();
        tracing::warn!(%sender, count, %reason, "refused connections to a listener with PROXY protocol");
    }
}

/// Whether a header at the start of this connection would be one of a peer that may send none: it was not
/// read by now.
pub(super) fn is_untrusted(identity: &ConnectionIdentity) -> bool {
    identity.proxy.is_none() && identity.listener.listener.wanted().protocols.proxy_protocol
}
