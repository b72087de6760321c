//! Connections that clients have opened to other destinations and that rules of the kernel bring to a
//! listener: the two ways in which that happens, and the socket option that one of them needs.

use std::io;
use std::net::SocketAddr;

use crate::env::{self, BoundSocket};
use crate::transport::Transport;

/// The way in which connections to other destinations come to a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interception {
    /// None: clients connect to the listener's address.
    #[default]
    None,
    /// A TPROXY rule hands them to the socket, which has the option `IP_TRANSPARENT`. The local address of
    /// such a connection is its destination.
    Tproxy,
    /// A REDIRECT rule has changed their destination to the listener's address. The kernel tells the
    /// destination by the option `SO_ORIGINAL_DST`.
    Redirect,
}

impl Interception {
    /// The name among the protocols of a listener; none where there is no interception.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Interception::None => None,
            Interception::Tproxy => Some("tproxy"),
            Interception::Redirect => Some("redirect"),
        }
    }

    /// The destination of a connection as its client has written it, which came to a listener at `listener`.
    /// The kernel is asked only where connections to other addresses come there.
    pub fn destination(self, stream: &Transport, listener: SocketAddr) -> SocketAddr {
        match self {
            Interception::None if !listener.ip().is_unspecified() => return listener,
            Interception::Redirect => {
                if let Ok(destination) = stream.socket().original_destination() {
                    return destination;
                }
            }
            Interception::None | Interception::Tproxy => {}
        }
        stream.local_address().unwrap_or(listener)
    }

    /// Gives a listening socket the option that it needs, and takes it from one that needs it no more.
    ///
    /// # Errors
    /// [`env::NEEDS_CAPABILITY`], or another one of the kernel's.
    pub(super) fn prepare(self, socket: &BoundSocket) -> io::Result<()> {
        env::set_transparent(socket, self == Interception::Tproxy)
    }
}
