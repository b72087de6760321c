//! The addresses of this process: those that it listens on, and both ends of sessions that go to the
//! destinations of their clients. A session that would come back to this process is found by them. It opens
//! and closes nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use net::env;

/// Most connections in the table, for a process. A session has two, of about 80 bytes each; rules of the
/// kernel that redirect the connections of the gateway itself could otherwise fill the memory.
pub const CONNECTIONS_MAX: usize = 200_000;

/// See the module.
#[derive(Debug, Default)]
pub struct OwnAddresses {
    proxy: Mutex<Vec<SocketAddr>>,
    others: Mutex<Vec<SocketAddr>>,
    connections: Arc<Mutex<OwnConnectionTable>>,
}

/// The connections by the addresses of their sender and of their destination. The number is that of sessions
/// that are not over: the kernel gives both addresses to another connection as soon as the first one is
/// closed.
type OwnConnectionTable = HashMap<(SocketAddr, SocketAddr), (ConnectionSide, u32)>;

/// The side of this process that a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSide {
    /// Accepted from a client.
    Accepted,
    /// Opened to the destination of a client.
    Opened,
}

/// Why a connection is not taken into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFault {
    /// It is known at the other side: this process has opened it and accepted it.
    Loop,
    /// There are [`CONNECTIONS_MAX`] already.
    Full,
}

/// A place in the table, given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionEntry {
    table: Arc<Mutex<OwnConnectionTable>>,
    ends: (SocketAddr, SocketAddr),
}

impl OwnAddresses {
    /// Sets the addresses of the proxy's listeners of connections.
    pub fn set_proxy(&self, addresses: Vec<SocketAddr>) {
        *self.proxy.lock() = addresses;
    }

    /// Sets the addresses of the other listeners of this process.
    pub fn set_others(&self, addresses: Vec<SocketAddr>) {
        *self.others.lock() = addresses;
    }

    /// The listener that a connection to `destination` would come to, if it is one of this process. A
    /// listener of every address has those of this machine.
    pub fn listener_at(&self, destination: SocketAddr) -> Option<SocketAddr> {
        let destination = canonical(destination);
        let find = |list: &Mutex<Vec<SocketAddr>>| {
            list.lock().iter().copied().find(|listener| is_at(*listener, destination))
        };
        find(&self.proxy).or_else(|| find(&self.others))
    }

    /// Takes a connection into the table. One that was redirected back to this process is found at its second
    /// side, whichever that is, because a side is entered and the other one looked for under one lock.
    ///
    /// # Errors
    /// See [`EntryFault`].
    pub fn enter(
        &self,
        sender: SocketAddr,
        destination: SocketAddr,
        side: ConnectionSide,
    ) -> Result<ConnectionEntry, EntryFault> {
        let ends = (canonical(sender), canonical(destination));
        let mut table = self.connections.lock();
        let count = table.len();
        match table.entry(ends) {
            Entry::Occupied(mut known) if known.get().0 == side => known.get_mut().1 += 1,
            Entry::Occupied(_) => return Err(EntryFault::Loop),
            Entry::Vacant(_) if count >= CONNECTIONS_MAX => return Err(EntryFault::Full),
            Entry::Vacant(free) => {
                free.insert((side, 1));
            }
        }
        Ok(ConnectionEntry { table: self.connections.clone(), ends })
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        if let Entry::Occupied(mut known) = self.table.lock().entry(self.ends) {
            known.get_mut().1 -= 1;
            if known.get().1 == 0 {
                known.remove();
            }
        }
    }
}

/// Whether a connection to `destination` comes to the listener.
pub fn is_at(listener: SocketAddr, destination: SocketAddr) -> bool {
    let (listener, destination) = (canonical(listener), canonical(destination));
    let is_any = listener.ip().is_unspecified() && listener.is_ipv4() == destination.is_ipv4();
    listener.port() == destination.port()
        && (listener.ip() == destination.ip() || (is_any && env::is_local_address(destination.ip())))
}

/// The address without a scope, and as one of IPv4 where it maps one.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn second_side_of_a_connection_is_a_loop() {
        let own = OwnAddresses::default();
        let (sender, destination) = (address("10.0.0.1:40000"), address("192.0.2.1:80"));
        let enter = |side| own.enter(sender, destination, side);
        for (first, second) in [
            (ConnectionSide::Accepted, ConnectionSide::Opened),
            (ConnectionSide::Opened, ConnectionSide::Accepted),
        ] {
            let entry = enter(first).unwrap();
            assert_eq!(enter(second).err(), Some(EntryFault::Loop), "{second:?}");
            let mapped = own.enter(address("[::ffff:10.0.0.1]:40000"), destination, second);
            assert_eq!(mapped.err(), Some(EntryFault::Loop));
            // Other ends are another connection.
            assert!(own.enter(destination, sender, second).is_ok());
            assert!(own.enter(sender, address("192.0.2.1:81"), second).is_ok());
            // The same ends again, before the session that had them is over.
            let again = enter(first).unwrap();
            drop(entry);
            assert_eq!(enter(second).err(), Some(EntryFault::Loop));
            drop(again);
            assert!(own.connections.lock().is_empty());
        }
    }

    #[test]
    fn full_table_takes_no_connection() {
        let own = OwnAddresses::default();
        let entries: Vec<_> = (0..CONNECTIONS_MAX)
            .map(|number| {
                let sender = SocketAddr::from((std::net::Ipv4Addr::from(number as u32), 1));
                own.enter(sender, address("192.0.2.1:80"), ConnectionSide::Accepted).unwrap()
            })
            .collect();
        let one_more = || own.enter(address("10.0.0.1:1"), address("10.0.0.2:1"), ConnectionSide::Opened);
        assert_eq!(one_more().err(), Some(EntryFault::Full));
        drop(entries);
        assert!(one_more().is_ok());
    }

    #[cfg(not(feature = "simulation"))]
    #[test]
    fn listeners_are_found_by_address_and_port() {
        let own = OwnAddresses::default();
        own.set_proxy(vec![address("127.0.0.1:9100"), address("0.0.0.0:9200"), address("[::]:9300")]);
        own.set_others(vec![address("127.0.0.1:9180")]);
        let cases = [
            ("127.0.0.1:9100", Some("127.0.0.1:9100")),
            ("127.0.0.2:9100", None),
            ("127.0.0.2:9200", Some("0.0.0.0:9200")),
            ("[::ffff:127.0.0.1]:9200", Some("0.0.0.0:9200")),
            ("192.0.2.1:9200", None),
            ("[::1]:9200", None),
            ("[::1]:9300", Some("[::]:9300")),
            ("127.0.0.1:9180", Some("127.0.0.1:9180")),
            ("127.0.0.1:9181", None),
        ];
        for (destination, expected) in cases {
            assert_eq!(own.listener_at(address(destination)), expected.map(address), "{destination}");
        }
    }
}
