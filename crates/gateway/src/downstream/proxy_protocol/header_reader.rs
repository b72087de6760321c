//! Bytes of a connection that may be a PROXY protocol header: whether they are one, and the header. Bytes of
//! a client are never taken from the kernel.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use net::env::Stream;
use net::proxy_protocol::{HeaderFault, ProxyHeaderDecoder, ProxyProtocolHeader};
use net::sniff::{self, Look};

/// Most bytes looked at in one call. Headers without TLVs are shorter than 110.
const PEEK_BYTES: usize = 512;

/// More bytes than tell a header from anything else: the signature of version 2 has 12.
const FIRST_LOOK_BYTES: usize = 16;

/// The reason for which a connection is not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyHeaderFault {
    #[error(transparent)]
    Malformed(#[from] HeaderFault),
    #[error("the connection ended within the PROXY protocol header")]
    Cut,
    #[error("the PROXY protocol header was not complete within head_timeout_ms")]
    Late,
}

/// Whether the stream begins with a header; bytes that end before this is known begin none.
///
/// # Errors
/// The peer has reset the connection.
pub(super) async fn begins_with_header(stream: &mut Stream) -> io::Result<bool> {
    let (mut room, mut seen) = ([0; FIRST_LOOK_BYTES], 0);
    poll_fn(|cx| {
        loop {
            let count = ready!(stream.poll_peek_more(cx, &mut room, seen))?;
            match sniff::proxy_protocol(&room[..count]) {
                Look::Found(()) => return Poll::Ready(Ok(true)),
                Look::No => return Poll::Ready(Ok(false)),
                // The client has closed its side.
                Look::More if count <= seen => return Poll::Ready(Ok(false)),
                Look::More => seen = count,
            }
        }
    })
    .await
}

/// Reads the header at the start of a stream; none if the peer closed or reset the connection before the
/// first byte. Bytes after the header stay with the kernel for the next layer.
pub(super) async fn read_header(
    stream: &mut Stream,
) -> Result<Option<ProxyProtocolHeader>, ProxyHeaderFault> {
    let mut reader = HeaderReader::default();
    poll_fn(|cx| reader.poll(cx, stream)).await
}

/// A header on its way in. Bytes are peeked, decoded, and then taken as far as they belong to the header.
#[derive(Default)]
struct HeaderReader {
    decoder: ProxyHeaderDecoder,
    /// Bytes that were decoded and that the kernel still holds.
    untaken_bytes: usize,
    /// The header, if it is complete.
    header: Option<ProxyProtocolHeader>,
}

impl HeaderReader {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
    ) -> Poll<Result<Option<ProxyProtocolHeader>, ProxyHeaderFault>> {
        let mut room = [0; PEEK_BYTES];
        loop {
            // Also those of an open header, so that the event loop wakes the task for the next byte and not
            // for the same.
            while self.untaken_bytes > 0 {
                let taken = &mut room[..self.untaken_bytes.min(PEEK_BYTES)];
                match ready!(stream.poll_read_at_once(cx, taken)) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(ProxyHeaderFault::Cut)),
                    Ok(count) => self.untaken_bytes -= count,
                }
            }
            if self.header.is_some() {
                return Poll::Ready(Ok(self.header.take()));
            }
            match ready!(stream.poll_peek_at_once(cx, &mut room)) {
                Ok(0) | Err(_) if self.decoder.is_empty() => return Poll::Ready(Ok(None)),
                Ok(0) | Err(_) => return Poll::Ready(Err(ProxyHeaderFault::Cut)),
                Ok(count) => {
                    let step = self.decoder.decode(&room[..count])?;
                    (self.untaken_bytes, self.header) = (step.taken, step.header);
                }
            }
        }
    }
}
