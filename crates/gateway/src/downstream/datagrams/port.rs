//! The socket of a listener as sessions know it.

use std::rc::Rc;

use net::env::udp::ClientSocket;

use crate::downstream::listener_state::OpenListener;

/// See the module.
pub(super) struct Port {
    /// A number that no other port of this worker has.
    pub(super) number: u32,
    pub(super) socket: ClientSocket,
    pub(super) open: Rc<OpenListener>,
}

impl Port {
    /// Whether it has several addresses, so that answers have to name theirs.
    pub(super) fn has_addresses(&self) -> bool {
        self.socket.address().ip().is_unspecified()
    }
}

/// How many datagrams these bytes are.
pub(super) fn count_of(bytes: &[u8], segment_bytes: u16) -> u64 {
    match segment_bytes {
        0 => 1,
        segment => bytes.len().div_ceil(usize::from(segment)) as u64,
    }
}
