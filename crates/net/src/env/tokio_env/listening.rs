//! Listening sockets of the kernel: how one is opened, shared and accepted on. It decides no address.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::Stream;

/// Connections the kernel queues for us per socket; the kernel's own `somaxconn` bounds it again.
const BACKLOG: i32 = 4_096;

/// A bound, listening socket that is on no event loop yet.
pub type BoundSocket = TcpListener;

/// Opens a listening socket; `shared` ones share their address with each other (`SO_REUSEPORT`).
///
/// # Errors
/// The kernel's, above all that the address is in use.
pub fn bind(address: SocketAddr, shared: bool) -> io::Result<BoundSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restart within a minute of the last connection would fail.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Accepted sockets inherit it: a response leaves when it is written, and no system call per connection is
    // needed.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A program of the classic packet filter (Linux `Documentation/networking/filter.rst`). It is given the TCP
/// header.
const DROP_SYN: [SockFilter; 4] = [
    // Load the byte with the flags, at offset 13 (RFC 9293 section 3.1).
    SockFilter::new(0x30, 0, 0, 13),
    // SYN set: the next instruction, otherwise the one after it.
    SockFilter::new(0x45, 0, 1, 0x02),
    // Drop.
    SockFilter::new(0x06, 0, 0, 0),
    // Keep all of it.
    SockFilter::new(0x06, 0, 0, u32::MAX),
];

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener(tokio::net::TcpListener);

impl Listener {
    /// Takes over a bound, listening socket.
    ///
    /// # Errors
    /// When the event loop cannot watch it.
    pub fn attach(socket: BoundSocket) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(socket).map(Listener)
    }

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// The kernel's: no descriptor left, or a peer that gave up while it was queued.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        self.0.accept().await.map(|(stream, peer)| (Stream(stream), peer))
    }

    /// Has the kernel drop the packets that open connections (SYN), and complete the handshakes under way:
    /// the queue can be emptied then. Unlike a reset, a dropped packet costs the client no request: it asks
    /// again after a second and is refused, if the socket is closed by then. For a socket that is about to be
    /// closed and is shared with no other process.
    pub fn ignore_new(&self) {
        // If the system knows no socket filters, the queue is emptied all the same, with a gap of
        // microseconds.
        let _ = socket2::SockRef::from(&self.0).attach_filter(&DROP_SYN);
    }

    /// A connection that waits in the kernel's queue, asking the kernel and not the event loop, which may not
    /// have heard of it yet; none if there is none, or no descriptor for it.
    pub fn accept_arrived(&self) -> Option<(Stream, SocketAddr)> {
        loop {
            match socket2::SockRef::from(&self.0).accept() {
                Ok((socket, peer)) => {
                    if let (Ok(stream), Some(peer)) = (Stream::attach(socket.into()), peer.as_socket()) {
                        return Some((stream, peer));
                    }
                }
                // The peer gave up meanwhile, or a signal came: the next one may be there nevertheless.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                    ) => {}
                Err(_) => return None,
            }
        }
    }
}
