//! Both ends of a connection in memory and the bytes on their way, with the habits of TCP that hurt: data is
//! cut into pieces at will, an end may hear late of bytes that have arrived, a close with unread data resets,
//! and a reset may destroy unread bytes. A state machine over times that are handed in; it wakes and
//! schedules no task itself.

mod calls;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Waker;

use super::executor::TaskGroup;
use super::random::Random;

/// How the network between two places behaves.
#[derive(Clone, Debug)]
pub struct LinkBehavior {
    /// From sending to arrival, in nanoseconds, drawn for each piece; pieces never overtake each other.
    pub latency_ns: (u64, u64),
    /// Bytes that may be on their way or unread in one direction, drawn for each connection and direction.
    pub room_bytes: (u64, u64),
    /// How often a read or write moves less than it could, in percent.
    pub pieces_percent: u64,
    /// How often an end hears late of what has arrived, in percent.
    pub lag_percent: u64,
    /// Connections that are reset by the network, in percent.
    pub reset_percent: u64,
    /// Connections on which nothing arrives for a time, in percent.
    pub stall_percent: u64,
    /// How long that lasts, in nanoseconds.
    pub stall_ns: (u64, u64),
    /// Attempts to connect that are refused although a listener is there, in percent.
    pub refuse_percent: u64,
    /// Attempts to connect that are never answered, in percent.
    pub hang_percent: u64,
    /// Whether the far side of a reset sees an orderly end, as no network should have it; for tests of tests.
    pub softens_resets: bool,
    /// Whether every close resets; for tests of tests as well.
    pub hardens_closes: bool,
    /// When in a connection's life harm comes to it at the latest, in nanoseconds.
    pub harm_within_ns: u64,
}

impl Default for LinkBehavior {
    /// Quick, roomy and faultless.
    fn default() -> LinkBehavior {
        LinkBehavior {
            latency_ns: (10_000, 200_000),
            room_bytes: (64 * 1024, 64 * 1024),
            pieces_percent: 0,
            lag_percent: 0,
            reset_percent: 0,
            stall_percent: 0,
            stall_ns: (0, 0),
            refuse_percent: 0,
            hang_percent: 0,
            softens_resets: false,
            hardens_closes: false,
            harm_within_ns: 2_000_000_000,
        }
    }
}

/// The most an end hears late, in nanoseconds.
const LAG_NS_MAX: u64 = 300_000;

/// Something on its way to an end.
enum Flight {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

struct MemoryConnectionEnd {
    address: SocketAddr,
    owner: TaskGroup,
    room_bytes: usize,
    /// Bytes on their way here, by time of arrival.
    flying: VecDeque<(u64, Flight)>,
    flying_bytes: usize,
    last_arrival_ns: u64,
    /// Bytes that have arrived and were not read.
    received: VecDeque<u8>,
    finished: bool,
    reset: bool,
    /// The reset was reported as an error; from then on reads find the end.
    reset_reported: bool,
    /// Whether this end's event loop believes that there is something to read.
    readable: bool,
    /// When it will hear of what has arrived.
    notice_ns: Option<u64>,
    read_waker: Option<Waker>,
    /// When a writer that had to wait may go on.
    writable_ns: Option<u64>,
    write_waker: Option<Waker>,
    shut: bool,
    closed: bool,
    resets_on_close: bool,
}

impl MemoryConnectionEnd {
    fn new(address: SocketAddr, owner: TaskGroup, room_bytes: u64) -> MemoryConnectionEnd {
        MemoryConnectionEnd {
            address,
            owner,
            room_bytes: room_bytes as usize,
            flying: VecDeque::new(),
            flying_bytes: 0,
            last_arrival_ns: 0,
            received: VecDeque::new(),
            finished: false,
            reset: false,
            reset_reported: false,
            readable: false,
            notice_ns: None,
            read_waker: None,
            writable_ns: None,
            write_waker: None,
            shut: false,
            closed: false,
            resets_on_close: false,
        }
    }

    fn room(&self) -> usize {
        self.room_bytes.saturating_sub(self.flying_bytes + self.received.len())
    }

    /// Everything that is or will be of interest has been seen.
    fn at_end(&self) -> bool {
        self.finished || self.reset
    }

    fn next_ns(&self) -> Option<u64> {
        let arrival = self.flying.front().map(|(time_ns, _)| *time_ns);
        [arrival, self.notice_ns, self.writable_ns].into_iter().flatten().min()
    }
}

/// See the module.
pub(super) struct MemoryConnection {
    pub(super) id: u64,
    random: Random,
    link: LinkBehavior,
    ends: [MemoryConnectionEnd; 2],
    /// Nothing arrives between these times.
    stall_ns: (u64, u64),
    /// Until when an event of each end is already scheduled.
    pub(super) scheduled_ns: [Option<u64>; 2],
    harmed: bool,
}

impl MemoryConnection {
    /// A connection from `addresses[0]`, which asked for it, to `addresses[1]`.
    pub(super) fn new(
        id: u64,
        mut random: Random,
        link: LinkBehavior,
        addresses: [SocketAddr; 2],
        owners: [TaskGroup; 2],
    ) -> MemoryConnection {
        let mut room = || random.between(link.room_bytes.0, link.room_bytes.1);
        let rooms = [room(), room()];
        let mut ends = [
            MemoryConnectionEnd::new(addresses[0], owners[0], rooms[0]),
            MemoryConnectionEnd::new(addresses[1], owners[1], rooms[1]),
        ];
        // An event loop may take a fresh socket for readable.
        ends[1].readable = random.chance(50);
        MemoryConnection {
            id,
            random,
            link,
            ends,
            stall_ns: (u64::MAX, u64::MAX),
            scheduled_ns: [None; 2],
            harmed: false,
        }
    }

    pub(super) fn address(&self, end: usize) -> SocketAddr {
        self.ends[end].address
    }

    pub(super) fn owner(&self, end: usize) -> TaskGroup {
        self.ends[end].owner
    }

    pub(super) fn set_owner(&mut self, end: usize, owner: TaskGroup) {
        self.ends[end].owner = owner;
    }

    /// Bytes on their way from `end` to the other.
    pub(super) fn flying_from(&self, end: usize) -> u64 {
        self.ends[1 - end].flying_bytes as u64
    }

    /// Whether the network did it harm.
    pub(super) fn is_harmed(&self) -> bool {
        self.harmed
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.closed || end.reset)
    }

    /// Nothing arrives from `from_ns` to `until_ns`.
    pub(super) fn stall(&mut self, from_ns: u64, until_ns: u64) {
        self.harmed = true;
        self.stall_ns = (from_ns, until_ns);
    }

    /// The network resets both ends.
    pub(super) fn break_now(&mut self, wakers: &mut Vec<Waker>) {
        self.harmed = true;
        for end in 0..2 {
            self.ends[end].flying.clear();
            self.ends[end].flying_bytes = 0;
            self.take_reset(end, wakers);
        }
    }

    /// When something next happens at `end` by itself.
    pub(super) fn next_ns(&self, end: usize) -> Option<u64> {
        self.ends[end].next_ns()
    }

    /// Lets happen at `end` what is due.
    pub(super) fn advance(&mut self, end: usize, now_ns: u64, wakers: &mut Vec<Waker>) {
        while self.ends[end].flying.front().is_some_and(|(time_ns, _)| *time_ns <= now_ns) {
            let (_, flight) = self.ends[end].flying.pop_front().expect("looked at above");
            match flight {
                Flight::Bytes(bytes) => {
                    self.ends[end].flying_bytes -= bytes.len();
                    if self.ends[end].closed {
                        // The receiver has closed: the sender gets a reset.
                        self.send(1 - end, Flight::Reset, now_ns);
                    } else if !self.ends[end].at_end() {
                        self.ends[end].received.extend(bytes);
                        self.notice(end, now_ns);
                    }
                }
                Flight::Fin => {
                    self.ends[end].finished = true;
                    self.notice(end, now_ns);
                }
                Flight::Reset => {
                    self.ends[end].flying.clear();
                    self.ends[end].flying_bytes = 0;
                    self.take_reset(end, wakers);
                }
            }
        }
        let this = &mut self.ends[end];
        if this.notice_ns.is_some_and(|time_ns| time_ns <= now_ns) {
            this.notice_ns = None;
            this.readable = true;
            wakers.extend(this.read_waker.take());
        }
        if this.writable_ns.is_some_and(|time_ns| time_ns <= now_ns) {
            this.writable_ns = None;
            wakers.extend(this.write_waker.take());
        }
    }

    fn notice(&mut self, end: usize, now_ns: u64) {
        let lag_ns =
            if self.random.chance(self.link.lag_percent) { self.random.below(LAG_NS_MAX) } else { 0 };
        let this = &mut self.ends[end];
        // The loop hears of everything that has arrived at once.
        this.notice_ns = Some(this.notice_ns.unwrap_or(u64::MAX).min(now_ns + lag_ns));
    }

    fn take_reset(&mut self, end: usize, wakers: &mut Vec<Waker>) {
        let discards = self.random.chance(50);
        let this = &mut self.ends[end];
        if this.closed || this.reset {
            return;
        }
        this.reset = true;
        this.readable = true;
        if discards {
            this.received.clear();
        }
        wakers.extend(this.read_waker.take());
        wakers.extend(this.write_waker.take());
    }

    /// Sends `flight` to `end`, behind what is already on its way there.
    fn send(&mut self, end: usize, flight: Flight, now_ns: u64) {
        if self.ends[end].closed && matches!(flight, Flight::Reset) {
            return;
        }
        let soft = self.link.softens_resets && matches!(flight, Flight::Reset);
        let flight = if soft { Flight::Fin } else { flight };
        let mut arrival_ns = now_ns + self.random.between(self.link.latency_ns.0, self.link.latency_ns.1);
        if (self.stall_ns.0..self.stall_ns.1).contains(&arrival_ns) {
            arrival_ns = self.stall_ns.1;
        }
        let this = &mut self.ends[end];
        arrival_ns = arrival_ns.max(this.last_arrival_ns);
        this.last_arrival_ns = arrival_ns;
        if let Flight::Bytes(bytes) = &flight {
            this.flying_bytes += bytes.len();
        }
        this.flying.push_back((arrival_ns, flight));
    }
}
