//! One thread of the load generator: connections on one epoll instance, and the loop that gives them
//! requests, by the responses (closed loop) or by the clock (open loop). The connections know the bytes to
//! send and the expected responses.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;

use super::connection::{ConnectionPhase, EventOutcome, LoadConnection, LoadJob, nanoseconds};
use super::schedule::LoadSchedule;
use super::tally::{FailureKind, Tally};
use super::timer::Timer;

/// The state of one thread of the load generator.
pub(super) struct LoadThread<'a> {
    job: &'a LoadJob,
    limits: LoadLimits,
    source: RequestSource,
    epoll: OwnedFd,
    timer: Option<Timer>,
    connections: Vec<LoadConnection>,
    /// Connections without a request, the one that waits longest first. Some may be closed.
    free: VecDeque<usize>,
    in_flight: usize,
    /// Whether the run has begun; before that, connections are only opened.
    begun: bool,
    clock: Instant,
    tally: Tally,
    buffer: Vec<u8>,
}

/// Limits of one thread's run.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadLimits {
    pub(super) connections: usize,
    /// Time until which requests are sent; nanoseconds since the beginning.
    pub(super) end_ns: u64,
    /// Limit for connecting, and for each request.
    pub(super) timeout_ns: u64,
}

/// The source of requests.
#[derive(Debug)]
pub(super) enum RequestSource {
    /// This many requests, each as soon as a connection is free.
    Closed { left: u64 },
    /// Requests at the times when they are due.
    Open(LoadSchedule),
}

impl<'a> LoadThread<'a> {
    /// Allocates the resources of the run; connects nothing yet.
    pub(super) fn new(
        job: &'a LoadJob,
        limits: LoadLimits,
        source: RequestSource,
        tally: Tally,
    ) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll instance to be had")?;
        let timer = match source {
            RequestSource::Open(_) => Some(Timer::new(&epoll, TIMER).context("no timer to be had")?),
            RequestSource::Closed { .. } => None,
        };
        Ok(Self {
            job,
            limits,
            source,
            epoll,
            timer,
            connections: (0..limits.connections).map(|_| LoadConnection::new(job)).collect(),
            free: VecDeque::with_capacity(limits.connections),
            in_flight: 0,
            begun: false,
            clock: Instant::now(),
            tally,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Opens the connections that are kept, so that this is no part of the run; each is tried once.
    pub(super) fn connect(&mut self, stop: &AtomicBool) {
        if self.job.per_connection == 1 {
            return;
        }
        let (mut opened, mut events) = (0, Vec::with_capacity(EVENTS));
        loop {
            let opening = |connection: &&LoadConnection| connection.is_opening();
            let under_way = self.connections[..opened].iter().filter(opening).count();
            if stop.load(Ordering::Relaxed) || (under_way == 0 && opened == self.connections.len()) {
                return;
            }
            let until = (opened + CONNECTING_AT_ONCE - under_way).min(self.connections.len());
            for number in opened..until {
                let now_ns = self.now_ns();
                self.open(number, now_ns);
            }
            opened = until;
            self.turn(&mut events);
            self.sweep();
        }
    }

    /// Sends requests until the source or the time is over and every request has a response or has timed out,
    /// or until `stop`. Returns the tally.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Tally {
        self.clock = Instant::now();
        self.begun = true;
        for connection in &mut self.connections {
            connection.since_ns = 0;
        }
        for number in 0..self.connections.len() {
            if matches!(self.connections[number].phase, ConnectionPhase::Idle | ConnectionPhase::Closed) {
                self.release(number, 0);
            }
        }
        let mut events = Vec::with_capacity(EVENTS);
        let mut next_sweep_ns = SWEEP_NS;
        while !stop.load(Ordering::Relaxed) {
            let now_ns = self.now_ns();
            if let RequestSource::Open(schedule) = &mut self.source {
                schedule.advance(now_ns);
                self.give(now_ns);
            }
            if now_ns >= next_sweep_ns {
                self.expire(now_ns.saturating_sub(self.limits.timeout_ns), now_ns);
                self.sweep();
                next_sweep_ns = now_ns + SWEEP_NS;
            }
            if self.is_over(now_ns) {
                break;
            }
            self.turn(&mut events);
        }
        let now_ns = self.now_ns();
        self.expire(u64::MAX, now_ns);
        if let RequestSource::Open(schedule) = &self.source {
            self.tally.leave(schedule.unsent());
        }
        if !stop.load(Ordering::Relaxed) {
            // A request of an open loop that is still in flight now was due longer ago than the timeout.
            for due_ns in self.connections.iter().filter_map(|connection| connection.due_ns) {
                self.tally.fail(FailureKind::Timeout, || "no whole answer came in time".to_owned());
                self.tally.lose(FailureKind::Timeout, due_ns, now_ns);
            }
        }
        self.tally
    }

    /// In a run with periods, clients give up requests that were due before `before_ns` and wait for a
    /// connection, so that a standstill does not delay the requests of later periods. In other runs such
    /// requests are sent late.
    fn expire(&mut self, before_ns: u64, now_ns: u64) {
        let RequestSource::Open(schedule) = &mut self.source else { return };
        if self.tally.periods().is_none() {
            return;
        }
        while let Some(due_ns) = schedule.take_before(before_ns) {
            self.tally.fail(FailureKind::Timeout, || "no connection was free in time".to_owned());
            self.tally.lose(FailureKind::Timeout, due_ns, now_ns);
        }
    }

    /// Waits for events, no longer than until the next sweep, and handles them.
    fn turn(&mut self, events: &mut Vec<Event>) {
        if let (Some(timer), RequestSource::Open(schedule)) = (&mut self.timer, &self.source)
            && let Some(next_ns) = schedule.next_ns().filter(|_| self.begun)
        {
            timer.set(next_ns, nanoseconds(&self.clock));
        }
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&SWEEP)) {
            // A signal interrupted the wait; its flag is read elsewhere.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("epoll_wait on an own descriptor and buffer: {error}"),
        }
        for event in events.iter() {
            if event.data.u64() != TIMER {
                self.event(event.data.u64() as usize, event.flags);
            }
        }
    }

    fn event(&mut self, number: usize, flags: EventFlags) {
        let connection = &mut self.connections[number];
        let step = connection.event(self.job, flags, &mut self.buffer, &mut self.tally, &self.clock);
        self.follow(number, step);
    }

    /// Handles the result of an event or of opening a connection for its request.
    fn follow(&mut self, number: usize, step: EventOutcome) {
        match step {
            EventOutcome::Wait => {}
            EventOutcome::Ready => {
                let now_ns = self.now_ns();
                self.release(number, now_ns);
            }
            EventOutcome::Answered(now_ns) => {
                self.in_flight -= 1;
                if self.connections[number].phase != ConnectionPhase::Ending {
                    self.release(number, now_ns);
                }
            }
            EventOutcome::Ended => {
                let now_ns = self.now_ns();
                self.release(number, now_ns);
            }
            EventOutcome::Failed(kind, words) => self.fail(number, kind, words),
        }
    }

    /// A connection is free: it takes the next request, or waits for one.
    fn release(&mut self, number: usize, now_ns: u64) {
        if !self.begun {
            return;
        }
        match self.source.take(now_ns, self.limits.end_ns) {
            Some(due_ns) => self.assign(number, due_ns, now_ns),
            None => self.free.push_back(number),
        }
    }

    /// Gives due requests to connections that wait for one.
    fn give(&mut self, now_ns: u64) {
        while !self.free.is_empty() {
            let Some(due_ns) = self.source.take(now_ns, self.limits.end_ns) else { return };
            let Some(number) = self.free.pop_front() else { return };
            self.assign(number, due_ns, now_ns);
        }
    }

    fn assign(&mut self, number: usize, due_ns: u64, now_ns: u64) {
        self.in_flight += 1;
        self.connections[number].due_ns = Some(due_ns);
        if self.connections[number].phase == ConnectionPhase::Closed {
            self.open(number, now_ns);
        } else {
            let step = self.connections[number].ask(self.job, now_ns);
            self.follow(number, step);
        }
    }

    fn open(&mut self, number: usize, now_ns: u64) {
        if let Err(words) = self.connections[number].open(self.job, &self.epoll, number as u64, now_ns) {
            self.fail(number, FailureKind::Connect, words);
        }
    }

    /// Counts a failure, with the request of the connection if there is one, and closes the connection.
    fn fail(&mut self, number: usize, kind: FailureKind, words: String) {
        self.tally.fail(kind, || words);
        let now_ns = self.now_ns();
        let connection = &mut self.connections[number];
        if let Some(due_ns) = connection.due_ns.take() {
            self.in_flight -= 1;
            self.tally.lose(kind, due_ns, now_ns);
        }
        if kind == FailureKind::Connect || connection.is_unused() {
            connection.close(ConnectionPhase::Resting);
            connection.since_ns = now_ns;
        } else {
            connection.close(ConnectionPhase::Closed);
            self.release(number, now_ns);
        }
    }

    /// Checks every connection for timeouts.
    fn sweep(&mut self) {
        let now_ns = self.now_ns();
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            let lasted_ns = now_ns.saturating_sub(connection.since_ns);
            match connection.phase {
                ConnectionPhase::Connecting if lasted_ns > self.limits.timeout_ns => {
                    self.fail(number, FailureKind::Connect, "no connection was made in time".to_owned());
                }
                ConnectionPhase::Asking | ConnectionPhase::Upgrading | ConnectionPhase::Securing
                    if lasted_ns > self.limits.timeout_ns =>
                {
                    self.fail(number, FailureKind::Timeout, "no whole answer came in time".to_owned());
                }
                // The server was told that this is the last request. If it does not close, that is no
                // failure, and the wait ends.
                ConnectionPhase::Ending if lasted_ns > LONGEST_ENDING_NS => {
                    connection.close(ConnectionPhase::Closed);
                    self.release(number, now_ns);
                }
                ConnectionPhase::Resting if self.begun && lasted_ns > REST_NS => {
                    connection.phase = ConnectionPhase::Closed;
                    self.release(number, now_ns);
                }
                _ => {}
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let is_exhausted = match &self.source {
            RequestSource::Closed { left } => *left == 0 || now_ns >= self.limits.end_ns,
            RequestSource::Open(schedule) => schedule.is_over(),
        };
        let is_late = now_ns > self.limits.end_ns.saturating_add(self.limits.timeout_ns);
        (is_exhausted && self.in_flight == 0) || (is_late && matches!(self.source, RequestSource::Open(_)))
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(&self.clock)
    }
}

impl RequestSource {
    /// Takes the next request, if one is due; returns when it was due.
    fn take(&mut self, now_ns: u64, end_ns: u64) -> Option<u64> {
        match self {
            RequestSource::Closed { left } if *left > 0 && now_ns < end_ns => {
                *left -= 1;
                Some(now_ns)
            }
            RequestSource::Closed { .. } => None,
            RequestSource::Open(schedule) => schedule.take(),
        }
    }
}

/// The number of the timer among those of the connections.
const TIMER: u64 = u64::MAX;
/// Bytes read at once: large responses in few calls, and within the nearer caches.
const BUFFER_BYTES: usize = 64 * 1024;
/// Most events of one call; more wait for the next.
const EVENTS: usize = 256;
/// Most connections being opened at once, because a listener's queue holds these; the SYN of further ones
/// would be repeated only after a second.
const CONNECTING_AT_ONCE: usize = 256;
/// How often connections are checked for timeouts; the precision of timeouts.
const SWEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: SWEEP_NS as i64 };
const SWEEP_NS: u64 = 100_000_000;
/// Pause between two attempts to connect, so that a server that is away is not tried all the time.
const REST_NS: u64 = 100_000_000;
const LONGEST_ENDING_NS: u64 = 1_000_000_000;
