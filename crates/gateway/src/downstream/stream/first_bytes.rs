//! Looks at the first bytes of a client before anything is passed on. On a plain socket they stay in the
//! kernel until the tunnel reads them; over TLS they are read and kept.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use net::sniff::{self, FirstProtocol, Look};
use net::transport::Transport;

use crate::runtime::stream_table::SniffNeeds;
use exchange::plugin::stream::{PREREAD_MAX_BYTES, SessionEnd, StreamSession};
use stdx::buffer::{Buffer, LARGE_BYTES};

/// Room for the bytes of the first look; most ClientHellos fit.
const FIRST_ROOM_BYTES: usize = 2 * 1_024;

const _: () = assert!(PREREAD_MAX_BYTES <= LARGE_BYTES, "the first bytes fit into a buffer");

/// The first bytes of a session, as far as they were looked at.
#[derive(Default)]
pub(super) struct FirstBytes {
    bytes: Vec<u8>,
    /// The protocol that they show, once that was asked for.
    pub(super) protocol: Option<FirstProtocol>,
    /// Whether they were taken from the connection, as over TLS.
    are_taken: bool,
}

impl FirstBytes {
    /// Reads as much as `asks` wants to know, and notes it in the session. It ends as soon as the bytes can
    /// begin nothing that is asked for, and with `looks_for_header` no header of the PROXY protocol either.
    ///
    /// # Errors
    /// The client has closed, or sent too much.
    pub(super) async fn answer(
        &mut self,
        asks: SniffNeeds,
        stream: &mut Transport,
        session: &mut StreamSession,
        looks_for_header: bool,
    ) -> Result<(), SessionEnd> {
        let mut wanted = asks.protocols;
        if asks.hello {
            wanted = wanted.with(FirstProtocol::Tls);
        }
        if looks_for_header {
            wanted = wanted.with(FirstProtocol::ProxyProtocol);
        }
        let (mut wants_protocol, mut wants_hello) = (true, asks.hello);
        while wants_protocol || wants_hello {
            if !self.more(stream).await? {
                // The client has closed behind less than a beginning; what it has sent is passed on.
                self.protocol.get_or_insert(FirstProtocol::Unknown);
                break;
            }
            if wants_protocol && let Look::Found(protocol) = sniff::protocol_among(&self.bytes, wanted) {
                wants_protocol = false;
                self.protocol = Some(protocol);
                wants_hello &= protocol == FirstProtocol::Tls;
            }
            if wants_hello && !wants_protocol {
                match sniff::client_hello(&self.bytes) {
                    Look::More => {}
                    Look::No => return Err(SessionEnd::PrereadFault),
                    Look::Found(hello) => {
                        wants_hello = false;
                        session.sni = hello.server_name;
                        session.alpn = hello.alpn;
                    }
                }
            }
        }
        session.first_bytes = self.bytes.clone();
        Ok(())
    }

    /// The time for what was asked for is over: the session goes on with the bytes that have come.
    pub(super) fn give_up(&mut self, session: &mut StreamSession) {
        self.protocol.get_or_insert(FirstProtocol::Unknown);
        session.first_bytes.clone_from(&self.bytes);
    }

    /// Gets more bytes for a plugin.
    ///
    /// # Errors
    /// The client has closed, or sent too much.
    pub(super) async fn more_for(
        &mut self,
        stream: &mut Transport,
        session: &mut StreamSession,
    ) -> Result<(), SessionEnd> {
        if !self.more(stream).await? {
            return Err(SessionEnd::PrereadClosed);
        }
        session.first_bytes.clone_from(&self.bytes);
        Ok(())
    }

    /// Whether they begin a PROXY protocol header.
    pub(super) fn begin_with_header(&self) -> bool {
        sniff::proxy_protocol(&self.bytes) == Look::Found(())
    }

    /// The bytes that were taken from the connection and have to be passed on first.
    pub(super) fn into_buffer(self) -> Buffer {
        if !self.are_taken || self.bytes.is_empty() {
            return Buffer::none();
        }
        let mut buffer = Buffer::large();
        buffer.write(&self.bytes);
        buffer
    }

    /// Waits for at least one byte more; false if the client has closed its side.
    async fn more(&mut self, stream: &mut Transport) -> Result<bool, SessionEnd> {
        let before = self.bytes.len();
        if before >= PREREAD_MAX_BYTES {
            return Err(SessionEnd::PrereadFault);
        }
        poll_fn(|cx| self.poll_more(cx, stream)).await.map_err(|_| SessionEnd::ClientReset)?;
        Ok(self.bytes.len() > before)
    }

    fn poll_more(&mut self, cx: &mut Context<'_>, stream: &mut Transport) -> Poll<io::Result<()>> {
        let before = self.bytes.len();
        let room = (2 * before).clamp(FIRST_ROOM_BYTES, PREREAD_MAX_BYTES);
        self.bytes.resize(room, 0);
        let polled = match stream {
            Transport::Tcp(stream) => stream.poll_peek_more(cx, &mut self.bytes, before),
            Transport::Tls(stream) => {
                self.are_taken = true;
                stream.poll_read(cx, &mut self.bytes[before..]).map_ok(|count| before + count)
            }
        };
        let got = match &polled {
            Poll::Ready(Ok(got)) => (*got).max(before),
            _ => before,
        };
        self.bytes.truncate(got);
        ready!(polled)?;
        Poll::Ready(Ok(()))
    }
}
