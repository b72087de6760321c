//! Clients that hold a connection and hardly use it: heads and bodies sent by the byte, responses read by a
//! few bytes, and idle connections. One thread holds thousands. A client that is cut reconnects.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use peer::Fault;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use socket2::SockRef;

use super::connection::{LoadJob, nanoseconds};
use super::expect::{BodyComparison, ComparisonResult};
use super::reading::ResponseParser;
use super::schedule::LoadSchedule;
use super::tally::{FailureKind, RunFacts, Tally};
use super::{LoadPlan, race::cpu_time, socket};
use crate::result::LoadOutcome;

/// The behaviour of these clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Habit {
    /// They send one request and keep the connection.
    Idle,
    /// They send a request's head by the byte.
    Heads {
        /// Interval between two bytes of each client.
        every: Duration,
    },
    /// They send a request's body by the byte.
    Bodies {
        /// Interval between two bytes of each client.
        every: Duration,
    },
    /// They read a response by eight bytes.
    Readers {
        /// Interval between two reads of each client.
        every: Duration,
    },
}

/// All clients of one thread.
pub(super) struct Crowd<'a> {
    job: &'a LoadJob,
    habit: Habit,
    /// Bytes that are sent quickly, before the slow part; `slow` is the slow part.
    quick: Vec<u8>,
    slow: Vec<u8>,
    failing_one_in: u32,
    epoll: OwnedFd,
    ramp_up: Duration,
    clients: Vec<CrowdClient>,
    turns: Option<Turns>,
    /// Index of the client with the next turn.
    turned: usize,
    turns_taken: u64,
    /// Number of clients that have left so far.
    left: u64,
    clock: Instant,
    tally: Tally,
    buffer: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
struct CrowdClient {
    socket: Option<OwnedFd>,
    stage: CrowdStage,
    /// When its stage began, or when a client that is away reconnects.
    since_ns: u64,
    /// Bytes sent of `quick` and `slow` together.
    sent: usize,
    reading: ResponseParser,
    comparison: BodyComparison,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrowdStage {
    /// Not connected yet.
    New,
    Connecting,
    Open,
    /// Waits before it reconnects.
    Away,
}

impl<'a> Crowd<'a> {
    pub(super) fn new(job: &'a LoadJob, habit: Habit, plan: &LoadPlan) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll instance to be had")?;
        let (quick, slow) = said(job, habit);
        let client = || CrowdClient {
            socket: None,
            stage: CrowdStage::New,
            since_ns: 0,
            sent: 0,
            reading: ResponseParser::default(),
            comparison: BodyComparison::default(),
        };
        let turns = habit.every().map(|every| {
            // Each client has its turn once in that time, one after another.
            let rate = f64::from(plan.connections) / every.as_secs_f64().max(SHORTEST_TURN_SECONDS);
            Turns::new(rate)
        });
        Ok(Self {
            job,
            habit,
            quick,
            slow,
            failing_one_in: plan.expect.failing_one_in,
            epoll,
            ramp_up: plan.ramp_up,
            clients: (0..plan.connections).map(|_| client()).collect(),
            turns,
            turned: 0,
            turns_taken: 0,
            left: 0,
            clock: Instant::now(),
            tally: Tally::new(0.0),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Runs until `stop` or for `seconds` after the moment when all clients are connected, which calls
    /// `ready`.
    pub(super) fn run(
        mut self,
        seconds: Option<Duration>,
        stop: &AtomicBool,
        ready: impl FnOnce(),
    ) -> anyhow::Result<LoadOutcome> {
        let (cpu_before, mut ready, mut end) = (cpu_time(), Some(ready), None);
        let (mut events, mut next_sweep_ns) = (Vec::with_capacity(EVENTS), 0);
        while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            let now_ns = nanoseconds(&self.clock);
            if now_ns >= next_sweep_ns {
                self.sweep(now_ns);
                next_sweep_ns = now_ns + SWEEP_NS;
            }
            self.take_turns(now_ns);
            let is_gathered =
                self.clients.iter().all(|client| matches!(client.stage, CrowdStage::Open | CrowdStage::Away));
            if is_gathered && let Some(ready) = ready.take() {
                ready();
                end = seconds.map(|seconds| Instant::now() + seconds);
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&TICK)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for events failed"),
            }
            for event in &events {
                self.event(event.data.u64() as usize, event.flags);
            }
        }
        let open = self.clients.iter().filter(|client| client.stage == CrowdStage::Open).count();
        let run = RunFacts {
            asked: self.clock.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_before),
            from_due_time: false,
            failing_one_in: self.failing_one_in,
        };
        let all = self.clients.len();
        let mut outcome = self.tally.outcome(&run);
        let turns = self.turns_taken;
        outcome
            .notes
            .insert(0, format!("{open} of {all} connections stood at the end; {turns} turns were taken"));
        Ok(outcome)
    }

    /// Opens new clients, a few at a time, and those that have been away long enough; gives up connections
    /// that are not established in time.
    fn sweep(&mut self, now_ns: u64) {
        let under_way = self.clients.iter().filter(|client| client.stage == CrowdStage::Connecting).count();
        let mut room = CONNECTING_AT_ONCE.saturating_sub(under_way);
        let invited = invited(self.clients.len(), self.ramp_up, now_ns);
        for number in 0..self.clients.len() {
            let lasted_ns = now_ns.saturating_sub(self.clients[number].since_ns);
            match self.clients[number].stage {
                CrowdStage::Connecting if lasted_ns > CONNECTING_NS => {
                    self.cut(number, FailureKind::Connect, "no connection was made in time".to_owned());
                }
                CrowdStage::New if room > 0 && number < invited => {
                    room -= 1;
                    self.open(number);
                }
                CrowdStage::Away if room > 0 && now_ns >= self.clients[number].since_ns => {
                    room -= 1;
                    self.open(number);
                }
                _ => {}
            }
        }
    }

    fn open(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.since_ns = nanoseconds(&self.clock);
        match connect(self.job, self.habit, &self.epoll, number) {
            Ok(socket) => {
                client.socket = Some(socket);
                client.stage = CrowdStage::Connecting;
                client.restart(self.job);
            }
            Err(error) => self.cut(number, FailureKind::Connect, socket::cannot_connect(error)),
        }
    }

    /// Counts a failure; the client reconnects.
    fn cut(&mut self, number: usize, kind: FailureKind, words: String) {
        self.tally.fail(kind, || words);
        self.leave(number);
    }

    fn leave(&mut self, number: usize) {
        let client = &mut self.clients[number];
        (client.socket, client.stage) = (None, CrowdStage::Away);
        client.since_ns = nanoseconds(&self.clock) + away_ns(self.left);
        self.left += 1;
    }

    /// Lets the clients with a due turn send or read their few bytes.
    fn take_turns(&mut self, now_ns: u64) {
        let Some(turns) = &mut self.turns else { return };
        for _ in 0..turns.due(now_ns) {
            let number = self.turned;
            self.turned = (self.turned + 1) % self.clients.len();
            if self.clients[number].stage != CrowdStage::Open {
                continue;
            }
            self.turns_taken += 1;
            if let Habit::Readers { .. } = self.habit {
                self.read(number, READ_BYTES);
            } else {
                self.send(number, 1);
            }
        }
    }

    fn event(&mut self, number: usize, flags: EventFlags) {
        match self.clients[number].stage {
            CrowdStage::New | CrowdStage::Away => {}
            CrowdStage::Connecting => {
                let Some(socket) = &self.clients[number].socket else { return };
                if let Err(error) = socket::connected(socket) {
                    return self.cut(number, FailureKind::Connect, socket::cannot_connect(error));
                }
                self.clients[number].stage = CrowdStage::Open;
                self.send(number, 0);
            }
            // Bytes are read in the client's turn, but a broken connection is noticed at once.
            CrowdStage::Open if matches!(self.habit, Habit::Readers { .. }) => {
                if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                    self.cut(number, FailureKind::Broken, "a slow reader was cut".to_owned());
                }
            }
            CrowdStage::Open => while self.read(number, BUFFER_BYTES) {},
        }
    }

    /// Sends the rest of the quick part, and `slowly` bytes of the slow part.
    fn send(&mut self, number: usize, slowly: usize) {
        let client = &mut self.clients[number];
        let Some(socket) = &client.socket else { return };
        while client.sent < self.quick.len() {
            match socket::send_bytes(socket, &self.quick[client.sent..]) {
                Ok(0) => return,
                Ok(bytes) => client.sent += bytes,
                Err(error) => return self.broke(number, error),
            }
        }
        let at = client.sent - self.quick.len();
        let rest = &self.slow[at.min(self.slow.len())..];
        if slowly > 0 && !rest.is_empty() {
            match socket::send_bytes(socket, &rest[..slowly.min(rest.len())]) {
                Ok(bytes) => client.sent += bytes,
                Err(error) => self.broke(number, error),
            }
        }
    }

    fn broke(&mut self, number: usize, error: Errno) {
        self.cut(
            number,
            FailureKind::Broken,
            format!("a connection was cut: {}", std::io::Error::from(error)),
        );
    }

    /// Reads once, at most `most` bytes; returns whether more may be readable.
    fn read(&mut self, number: usize, most: usize) -> bool {
        let client = &mut self.clients[number];
        let Some(socket) = &client.socket else { return false };
        let bytes = match socket::receive(socket, &mut self.buffer[..most]) {
            Ok(None) => return false,
            Ok(Some(0)) => {
                self.cut(number, FailureKind::Broken, "the server closed the connection".to_owned());
                return false;
            }
            Ok(Some(bytes)) => bytes,
            Err(error) => {
                self.broke(number, error);
                return false;
            }
        };
        self.tally.read(bytes);
        let CrowdClient { reading, comparison, .. } = client;
        let measure = &self.job.measure;
        let taken =
            reading.take(&self.buffer[..bytes], |status, piece| comparison.take(measure, status, piece));
        match taken {
            Err(Fault(fault)) => {
                self.cut(number, FailureKind::Content, format!("an answer is no HTTP: {fault}"));
                false
            }
            Ok(_) if self.clients[number].reading.is_whole() => {
                self.answered(number);
                true
            }
            Ok(_) => true,
        }
    }

    /// Handles a complete response. Idle clients stay; others begin again.
    fn answered(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let now_ns = nanoseconds(&self.clock);
        let verdict = client.comparison.end(&self.job.measure, client.reading.status);
        self.tally.answer(now_ns, now_ns.saturating_sub(client.since_ns), &verdict);
        client.since_ns = now_ns;
        if !client.reading.keeps || matches!(verdict, ComparisonResult::Status(_)) {
            self.leave(number);
        } else if self.habit == Habit::Idle {
            client.reading.begin();
            client.comparison.begin(&self.job.measure);
        } else {
            client.restart(self.job);
            self.send(number, 0);
        }
    }
}

/// The schedule of turns.
struct Turns {
    schedule: LoadSchedule,
    asked_ns: u64,
}

impl Turns {
    /// A schedule with this many turns per second.
    fn new(rate: f64) -> Self {
        Self { schedule: LoadSchedule::new(rate, 0, 1, u64::MAX, u64::MAX), asked_ns: 0 }
    }

    /// How many turns have become due since the last call. Turns missed while this process was stopped are
    /// left out, because slow clients that catch up would be quick ones.
    fn due(&mut self, now_ns: u64) -> usize {
        let stood_still = now_ns.saturating_sub(self.asked_ns) > STANDSTILL_NS;
        self.asked_ns = now_ns;
        self.schedule.advance(now_ns);
        let due = std::iter::from_fn(|| self.schedule.take()).count();
        if stood_still { due.min(1) } else { due }
    }
}

impl CrowdClient {
    /// Resets the client before a request's first byte.
    fn restart(&mut self, job: &LoadJob) {
        self.sent = 0;
        self.reading.begin();
        self.comparison.begin(&job.measure);
    }
}

impl Habit {
    fn every(self) -> Option<Duration> {
        match self {
            Habit::Idle => None,
            Habit::Heads { every } | Habit::Bodies { every } | Habit::Readers { every } => Some(every),
        }
    }
}

/// The quick and the slow part of a client's bytes.
fn said(job: &LoadJob, habit: Habit) -> (Vec<u8>, Vec<u8>) {
    let head_bytes = memchr::memmem::find(&job.request, b"\r\n\r\n").map_or(0, |at| at + 2);
    match habit {
        Habit::Idle | Habit::Readers { .. } => (job.request.clone(), Vec::new()),
        // A long field makes the head last.
        Habit::Heads { .. } => {
            let (head, rest) = job.request.split_at(head_bytes);
            let padding = format!("X-Slow: {}\r\n", "s".repeat(PADDING_BYTES));
            (Vec::new(), [head, padding.as_bytes(), rest].concat())
        }
        Habit::Bodies { .. } => {
            let (head, body) = job.request.split_at(head_bytes + 2);
            (head.to_vec(), body.to_vec())
        }
    }
}

/// How long the client that leaves as number `number` stays away: clients that are cut together reconnect one
/// by one, evenly, because multiples of the golden ratio are spread evenly.
fn away_ns(number: u64) -> u64 {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let share = number.wrapping_mul(GOLDEN) >> 32;
    SHORTEST_AWAY_NS + ((AWAY_SPREAD_NS * share) >> 32)
}

/// How many of all clients have arrived by now, if they arrive one by one over the ramp.
fn invited(all: usize, ramp_up: Duration, now_ns: u64) -> usize {
    let ramp_ns = ramp_up.as_nanos().max(1);
    (all as u128 * u128::from(now_ns) / ramp_ns).min(all as u128) as usize
}

/// Opens a connection. A reader's has the segments of a network and a small buffer, so that a large response
/// does not fit into this side's kernel and the server sees a slow reader.
fn connect(job: &LoadJob, habit: Habit, epoll: &OwnedFd, number: usize) -> Result<OwnedFd, Errno> {
    let socket = socket::open_socket(job.target.address)?;
    if matches!(habit, Habit::Readers { .. }) {
        sockopt::set_socket_recv_buffer_size(&socket, READER_BUFFER_BYTES)?;
        // If this fails, the reader is only a little less slow.
        let _ = SockRef::from(&socket).set_tcp_mss(SEGMENT_BYTES);
    }
    socket::begin(&socket, job.target.address)?;
    socket::watch(&socket, epoll, number as u64)?;
    Ok(socket)
}

const BUFFER_BYTES: usize = 16 * 1024;
const EVENTS: usize = 256;
/// The precision of turns. A timer for each would cost more; a much coarser one would make bursts, which
/// independent clients do not make.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Far beyond a [`TICK`]: this process was stopped, or it got no processor.
const STANDSTILL_NS: u64 = 100_000_000;
const SWEEP_NS: u64 = 20_000_000;
/// Most connections being opened at once, because the queue of a listener holds these.
const CONNECTING_AT_ONCE: usize = 200;
const CONNECTING_NS: u64 = 5_000_000_000;
/// Shortest time before a client that was cut reconnects; the next constant is how much longer some wait,
/// because clients that are cut and reconnect together would be a burst for ever.
const SHORTEST_AWAY_NS: u64 = 200_000_000;
const AWAY_SPREAD_NS: u64 = 1_000_000_000;
/// Bytes that a reader reads in a turn.
const READ_BYTES: usize = 8;
const READER_BUFFER_BYTES: usize = 4096;
const SEGMENT_BYTES: u32 = 1460;
/// Length of a slow head's field.
const PADDING_BYTES: usize = 1000;
/// A thread can give this many turns; with a shorter interval, slow clients would be quick ones.
const SHORTEST_TURN_SECONDS: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_missed_in_standstill_are_left_out() {
        let mut turns = Turns::new(1000.0);
        for (now_ms, wanted) in [(0, 1), (5, 5), (105, 100), (106, 1), (1106, 1), (1111, 5), (1111, 0)] {
            assert_eq!(turns.due(now_ms * 1_000_000), wanted, "at {now_ms} ms");
        }
    }

    #[test]
    fn clients_cut_together_reconnect_evenly() {
        let mut times: Vec<u64> = (1_000..1_100).map(away_ns).collect();
        times.sort_unstable();
        let most = SHORTEST_AWAY_NS + AWAY_SPREAD_NS;
        assert!(times.iter().all(|time| (SHORTEST_AWAY_NS..most).contains(time)), "{times:?}");
        let widest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(AWAY_SPREAD_NS / 40), "{widest:?}");
    }

    #[test]
    fn all_come_one_by_one_or_at_once() {
        for (ramp_ms, now_ms, wanted) in
            [(0, 1, 40), (1000, 0, 0), (1000, 500, 20), (1000, 1000, 40), (1000, 9000, 40)]
        {
            assert_eq!(
                invited(40, Duration::from_millis(ramp_ms), now_ms * 1_000_000),
                wanted,
                "{ramp_ms} {now_ms}"
            );
        }
    }
}
