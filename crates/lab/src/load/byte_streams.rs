//! The load generator for bytes over TCP: messages that come back on kept connections, one message for each
//! connection, or a block that the origin repeats. Every byte is compared. It plans nothing: `load` says how
//! many, how long and which bytes.

mod link;

use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;

use super::connection::nanoseconds;
use super::expect::ComparisonResult;
use super::socket;
use super::tally::{FailureKind, Tally};
use super::target::LoadTarget;
use link::{ByteStreamLink, ByteStreamPhase, Taken};

/// The exchange on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// A message comes back before the next one is sent. A new connection for each, if requests of a
    /// connection are 1.
    Messages,
    /// A ClientHello that names the host of the target; it comes back and the origin closes.
    Hello,
    /// The origin sends its block again and again. A million bytes count as one answer.
    Bulk,
}

/// The share of one thread.
#[derive(Debug)]
pub(super) struct ByteStreamShare<'a> {
    pub(super) target: &'a LoadTarget,
    pub(super) talk: Talk,
    /// The bytes that are sent, and come back unless the talk is in bulk.
    pub(super) message: &'a [u8],
    /// Whether the origin closes after each message.
    pub(super) closes: bool,
    pub(super) connections: usize,
    pub(super) requests: u64,
    /// Time until which messages are sent; nanoseconds since the beginning.
    pub(super) end_ns: u64,
    /// Limit for connecting, and for each message from when it was sent.
    pub(super) timeout_ns: u64,
}

/// Carries out the share of one thread, from `barrier` on, after its kept connections stand. Fails if the
/// machine lacks a resource.
pub(super) fn run_byte_streams(
    share: ByteStreamShare<'_>,
    tally: Tally,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> anyhow::Result<Tally> {
    let prepared = Talker::new(share, tally).map(|mut talker| {
        talker.connect(stop);
        talker
    });
    // Also after a failure, because the other threads wait for this one.
    barrier.wait();
    Ok(prepared?.run(stop))
}

/// The state of one thread.
struct Talker<'a> {
    share: ByteStreamShare<'a>,
    epoll: OwnedFd,
    links: Vec<ByteStreamLink>,
    /// Messages that are not sent yet.
    left: u64,
    in_flight: usize,
    /// Whether the run has begun; before that, connections are only opened.
    begun: bool,
    clock: Instant,
    tally: Tally,
    buffer: Vec<u8>,
}

impl<'a> Talker<'a> {
    fn new(share: ByteStreamShare<'a>, tally: Tally) -> anyhow::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll instance to be had")?,
            links: (0..share.connections).map(|_| ByteStreamLink::default()).collect(),
            left: share.requests,
            in_flight: 0,
            begun: false,
            clock: Instant::now(),
            tally,
            buffer: vec![0; BUFFER_BYTES],
            share,
        })
    }

    /// Opens the connections that are kept, so that this is no part of the run; each is tried once.
    fn connect(&mut self, stop: &AtomicBool) {
        if self.share.closes {
            return;
        }
        let mut events = Vec::with_capacity(EVENTS);
        for first in (0..self.links.len()).step_by(CONNECTING_AT_ONCE) {
            let batch = first..(first + CONNECTING_AT_ONCE).min(self.links.len());
            batch.clone().for_each(|number| self.open(number));
            let opening = |link: &ByteStreamLink| link.phase == ByteStreamPhase::Connecting;
            while self.links[batch.clone()].iter().any(opening) && !stop.load(Ordering::Relaxed) {
                self.turn(&mut events);
            }
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Tally {
        self.clock = Instant::now();
        self.begun = true;
        let mut events = Vec::with_capacity(EVENTS);
        (0..self.links.len()).for_each(|number| self.next(number));
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            self.turn(&mut events);
        }
        self.tally
    }

    /// Waits for events, at most until the next sweep, and handles them.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&SWEEP)) {
            Ok(_) | Err(Errno::INTR) => {}
            // Only a closed or foreign descriptor, which is a fault of this program.
            Err(error) => panic!("epoll_wait: {error}"),
        }
        for event in &*events {
            let number = event.data.u64() as usize;
            self.handle(number, event.flags);
        }
        if events.len() < EVENTS {
            self.sweep();
        }
    }

    /// Sends the next message on a connection, which is opened first if it is closed.
    fn next(&mut self, number: usize) {
        let now_ns = self.now_ns();
        if self.left == 0 || now_ns >= self.share.end_ns {
            return;
        }
        // Blocks are counted when they have come.
        if self.share.talk != Talk::Bulk {
            self.left -= 1;
        }
        self.in_flight += 1;
        let link = &mut self.links[number];
        link.begin(now_ns);
        if link.is_open() { self.push(number) } else { self.open(number) }
    }

    fn open(&mut self, number: usize) {
        let now_ns = self.now_ns();
        match socket::start_connect(self.share.target.address, &self.epoll, number as u64) {
            Ok(opened) => self.links[number].opened(opened, now_ns),
            Err(error) => self.fail(number, FailureKind::Connect, socket::cannot_connect(error)),
        }
    }

    fn handle(&mut self, number: usize, flags: EventFlags) {
        let link = &mut self.links[number];
        if link.phase == ByteStreamPhase::Connecting {
            if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            if let Err(error) = link.connected() {
                return self.fail(number, FailureKind::Connect, socket::cannot_connect(error));
            }
            if !link.has_message() {
                return;
            }
        }
        if !self.links[number].is_open() {
            return;
        }
        if self.links[number].has_message() {
            self.push(number);
        }
        if flags.intersects(EventFlags::IN) || socket::is_over(flags) {
            self.pull(number, socket::is_over(flags));
        }
    }

    fn push(&mut self, number: usize) {
        let link = &mut self.links[number];
        let pushed = link.push(self.share.message).and_then(|()| match self.share.talk {
            // One read for each event from now on, so that the others and the clock get their turn.
            Talk::Bulk => link.watch_input(&self.epoll, number as u64),
            Talk::Messages | Talk::Hello => Ok(()),
        });
        if let Err(error) = pushed {
            self.fail(
                number,
                FailureKind::Broken,
                format!("a connection broke: {}", std::io::Error::from(error)),
            );
        }
    }

    /// Reads until there is nothing more; `is_over` says that the end of the stream is among it.
    fn pull(&mut self, number: usize, is_over: bool) {
        loop {
            let link = &mut self.links[number];
            let (read, taken) = match link.pull(&mut self.buffer, &self.share) {
                Ok(Some(read)) => read,
                Ok(None) => return,
                Err(error) => {
                    let words = format!("a connection broke: {}", std::io::Error::from(error));
                    return self.fail(number, FailureKind::Broken, words);
                }
            };
            self.tally.read(read);
            match taken {
                Taken::Part if self.share.talk == Talk::Bulk => return,
                Taken::Part => {}
                Taken::Whole { times, is_same } => {
                    (0..times).for_each(|_| self.answered(number, is_same));
                    // The next message begins on another connection, and this event is not about it.
                    if self.share.closes || self.share.talk == Talk::Bulk {
                        return;
                    }
                }
                Taken::Fault(kind, words) => return self.fail(number, kind, words.to_owned()),
            }
            if !self.links[number].is_open() || (read < self.buffer.len() && !is_over) {
                return;
            }
        }
    }

    /// Counts a message that came back, and sends the next one.
    fn answered(&mut self, number: usize, is_same: bool) {
        let now_ns = self.now_ns();
        let link = &mut self.links[number];
        let took_ns = now_ns.saturating_sub(link.since_ns);
        self.tally.answer(
            now_ns,
            took_ns,
            if is_same { &ComparisonResult::Good } else { &ComparisonResult::Bytes },
        );
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.share.talk == Talk::Bulk {
            // The origin goes on by itself.
            link.since_ns = now_ns;
            self.left = self.left.saturating_sub(1);
            self.in_flight += 1;
            return;
        }
        link.end_message();
        if self.share.closes {
            link.close(ByteStreamPhase::Closed);
        }
        self.next(number);
    }

    /// Counts a failure, closes the connection, and opens another one after a while.
    fn fail(&mut self, number: usize, kind: FailureKind, words: String) {
        self.tally.fail(kind, || words);
        let now_ns = self.now_ns();
        let link = &mut self.links[number];
        if link.has_message() {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        link.end_message();
        link.close(ByteStreamPhase::Resting);
        link.since_ns = now_ns;
    }

    /// Checks every connection for timeouts.
    fn sweep(&mut self) {
        let now_ns = self.now_ns();
        for number in 0..self.links.len() {
            let link = &self.links[number];
            let lasted_ns = now_ns.saturating_sub(link.since_ns);
            match link.phase {
                ByteStreamPhase::Connecting if lasted_ns > self.share.timeout_ns => {
                    self.fail(number, FailureKind::Connect, "no connection was made in time".to_owned());
                }
                ByteStreamPhase::Open if link.has_message() && lasted_ns > self.share.timeout_ns => {
                    self.fail(number, FailureKind::Timeout, link.lateness(self.share.message).to_owned());
                }
                ByteStreamPhase::Resting if self.begun && lasted_ns > REST_NS => {
                    self.links[number].phase = ByteStreamPhase::Closed;
                    self.next(number);
                }
                _ => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_exhausted = self.left == 0 || self.now_ns() >= self.share.end_ns;
        is_exhausted && (self.in_flight == 0 || self.share.talk == Talk::Bulk)
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(&self.clock)
    }
}

/// Bytes read at once: several blocks of the kernel, and within the nearer caches.
const BUFFER_BYTES: usize = 256 * 1024;
/// Most events of one call; more wait for the next.
const EVENTS: usize = 256;
/// Most connections being opened at once, because the listener's queue of some gateways holds 128.
const CONNECTING_AT_ONCE: usize = 100;
/// How often connections are checked for timeouts; the precision of timeouts.
const SWEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Pause after a failure, so that a server that is away is not tried all the time.
const REST_NS: u64 = 100_000_000;
