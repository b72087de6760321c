//! A client's TLS connection from accept to the end of its handshake; then the protocol that was agreed goes
//! on. A client that speaks plain HTTP is told so. It knows no certificate.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::arrival::{TcpArrival, within_deadline};
use super::connection_guard::AddressPlace;
use super::h1::connection::H1Connection;
use super::h1::linger::linger;
use super::h1::serve;
use super::h1::timer::ConnectionTimer;
use super::h2;
use super::stream;
use exchange::exchange::TlsContext;
use exchange::observe::histogram::bump;
use net::env;
use net::listener::Application;
use net::tls::server::{AcceptFault, Accepted, Alpn, accept_tls};
use net::transport::Transport;

/// Runs the handshake, then serves the connection in a task of its own, so that the handshake's state is
/// freed.
pub(crate) async fn serve_tls_connection(arrival: TcpArrival, timer: ConnectionTimer) {
    let TcpArrival { stream, identity, counted } = arrival;
    let peer = identity.peer.ip();
    let context = timer.context.clone();
    // Until the connection has its own, so that the address's place is given back in any case.
    let place = AddressPlace::new(counted, peer);
    let Some(tls) = context.generation().tls.clone() else { return };
    let sites = || context.generation().sites.clone();
    let is_stream = identity.listener.listener.wanted().protocols.application == Application::Stream;
    let alpn = match identity.listener.serves_http2() {
        _ if is_stream => Alpn::Unknown,
        true => Alpn::Http2,
        false => Alpn::Http1,
    };
    let handshake = accept_tls(stream, &tls, sites, alpn);
    let timeout_ms = context.local.options.limits.handshake_timeout_ms;
    let outcome = within_deadline(handshake, timeout_ms, identity.id, &identity.listener, &timer).await;
    timer.end_idle();
    let status = &context.status;
    match outcome {
        Some(Ok(Accepted { stream, facts, site })) => {
            bump(if facts.is_resumed { &status.tls_resumed } else { &status.tls_full }, 1);
            let is_http2 = stream.alpn() == Some(b"h2");
            let tls = Rc::new(TlsContext { facts, site, alt_svc: identity.listener.alt_svc() });
            let counted = place.into_guard();
            if is_stream {
                let opened =
                    stream::OpenedConnection::new(stream.into(), identity, counted, timer, Some(tls));
                env::spawn(stream::serve_stream_session(opened));
                return;
            }
            let connection = H1Connection::new(stream.into(), identity, counted, Some(tls));
            if is_http2 {
                env::spawn(h2::serve::serve_h2_connection(connection, timer));
            } else {
                env::spawn(serve::serve_h1_connection(connection, timer));
            }
        }
        Some(Err(AcceptFault::NotTls { stream: plain, is_text })) => {
            bump(&status.tls_failed, 1);
            if is_text && !is_stream {
                let counted = place.into_guard();
                let connection = H1Connection::new(Transport::Tcp(plain), identity, counted, None);
                refuse_plain_http(connection, &timer).await;
            }
        }
        Some(Err(AcceptFault::Refused(reason))) => {
            bump(&status.tls_failed, 1);
            tracing::debug!(%peer, %reason, "a TLS handshake failed");
        }
        Some(Err(AcceptFault::ChallengeAnswered)) => bump(&status.tls_full, 1),
        Some(Err(AcceptFault::Gone)) => bump(&status.tls_failed, 1),
        None => {
            bump(&status.tls_failed, 1);
            tracing::debug!(%peer, "a TLS handshake was not complete in time");
        }
    }
}

/// The response to plain HTTP, in nginx's words, which operators look for.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 55\r\n\
    Connection: close\r\n\r\nThe plain HTTP request was sent to HTTPS port; use TLS\n";

async fn refuse_plain_http(mut connection: Box<H1Connection>, timer: &ConnectionTimer) {
    // A socket that has carried nothing yet has room for it.
    let written = poll_fn(|cx| Poll::Ready(connection.stream.poll_write(cx, PLAIN_HTTP))).await;
    if matches!(written, Poll::Ready(Ok(_))) {
        linger(&mut connection, timer).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_reply_has_its_length() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }
}
