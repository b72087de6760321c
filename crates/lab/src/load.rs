//! The load generator: sends requests to one server by a plan, checks every response and returns the outcome.
//! One epoll loop per thread, no runtime, no allocation per request, because it has to cost less than the
//! gateway that it measures. It speaks HTTP/1.1, also over TLS, and WebSocket in clear text; `http3`,
//! `byte_streams` (TCP) and `datagrams` (UDP) are generators of their own; it knows no gateways, and prints
//! nothing. [`tools`] runs other load generators.

mod asker;
mod byte_streams;
mod connection;
mod crowd;
mod datagrams;
mod expect;
mod fetch;
mod http3;
mod layer4;
mod periods;
mod race;
mod reading;
mod schedule;
mod socket;
mod tally;
mod target;
mod timer;
mod tls;
pub mod tools;
pub mod websocket;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::result::{LoadOutcome, PeriodOutcome};
use asker::{LoadLimits, LoadThread, RequestSource};
use connection::{LoadJob, Upgrade};
use crowd::Crowd;
use expect::Measure;
use periods::Periods;
use race::race;
use schedule::LoadSchedule;
use tally::{FailureKind, RunFacts, Tally};
use tls::LoadTlsClient;

pub use byte_streams::Talk;
pub use crowd::Habit;
pub use expect::{Expectation, ResponseCheck};
pub use fetch::fetch;
pub use tally::summary;
pub use target::{LoadTarget, LoadTransport};
pub use tls::Tls;
pub(crate) use tls::client_hello;

/// One run of the load generator.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The server and path.
    pub target: LoadTarget,
    /// The behaviour of the clients.
    pub manner: LoadMode,
    /// Connections, on all threads together.
    pub connections: u32,
    /// Threads, with a share of connections, requests and rate each.
    pub threads: u16,
    /// How long requests are sent, in seconds; without a limit if absent.
    pub seconds: Option<f64>,
    /// How many requests are sent.
    pub requests: Option<u64>,
    /// How many requests are due per second, whatever the responses do; if absent, each is sent after the
    /// response before.
    pub rate: Option<f64>,
    /// The time over which slow and idle clients arrive one by one; zero is as fast as possible.
    pub ramp_up: Duration,
    /// Requests of a connection before it ends; unlimited if absent.
    pub per_connection: Option<u64>,
    /// Bytes of a request's body, which makes it a POST, or of a WebSocket message.
    pub body_bytes: u64,
    /// Limit for connecting, and for each request from when it was sent.
    pub timeout: Duration,
    /// The handshakes, if the URL asks for TLS.
    pub tls: Tls,
    /// The expected response.
    pub expect: Expectation,
}

/// The behaviour of the clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadMode {
    /// They send requests, one after the response to another.
    Http,
    /// They send messages, which are to be echoed.
    Websocket,
    /// They send requests over HTTP/3, this many at a time on each connection.
    Http3 {
        /// Requests in flight on one connection.
        streams: u16,
    },
    /// They send bytes over TCP.
    Tcp(Talk),
    /// They send datagrams over UDP, from as many sources as there are connections.
    Udp {
        /// Datagrams in flight, over all sources.
        at_once: u32,
    },
    /// They hold connections and hardly use them.
    Crowd(Habit),
}

/// Carries out the plan, until its end or until `stop` is set; `ready` is called when the connections of a
/// crowd stand. Fails if the plan is impossible or the machine lacks a resource; failures of the server are
/// in the outcome.
pub fn generate_load(
    plan: &LoadPlan,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> anyhow::Result<LoadOutcome> {
    plan.check()?;
    grant_descriptors(u64::from(plan.connections))?;
    let job = Arc::new(plan.job()?);
    if let LoadMode::Crowd(habit) = plan.manner {
        let seconds = plan.seconds.map(Duration::from_secs_f64);
        return Crowd::new(&job, habit, plan)?.run(seconds, stop, ready);
    }
    let (sum, elapsed, cpu) = send(plan, &job, None, stop, |_| {})?;
    let asked = plan.asked(elapsed, stop.load(Ordering::Relaxed), sum.requests());
    let from_due_time = plan.rate.is_some();
    Ok(sum.outcome(&RunFacts { asked, cpu, from_due_time, failing_one_in: plan.expect.failing_one_in }))
}

/// Carries out a plan with a rate, and counts by periods, which end at these times. `during` is called when
/// the first requests are due and should return by the last end, because the outcome waits for it. Fails as
/// [`generate_load`], and if there is no rate; failures of the server are in the outcome.
pub fn run_in_periods(
    plan: &LoadPlan,
    ends: &[Duration],
    stop: &AtomicBool,
    during: impl FnOnce(Instant),
) -> anyhow::Result<(Vec<PeriodOutcome>, LoadOutcome)> {
    plan.check()?;
    if plan.manner != LoadMode::Http || plan.rate.is_none() {
        bail!("periods need requests of HTTP/1.1 at a rate");
    }
    grant_descriptors(u64::from(plan.connections))?;
    let job = Arc::new(plan.job()?);
    let (sum, elapsed, cpu) = send(plan, &job, Some(ends), stop, during)?;
    let asked = plan.asked(elapsed, stop.load(Ordering::Relaxed), sum.requests());
    let periods = sum.periods().map(Periods::outcome).unwrap_or_default();
    Ok((periods, sum.outcome(&RunFacts { asked, cpu, from_due_time: true, failing_one_in: 0 })))
}

/// Sends all requests; returns the sum of the tallies, how long it took, and the CPU time of it.
fn send(
    plan: &LoadPlan,
    job: &Arc<LoadJob>,
    ends: Option<&[Duration]>,
    stop: &AtomicBool,
    during: impl FnOnce(Instant),
) -> anyhow::Result<(Tally, Duration, Duration)> {
    let threads = usize::from(plan.threads);
    let (tallies, elapsed, cpu) = if let LoadMode::Http3 { streams } = plan.manner {
        let shares = (0..threads).map(|thread| plan.http3_share(thread, streams)).collect();
        let tally = || Tally::new(plan.seconds.unwrap_or(0.0));
        race(shares, |share, barrier| http3::run_http3(share, job, tally(), stop, barrier), during)
    } else if plan.target.transport != LoadTransport::Http {
        layer4::send_layer4_messages(plan, stop, during)?
    } else {
        let askers: anyhow::Result<_> =
            (0..threads).map(|thread| plan.asker(job, thread, ends.map(Periods::new))).collect();
        let work = |mut asker: LoadThread<'_>, barrier: &Barrier| {
            asker.connect(stop);
            barrier.wait();
            Ok(asker.run(stop))
        };
        race(askers?, work, during)
    };
    let mut sum = Tally::new(0.0).with(ends.map(Periods::new));
    for tally in tallies {
        sum.add(&tally.ok().context("a thread of the load generator panicked; its message is above")??);
    }
    for _ in 0..job.measure.differing_early_ones() {
        sum.fail(FailureKind::Content, || "answers at the beginning differ from each other".to_owned());
    }
    Ok((sum, elapsed, cpu))
}

impl LoadPlan {
    fn check(&self) -> anyhow::Result<()> {
        if self.connections == 0 || self.threads == 0 || u32::from(self.threads) > self.connections {
            bail!("connections and threads are at least 1, and threads no more than connections");
        }
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= LONGEST_SECONDS)) {
            bail!("seconds are more than 0 and no more than {LONGEST_SECONDS}");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= HIGHEST_RATE)) {
            bail!("the rate is more than 0 and no more than {HIGHEST_RATE} a second");
        }
        if self.requests == Some(0) || self.per_connection == Some(0) {
            bail!("requests, and those of a connection, are at least 1");
        }
        if self.body_bytes > LARGEST_BODY_BYTES {
            bail!("a body has no more than {LARGEST_BODY_BYTES} bytes");
        }
        if self.timeout.is_zero() {
            bail!("the timeout is more than 0");
        }
        if self.tls != Tls::default() && !self.target.is_tls {
            bail!("a version of TLS, and resumption, need a URL with https://");
        }
        if let Some(checked) = layer4::check_layer4_plan(self) {
            return checked;
        }
        match self.manner {
            LoadMode::Websocket | LoadMode::Crowd(_) if self.target.is_tls => {
                bail!("WebSocket, slow and idle clients speak clear text: write http://")
            }
            LoadMode::Websocket if self.per_connection.is_some() => {
                bail!("WebSocket connections are kept: leave out what ends them")
            }
            LoadMode::Crowd(Habit::Bodies { .. }) if self.body_bytes == 0 => {
                bail!("slow bodies need a length: give --body-bytes")
            }
            LoadMode::Crowd(_) if self.rate.is_some() || self.requests.is_some() || self.threads > 1 => {
                bail!("slow and idle clients have a pace of their own: leave out rate, requests and threads")
            }
            LoadMode::Http3 { streams: 0 } => {
                bail!("a connection of HTTP/3 has at least one request in flight")
            }
            LoadMode::Http3 { .. } if !self.target.is_tls => bail!("HTTP/3 is encrypted: write https://"),
            LoadMode::Http3 { .. }
                if self.rate.is_some()
                    || self.per_connection.is_some()
                    || self.body_bytes > 0
                    || self.tls != Tls::default() =>
            {
                bail!(
                    "over HTTP/3 connections are kept and requests are GETs, one after another: leave out rates, bodies and what ends connections"
                )
            }
            LoadMode::Http | LoadMode::Http3 { .. } | LoadMode::Websocket if !self.ramp_up.is_zero() => {
                bail!("slow and idle clients come one by one, others all at once: leave out the ramp")
            }
            _ => Ok(()),
        }
    }

    /// The bytes sent on every connection.
    fn job(&self) -> anyhow::Result<LoadJob> {
        let websocket = (self.manner == LoadMode::Websocket).then(|| Upgrade {
            handshake: websocket::handshake(&self.target.host, &self.target.path),
            payload: pattern(self.body_bytes),
        });
        let (request, last_request) = match &websocket {
            Some(upgrade) => (websocket::message(&upgrade.payload), Vec::new()),
            None => (self.request(""), self.request("Connection: close\r\n")),
        };
        let tls = match self.target.is_tls {
            true => Some((self.tls, LoadTlsClient::new(self.tls, &self.target.host)?)),
            false => None,
        };
        Ok(LoadJob {
            target: self.target.clone(),
            request,
            last_request,
            per_connection: self.per_connection.unwrap_or(u64::MAX),
            websocket,
            tls,
            measure: Measure::new(self.expect.clone()),
        })
    }

    fn request(&self, fields: &str) -> Vec<u8> {
        let LoadTarget { host, path, .. } = &self.target;
        if self.body_bytes == 0 {
            return format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").into_bytes();
        }
        let length = self.body_bytes;
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{fields}\r\n");
        [head.as_bytes(), &pattern(length)].concat()
    }

    /// The share of one thread in a number.
    fn share(&self, all: u64, thread: usize) -> u64 {
        let threads = u64::from(self.threads);
        all / threads + u64::from((thread as u64) < all % threads)
    }

    fn end_ns(&self) -> u64 {
        self.seconds.map_or(u64::MAX, |seconds| (seconds * 1e9) as u64)
    }

    fn http3_share(&self, thread: usize, streams: u16) -> http3::Http3Share {
        http3::Http3Share {
            connections: self.share(u64::from(self.connections), thread) as usize,
            streams,
            requests: self.requests.map_or(u64::MAX, |requests| self.share(requests, thread)),
            end_ns: self.end_ns(),
            timeout: self.timeout,
        }
    }

    /// The asker of one thread, with its share.
    fn asker<'a>(
        &self,
        job: &'a LoadJob,
        thread: usize,
        periods: Option<Periods>,
    ) -> anyhow::Result<LoadThread<'a>> {
        let (threads, end_ns) = (usize::from(self.threads), self.end_ns());
        let limits = LoadLimits {
            connections: self.share(u64::from(self.connections), thread) as usize,
            end_ns,
            timeout_ns: self.timeout.as_nanos() as u64,
        };
        let most = self.requests.map_or(u64::MAX, |requests| self.share(requests, thread));
        let source = match self.rate {
            Some(rate) => RequestSource::Open(LoadSchedule::new(rate, thread, threads, end_ns, most)),
            None => RequestSource::Closed { left: most },
        };
        LoadThread::new(job, limits, source, Tally::new(self.seconds.unwrap_or(0.0)).with(periods))
    }

    /// How long requests were sent: as planned, unless all were sent before (then until the last response,
    /// which the tally knows) or the run was stopped.
    fn asked(&self, elapsed: Duration, stopped: bool, answers: u64) -> Duration {
        match self.seconds.map(Duration::from_secs_f64) {
            Some(planned) if elapsed >= planned => planned,
            _ if stopped || answers == 0 => elapsed,
            _ => Duration::ZERO,
        }
    }
}

/// A body that differs from every shifted or repeated copy of a part of itself.
fn pattern(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 23) as u8 + u8::from(at % 251 == 0)).collect()
}

/// Raises the soft limit of descriptors as far as these connections need. Fails if the hard limit is lower.
fn grant_descriptors(connections: u64) -> anyhow::Result<()> {
    let needed = connections + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        bail!(
            "{connections} connections need {needed} descriptors, and {most} are allowed: raise `ulimit -Hn`"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .with_context(|| format!("the limit of descriptors cannot be raised to {needed}"))
}

/// A month; a larger number is probably meant in another unit, and is refused.
const LONGEST_SECONDS: f64 = 31.0 * 24.0 * 3600.0;
/// Far more than a thread can send.
const HIGHEST_RATE: f64 = 1e8;
/// A request is kept in memory once.
const LARGEST_BODY_BYTES: u64 = 1 << 30;
/// Descriptors for standard streams, epoll instances, timers, and others of the process.
const OTHER_DESCRIPTORS: u64 = 1100;

#[cfg(test)]
mod tests;
