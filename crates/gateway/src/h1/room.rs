//! How much a peer's socket takes at once, so that no more is read for a peer than can be passed on: who takes a response
//! slowly, or not at all, holds no buffer here, unless its socket does not even take the first read, for which nobody asks.
//! It reads and writes nothing.

use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{LARGE_BYTES, SMALL_BYTES};

use crate::env::Stream;

/// What is known of one peer's room.
#[derive(Debug)]
pub(crate) struct Room {
    /// It is known to take bytes until so many were sent.
    until_bytes: u64,
    /// What to read for it at once.
    piece_bytes: usize,
}

impl Default for Room {
    /// Not asked yet: a socket takes what one read brings, and nearly every response is no longer than that.
    fn default() -> Room {
        Room { until_bytes: LARGE_BYTES as u64, piece_bytes: LARGE_BYTES }
    }
}

impl Room {
    /// Whether it is known to take more than the `sent_bytes` that were sent to it: what was told last is not used up.
    #[inline]
    pub(crate) fn is_known(&self, sent_bytes: u64) -> bool {
        sent_bytes < self.until_bytes
    }

    /// How many bytes to read for it at once, between a small buffer and a large one, while its room is known.
    #[inline]
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Asks the kernel for the room of a peer to whom `sent_bytes` were sent, and says what to read for it at once. Waits
    /// while its socket is full.
    pub(crate) fn poll_ask(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        sent_bytes: u64,
    ) -> Poll<io::Result<usize>> {
        let free_bytes = ready!(stream.poll_room(cx))?;
        // In what is free lie the kernel's notes on each packet too, which is much where packets are small, and the last
        // piece may go beyond it.
        let bytes = free_bytes.saturating_sub(LARGE_BYTES).max(free_bytes / 2);
        self.until_bytes = sent_bytes.saturating_add(bytes as u64);
        self.piece_bytes = bytes.clamp(SMALL_BYTES, LARGE_BYTES);
        Poll::Ready(Ok(self.piece_bytes))
    }
}

// Of the kernel's sockets: what is asked here is whether it tells of room that nobody has missed by a write.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::env;

    /// Both ends of a connection with segments of `segment_bytes`: the gateway's on the event loop, and the peer's.
    fn pair(segment_bytes: u32) -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        peer.set_tcp_mss(segment_bytes).unwrap();
        peer.connect(&listener.local_addr().unwrap().into()).unwrap();
        (Stream::attach(listener.accept().unwrap().0).unwrap(), peer.into())
    }

    /// Those of a network, and of a machine with itself.
    const SEGMENTS_BYTES: [u32; 2] = [1_460, 32_000];

    #[test]
    fn a_full_socket_is_waited_for_until_its_peer_takes() {
        SEGMENTS_BYTES.into_iter().for_each(fill_and_take);
    }

    fn fill_and_take(segment_bytes: u32) {
        env::block_on(async {
            let (mut stream, mut peer) = pair(segment_bytes);
            let (mut room, mut sent_bytes) = (Room::default(), 0);
            let piece = [b'x'; LARGE_BYTES];
            while let Poll::Ready(bytes) = poll_once(|cx| poll(&mut room, cx, &mut stream, sent_bytes)).await
            {
                let bytes = bytes.unwrap();
                assert!((SMALL_BYTES..=LARGE_BYTES).contains(&bytes), "{bytes} bytes");
                // All of it is taken: that is what the room is for.
                let taken = poll_fn(|cx| stream.poll_write(cx, &piece[..bytes])).await.unwrap();
                assert_eq!(taken, bytes, "after {sent_bytes} bytes");
                sent_bytes += taken as u64;
            }
            assert!(sent_bytes > LARGE_BYTES as u64);
            // No write has found it full: the kernel has to tell by itself.
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

    #[test]
    fn a_peer_that_goes_away_ends_the_wait() {
        env::block_on(async {
            let (mut stream, peer) = pair(SEGMENTS_BYTES[0]);
            let (mut room, mut sent_bytes) = (Room::default(), 0);
            let piece = [b'x'; LARGE_BYTES];
            while poll_once(|cx| poll(&mut room, cx, &mut stream, sent_bytes)).await.is_ready() {
                sent_bytes += poll_fn(|cx| stream.poll_write(cx, &piece)).await.unwrap() as u64;
            }
            // With unread bytes, so that it resets.
            drop(peer);
            poll_fn(|cx| poll(&mut room, cx, &mut stream, sent_bytes)).await.unwrap();
            poll_fn(|cx| stream.poll_write(cx, &piece)).await.unwrap_err();
        })
        .unwrap();
    }

    #[test]
    fn what_the_kernel_told_is_used_up_by_what_is_sent() {
        env::block_on(async {
            let (mut stream, _peer) = pair(SEGMENTS_BYTES[1]);
            let mut room = Room::default();
            assert_eq!(room.piece_bytes(), LARGE_BYTES);
            let large = LARGE_BYTES as u64;
            for sent_bytes in [0, large, 2 * large] {
                assert_eq!(room.is_known(sent_bytes), sent_bytes < large, "after {sent_bytes} bytes");
            }
            let piece_bytes = poll_fn(|cx| room.poll_ask(cx, &mut stream, large)).await.unwrap();
            assert!((SMALL_BYTES..=LARGE_BYTES).contains(&piece_bytes), "{piece_bytes} bytes");
            assert!(room.is_known(large) && !room.is_known(u64::MAX));
        })
        .unwrap();
    }

    /// As the server's side of an exchange uses it.
    fn poll(
        room: &mut Room,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        sent_bytes: u64,
    ) -> Poll<io::Result<usize>> {
        if room.is_known(sent_bytes) {
            return Poll::Ready(Ok(room.piece_bytes()));
        }
        room.poll_ask(cx, stream, sent_bytes)
    }

    /// What one poll comes to, with the event loop's turn behind it.
    async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        env::yield_to_events().await;
        poll_fn(|cx| Poll::Ready(poll(cx))).await
    }
}
