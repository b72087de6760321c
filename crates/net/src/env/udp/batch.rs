//! Datagrams between a receive and a send: a worker receives into the slots of its batch, and everything in
//! them is passed on or dropped before the next receive, so that no datagram waits in a queue of the gateway.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use super::raw::{Messages, OutgoingDatagram};

/// Slots of a batch. More save little: at 64 the cost of the system call is a sixtieth of a datagram's.
pub const SLOTS: usize = 64;
/// Bytes of a slot: the longest datagram, or the most that the kernel puts together. The odd rest keeps the
/// beginnings of slots, which alone are used by short datagrams, from falling into the same lines of a cache.
const SLOT_BYTES: usize = 64 * 1_024 + 320;

/// Datagrams in the slots of a batch, next to each other from one sender if the kernel has put several
/// together.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    slot: usize,
    length: usize,
    /// Bytes of each but the last, where there are several; else 0.
    pub segment_bytes: u16,
    /// The client.
    pub client: SocketAddr,
    /// The address of this host that the client sent it to, where the socket has several.
    pub local: Option<IpAddr>,
}

/// Datagrams that were received of a node in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Slots that it filled.
    pub slots: usize,
    /// Datagrams, of which a slot may have several.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Datagram {
    /// How many datagrams it is.
    pub fn count(&self) -> u64 {
        match self.segment_bytes {
            0 => 1,
            segment => self.length.div_ceil(usize::from(segment)) as u64,
        }
    }
}

/// See the module. Its memory is touched only as far as datagrams are long.
pub struct DatagramBatch {
    room: Box<[u8]>,
    messages: Box<Messages<SLOTS>>,
    datagrams: Vec<Datagram>,
    /// Slots in use: the datagrams, and those that were cut.
    used: usize,
}

impl std::fmt::Debug for DatagramBatch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Batch").field("datagrams", &self.datagrams).finish_non_exhaustive()
    }
}

impl Default for DatagramBatch {
    fn default() -> DatagramBatch {
        DatagramBatch {
            room: vec![0; SLOTS * SLOT_BYTES].into_boxed_slice(),
            messages: Messages::new(),
            datagrams: Vec::with_capacity(SLOTS),
            used: 0,
        }
    }
}

impl DatagramBatch {
    /// Whether it has no datagram.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// How many slots are free.
    pub fn free(&self) -> usize {
        SLOTS - self.used
    }

    /// The datagrams.
    pub fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }

    /// The bytes of one of its datagrams.
    pub fn bytes(&self, datagram: &Datagram) -> &[u8] {
        let start = datagram.slot * SLOT_BYTES;
        &self.room[start..start + datagram.length]
    }

    /// Forgets its datagrams.
    pub fn clear(&mut self) {
        self.datagrams.clear();
        self.used = 0;
    }

    /// Receives from clients into free slots; whether more may have arrived.
    pub(super) fn receive_from_clients(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        let (first, free) = (self.used, self.free());
        let got = self.receive(socket, free, true)?;
        for index in 0..got {
            let received = self.messages.received(index);
            let Some(client) = received.peer.filter(|peer| !received.is_cut && peer.port() != 0) else {
                // Port 0 cannot be answered.
                continue;
            };
            self.datagrams.push(Datagram {
                slot: first + index,
                length: received.length,
                segment_bytes: received.segment_bytes,
                client,
                local: received.local,
            });
        }
        self.used = first + got;
        Ok(got == free)
    }

    /// Receives datagrams of a node into at most `most` free slots, as answers for `client`.
    pub(super) fn receive_of_node(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
        client: SocketAddr,
        local: Option<IpAddr>,
    ) -> io::Result<ReceiveCounts> {
        let first = self.used;
        let got = self.receive(socket, most.min(self.free()), false)?;
        let mut answers = ReceiveCounts { slots: got, ..ReceiveCounts::default() };
        for index in 0..got {
            let received = self.messages.received(index);
            if !received.is_cut {
                let (length, segment_bytes) = (received.length, received.segment_bytes);
                let datagram = Datagram { slot: first + index, length, segment_bytes, client, local };
                answers.datagrams += datagram.count();
                answers.bytes += length as u64;
                self.datagrams.push(datagram);
            }
        }
        self.used = first + got;
        Ok(answers)
    }

    fn receive(&mut self, socket: BorrowedFd<'_>, most: usize, wants_peers: bool) -> io::Result<usize> {
        let slots = self.room.chunks_exact_mut(SLOT_BYTES).skip(self.used).take(most);
        self.messages.receive(socket, slots, wants_peers)
    }

    /// Sends its datagrams to their clients and forgets them. `failed` is told of each that the kernel has
    /// refused.
    pub(super) fn send_to_clients(&mut self, socket: BorrowedFd<'_>, mut failed: impl FnMut(&io::Error)) {
        let mut next = 0;
        while next < self.datagrams.len() {
            let rest = &self.datagrams[next..];
            let room = &self.room;
            let outgoing = rest.iter().map(|one| OutgoingDatagram {
                bytes: &room[one.slot * SLOT_BYTES..one.slot * SLOT_BYTES + one.length],
                segment_bytes: one.segment_bytes,
                peer: Some(one.client),
                local: one.local,
            });
            match self.messages.send(socket, outgoing) {
                Ok(count) => next += count.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if rest[0].segment_bytes > 0 => {
                    let one = rest[0];
                    self.send_segments(socket, &one, &mut failed);
                    next += 1;
                }
                Err(error) => {
                    failed(&error);
                    next += 1;
                }
            }
        }
        self.clear();
    }

    /// Sends what the kernel would not cut as single datagrams, for instance because a segment is longer than
    /// the way to this client takes at once.
    fn send_segments(&mut self, socket: BorrowedFd<'_>, one: &Datagram, failed: &mut impl FnMut(&io::Error)) {
        let start = one.slot * SLOT_BYTES;
        for bytes in self.room[start..start + one.length].chunks(usize::from(one.segment_bytes)) {
            let outgoing =
                OutgoingDatagram { bytes, segment_bytes: 0, peer: Some(one.client), local: one.local };
            if let Err(error) = self.messages.send(socket, std::iter::once(outgoing)) {
                failed(&error);
            }
        }
    }
}
