//! The seats of one listener: the connections that hold one, the stage of each, and the connection that gives
//! way when no seat is left. It knows no sockets: addresses and times are passed in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The stage of a connection's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeatStage {
    /// No head of a request has arrived yet, or only a part of one.
    Silent,
    /// The last request was answered; the client may send another one.
    Idle,
    /// A head has arrived; the body is awaited.
    Reading,
    /// A whole request is being answered.
    Answering,
}

/// Limits of the connections of a listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeatLimits {
    /// All connections.
    pub(super) total: usize,
    /// Connections from one source address.
    pub(super) per_address: usize,
}

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Seats {
    limits: SeatLimits,
    seats: HashMap<u64, Seat>,
    next: u64,
}

#[derive(Debug)]
struct Seat {
    source: IpAddr,
    stage: SeatStage,
    /// The begin of the stage, or the last time that the client read a part of its answer.
    since: Instant,
    /// Notified when the connection has to close.
    closing: Arc<Notify>,
}

impl Seats {
    pub(super) fn new(limits: SeatLimits) -> Seats {
        Seats { limits, seats: HashMap::new(), next: 0 }
    }

    /// A seat for a connection from `peer`. A source that has used up its share loses its own connection that
    /// has been silent longest; a full listener loses the one that has been silent longest of all. None while
    /// every candidate is being answered.
    fn take(&mut self, peer: IpAddr, now: Instant) -> Option<(u64, Arc<Notify>)> {
        let source = source(peer);
        let of_source = self.seats.values().filter(|seat| seat.source == source).count();
        let has_room = if of_source >= self.limits.per_address {
            self.close_longest_silent(|seat| seat.source == source)
        } else {
            self.seats.len() < self.limits.total || self.close_longest_silent(|_| true)
        };
        if !has_room {
            return None;
        }
        let (id, closing) = (self.next, Arc::new(Notify::new()));
        self.next += 1;
        self.seats
            .insert(id, Seat { source, stage: SeatStage::Silent, since: now, closing: Arc::clone(&closing) });
        Some((id, closing))
    }

    /// Closes the connection that has been silent longest; connections without any request go first. A
    /// request that is being answered is never cut. False if there is none to close.
    pub(super) fn make_room(&mut self) -> bool {
        self.close_longest_silent(|_| true)
    }

    fn close_longest_silent(&mut self, is_meant: impl Fn(&Seat) -> bool) -> bool {
        let candidates =
            self.seats.iter().filter(|(_, seat)| seat.stage != SeatStage::Answering && is_meant(seat));
        let longest = candidates.min_by_key(|(_, seat)| (seat.stage != SeatStage::Silent, seat.since));
        let Some(seat) = longest.map(|(id, _)| *id).and_then(|id| self.seats.remove(&id)) else {
            return false;
        };
        seat.closing.notify_one();
        true
    }

    fn note(&mut self, id: u64, stage: SeatStage, now: Instant) {
        if let Some(seat) = self.seats.get_mut(&id) {
            (seat.stage, seat.since) = (stage, now);
        }
    }

    /// Notes that the client read a part of an answer.
    fn note_progress(&mut self, id: u64, now: Instant) {
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.since = now;
        }
    }

    /// The time at which the connection is checked again; none if it has to close now.
    fn look_again_at(&self, id: u64, now: Instant) -> Option<Instant> {
        let seat = self.seats.get(&id)?;
        let (timeout, is_bounded) = match seat.stage {
            SeatStage::Silent => (FIRST_HEAD_TIMEOUT, true),
            SeatStage::Idle => (IDLE_TIMEOUT, true),
            // The body has a timeout of its own, and the time for an answer is the listener's.
            SeatStage::Reading | SeatStage::Answering => (IDLE_TIMEOUT, false),
        };
        let deadline = seat.since + timeout;
        match (deadline > now, is_bounded) {
            (true, _) => Some(deadline),
            (false, true) => None,
            (false, false) => Some(now + timeout),
        }
    }
}

/// The seat of one connection; free again when dropped.
pub(super) struct HeldSeat {
    seats: Arc<Mutex<Seats>>,
    id: u64,
    closing: Arc<Notify>,
}

impl HeldSeat {
    /// See [`Seats::take`].
    pub(super) fn take(seats: &Arc<Mutex<Seats>>, peer: IpAddr) -> Option<HeldSeat> {
        let (id, closing) = seats.lock().take(peer, Instant::now())?;
        Some(HeldSeat { seats: Arc::clone(seats), id, closing })
    }

    pub(super) fn note(&self, stage: SeatStage) {
        self.seats.lock().note(self.id, stage, Instant::now());
    }

    pub(super) fn note_progress(&self) {
        self.seats.lock().note_progress(self.id, Instant::now());
    }

    /// See [`Seats::look_again_at`].
    pub(super) fn look_again_at(&self) -> Option<Instant> {
        self.seats.lock().look_again_at(self.id, Instant::now())
    }

    /// Waits until the connection has to give way to another one.
    pub(super) async fn given_away(&self) {
        self.closing.notified().await;
    }
}

impl Drop for HeldSeat {
    fn drop(&mut self) {
        self.seats.lock().seats.remove(&self.id);
    }
}

/// The source that a share belongs to: an IPv4 address, or the 64-bit network of an IPv6 address, because an
/// IPv6 host can use all addresses of it.
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << HOST_BITS);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// Time for the first head. A client sends its request as soon as it has connected; a connection that is
/// still silent after this time only occupies a seat.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between requests, and for a client that reads nothing of its answer. Scrapers keep connections from
/// one interval to the next, which is 15 to 60 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The lower half of an IPv6 address.
const HOST_BITS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SeatLimits = SeatLimits { total: 4, per_address: 3 };

    struct Table {
        seats: Seats,
        start: Instant,
        /// In the order in which the seats were taken.
        taken: Vec<(u64, Arc<Notify>)>,
    }

    impl Table {
        fn new() -> Table {
            Table { seats: Seats::new(LIMITS), start: Instant::now(), taken: Vec::new() }
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn take(&mut self, peer: &str, second: u64) -> bool {
            let taken = self.seats.take(peer.parse().unwrap(), self.at(second));
            taken.map(|seat| self.taken.push(seat)).is_some()
        }

        fn note(&mut self, number: usize, stage: SeatStage, second: u64) {
            let at = self.at(second);
            self.seats.note(self.taken[number].0, stage, at);
        }

        /// The numbers of the connections that still have their seat.
        fn seated(&self) -> Vec<usize> {
            (0..self.taken.len())
                .filter(|number| self.seats.seats.contains_key(&self.taken[*number].0))
                .collect()
        }
    }

    #[test]
    fn longest_silent_connection_gives_way() {
        let mut table = Table::new();
        for (second, peer) in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"].into_iter().enumerate() {
            assert!(table.take(peer, second as u64));
        }
        table.note(0, SeatStage::Idle, 5);
        table.note(1, SeatStage::Answering, 5);
        assert!(table.take("10.0.0.5", 6));
        assert_eq!(table.seated(), [0, 1, 3, 4], "the oldest that never asked");
        assert!(table.take("10.0.0.6", 7) && table.take("10.0.0.7", 8));
        assert_eq!(table.seated(), [0, 1, 5, 6]);
        table.note(5, SeatStage::Reading, 9);
        table.note(6, SeatStage::Answering, 9);
        assert!(table.take("10.0.0.8", 10));
        assert_eq!(table.seated(), [1, 5, 6, 7], "then the one whose last answer is longest ago");
        table.note(5, SeatStage::Answering, 11);
        table.note(7, SeatStage::Answering, 11);
        assert!(!table.take("10.0.0.9", 12), "a request that is being answered is never cut");
        assert!(!table.seats.make_room());
        assert_eq!(table.seated(), [1, 5, 6, 7]);
    }

    #[test]
    fn one_address_has_its_share_only() {
        let mut table = Table::new();
        assert!(table.take("10.0.0.9", 0));
        for second in 1..9 {
            assert!(table.take("10.0.0.1", second));
        }
        assert_eq!(table.seated(), [0, 6, 7, 8], "its own connections give way, not those of others");
        let mut table = Table::new();
        for second in 0..8 {
            assert!(table.take(&format!("2001:db8::{second}"), second));
            assert!(table.take("::ffff:10.0.0.1", second) && table.take("10.0.0.1", second));
        }
        assert_eq!(
            table.seats.seats.len(),
            4,
            "a network of 64 bits and a mapped address are one source each"
        );
    }

    #[test]
    fn silent_and_idle_connections_time_out() {
        let mut table = Table::new();
        assert!(table.take("10.0.0.1", 0));
        let id = table.taken[0].0;
        let check = |table: &Table, now: u64, expected: Option<u64>| {
            let found = table.seats.look_again_at(id, table.at(now));
            assert_eq!(found, expected.map(|second| table.at(second)), "at {now}");
        };
        check(&table, 0, Some(10));
        check(&table, 9, Some(10));
        check(&table, 10, None);
        table.note(0, SeatStage::Reading, 10);
        check(&table, 99, Some(159));
        table.note(0, SeatStage::Answering, 20);
        check(&table, 20, Some(80));
        table.note(0, SeatStage::Idle, 30);
        check(&table, 89, Some(90));
        table.seats.note_progress(id, table.at(40));
        check(&table, 90, Some(100));
        check(&table, 100, None);
    }
}
