//! A connected stream as the gateway and its peers hold it: one end of a connection, tied to the world's
//! clock.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::env::PeerEnd;

use super::connection::MemoryConnection;
use super::executor::WORLD;
use super::world::{world, world_left};

pub(super) type SharedConnection = Arc<Mutex<MemoryConnection>>;

pub(super) fn lock(connection: &SharedConnection) -> MutexGuard<'_, MemoryConnection> {
    connection.lock()
}

/// A connected byte stream.
pub struct Stream {
    connection: SharedConnection,
    end: usize,
}

/// A connected stream on its way from one worker to another.
pub type Socket = Stream;

impl Stream {
    pub(super) fn new(connection: SharedConnection, end: usize) -> Stream {
        world().opened(lock(&connection).owner(end));
        Stream { connection, end }
    }

    fn belongs_to(self, owner: u64) -> Stream {
        let before = lock(&self.connection).owner(self.end);
        world().closed(before);
        world().opened(owner);
        lock(&self.connection).set_owner(self.end, owner);
        self
    }

    /// Takes over a connected socket, for instance one that another worker accepted.
    pub fn attach(socket: Socket) -> io::Result<Stream> {
        let group = world().group();
        Ok(socket.belongs_to(group))
    }

    /// Leaves this worker, so that another can take the socket over.
    pub fn detach(self) -> io::Result<Socket> {
        Ok(self.belongs_to(WORLD))
    }

    /// Does something at this end and has everything that follows from it happen in its time.
    fn at_end<T>(&self, act: impl FnOnce(&mut MemoryConnection, usize, u64) -> T) -> T {
        let mut connection = lock(&self.connection);
        let result = act(&mut connection, self.end, world().now_ns());
        schedule(&self.connection, &mut connection);
        result
    }

    /// Reads into `room`; 0 bytes mean that the peer has closed its side.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.at_end(|connection, end, now_ns| connection.poll_read(end, cx, room, now_ns))
    }

    /// As [`Stream::poll_read`]: here it makes no difference whether readiness or the socket is asked first.
    pub fn poll_read_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read(cx, room)
    }

    /// Ready when the event loop believes that a read would not wait.
    pub fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.at_end(|connection, end, _| connection.poll_read_ready(end, cx)).map(Ok)
    }

    /// Whether the event loop believes that a read would not wait.
    pub fn is_readable(&self) -> bool {
        lock(&self.connection).is_readable(self.end)
    }

    /// Reads what has arrived into `room`, whether the event loop has heard of it or not.
    pub fn read_arrived(&mut self, room: &mut [u8]) -> usize {
        self.at_end(|connection, end, now_ns| connection.read_arrived(end, room, now_ns))
    }

    /// Looks at what comes next, as much as fits into `room`, without taking it; 0 bytes mean that the peer
    /// has closed its side.
    pub fn poll_peek(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.at_end(|connection, end, _| connection.poll_peek(end, cx, room))
    }

    /// As [`Stream::poll_peek`]: here it makes no difference whether readiness or the socket is asked first.
    pub fn poll_peek_at_once(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_peek(cx, room)
    }

    /// As [`Stream::poll_peek_at_once`], when `seen` bytes were looked at before: ready with more than these,
    /// or with as many if the peer has closed its side behind them.
    pub fn poll_peek_more(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        self.at_end(|connection, end, _| connection.poll_peek_more(end, cx, room, seen))
    }

    /// Drops bytes that were looked at: `room` only says how many. `is_all` says that there was nothing
    /// behind them.
    pub fn drop_seen(&mut self, room: &mut [u8], is_all: bool) -> usize {
        self.at_end(|connection, end, now_ns| connection.drop_seen(end, room, is_all, now_ns))
    }

    /// Writes from `data`.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.at_end(|connection, end, now_ns| connection.poll_write(end, cx, data, now_ns))
    }

    /// Writes from several slices at once.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let joined: Vec<u8> = data.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(cx, &joined)
    }

    /// How many bytes fit on the way to the other end.
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        Ok(lock(&self.connection).room_bytes(1 - self.end))
    }

    /// Waits while less than a third of [`Stream::send_buffer_bytes`] is free.
    pub fn poll_third_free(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.at_end(|connection, end, _| connection.poll_third_free(end, cx)).map(Ok)
    }

    /// Closes the sending side.
    pub fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.at_end(|connection, end, now_ns| connection.shut(end, now_ns)))
    }

    /// Makes the close that follows an abortive one.
    pub fn reset_on_close(&self) {
        self.at_end(|connection, end, _| connection.set_resets_on_close(end, true));
    }

    /// Takes [`Stream::reset_on_close`] back.
    pub fn end_on_close(&self) {
        self.at_end(|connection, end, _| connection.set_resets_on_close(end, false));
    }

    /// Bytes that were written and that have not arrived at the other end.
    pub fn unacknowledged_bytes(&self) -> u64 {
        lock(&self.connection).flying_from(self.end)
    }

    /// The number of its descriptor: here there are none.
    pub fn descriptor(&self) -> u64 {
        0
    }

    /// Whether the other end has closed or was reset, and this end has been told, even if there are bytes in
    /// front of it.
    pub fn peer_end(&self) -> PeerEnd {
        lock(&self.connection).peer_end(self.end)
    }

    /// The address of this end.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(lock(&self.connection).address(self.end))
    }

    /// Whether the network has done this connection harm: a reset or a stall that neither end asked for.
    pub fn is_harmed(&self) -> bool {
        lock(&self.connection).is_harmed()
    }

    /// The name of the connection in a trace.
    pub fn id(&self) -> u64 {
        lock(&self.connection).id
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(world) = world_left() else { return };
        let owner = lock(&self.connection).owner(self.end);
        world.closed(owner);
        self.at_end(|connection, end, now_ns| connection.close(end, now_ns));
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "connection {} end {}", self.id(), self.end)
    }
}

/// Has the next thing happen at each end when its time has come.
pub(super) fn schedule(shared: &SharedConnection, connection: &mut MemoryConnection) {
    for end in 0..2 {
        let Some(time_ns) = connection.next_ns(end) else { continue };
        if connection.scheduled_ns[end].is_some_and(|scheduled_ns| scheduled_ns <= time_ns) {
            continue;
        }
        connection.scheduled_ns[end] = Some(time_ns);
        let shared = shared.clone();
        world().at((time_ns, connection.id * 4 + 1 + end as u64), move || happen(&shared, end));
    }
}

fn happen(shared: &SharedConnection, end: usize) {
    let mut wakers: Vec<Waker> = Vec::new();
    let mut connection = lock(shared);
    connection.scheduled_ns[end] = None;
    connection.advance(end, world().now_ns(), &mut wakers);
    schedule(shared, &mut connection);
    drop(connection);
    wakers.into_iter().for_each(Waker::wake);
}
