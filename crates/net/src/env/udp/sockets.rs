//! The two kinds of sockets of layer 4 over UDP: one that all clients of a listener send to, and one for each
//! session that is connected to its node, so that the kernel tells answers and refusals (ICMP) of sessions
//! apart. All sockets of nodes have one place in the worker's event loop, because a place for each costs more
//! than its datagrams.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::task::{Context, Poll, ready};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::SendFlags;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::batch::{DatagramBatch, ReceiveCounts};
use super::raw::{Messages, OutgoingDatagram, turn};

/// Lower ports are those of services of the machine, which clients must not take by the port that they send
/// from.
const FIRST_KEPT_PORT: u16 = 1_024;

/// Datagrams that may have come to a chosen port before its socket was connected; with more the kernel
/// chooses the port.
const STRAYS_MAX: usize = 64;

/// Sockets of nodes that one look reports; the next ones are reported by the next look.
const EVENTS: usize = 256;

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSendFault {
    /// The kernel has no room for it now.
    Busy,
    /// It is longer than its way takes.
    TooLarge,
    /// Its receiver cannot be reached, or has refused one before.
    Peer,
}

/// The meaning of an error of a send.
pub fn fault_of(error: &io::Error) -> DatagramSendFault {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => DatagramSendFault::Busy,
        Some(libc::EMSGSIZE) => DatagramSendFault::TooLarge,
        _ => DatagramSendFault::Peer,
    }
}

/// The socket of a listener on one worker.
#[derive(Debug)]
pub struct ClientSocket {
    io: AsyncFd<UdpSocket>,
    address: SocketAddr,
}

impl ClientSocket {
    /// Takes over a bound socket on this worker's event loop.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach(socket: UdpSocket) -> io::Result<ClientSocket> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        // Answers have to come from the address that the client has asked. A socket with one address need not
        // be told it.
        let is_any = address.ip().is_unspecified();
        match address {
            SocketAddr::V4(_) => turn(socket.as_fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, is_any)?,
            SocketAddr::V6(_) => turn(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, is_any)?,
        }
        // A kernel without it gives datagrams one by one.
        let _ = turn(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, true);
        Ok(ClientSocket { io: register(socket)?, address })
    }

    /// The address that it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Receives what has arrived into free slots of the batch; ready with at least one datagram or one that
    /// was faulty.
    ///
    /// # Errors
    /// The kernel's, which a socket that is not connected has only if memory is short.
    pub fn poll_receive(&self, cx: &mut Context<'_>, batch: &mut DatagramBatch) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.io.poll_read_ready(cx))?;
            match batch.receive_from_clients(self.io.get_ref().as_fd()) {
                Ok(may_be_more) => {
                    if !may_be_more {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends the answers of the batch and empties it. `failed` is told of each that the kernel has refused.
    pub fn send(&self, batch: &mut DatagramBatch, failed: impl FnMut(&io::Error)) {
        batch.send_to_clients(self.io.get_ref().as_fd(), failed);
    }
}

/// Puts a descriptor on this worker's event loop.
fn register<T: AsFd + AsRawFd>(io: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: both types that come here, a socket of std and an owned descriptor, answer with the one
    // descriptor that they own for as long as they live.
    #[allow(unsafe_code)]
    let registered = unsafe { AsyncFd::register_with_interest(io, Interest::READABLE) };
    Ok(registered?)
}

/// A socket that is not on an event loop, connected to `address` from `source` or an address that the kernel
/// chooses.
fn connected(source: Option<SocketAddr>, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    let _ = turn(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, true);
    if let Some(source) = source {
        socket.bind(&source.into())?;
    }
    socket.connect(&address.into())?;
    Ok(socket)
}

/// As [`connected`], from that port of the address that `other` has got on the way to the same node.
fn connected_from_port(other: &Socket, port: u16, address: SocketAddr) -> io::Result<Socket> {
    let own = other.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    let socket = connected(Some(SocketAddr::new(own.ip(), port)), address)?;
    // Anybody may have sent to the port before the socket was connected, and the node has been sent nothing
    // yet: what is there is no answer.
    for _ in 0..STRAYS_MAX {
        match socket.recv(&mut [MaybeUninit::uninit()]) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(socket),
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::QuotaExceeded.into())
}

/// A socket that is connected to a node.
#[derive(Debug)]
pub struct NodeSocket(OwnedFd);

impl NodeSocket {
    /// Connects a socket to `address`, which `poll` then reports by `token`. Nothing is sent by that.
    /// Datagrams come from `source_port` if it is there and free.
    ///
    /// # Errors
    /// The kernel's: no descriptor, no port, no way to the address.
    pub fn connect(
        address: SocketAddr,
        source_port: Option<u16>,
        poll: &NodePoll,
        token: u64,
    ) -> io::Result<NodeSocket> {
        let mut socket = connected(None, address)?;
        if let Some(port) = source_port.filter(|port| *port >= FIRST_KEPT_PORT)
            && let Ok(from_port) = connected_from_port(&socket, port, address)
        {
            socket = from_port;
        }
        let socket = OwnedFd::from(socket);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(poll.0.get_ref(), &socket, epoll::EventData::new_u64(token), flags)?;
        Ok(NodeSocket(socket))
    }

    /// Sends one datagram, or several of `segment_bytes`.
    ///
    /// # Errors
    /// The kernel's; `ECONNREFUSED` is the node's answer to an earlier datagram.
    pub fn send(&self, bytes: &[u8], segment_bytes: u16) -> io::Result<()> {
        if segment_bytes == 0 {
            return Ok(rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL).map(|_| ())?);
        }
        let outgoing = OutgoingDatagram { bytes, segment_bytes, peer: None, local: None };
        let sent = Messages::<1>::new().send(self.0.as_fd(), std::iter::once(outgoing));
        match sent {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO)) => {
                bytes.chunks(usize::from(segment_bytes)).try_for_each(|one| self.send(one, 0))
            }
            sent => sent.map(|_| ()),
        }
    }

    /// Receives answers for `client` into at most `most` free slots of the batch. Fewer mean that no more has
    /// arrived.
    ///
    /// # Errors
    /// The kernel's: nothing has arrived, or the node has refused a datagram (`ECONNREFUSED`).
    pub fn receive(
        &self,
        batch: &mut DatagramBatch,
        most: usize,
        client: SocketAddr,
        local: Option<IpAddr>,
    ) -> io::Result<ReceiveCounts> {
        batch.receive_of_node(self.0.as_fd(), most, client, local)
    }
}

/// The sockets of nodes that have something to read, for one worker.
#[derive(Debug)]
pub struct NodePoll(AsyncFd<OwnedFd>);

/// The sockets that a look has found.
pub struct Ready(Vec<epoll::Event>);

impl Default for Ready {
    fn default() -> Ready {
        Ready(Vec::with_capacity(EVENTS))
    }
}

impl Ready {
    /// Their tokens.
    pub fn tokens(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|event| event.data.u64())
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl NodePoll {
    /// Makes it on this worker's event loop.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<NodePoll> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(NodePoll(register(poll)?))
    }

    /// Finds the sockets with new datagrams or errors; ready with at least one. A socket is reported again
    /// only after it was read until it had nothing more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn poll_ready(&self, cx: &mut Context<'_>, found: &mut Ready) -> Poll<io::Result<()>> {
        loop {
            found.clear();
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let count = match epoll::wait(self.0.get_ref(), spare_capacity(&mut found.0), Some(&at_once)) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            if count < EVENTS {
                ready.clear_ready();
            }
            if count > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
