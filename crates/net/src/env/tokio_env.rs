//! The production side of the seam: tokio's sockets and tasks on a current-thread runtime. Reads and writes
//! are system calls made directly: glibc's are points of thread cancellation, which costs a tenth of a
//! request's user time.

mod listening;
mod local;
mod running;
mod splice;
mod transparent;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpSocket, TcpStream};

use super::PeerEnd;
pub use listening::{BoundSocket, Listener, bind};
pub use local::{LocalStream, connect_local};
pub use running::{block_on, service, wait_while, wake_after_events, yield_to_events, yield_when_spent};
pub use running::{monotonic_ns, open_files_limit, random_u64, sleep_ms, spawn, wall_clock};
pub use splice::Pipe;
pub use transparent::{connect_as, is_local_address, set_transparent, try_transparent};

/// A connected socket on its way from one worker to another: on no event loop.
pub type Socket = std::net::TcpStream;

/// A connected byte stream.
#[derive(Debug)]
pub struct Stream(TcpStream);

impl Stream {
    /// Takes over a connected socket, for instance one that another worker accepted.
    pub fn attach(socket: Socket) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        TcpStream::from_std(socket).map(Stream)
    }

    /// Leaves this worker's event loop, so that another worker can take the socket over.
    pub fn detach(self) -> io::Result<Socket> {
        self.0.into_std()
    }

    /// Reads into `room`; 0 bytes mean that the peer has closed its side.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            if let Some(done) = self.try_read(room) {
                return Poll::Ready(done);
            }
        }
    }

    /// [`Stream::poll_read`], for what has most likely arrived: the kernel is asked before a waker is left
    /// with the event loop. That is also what counts a task's turns, so that a loop over this alone has to
    /// yield by itself (`yield_when_spent`).
    #[inline]
    pub fn poll_read_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.try_read(room) {
            Some(done) => Poll::Ready(done),
            None => self.poll_read(cx, room),
        }
    }

    /// Reads if the event loop has seen something arrive; nothing if it has not, or was wrong.
    #[inline]
    fn try_read(&mut self, room: &mut [u8]) -> Option<io::Result<usize>> {
        let length = room.len();
        let mut count = None;
        let result = self.0.try_io(Interest::READABLE, || {
            let (_, got) = rustix::net::recv(&self.0, &mut *room, RecvFlags::empty())?;
            count = Some(got);
            drained(got, length)
        });
        outcome(count, result)
    }

    /// Ready when the event loop believes that a read would not wait; costs no system call.
    #[inline]
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx)
    }

    /// Whether the event loop believes that a read would not wait. Costs no system call and leaves no waker
    /// behind.
    #[inline]
    pub fn is_readable(&self) -> bool {
        let mut readable = false;
        let note = || {
            readable = true;
            Ok(())
        };
        // The closure runs only if the loop has seen the socket readable; it reads nothing, so nothing can
        // fail.
        let _ = self.0.try_io(Interest::READABLE, note);
        readable
    }

    /// Reads what has arrived into `room`, asking the kernel and not the event loop, which may not have heard
    /// of it yet; 0 if nothing has, or the peer has closed its side.
    pub fn read_arrived(&mut self, room: &mut [u8]) -> usize {
        rustix::net::recv(&self.0, room, RecvFlags::DONTWAIT).map_or(0, |(_, count)| count)
    }

    /// Looks at what comes next, as much as fits into `room`, without taking it; 0 bytes mean that the peer
    /// has closed its side.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            if let Some(done) = self.try_peek(room) {
                return Poll::Ready(done);
            }
        }
    }

    /// [`Stream::poll_peek`] for what has most likely arrived, as [`Stream::poll_read_at_once`].
    pub fn poll_peek_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.try_peek(room) {
            Some(done) => Poll::Ready(done),
            None => self.poll_peek(cx, room),
        }
    }

    /// As [`Stream::poll_peek_at_once`], when `seen` bytes were looked at before: ready with more than these,
    /// or with as many if the peer has closed its side behind them.
    pub fn poll_peek_more(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut count = None;
            let result = self.0.try_io(Interest::READABLE, || {
                let got = rustix::net::recv(&self.0, &mut *room, RecvFlags::PEEK)?.1;
                // Saying that it would wait makes the event loop tell of the next bytes, though none were
                // taken.
                if got > 0 && got <= seen && self.peer_end() == PeerEnd::Open {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                count = Some(got);
                Ok(())
            });
            if let Some(done) = outcome(count, result) {
                return Poll::Ready(done);
            }
            ready!(self.0.poll_read_ready(cx))?;
        }
    }

    fn try_peek(&mut self, room: &mut [u8]) -> Option<io::Result<usize>> {
        let mut count = None;
        let result = self.0.try_io(Interest::READABLE, || {
            count = Some(rustix::net::recv(&self.0, room, RecvFlags::PEEK)?.1);
            Ok(())
        });
        outcome(count, result)
    }

    /// Drops bytes that were looked at: `room` only says how many, and need not be written (tcp(7),
    /// `MSG_TRUNC`). `is_all` says that there was nothing behind them. Returns how many were dropped.
    pub fn drop_seen(&mut self, room: &mut [u8], is_all: bool) -> usize {
        let mut count = 0;
        // As after a read that was not filled; what has come since the look the event loop tells by itself.
        let _ = self.0.try_io(Interest::READABLE, || {
            count = rustix::net::recv(&self.0, room, RecvFlags::DONTWAIT | RecvFlags::TRUNC)?.1;
            if is_all { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        count
    }

    /// Writes from `data`. A socket nearly always has room, so the kernel is asked before a waker is left
    /// with the event loop; the loop only says whether it has seen the socket full.
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut count = None;
            let result = self.0.try_io(Interest::WRITABLE, || {
                let sent = rustix::net::send(&self.0, data, SendFlags::NOSIGNAL)?;
                count = Some(sent);
                drained(sent, data.len())
            });
            if let Some(done) = outcome(count, result) {
                return Poll::Ready(done);
            }
            ready!(self.0.poll_write_ready(cx))?;
        }
    }

    /// As [`Stream::poll_write`], from several slices at once.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let given = data.iter().map(|slice| slice.len()).sum();
        loop {
            let mut count = None;
            let result = self.0.try_io(Interest::WRITABLE, || {
                let mut control = SendAncillaryBuffer::default();
                let sent = rustix::net::sendmsg(&self.0, data, &mut control, SendFlags::NOSIGNAL)?;
                count = Some(sent);
                drained(sent, given)
            });
            if let Some(done) = outcome(count, result) {
                return Poll::Ready(done);
            }
            ready!(self.0.poll_write_ready(cx))?;
        }
    }

    /// How much memory the kernel uses at most for what is to be sent, in bytes.
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(&self.0)?)
    }

    /// Waits while less than a third of [`Stream::send_buffer_bytes`] is free, which is when the kernel takes
    /// the socket for full (tcp(7), poll(2)).
    pub fn poll_third_free(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // The kernel reports writability to the event loop only after a call has found none; poll(2)
            // counts as such a call.
            let found = self.0.try_io(Interest::WRITABLE, || {
                let mut looked = [PollFd::new(&self.0, PollFlags::OUT)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                // Whatever else is up with the socket, a write finds out.
                if poll(&mut looked, Some(&at_once))? == 0 {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
            match found {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.0.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Closes the sending side.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    /// Makes the close that follows an abortive one (RST), so that the peer cannot take a cut message for a
    /// whole one.
    pub fn reset_on_close(&self) {
        // If it fails the peer gets a plain close, which the framing still shows as cut wherever it can.
        let _ = self.0.set_zero_linger();
    }

    /// Takes [`Stream::reset_on_close`] back: what was sent is whole.
    pub fn end_on_close(&self) {
        // If it fails the peer loses the end of what was sent, and can tell.
        let _ = socket2::SockRef::from(&self.0).set_linger(None);
    }

    /// Bytes that were written and that the peer's kernel has not acknowledged (tcp(7), `SIOCOUTQ`).
    pub fn unacknowledged_bytes(&self) -> u64 {
        /// `SIOCOUTQ` of `linux/sockios.h`, the same number on all architectures that use the generic
        /// `ioctls.h`.
        const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
        // SAFETY: for this code the kernel writes one C integer, which is what the getter has room for.
        #[allow(unsafe_code)]
        let bytes = unsafe {
            let getter = rustix::ioctl::Getter::<SIOCOUTQ, std::ffi::c_int>::new();
            rustix::ioctl::ioctl(&self.0, getter)
        };
        bytes.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
    }

    /// The number of its descriptor.
    pub fn descriptor(&self) -> u64 {
        // Never negative while it is open.
        u64::from(self.0.as_raw_fd().unsigned_abs())
    }

    /// Whether the peer has closed its sending side or reset the connection, even if there are bytes in front
    /// of that. A system call.
    pub fn peer_end(&self) -> PeerEnd {
        let mut looked = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If it fails the end is seen later, when the bytes in front of it were read.
        let _ = poll(&mut looked, Some(&at_once));
        let found = looked[0].revents();
        if found.intersects(PollFlags::ERR | PollFlags::HUP) {
            PeerEnd::Reset
        } else if found.contains(PollFlags::RDHUP) {
            PeerEnd::Closed
        } else {
            PeerEnd::Open
        }
    }

    /// The address of this end.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A call that moved less than it was given has emptied or filled the socket's buffer. Saying that it would
/// wait clears the event loop's readiness, which is edge-triggered, and spares the system call that would
/// find it out.
#[inline]
fn drained(moved: usize, given: usize) -> io::Result<()> {
    if moved > 0 && moved < given { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// The result of a call; none if it has to be made again once the socket is ready.
#[inline]
fn outcome(count: Option<usize>, result: io::Result<()>) -> Option<io::Result<usize>> {
    match (count, result) {
        (Some(count), _) => Some(Ok(count)),
        (None, Err(error))
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            None
        }
        (None, Err(error)) => Some(Err(error)),
        (None, Ok(())) => None,
    }
}

/// Opens a connection. Small writes are sent at once: a proxy writes whole messages.
pub async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    socket.connect(address).await.map(Stream)
}
