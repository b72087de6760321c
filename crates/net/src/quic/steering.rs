//! Passes datagrams to the socket of their connection: the kernel chooses among the sockets of an address by
//! the client's address, which a migration changes. Each socket has a bounded inbox; a predecessor process
//! has a Unix socket. It reads no packet beyond the connection identifier.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use quinn::udp::{EcnCodepoint, RecvMeta};

use super::connection_id::{PlaceKey, SocketLocation};
use super::line::UpgradeLine;
use super::secret::QuicSecret;

/// Datagrams that wait for one socket, at most: more than a worker takes in one turn. Later ones are dropped,
/// as the kernel drops those of a full socket, and QUIC sends them again.
const INBOX_DATAGRAMS: usize = 512;

/// A datagram on its way to another socket, or several of the same size.
#[derive(Debug)]
pub(super) struct SteeredDatagram {
    pub(super) source: SocketAddr,
    pub(super) destination: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) stride: usize,
    pub(super) bytes: Box<[u8]>,
}

impl SteeredDatagram {
    pub(super) fn new(meta: &RecvMeta, bytes: &[u8]) -> SteeredDatagram {
        SteeredDatagram {
            source: meta.addr,
            destination: meta.dst_ip,
            ecn: meta.ecn,
            stride: meta.stride,
            bytes: bytes.into(),
        }
    }

    /// Writes it into a buffer of the receiver; false if it does not fit.
    pub(super) fn put(&self, room: &mut [u8], meta: &mut RecvMeta) -> bool {
        let Some(room) = room.get_mut(..self.bytes.len()) else { return false };
        room.copy_from_slice(&self.bytes);
        *meta = RecvMeta::default();
        meta.addr = self.source;
        meta.dst_ip = self.destination;
        meta.ecn = self.ecn;
        meta.stride = self.stride;
        meta.len = self.bytes.len();
        true
    }
}

/// The datagrams for one socket.
#[derive(Debug, Default)]
struct Inbox {
    waiting: VecDeque<SteeredDatagram>,
    task: Option<Waker>,
}

/// The inboxes of a listener's sockets.
#[derive(Debug)]
pub struct Steering {
    pub(super) key: Arc<PlaceKey>,
    generation: u16,
    inboxes: Vec<Mutex<Inbox>>,
    /// The listener's address, by which the process before knows it.
    address: SocketAddr,
    predecessor: Option<Arc<UpgradeLine>>,
}

impl Steering {
    /// For so many sockets of the process with this generation. More than 256 sockets share the numbers, so
    /// that a migrated connection on one of them is lost.
    pub(super) fn new(
        secret: &QuicSecret,
        generation: u16,
        sockets: usize,
        address: SocketAddr,
        predecessor: Option<Arc<UpgradeLine>>,
    ) -> Arc<Steering> {
        let inboxes = (0..sockets.clamp(1, usize::from(u8::MAX) + 1)).map(|_| Mutex::default()).collect();
        let key = Arc::new(PlaceKey::new(&secret.connection_id_key()));
        Arc::new(Steering { key, generation, inboxes, address, predecessor })
    }

    /// The place of a socket.
    pub(super) fn place(&self, socket: usize) -> SocketLocation {
        SocketLocation { generation: self.generation, slot: (socket % self.inboxes.len()) as u8 }
    }

    /// Where a datagram has to go that arrived at `here`; none if it is right or belongs to no connection.
    pub(super) fn elsewhere(&self, here: SocketLocation, datagram: &[u8]) -> Option<SocketLocation> {
        self.key.place_of(datagram).filter(|place| *place != here)
    }

    /// Passes a datagram on; false if it was dropped.
    pub(super) fn pass(&self, place: SocketLocation, datagram: SteeredDatagram) -> bool {
        if place.generation != self.generation {
            let line = self.predecessor.as_ref();
            return line.is_some_and(|line| line.send(self.address, place, &datagram));
        }
        let Some(inbox) = self.inboxes.get(usize::from(place.slot)) else { return false };
        let task = {
            let mut inbox = inbox.lock();
            if inbox.waiting.len() >= INBOX_DATAGRAMS {
                return false;
            }
            inbox.waiting.push_back(datagram);
            inbox.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
        true
    }

    /// The next datagram for a socket; without one, `waker` is woken when it comes.
    pub(super) fn take(&self, place: SocketLocation, waker: &Waker) -> Option<SteeredDatagram> {
        let mut inbox = self.inboxes.get(usize::from(place.slot))?.lock();
        let next = inbox.waiting.pop_front();
        if inbox.waiting.is_empty() && inbox.waiting.capacity() > INBOX_DATAGRAMS / 8 {
            inbox.waiting = VecDeque::new();
        }
        if next.is_none() {
            match &mut inbox.task {
                Some(task) => task.clone_from(waker),
                None => inbox.task = Some(waker.clone()),
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(size: usize) -> SteeredDatagram {
        let meta = RecvMeta { stride: size, ..RecvMeta::default() };
        SteeredDatagram::new(&meta, &vec![7; size])
    }

    #[test]
    fn inbox_drops_beyond_its_limit() {
        let address = "127.0.0.1:1".parse().unwrap();
        let steering = Steering::new(&QuicSecret::random().unwrap(), 3, 2, address, None);
        let (one, other) = (steering.place(0), steering.place(1));
        for _ in 0..INBOX_DATAGRAMS {
            assert!(steering.pass(other, datagram(100)));
        }
        assert!(!steering.pass(other, datagram(100)));
        assert!(!steering.pass(SocketLocation { slot: 2, ..one }, datagram(1)), "there is no such socket");
        assert!(!steering.pass(SocketLocation { generation: 2, ..one }, datagram(1)), "no such process");
        let taken = std::iter::from_fn(|| steering.take(other, Waker::noop()));
        assert_eq!(taken.count(), INBOX_DATAGRAMS);
        assert!(steering.take(one, Waker::noop()).is_none());
    }

    #[test]
    fn passed_datagram_needs_a_buffer_of_its_size() {
        let (mut meta, mut room) = (RecvMeta::default(), [0; 100]);
        assert!(!datagram(101).put(&mut room, &mut meta));
        assert!(datagram(100).put(&mut room, &mut meta));
        assert_eq!((meta.len, meta.stride, room), (100, 100, [7; 100]));
    }
}
