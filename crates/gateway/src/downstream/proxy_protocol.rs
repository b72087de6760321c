//! The PROXY protocol header of a downstream connection, which stands in front of TLS and HTTP: it is read within the time
//! of a request head, and the client that it names becomes the peer of the connection before any other part of the gateway
//! sees it. A listener either asks for a header or knows none. If both were taken, a client that connects directly could
//! send a header and choose its own address.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::arrival::{Arrival, Identity, within_deadline};
use super::h1::timer::ConnectionTimer;
use super::layers;
use crate::observe::failures::Refusal;
use exchange::client_address::{RealIpOptions, contains};
use exchange::exchange::ProxyContext;
use exchange::observe::pace::Pace;
use net::env::Stream;
use net::proxy_protocol::{Decoder, Header, HeaderFault};

/// Most bytes looked at in one call. Headers without TLVs are shorter than 110.
const PEEK_BYTES: usize = 512;

/// Of the line about peers that may send no header.
static UNTRUSTED: Pace = Pace::every_ms(10_000);
/// Of the line about headers that were refused.
static REFUSED: Pace = Pace::every_ms(10_000);

/// The reason for which a trusted sender's connection is not served.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Malformed(#[from] HeaderFault),
    #[error("the connection ended within the PROXY protocol header")]
    Cut,
    #[error("the PROXY protocol header was not complete within head_timeout_ms")]
    Late,
}

/// Whether the peer of a socket may send a header. The operator is told of one that may not, since a balancer that is missing
/// in the setting loses all its clients.
pub(crate) fn trusts(options: &RealIpOptions, peer: SocketAddr, now_ms: u64) -> bool {
    let is_trusted = contains(&options.proxy_protocol_from, peer.ip().to_canonical());
    if !is_trusted && let Some(count) = UNTRUSTED.add(1, now_ms) {
        tracing::warn!(
            %peer,
            count,
            "refused connections to a listener with PROXY protocol: proxy_protocol_from does not name their peer"
        );
    }
    is_trusted
}

/// Reads the header, then serves the connection by the other protocols of its listener. Its place among the connections is
/// counted; that of its address is claimed here, for the client that the header names.
pub(crate) async fn serve(arrival: Arrival, timer: ConnectionTimer) {
    let Arrival { mut stream, identity, counted } = arrival;
    let context = timer.context.clone();
    let (local, status) = (&context.local, &context.status);
    let timeout_ms = local.options.limits.head_timeout_ms;
    let reading = read_header(&mut stream);
    let outcome = within_deadline(reading, timeout_ms, identity.id, &identity.listener, &timer).await;
    let gives_way = timer.gives_way();
    timer.end_idle();
    let fault = match outcome {
        Some(Ok(Some(header))) => {
            let proxy = Rc::new(ProxyContext { sender: identity.peer, header });
            let peer = proxy.peer();
            if !local.shared.addresses.claim(peer.ip()) {
                status.failures.refused(Refusal::MaxConnectionsPerAddress);
                return stream.reset_on_close();
            }
            let identity = Identity { peer, proxy: Some(proxy), ..identity };
            return layers::serve(Arrival { stream, identity, counted }, timer);
        }
        // A balancer that checks whether the port is open.
        Some(Ok(None)) => return,
        Some(Err(fault)) => fault,
        None if gives_way || identity.listener.queue().is_some() => return,
        None => Fault::Late,
    };
    status.failures.refused(Refusal::ProxyProtocol);
    if let Some(count) = REFUSED.add(1, local.now_ms()) {
        let (sender, reason) = (identity.peer.ip(), fault);
        tracing::warn!(%sender, count, %reason, "refused connections to a listener with PROXY protocol");
    }
    stream.reset_on_close();
}

/// Reads the header at the start of a stream; none if the peer closed or reset the connection before the first byte.
/// Bytes after the header stay with the kernel for the next layer.
async fn read_header(stream: &mut Stream) -> Result<Option<Header>, Fault> {
    let mut reader = HeaderReader::default();
    poll_fn(|cx| reader.poll(cx, stream)).await
}

/// A header on its way in. Bytes are peeked, decoded, and then taken as far as they belong to the header.
#[derive(Default)]
struct HeaderReader {
    decoder: Decoder,
    /// Bytes that were decoded and that the kernel still holds.
    untaken_bytes: usize,
    /// The header, if it is complete.
    header: Option<Header>,
}

impl HeaderReader {
    fn poll(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<Result<Option<Header>, Fault>> {
        let mut room = [0; PEEK_BYTES];
        loop {
            // Also those of an open header, so that the event loop wakes the task for the next byte and not for the same.
            while self.untaken_bytes > 0 {
                let taken = &mut room[..self.untaken_bytes.min(PEEK_BYTES)];
                match ready!(stream.poll_read_at_once(cx, taken)) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Fault::Cut)),
                    Ok(count) => self.untaken_bytes -= count,
                }
            }
            if self.header.is_some() {
                return Poll::Ready(Ok(self.header.take()));
            }
            match ready!(stream.poll_peek_at_once(cx, &mut room)) {
                Ok(0) | Err(_) if self.decoder.is_empty() => return Poll::Ready(Ok(None)),
                Ok(0) | Err(_) => return Poll::Ready(Err(Fault::Cut)),
                Ok(count) => {
                    let step = self.decoder.decode(&room[..count])?;
                    (self.untaken_bytes, self.header) = (step.taken, step.header);
                }
            }
        }
    }
}
