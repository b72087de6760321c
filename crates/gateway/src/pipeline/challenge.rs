//! Answers to HTTP-01 challenges of certificate authorities (RFC 8555 section 8.3), on every HTTP listener.
//! It does not know how certificates are ordered.

use exchange::Exchange;
use exchange::plugin::BufferedReply;
use message::Method;
use model::acme::Challenges;

/// The answer to a request for the key authorization of an open challenge; none for every other request,
/// which goes on to the routes.
#[inline]
pub(super) fn answer(challenges: Option<&Challenges>, exchange: &Exchange) -> Option<BufferedReply> {
    let authorization = challenges?.key_authorization(&exchange.target.path)?;
    if !matches!(exchange.request.method, Method::Get | Method::Head) {
        return None;
    }
    let reply = BufferedReply::status(200).with_header("Content-Type", "application/octet-stream");
    Some(reply.with_body(authorization.as_bytes().to_vec()))
}
