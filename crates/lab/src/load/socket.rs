//! Non-blocking sockets for the load generator. It knows no protocol.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Begins a connection and registers it with `epoll`, edge-triggered, under `number`. [`connected`] reports
/// the kernel's refusal later.
pub(super) fn start_connect(address: SocketAddr, epoll: &OwnedFd, number: u64) -> Result<OwnedFd, Errno> {
    let socket = open_socket(address)?;
    begin(&socket, address)?;
    watch(&socket, epoll, number)?;
    Ok(socket)
}

/// A socket that is not connected yet.
pub(super) fn open_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    net::sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

/// A socket for datagrams to and from one address, registered with `epoll`, edge-triggered, under `number`.
pub(super) fn datagrams(address: SocketAddr, epoll: &OwnedFd, number: u64) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    net::connect(&socket, &address)?;
    epoll::add(epoll, &socket, EventData::new_u64(number), EventFlags::IN | EventFlags::ET)?;
    Ok(socket)
}

/// Begins to connect it.
pub(super) fn begin(socket: &OwnedFd, address: SocketAddr) -> Result<(), Errno> {
    match net::connect(socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Registers it with `epoll`, edge-triggered, under `number`: one call in a connection's life.
pub(super) fn watch(socket: &OwnedFd, epoll: &OwnedFd, number: u64) -> Result<(), Errno> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(number), flags)
}

/// Reports bytes to read only, as long as there are any.
pub(super) fn watch_input(socket: &OwnedFd, epoll: &OwnedFd, number: u64) -> Result<(), Errno> {
    epoll::modify(epoll, socket, EventData::new_u64(number), EventFlags::IN | EventFlags::RDHUP)
}

/// The result of a connection that was begun.
pub(super) fn connected(socket: &OwnedFd) -> Result<(), Errno> {
    net::sockopt::socket_error(socket)?
}

/// Sends as many bytes as the kernel takes, which may be none; returns the number.
pub(super) fn send_bytes(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        match net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            other => return other,
        }
    }
}

/// Reads the available bytes: `None` if there are none, 0 if the peer closed.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        match net::recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((bytes, _)) => return Ok(Some(bytes)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Whether an event reports that the peer closed or the connection broke.
pub(super) fn is_over(flags: EventFlags) -> bool {
    flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
}

/// The meaning of a failure to connect, for the user of the load generator.
pub(super) fn cannot_connect(error: Errno) -> String {
    let advice = match error {
        Errno::CONNREFUSED => ": nobody listens there, or its queue is full",
        Errno::ADDRNOTAVAIL => {
            ": this machine is out of local ports; fewer connections, or fewer new ones, go on"
        }
        Errno::MFILE | Errno::NFILE => ": out of descriptors; raise the limit (`ulimit -n`)",
        _ => "",
    };
    format!("cannot connect: {}{advice}", std::io::Error::from(error))
}
