//! Reads bytes on their way through a socket: either takes them, or peeks at them (MSG_PEEK) and takes them once they
//! were passed on, so that bytes which the other side does not take need not be held. It knows no protocol, and nothing
//! of where they go.

use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{Buffer, LARGE_BYTES, SMALL_BYTES};

use crate::body::Capacity;
use net::transport::Transport;

/// See the module.
#[derive(Debug)]
pub(crate) struct PeekReader {
    pub(crate) buffer: Buffer,
    /// How much of what was put into the buffer was only looked at, and is still with the kernel: all of it, or nothing.
    looked_bytes: usize,
    /// There was nothing behind that.
    saw_all: bool,
}

impl PeekReader {
    /// With what was read already.
    pub(crate) fn new(buffer: Buffer) -> PeekReader {
        PeekReader { buffer, looked_bytes: 0, saw_all: false }
    }

    /// Reads on into the buffer. While nothing comes there is no buffer, so that a wait for a slow client's body or for
    /// the next event of a stream costs no memory. `likely` says that something has most likely arrived. Peeked bytes
    /// have to be committed before.
    #[inline]
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Transport,
        likely: bool,
        capacity: Capacity,
    ) -> Poll<io::Result<usize>> {
        debug_assert_eq!(self.looked_bytes, 0, "what was looked at comes again");
        let is_large = capacity.bytes() > SMALL_BYTES;
        let least_bytes = if is_large { LARGE_BYTES } else { SMALL_BYTES };
        if self.buffer.is_empty() && self.buffer.capacity() < least_bytes {
            // Asked first: the usual first look, right behind the request, finds nothing.
            if !(likely && stream.is_readable()) {
                ready!(stream.poll_read_ready(cx))?;
            }
            self.buffer = if is_large { Buffer::large() } else { Buffer::small() };
        }
        let looks = !capacity.is_firm() && self.buffer.is_empty();
        // Behind what is kept nothing can be left where it is, so little is read.
        let most_bytes = if capacity.is_firm() || looks { capacity.bytes() } else { SMALL_BYTES };
        let room = self.buffer.spare_mut();
        let most = room.len().min(most_bytes);
        let room = &mut room[..most];
        let read = match (looks, likely) {
            (true, true) => stream.poll_peek_at_once(cx, room),
            (true, false) => stream.poll_peek(cx, room),
            (false, true) => stream.poll_read_at_once(cx, room),
            (false, false) => stream.poll_read(cx, room),
        };
        match read {
            Poll::Ready(Ok(count)) => {
                self.buffer.advance(count);
                if looks {
                    (self.looked_bytes, self.saw_all) = (count, count < most);
                }
            }
            Poll::Pending if self.buffer.is_empty() => self.buffer = Buffer::none(),
            _ => {}
        }
        read
    }

    /// Takes what was only looked at and has been passed on; the rest stays where it is, and is no longer held here. It is
    /// due before the event loop has its turn again, which would tell of what came since, and is told here that nothing
    /// has. An error means that the kernel's bytes are lost.
    #[inline]
    pub(crate) fn commit(&mut self, stream: &mut Transport) -> io::Result<()> {
        if self.looked_bytes == 0 {
            return Ok(());
        }
        let passed_on = std::mem::take(&mut self.looked_bytes) - self.buffer.len();
        let is_all = self.saw_all && self.buffer.is_empty();
        self.buffer.clear();
        let dropped = drop_seen(stream, &mut self.buffer.spare_mut()[..passed_on], is_all);
        self.buffer = Buffer::none();
        dropped
    }

    /// Takes what was only looked at, to keep it.
    pub(crate) fn retain(&mut self, stream: &mut Transport) -> io::Result<()> {
        let looked_bytes = std::mem::take(&mut self.looked_bytes);
        if looked_bytes == 0 {
            return Ok(());
        }
        let mut seen = Buffer::large();
        drop_seen(stream, &mut seen.spare_mut()[..looked_bytes], self.saw_all)
    }

    /// Shrinks the buffer to the bytes that must be held while the other side takes none. An error is that of
    /// [`PeekReader::commit`].
    pub(crate) fn release(&mut self, stream: &mut Transport) -> io::Result<()> {
        self.commit(stream)?;
        self.buffer.shrink();
        Ok(())
    }
}

/// Drops bytes that were looked at, and so are there.
fn drop_seen(stream: &mut Transport, mut room: &mut [u8], is_all: bool) -> io::Result<()> {
    while !room.is_empty() {
        match stream.drop_seen(room, is_all) {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => room = &mut room[count..],
        }
    }
    Ok(())
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use net::env;

    const LOOK: Capacity = Capacity::Estimate(LARGE_BYTES);

    fn pair() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Transport::attach(listener.accept().unwrap().0).unwrap(), peer)
    }

    async fn fill(reader: &mut PeekReader, stream: &mut Transport, capacity: Capacity) -> usize {
        poll_fn(|cx| reader.poll_fill(cx, stream, false, capacity)).await.unwrap()
    }

    #[test]
    fn peeked_bytes_stay_until_committed() {
        env::block_on(async {
            let (mut stream, mut peer) = pair();
            let mut reader = PeekReader::new(Buffer::none());
            peer.write_all(b"one two three").unwrap();
            assert_eq!(fill(&mut reader, &mut stream, LOOK).await, 13);
            reader.buffer.consume(4);
            reader.release(&mut stream).unwrap();
            assert_eq!((reader.buffer.capacity(), reader.buffer.len()), (0, 0), "nothing is held");
            assert_eq!(fill(&mut reader, &mut stream, LOOK).await, 9);
            assert_eq!(reader.buffer.filled(), b"two three");
            // Retained bytes do not come again.
            reader.retain(&mut stream).unwrap();
            peer.write_all(b" four").unwrap();
            assert_eq!(fill(&mut reader, &mut stream, LOOK).await, 5);
            assert_eq!(reader.buffer.filled(), b"two three four");
            // It was read and not looked at, since there was something before it.
            reader.release(&mut stream).unwrap();
            assert_eq!(
                (reader.buffer.capacity(), reader.buffer.filled()),
                (SMALL_BYTES, &b"two three four"[..])
            );
            reader.buffer.clear();
            reader.release(&mut stream).unwrap();
            assert_eq!(reader.buffer.capacity(), 0);
            drop(peer);
            assert_eq!(fill(&mut reader, &mut stream, LOOK).await, 0);
        })
        .unwrap();
    }

    #[test]
    fn who_waits_for_bytes_holds_no_buffer() {
        env::block_on(async {
            let (mut stream, mut peer) = pair();
            let small = Capacity::Firm(SMALL_BYTES);
            for piece in [LOOK, small, Capacity::WHOLE] {
                let mut reader = PeekReader::new(Buffer::none());
                peer.write_all(b"x").unwrap();
                assert_eq!(fill(&mut reader, &mut stream, piece).await, 1);
                reader.buffer.consume(1);
                reader.commit(&mut stream).unwrap();
                let again =
                    |cx: &mut Context<'_>| Poll::Ready(reader.poll_fill(cx, &mut stream, false, piece));
                assert!(poll_fn(again).await.is_pending(), "{piece:?}");
                assert_eq!(reader.buffer.capacity(), 0, "{piece:?}");
            }
        })
        .unwrap();
    }

    #[test]
    fn a_small_buffer_makes_way_for_a_large_piece() {
        env::block_on(async {
            let (mut stream, mut peer) = pair();
            let mut reader = PeekReader::new(Buffer::small());
            peer.write_all(&[b'x'; SMALL_BYTES + 1]).unwrap();
            let mut got = fill(&mut reader, &mut stream, Capacity::WHOLE).await;
            assert_eq!(reader.buffer.capacity(), LARGE_BYTES);
            while got <= SMALL_BYTES {
                got += fill(&mut reader, &mut stream, Capacity::WHOLE).await;
            }
            assert_eq!(reader.buffer.len(), SMALL_BYTES + 1);
        })
        .unwrap();
    }
}
