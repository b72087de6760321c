//! The ports of listeners of layer 4, for warnings about stream routes that no listener serves. It opens
//! none.

use std::collections::BTreeSet;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPorts {
    /// Those of listeners of connections.
    pub connections: BTreeSet<u16>,
    /// Those of listeners of datagrams.
    pub datagrams: BTreeSet<u16>,
}

impl StreamPorts {
    /// The other kind of sessions, if `port` has listeners of that kind only.
    #[must_use]
    pub fn only_other(&self, port: u16, is_datagram: bool) -> Option<&'static str> {
        let (own, other, name) = match is_datagram {
            true => (&self.datagrams, &self.connections, "connections"),
            false => (&self.connections, &self.datagrams, "datagrams"),
        };
        (!own.contains(&port) && other.contains(&port)).then_some(name)
    }
}
