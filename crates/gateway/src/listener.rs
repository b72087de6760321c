//! Listening sockets: one per worker and address, sharing the address by `SO_REUSEPORT`. An address is probed without
//! that option first, for a second process would otherwise share it in silence. It accepts nothing itself.

use std::io;
use std::net::SocketAddr;

use crate::env::{self, BoundSocket};

/// A socket a worker is to accept on.
#[derive(Debug)]
pub struct Listening {
    /// The socket.
    pub socket: BoundSocket,
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
    drop(env::bind(address, false)?);
    let first = env::bind(address, true)?;
    let address = first.local_addr()?;
    let mut listening = vec![Listening { socket: first, address }];
    for _ in 1..workers {
        listening.push(Listening { socket: env::bind(address, true)?, address });
    }
    Ok(listening)
}
