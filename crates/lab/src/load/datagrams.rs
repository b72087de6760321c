//! The load generator for datagrams over UDP: many sources, each with a socket of its own, and some datagrams
//! in flight, which come back. Every byte is compared. A datagram that does not come back in time is a
//! timeout; one that comes later is ignored.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;

use super::connection::nanoseconds;
use super::expect::ComparisonResult;
use super::socket;
use super::tally::{FailureKind, Tally};
use super::target::LoadTarget;

/// The share of one thread.
#[derive(Debug)]
pub(super) struct DatagramShare<'a> {
    pub(super) target: &'a LoadTarget,
    pub(super) sources: usize,
    /// Datagrams in flight, over all sources.
    pub(super) at_once: usize,
    /// Length of a datagram.
    pub(super) bytes: usize,
    pub(super) requests: u64,
    /// Time until which datagrams are sent; nanoseconds since the beginning.
    pub(super) end_ns: u64,
    /// Time until a datagram counts as lost.
    pub(super) timeout_ns: u64,
}

/// Carries out the share of one thread, from `barrier` on. Fails if the machine lacks a resource.
pub(super) fn run_datagrams(
    share: DatagramShare<'_>,
    tally: Tally,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> anyhow::Result<Tally> {
    let prepared = Sender::new(share, tally);
    // Also after a failure, because the other threads wait for this one.
    barrier.wait();
    Ok(prepared?.run(stop))
}

/// A source of datagrams.
#[derive(Debug)]
struct DatagramSource {
    socket: OwnedFd,
    /// The number of its datagram in flight, and when that was sent.
    in_flight: Option<(u64, u64)>,
}

struct Sender<'a> {
    share: DatagramShare<'a>,
    epoll: OwnedFd,
    sources: Vec<DatagramSource>,
    /// Sources without a datagram in flight, the one that waits longest first.
    free: VecDeque<usize>,
    left: u64,
    /// The number of the next datagram.
    number: u64,
    in_flight: usize,
    clock: Instant,
    tally: Tally,
    datagram: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a> Sender<'a> {
    fn new(share: DatagramShare<'a>, tally: Tally) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("no epoll instance to be had")?;
        let sources = (0..share.sources)
            .map(|number| {
                let socket = socket::datagrams(share.target.address, &epoll, number as u64)?;
                Ok(DatagramSource { socket, in_flight: None })
            })
            .collect::<Result<Vec<_>, Errno>>()
            .context("no socket for a source of datagrams")?;
        Ok(Self {
            epoll,
            free: (0..sources.len()).collect(),
            sources,
            left: share.requests,
            number: 0,
            in_flight: 0,
            clock: Instant::now(),
            tally,
            datagram: super::pattern(share.bytes as u64),
            buffer: vec![0; share.bytes + 1],
            share,
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Tally {
        self.clock = Instant::now();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut swept_ns = 0;
        while !stop.load(Ordering::Relaxed) {
            self.fill();
            if self.in_flight == 0 {
                break;
            }
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&SWEEP)) {
                Ok(_) | Err(Errno::INTR) => {}
                // Only a closed or foreign descriptor, which is a fault of this program.
                Err(error) => panic!("epoll_wait: {error}"),
            }
            for event in &events {
                self.receive(event.data.u64() as usize);
            }
            let now_ns = self.now_ns();
            if now_ns.saturating_sub(swept_ns) > SWEEP_NS {
                swept_ns = now_ns;
                self.sweep(now_ns);
            }
        }
        self.tally
    }

    /// Sends datagrams until as many are in flight as there should be.
    fn fill(&mut self) {
        while self.in_flight < self.share.at_once && self.left > 0 {
            let now_ns = self.now_ns();
            if now_ns >= self.share.end_ns {
                return;
            }
            let Some(number) = self.free.pop_front() else { return };
            self.left -= 1;
            self.number += 1;
            self.datagram[..NUMBER_BYTES].copy_from_slice(&self.number.to_le_bytes());
            let source = &mut self.sources[number];
            match socket::send_bytes(&source.socket, &self.datagram) {
                Ok(bytes) if bytes == self.datagram.len() => {
                    source.in_flight = Some((self.number, now_ns));
                    self.in_flight += 1;
                }
                Ok(_) => {
                    self.free.push_back(number);
                    self.tally.fail(FailureKind::Broken, || "the kernel took no datagram".to_owned());
                    return;
                }
                Err(error) => {
                    self.free.push_back(number);
                    self.tally.fail(FailureKind::Connect, || refusal(error));
                    return;
                }
            }
        }
    }

    /// Takes all datagrams of a source, which are one unless some came late.
    fn receive(&mut self, number: usize) {
        loop {
            let came = match socket::receive(&self.sources[number].socket, &mut self.buffer) {
                Ok(Some(bytes)) => &self.buffer[..bytes],
                Ok(None) => return,
                Err(error) => {
                    self.tally.fail(FailureKind::Connect, || refusal(error));
                    return;
                }
            };
            self.tally.read(came.len());
            let Some((sent, since_ns)) = self.sources[number].in_flight else { continue };
            let which = came.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            // Late: it was counted as lost.
            if which.is_some_and(|which| which < sent) {
                continue;
            }
            let verdict = if came.len() != self.datagram.len() {
                ComparisonResult::Length { wanted: self.datagram.len() as u64, had: came.len() as u64 }
            } else if which != Some(sent) || came[NUMBER_BYTES..] != self.datagram[NUMBER_BYTES..] {
                ComparisonResult::Bytes
            } else {
                ComparisonResult::Good
            };
            let now_ns = self.now_ns();
            self.tally.answer(now_ns, now_ns.saturating_sub(since_ns), &verdict);
            self.release(number);
        }
    }

    fn release(&mut self, number: usize) {
        self.sources[number].in_flight = None;
        self.in_flight -= 1;
        self.free.push_back(number);
    }

    /// Gives datagrams up that did not come back in time.
    fn sweep(&mut self, now_ns: u64) {
        for number in 0..self.sources.len() {
            let late = |(_, since_ns): (u64, u64)| now_ns.saturating_sub(since_ns) > self.share.timeout_ns;
            if self.sources[number].in_flight.is_some_and(late) {
                self.tally.fail(FailureKind::Timeout, || "a datagram did not come back in time".to_owned());
                self.release(number);
            }
        }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(&self.clock)
    }
}

fn refusal(error: Errno) -> String {
    format!("a datagram was refused: {}", std::io::Error::from(error))
}

/// The number of a datagram is its first bytes.
pub(super) const NUMBER_BYTES: usize = 8;
/// Most events of one call; more wait for the next.
const EVENTS: usize = 256;
const SWEEP_NS: u64 = 20_000_000;
/// How often sources are checked for lost datagrams.
const SWEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: SWEEP_NS as i64 };
