//! A UDP socket as the QUIC library uses it: it receives what the kernel or another socket has for it, passes
//! on what belongs to another socket, and sends batches (GSO) where the kernel takes them. It reads no packet
//! beyond the connection identifier.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use tokio::io::Interest;

use super::connection_id::SocketLocation;
use super::steering::{SteeredDatagram, Steering};

/// Counters of the sockets of a worker.
#[derive(Debug, Default)]
pub struct QuicCounts {
    /// Calls that sent several datagrams at once (UDP_SEGMENT).
    pub batches_sent: AtomicU64,
    /// Datagrams, or batches of the kernel, that were passed to another socket.
    pub passed_on: AtomicU64,
    /// Those for which there was no room, or no such socket.
    pub dropped: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct SteeredSocket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    place: SocketLocation,
    steering: Arc<Steering>,
    counts: Arc<QuicCounts>,
    /// The kernel had no room for the last datagram.
    is_full: AtomicBool,
    /// Another process receives from the socket; this one is passed what belongs to its connections.
    is_left: AtomicBool,
}

impl SteeredSocket {
    /// Takes over a bound socket on this worker's event loop.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn attach(
        socket: UdpSocket,
        place: SocketLocation,
        steering: Arc<Steering>,
        counts: Arc<QuicCounts>,
    ) -> io::Result<SteeredSocket> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        let io = tokio::net::UdpSocket::from_std(socket)?;
        let (is_full, is_left) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(SteeredSocket { io, state, place, steering, counts, is_full, is_left })
    }

    /// Leaves what the kernel receives to another process.
    pub(super) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// Takes datagrams that other sockets have passed here; how many buffers they fill.
    fn take_passed(&self, cx: &Context<'_>, rooms: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> usize {
        let mut count = 0;
        for (room, meta) in rooms.iter_mut().zip(metas) {
            let Some(passed) = self.steering.take(self.place, cx.waker()) else { break };
            if !passed.put(room, meta) {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                *meta = RecvMeta::default();
            }
            count += 1;
        }
        count
    }

    /// Passes on what belongs to other sockets; whether anything is left.
    fn steer(&self, rooms: &[IoSliceMut<'_>], metas: &mut [RecvMeta]) -> bool {
        let mut is_any_left = false;
        for (room, meta) in rooms.iter().zip(metas) {
            let bytes = &room[..meta.len];
            // Datagrams that the kernel put together have one sender, and nearly always one connection.
            let Some(place) = self.steering.elsewhere(self.place, bytes) else {
                is_any_left = true;
                continue;
            };
            let is_passed = self.steering.pass(place, SteeredDatagram::new(meta, bytes));
            let count = if is_passed { &self.counts.passed_on } else { &self.counts.dropped };
            count.fetch_add(1, Ordering::Relaxed);
            // The library skips a buffer without bytes.
            meta.len = 0;
        }
        is_any_left
    }
}

impl AsyncUdpSocket for SteeredSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WritePoller { socket: self, waiting: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if transmit.segment_size.is_some_and(|size| size < transmit.contents.len()) {
            self.counts.batches_sent.fetch_add(1, Ordering::Relaxed);
        }
        let sent = self.io.try_io(Interest::WRITABLE, || self.state.send((&self.io).into(), transmit));
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.is_full.store(true, Ordering::Relaxed);
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        rooms: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let passed = self.take_passed(cx, rooms, metas);
        if passed > 0 {
            return Poll::Ready(Ok(passed));
        }
        if self.is_left.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let received =
                self.io.try_io(Interest::READABLE, || self.state.recv((&self.io).into(), rooms, metas));
            match received {
                Ok(count) if self.steer(rooms, &mut metas[..count]) => return Poll::Ready(Ok(count)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

/// Waits until the socket takes datagrams, for one connection.
struct WritePoller {
    socket: Arc<SteeredSocket>,
    /// The wait, while the socket is full. Each connection has its own, because the event loop wakes one task
    /// only for a direct question.
    waiting: Option<Writable>,
}

type Writable = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

impl UdpPoller for WritePoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let WritePoller { socket, waiting } = &mut *self;
        // A socket that took the last datagram most likely takes the next one, which is then sent without a
        // question.
        if waiting.is_none() && !socket.is_full.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let future = waiting.get_or_insert_with(|| {
            let socket = socket.clone();
            Box::pin(async move { socket.io.writable().await })
        });
        let outcome = ready!(future.as_mut().poll(cx));
        *waiting = None;
        socket.is_full.store(false, Ordering::Relaxed);
        Poll::Ready(outcome)
    }
}

impl std::fmt::Debug for WritePoller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WritePoller")
    }
}
