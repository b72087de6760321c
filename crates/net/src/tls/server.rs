//! The server's side of TLS: it reads a ClientHello under limits, finds the site of the name in it, and runs
//! the handshake under that site's certificates and policy. `table` finds sites, `site` is one of them,
//! `client_policy` judges clients' certificates, `tickets` makes sessions resumable, `quic` does the same
//! inside of QUIC. It sets no deadline: the caller drops it.

mod challenge;
pub mod client_policy;
mod quic;
mod settings;
pub mod site;
mod site_certificate;
mod table;
mod tickets;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::Connection;
use rustls::server::{Accepted as Hello, Acceptor};

use super::facts::{ClientVerdict, TlsFacts};
use super::ja4;
use super::stream::{TlsStream, with_scratch};
use crate::env::Stream;
use site::{Site, SiteState};

pub use challenge::{ChallengeIdentity, Orders};
pub use quic::{QuicHandshake, QuicTls};
pub use settings::{ServerSettings, ServerTls, Versions};
pub use site_certificate::SiteCertificate;
pub use table::SiteTable;
pub use tickets::TicketSecret;

/// Most bytes of a ClientHello with its records. Browsers send 2 KiB with post-quantum key shares; a client
/// that sends more than this makes the gateway hold memory before anything is known of it.
const CLIENT_HELLO_MAX_BYTES: usize = 16 * 1024;
/// Reads of bytes behind a refused ClientHello, each of as many bytes as one may have.
const UNREAD_READS: usize = 4;
/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// Fatal alerts of RFC 8446 section 6 that are sent before rustls has a connection.
const ALERT_DECODE_ERROR: u8 = 50;
const ALERT_INTERNAL_ERROR: u8 = 80;
const ALERT_UNRECOGNIZED_NAME: u8 = 112;

/// The protocols that a listener offers by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// `http/1.1`.
    Http1,
    /// `h2`, then `http/1.1`.
    Http2,
    /// `h3`, inside of QUIC.
    Http3,
    /// None, because the protocol inside of TLS is not known: whatever the client offers, nothing is
    /// selected.
    Unknown,
}

impl Alpn {
    /// How many forms of a site there are: one for each list.
    pub(crate) const COUNT: usize = Alpn::Unknown as usize + 1;

    /// Their names, the preferred one first.
    pub fn names(self) -> &'static [&'static [u8]] {
        match self {
            Alpn::Http1 => &[b"http/1.1"],
            Alpn::Http2 => &[b"h2", b"http/1.1"],
            Alpn::Http3 => &[b"h3"],
            Alpn::Unknown => &[],
        }
    }
}

/// A connection that has ended its handshake.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream,
    /// The agreed parameters, and the verdict over the client.
    pub facts: TlsFacts,
    /// The site that it was made with.
    pub site: Arc<Site>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum AcceptFault {
    /// The client does not speak TLS. Its first bytes are with the kernel, and a letter stands first where
    /// `is_text`.
    NotTls {
        /// The connection as it was.
        stream: Stream,
        /// It may be HTTP.
        is_text: bool,
    },
    /// The client went away.
    Gone,
    /// The client was an authority that has checked a challenge; nothing follows.
    ChallengeAnswered,
    /// The handshake failed, for this reason; the client was sent an alert.
    Refused(String),
}

impl From<io::Error> for AcceptFault {
    fn from(error: io::Error) -> AcceptFault {
        match error.kind() {
            io::ErrorKind::InvalidData => AcceptFault::Refused(error.to_string()),
            _ => AcceptFault::Gone,
        }
    }
}

/// Runs the handshake of a client that has just connected. The sites are asked for when the ClientHello is
/// here, so that a change concerns every handshake that begins after it.
///
/// # Errors
/// See [`AcceptFault`].
pub async fn accept_tls(
    mut stream: Stream,
    tls: &ServerTls,
    sites: impl FnOnce() -> Arc<SiteTable>,
    alpn: Alpn,
) -> Result<Accepted, AcceptFault> {
    let mut room = [0];
    match poll_fn(|cx| stream.poll_peek_at_once(cx, &mut room)).await? {
        0 => return Err(AcceptFault::Gone),
        _ if room[0] != HANDSHAKE_RECORD => {
            return Err(AcceptFault::NotTls { stream, is_text: room[0].is_ascii_alphabetic() });
        }
        _ => {}
    }
    let mut reading =
        HelloReader { stream, acceptor: Acceptor::default(), received: Vec::new(), left: Vec::new() };
    let hello = poll_fn(|cx| reading.poll(cx)).await?;
    let HelloReader { mut stream, left, received, .. } = reading;
    let ja4 = ja4::fingerprint(&received);
    drop(received);
    let table = sites();
    let name = hello.client_hello().server_name().map(str::to_owned);
    if challenge::is_challenge(&hello.client_hello()) {
        return Err(challenge::answer(hello, name, tls, stream, left).await);
    }
    if let (Some(orders), Some(name)) = (tls.orders(), name.as_deref())
        && table.find(Some(name), None).is_none()
    {
        orders.missing(&name.to_ascii_lowercase());
    }
    let Some(site) = table.find(name.as_deref(), tls.fallback_name()) else {
        refuse(&mut stream, ALERT_UNRECOGNIZED_NAME).await;
        let name = name.as_deref().unwrap_or("none");
        return Err(AcceptFault::Refused(format!("no certificate for the server name {name}")));
    };
    let site = site.clone();
    if site.state == SiteState::Faulty {
        refuse(&mut stream, ALERT_INTERNAL_ERROR).await;
        return Err(AcceptFault::Refused(format!("ssl {} is faulty and has no good form", site.id)));
    }
    let config = match site.config(tls, alpn) {
        Ok(config) => config,
        Err(reason) => {
            refuse(&mut stream, ALERT_INTERNAL_ERROR).await;
            return Err(AcceptFault::Refused(format!("ssl {}: {reason}", site.id)));
        }
    };
    let connection = match hello.into_connection(config) {
        Ok(connection) => connection,
        Err((error, mut alert)) => {
            send_alert(&mut stream, &mut alert).await;
            return Err(AcceptFault::Refused(error.to_string()));
        }
    };
    let mut stream = TlsStream::with_received(stream, Connection::Server(connection), left);
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    let mut facts = stream.facts();
    facts.ja4 = ja4;
    if let Some(policy) = &site.client {
        // Verified on every resumption as well: since the first handshake the certificate may have expired,
        // or been revoked.
        facts.client = policy.verdict(&facts.peer);
        if policy.is_mandatory() && facts.client != ClientVerdict::Verified {
            return Err(AcceptFault::Refused("the client's certificate is no longer valid".to_owned()));
        }
    }
    Ok(Accepted { stream, facts, site })
}

/// Reads a ClientHello.
struct HelloReader {
    stream: Stream,
    acceptor: Acceptor,
    /// The records so far.
    received: Vec<u8>,
    /// Bytes that came behind it.
    left: Vec<u8>,
}

impl HelloReader {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Hello, AcceptFault>> {
        loop {
            let fed = with_scratch(|scratch| {
                let read = self.stream.poll_read_at_once(cx, &mut scratch[..CLIENT_HELLO_MAX_BYTES]);
                let count = match ready!(read) {
                    Ok(count @ 1..) => count,
                    Ok(_) | Err(_) => return Poll::Ready(Err(AcceptFault::Gone)),
                };
                Poll::Ready(self.feed(cx, &scratch[..count]))
            });
            if let Some(hello) = ready!(fed)? {
                return Poll::Ready(Ok(hello));
            }
        }
    }

    fn feed(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> Result<Option<Hello>, AcceptFault> {
        self.received.extend_from_slice(bytes);
        while !bytes.is_empty() {
            let read = self.acceptor.read_tls(&mut bytes);
            let accepted = match read {
                Ok(_) => self.acceptor.accept(),
                Err(error) => {
                    return Err(self.refuse(cx, &alert_record(ALERT_DECODE_ERROR), error.to_string()));
                }
            };
            match accepted {
                Ok(Some(hello)) => {
                    self.left = bytes.to_vec();
                    return Ok(Some(hello));
                }
                Ok(None) => {}
                Err((error, mut alert)) => {
                    let mut record = Vec::new();
                    let _ = alert.write_all(&mut record);
                    if record.is_empty() {
                        record.extend(alert_record(ALERT_DECODE_ERROR));
                    }
                    return Err(self.refuse(cx, &record, error.to_string()));
                }
            }
        }
        if self.received.len() >= CLIENT_HELLO_MAX_BYTES {
            let reason = format!("the ClientHello is longer than {CLIENT_HELLO_MAX_BYTES} bytes");
            return Err(self.refuse(cx, &alert_record(ALERT_DECODE_ERROR), reason));
        }
        Ok(None)
    }

    fn refuse(&mut self, cx: &mut Context<'_>, alert: &[u8], reason: String) -> AcceptFault {
        // A socket that has carried nothing yet has room for an alert.
        let _ = self.stream.poll_write(cx, alert);
        let _ = self.stream.poll_shutdown(cx);
        // A close with unread bytes is a reset, which could destroy the alert. What comes later is not waited
        // for.
        let mut left = vec![0; CLIENT_HELLO_MAX_BYTES];
        for _ in 0..UNREAD_READS {
            if self.stream.read_arrived(&mut left) == 0 {
                break;
            }
        }
        AcceptFault::Refused(reason)
    }
}

/// A record with a fatal alert, before any key is agreed.
fn alert_record(description: u8) -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, description]
}

async fn refuse(stream: &mut Stream, description: u8) {
    // If it fails the client sees a close instead.
    let _ = poll_fn(|cx| stream.poll_write(cx, &alert_record(description))).await;
}

async fn send_alert(stream: &mut Stream, alert: &mut rustls::server::AcceptedAlert) {
    let mut record = Vec::new();
    if alert.write_all(&mut record).is_ok() && !record.is_empty() {
        let _ = poll_fn(|cx| stream.poll_write(cx, &record)).await;
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests;
