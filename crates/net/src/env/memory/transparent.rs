//! Connections to other destinations, of which the network in memory has none: its kernel changes no
//! destination.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::{BoundSocket, Stream};

/// See the other side of the seam. Here no socket may take connections to any address.
///
/// # Errors
/// Whenever it is wanted.
pub fn set_transparent(_socket: &BoundSocket, wanted: bool) -> io::Result<()> {
    if wanted { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}

/// See [`set_transparent`].
///
/// # Errors
/// Always.
pub fn try_transparent() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See [`set_transparent`].
///
/// # Errors
/// Always.
pub async fn connect_as(_source: IpAddr, _address: SocketAddr) -> io::Result<Stream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the address is one of this machine: all are, because the world in memory is one.
pub fn is_local_address(_address: IpAddr) -> bool {
    true
}

impl Stream {
    /// The destination that a connection had before a NAT rule changed it.
    ///
    /// # Errors
    /// Always, because there is no such rule.
    pub fn original_destination(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
