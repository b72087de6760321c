//! Listening sockets: one per worker and address, sharing the address by `SO_REUSEPORT`. An address is probed without
//! that option first, for a second process would otherwise share it in silence. It accepts nothing itself.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections the kernel queues for us per socket; the kernel's own `somaxconn` bounds it again.
const BACKLOG: i32 = 4_096;

/// A socket a worker is to accept on.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub socket: TcpListener,
    /// Its address, with the real port.
    pub address: SocketAddr,
}

impl Listening {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Listening> {
        Ok(Listening { socket: self.socket.try_clone()?, address: self.address })
    }
}

/// Binds `address` once for each of `workers`. Port 0 takes a free port, the same for all.
///
/// # Errors
/// The kernel's, above all that the address is in use, by whomever.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<Listening>> {
    drop(open(address, false)?);
    let first = open(address, true)?;
    let address = first.local_addr()?;
    let mut listening = vec![Listening { socket: first, address }];
    for _ in 1..workers {
        listening.push(Listening { socket: open(address, true)?, address });
    }
    Ok(listening)
}

fn open(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restart within a minute of the last connection would fail.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Accepted sockets inherit it: a response leaves when it is written, and no system call per connection is needed.
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_and_strangers_do_not() {
        let listening = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 3).unwrap();
        assert_eq!(listening.len(), 3);
        let address = listening[0].address;
        assert!(address.port() != 0 && listening.iter().all(|one| one.address == address));
        let error = bind(address, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
