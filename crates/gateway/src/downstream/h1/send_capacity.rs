//! How much to read for a client, by the state of its socket, so that no more is held than was passed on: a
//! client that takes a response slowly, or not at all, holds no buffer here. Bytes that its socket does not
//! take stay in the kernel's buffer of the upstream connection, because most are peeked first. It reads and
//! writes nothing.

use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{LARGE_BYTES, SMALL_BYTES};

use crate::body::Capacity;
use net::transport::Transport;

/// A socket with a kernel buffer of at least this size takes large pieces as long as the kernel reports free
/// space. For a smaller one the free space says little: the kernel counts its own overhead for each packet as
/// well, so that a peer with tiny packets, or with a small congestion window, makes it take a tenth of that.
const BUFFER_MIN_BYTES: usize = 512 * 1024;

/// The capacity before anything was sent: large, and an estimate, so that the bytes are peeked first.
const LOOK: Capacity = Capacity::Estimate(LARGE_BYTES);

/// The capacity of one client's socket during one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendCapacity {
    /// Unknown; the last response on this connection, if there was one, was short.
    AfterShort,
    /// Unknown; the last response on this connection was long.
    AfterLong,
    /// The socket takes bytes until this many were sent in this exchange.
    Until(u64),
    /// The socket did not take what was read for it: from now on the kernel is asked each time, and its
    /// answer counts as an estimate.
    Doubtful,
}

impl SendCapacity {
    /// The capacity of a client that was sent `sent_bytes` in this exchange; `None` if the kernel has to be
    /// asked. The first bytes of a response nearly always fit; if they do not, the write shows it.
    #[inline]
    pub(crate) fn known(&self, sent_bytes: u64) -> Option<Capacity> {
        match *self {
            SendCapacity::Until(until_bytes) if sent_bytes < until_bytes => Some(Capacity::Firm(LARGE_BYTES)),
            SendCapacity::AfterShort | SendCapacity::AfterLong if sent_bytes < LARGE_BYTES as u64 => {
                let most_bytes = (LARGE_BYTES - sent_bytes as usize).max(SMALL_BYTES);
                Some(Capacity::Estimate(most_bytes))
            }
            _ => None,
        }
    }

    /// How to read the head of a response and the bytes behind it. Most responses fit into a small buffer,
    /// and that much can be kept.
    #[inline]
    pub(crate) fn for_head(&self, sent_bytes: u64) -> Capacity {
        match self {
            SendCapacity::AfterShort => Capacity::Firm(SMALL_BYTES),
            _ => self.known(sent_bytes).unwrap_or(LOOK),
        }
    }

    /// The capacity if [`SendCapacity::known`] has none: asks the kernel. Waits while the socket is full.
    pub(crate) fn poll_ask(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Transport,
        sent_bytes: u64,
    ) -> Poll<io::Result<Capacity>> {
        ready!(stream.poll_third_free(cx))?;
        let free_bytes = stream.send_buffer_bytes()? / 3;
        if *self == SendCapacity::Doubtful || free_bytes < BUFFER_MIN_BYTES / 3 {
            // Half of the free space covers the kernel's overhead per packet. Small pieces of a body are
            // copied behind others that wait and leave the upstream socket, so their total has to stay small.
            let most_bytes = (free_bytes / 2).clamp(SMALL_BYTES, LARGE_BYTES);
            return Poll::Ready(Ok(Capacity::Estimate(most_bytes)));
        }
        // One piece less than promised, because the last piece may exceed the limit.
        *self = SendCapacity::Until(sent_bytes.saturating_add((free_bytes / 2 - LARGE_BYTES) as u64));
        Poll::Ready(Ok(Capacity::Firm(LARGE_BYTES)))
    }

    /// Records that the socket did not take what was read for it.
    #[cold]
    pub(crate) fn refused(&mut self) {
        *self = SendCapacity::Doubtful;
    }
}

/// The part of the capacity that a connection keeps between exchanges. It holds no promised bytes, because
/// they would be outdated by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptSendCapacity {
    /// See [`SendCapacity::AfterShort`].
    AfterShort,
    /// See [`SendCapacity::AfterLong`].
    AfterLong,
    /// See [`SendCapacity::Doubtful`].
    Doubtful,
}

impl KeptSendCapacity {
    /// The capacity when an exchange begins.
    #[inline]
    pub(crate) fn begin(self) -> SendCapacity {
        match self {
            KeptSendCapacity::AfterShort => SendCapacity::AfterShort,
            KeptSendCapacity::AfterLong => SendCapacity::AfterLong,
            KeptSendCapacity::Doubtful => SendCapacity::Doubtful,
        }
    }

    /// The capacity to keep after an exchange in which `sent_bytes` were sent.
    #[inline]
    pub(crate) fn after(room: SendCapacity, sent_bytes: u64) -> KeptSendCapacity {
        match room {
            SendCapacity::Doubtful => KeptSendCapacity::Doubtful,
            _ if sent_bytes > SMALL_BYTES as u64 => KeptSendCapacity::AfterLong,
            _ => KeptSendCapacity::AfterShort,
        }
    }
}

// Tests of kernel sockets: the kernel has to report free space even if no write has found the socket full.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use super::*;
    use net::env;

    /// Both ends of a connection with segments of `segment_bytes`: the gateway's on the event loop, and the
    /// peer's.
    fn pair(segment_bytes: u32) -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        peer.set_tcp_mss(segment_bytes).unwrap();
        peer.connect(&listener.local_addr().unwrap().into()).unwrap();
        (Transport::attach(listener.accept().unwrap().0).unwrap(), peer.into())
    }

    /// Segment sizes of a network and of the loopback device.
    const SEGMENTS_BYTES: [u32; 2] = [1_460, 32_000];
    static PIECE: [u8; LARGE_BYTES] = [b'x'; LARGE_BYTES];
    const LARGE: u64 = LARGE_BYTES as u64;

    /// Sends pieces as long as there is capacity, and of each piece as much as the socket takes: all of it,
    /// if the capacity is firm. Returns the number of bytes.
    async fn fill(room: &mut SendCapacity, stream: &mut Transport) -> u64 {
        let mut sent_bytes = 0;
        while let Poll::Ready(piece) = poll_once(|cx| poll(room, cx, stream, sent_bytes)).await {
            let capacity = piece.unwrap();
            let (most_bytes, is_certain) = (capacity.bytes(), capacity.is_firm());
            assert!((SMALL_BYTES..=LARGE_BYTES).contains(&most_bytes), "{most_bytes} bytes");
            let taken = poll_fn(|cx| stream.poll_write(cx, &PIECE[..most_bytes])).await.unwrap();
            assert!(taken == most_bytes || !is_certain, "{taken} of {most_bytes} after {sent_bytes} bytes");
            sent_bytes += taken as u64;
        }
        assert!(sent_bytes > LARGE / 2);
        sent_bytes
    }

    #[test]
    fn full_socket_has_capacity_once_peer_reads() {
        for segment_bytes in SEGMENTS_BYTES {
            env::block_on(async {
                let (mut stream, mut peer) = pair(segment_bytes);
                let mut room = SendCapacity::AfterShort;
                let sent_bytes = fill(&mut room, &mut stream).await;
                // No write has found the socket full, so only the kernel's report can show it.
                let reader = std::thread::spawn(move || {
                    let mut left = vec![0; usize::try_from(sent_bytes).unwrap()];
                    peer.read_exact(&mut left).unwrap();
                    peer
                });
                poll_fn(|cx| poll(&mut room, cx, &mut stream, sent_bytes)).await.unwrap();
                drop(reader.join().unwrap());
            })
            .unwrap();
        }
    }

    #[test]
    fn lost_peer_ends_the_wait_for_capacity() {
        env::block_on(async {
            let (mut stream, peer) = pair(SEGMENTS_BYTES[0]);
            let mut room = SendCapacity::AfterShort;
            let sent_bytes = fill(&mut room, &mut stream).await;
            // With unread bytes in its socket, so that the kernel sends a reset.
            drop(peer);
            poll_fn(|cx| poll(&mut room, cx, &mut stream, sent_bytes)).await.unwrap();
            poll_fn(|cx| stream.poll_write(cx, &PIECE)).await.unwrap_err();
        })
        .unwrap();
    }

    #[test]
    fn only_large_sockets_give_firm_capacity() {
        for (segment_bytes, is_large) in SEGMENTS_BYTES.into_iter().zip([false, true]) {
            env::block_on(async {
                let (mut stream, _peer) = pair(segment_bytes);
                let mut asked = async |mut room: SendCapacity| {
                    let piece = poll_fn(|cx| poll(&mut room, cx, &mut stream, LARGE)).await.unwrap();
                    (piece.is_firm(), room)
                };
                let (is_certain, mut room) = asked(SendCapacity::AfterShort).await;
                assert_eq!(
                    (
                        is_certain,
                        matches!(room, SendCapacity::Until(LARGE..)) && room != SendCapacity::Until(LARGE)
                    ),
                    (is_large, is_large)
                );
                room.refused();
                let is_believed = asked(room).await.0;
                assert!(!is_believed, "{segment_bytes} bytes");
            })
            .unwrap();
        }
    }

    #[test]
    fn capacity_is_asked_first_only_after_refusal() {
        for (room, sent_bytes, expected) in [
            (SendCapacity::AfterShort, 0, Some(LOOK)),
            (SendCapacity::AfterLong, LARGE / 4, Some(Capacity::Estimate(LARGE_BYTES / 4 * 3))),
            (SendCapacity::AfterLong, LARGE - 1, Some(Capacity::Estimate(SMALL_BYTES))),
            (SendCapacity::AfterLong, LARGE, None),
            (SendCapacity::Until(1), 0, Some(Capacity::Firm(LARGE_BYTES))),
            (SendCapacity::Until(1), 1, None),
            (SendCapacity::Doubtful, 0, None),
        ] {
            assert_eq!(room.known(sent_bytes), expected, "{room:?} after {sent_bytes} bytes");
        }
    }

    #[test]
    fn head_is_read_into_small_buffer_by_default() {
        let piece = |bytes, is_firm| if is_firm { Capacity::Firm(bytes) } else { Capacity::Estimate(bytes) };
        for (room, sent_bytes, expected) in [
            (SendCapacity::AfterShort, 0, piece(SMALL_BYTES, true)),
            (SendCapacity::AfterLong, 0, LOOK),
            (SendCapacity::Until(LARGE), LARGE - 1, piece(LARGE_BYTES, true)),
            (SendCapacity::Until(LARGE), LARGE, LOOK),
            (SendCapacity::Doubtful, 0, LOOK),
        ] {
            assert_eq!(room.for_head(sent_bytes), expected, "{room:?} after {sent_bytes} bytes");
        }
    }

    #[test]
    fn kept_capacity_holds_no_promised_bytes() {
        let small = SMALL_BYTES as u64;
        for (room, sent_bytes, next) in [
            (SendCapacity::AfterShort, small, SendCapacity::AfterShort),
            (SendCapacity::AfterShort, small + 1, SendCapacity::AfterLong),
            (SendCapacity::AfterLong, small, SendCapacity::AfterShort),
            (SendCapacity::Until(LARGE), small, SendCapacity::AfterShort),
            (SendCapacity::Until(u64::MAX), LARGE, SendCapacity::AfterLong),
            (SendCapacity::Doubtful, small, SendCapacity::Doubtful),
        ] {
            assert_eq!(
                KeptSendCapacity::after(room, sent_bytes).begin(),
                next,
                "{room:?} after {sent_bytes} bytes"
            );
        }
    }

    /// Polls as the downstream stream of an exchange does.
    fn poll(
        room: &mut SendCapacity,
        cx: &mut Context<'_>,
        stream: &mut Transport,
        sent_bytes: u64,
    ) -> Poll<io::Result<Capacity>> {
        match room.known(sent_bytes) {
            Some(piece) => Poll::Ready(Ok(piece)),
            None => room.poll_ask(cx, stream, sent_bytes),
        }
    }

    /// The result of one poll, after a turn of the event loop.
    async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        env::yield_to_events().await;
        poll_fn(|cx| Poll::Ready(poll(cx))).await
    }
}
