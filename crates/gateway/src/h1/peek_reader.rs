//! Reads bytes that are forwarded through a socket: either takes them, or peeks at them (MSG_PEEK) and takes
//! them after they were forwarded, so that the gateway does not hold bytes which the other side does not
//! take. It knows no protocol and no destination.

use std::io;
use std::task::{Context, Poll, ready};

use stdx::buffer::{Buffer, LARGE_BYTES, SMALL_BYTES};

use crate::body::Capacity;
use net::transport::Transport;

/// A reader with its buffer.
#[derive(Debug)]
pub(crate) struct PeekReader {
    pub(crate) buffer: Buffer,
    /// How many bytes of the buffer were only peeked and are still in the kernel: all of them, or none.
    looked_bytes: usize,
    /// The last peek found no more bytes in the kernel.
    saw_all: bool,
}

impl PeekReader {
    /// A reader with a `buffer` that may hold bytes which were read already.
    pub(crate) fn new(buffer: Buffer) -> PeekReader {
        PeekReader { buffer, looked_bytes: 0, saw_all: false }
    }

    /// Reads on into the buffer. While nothing arrives there is no buffer, so that a wait for a slow client's
    /// body or for the next event of a stream costs no memory. `likely` says that bytes have most likely
    /// arrived. Peeked bytes have to be committed before the call.
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
            // The readiness is checked first, because the usual first read, right after the request, finds
            // nothing.
            if !(likely && stream.is_readable()) {
                ready!(stream.poll_read_ready(cx))?;
            }
            self.buffer = if is_large { Buffer::large() } else { Buffer::small() };
        }
        let looks = !capacity.is_firm() && self.buffer.is_empty();
        // Bytes behind kept ones cannot stay in the kernel, so little is read.
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

    /// Takes the peeked bytes that have been forwarded; the rest stays in the kernel and leaves the buffer.
    /// It must be called before the event loop runs again, because it also tells the event loop that nothing
    /// has arrived since. An error means that the kernel's bytes are lost.
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

    /// Takes all peeked bytes from the kernel, to keep them.
    pub(crate) fn retain(&mut self, stream: &mut Transport) -> io::Result<()> {
        let looked_bytes = std::mem::take(&mut self.looked_bytes);
        if looked_bytes == 0 {
            return Ok(());
        }
        let mut seen = Buffer::large();
        drop_seen(stream, &mut seen.spare_mut()[..looked_bytes], self.saw_all)
    }

    /// As [`Buffer::take_whole`]; none also if the bytes are still in the kernel.
    pub(crate) fn take_whole(&mut self, count: usize) -> Option<Buffer> {
        if self.looked_bytes == 0 { self.buffer.take_whole(count) } else { None }
    }

    /// Shrinks the buffer to the bytes that must be held while the other side takes none. Errors are those of
    /// [`PeekReader::commit`].
    pub(crate) fn release(&mut self, stream: &mut Transport) -> io::Result<()> {
        self.commit(stream)?;
        self.buffer.shrink();
        Ok(())
    }
}

/// Drops bytes from the kernel that were peeked and are therefore present.
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
            // Retained bytes must not arrive a second time.
            reader.retain(&mut stream).unwrap();
            peer.write_all(b" four").unwrap();
            assert_eq!(fill(&mut reader, &mut stream, LOOK).await, 5);
            assert_eq!(reader.buffer.filled(), b"two three four");
            // It was read and not peeked, because the buffer held something before it.
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
    fn waiting_reader_holds_no_buffer() {
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
    fn small_buffer_grows_for_a_large_piece() {
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
