//! `weir lab load`: the load generator at the command line. It turns arguments into a plan and an outcome
//! into words.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::load::{
    self, Expectation, Habit, LoadMode, LoadPlan, LoadTarget, LoadTransport, ResponseCheck, Talk, Tls,
};
use crate::scenario::TlsVersion;

/// Arguments of `weir lab load`.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArguments {
    /// The URL to request: http://HOST:PORT/PATH (also for WebSocket) or https://…; certificates are not
    /// verified. With tcp://HOST:PORT or udp://HOST:PORT, bytes or datagrams are sent that `weir lab echo`
    /// sends back
    #[arg(value_name = "URL")]
    url: String,
    /// Connections, on all threads together
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: u32,
    /// Threads; connections, requests and rate are divided among them
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: u16,
    /// How long requests are sent [default: 10, unless --requests is given; slow and idle clients stay until
    /// stopped]
    #[arg(short, long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// End after so many requests
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// Requests that are due in a second, whatever the answers do; latency counts from when a request was due
    #[arg(short, long, value_name = "PER-SECOND")]
    rate: Option<f64>,
    /// A new connection for each request; latency includes connecting
    #[arg(long, conflicts_with = "requests_per_connection")]
    close: bool,
    /// A new connection after so many requests
    #[arg(long, value_name = "N")]
    requests_per_connection: Option<u64>,
    /// With --close, resume the TLS session of the connection before; a full handshake is then a failure
    #[arg(long)]
    resume: bool,
    /// The only version of TLS that is offered [default: both]
    #[arg(long, value_enum, value_name = "VERSION")]
    tls_version: Option<LoadTlsVersion>,
    /// Requests are POSTs with a body of so many bytes; with --websocket, tcp:// and udp://, the length of a
    /// message [default: none, 64]
    #[arg(short, long, value_name = "N")]
    body_bytes: Option<u64>,
    /// How long connecting, and an answer, may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    timeout: f64,
    /// The status of every answer
    #[arg(long, value_name = "STATUS", default_value_t = 200)]
    expect_status: u16,
    /// The length of every answer's body [default: that of the first good one]
    #[arg(long, value_name = "N")]
    expect_bytes: Option<u64>,
    /// Compare every answer's body with that of this URL, asked once before [default: with the first good
    /// answer]
    #[arg(long, value_name = "URL")]
    expect_like: Option<String>,
    /// One answer in so many may be a 500; the origin fails on purpose
    #[arg(long, value_name = "N", default_value_t = 0)]
    expect_failing_one_in: u32,
    /// How much of every answer is compared
    #[arg(long, value_enum, default_value_t)]
    check: ResponseCheck,
    /// Send WebSocket messages, each when the one before has been echoed, or at the --rate
    #[arg(long)]
    websocket: bool,
    /// Speak HTTP/3; the URL begins with https://
    #[arg(long, conflicts_with = "websocket")]
    http3: bool,
    /// Requests in flight on each connection of HTTP/3
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1, requires = "http3")]
    streams: u16,
    /// Over TCP, take the block that the origin repeats; a million bytes are an answer
    #[arg(long, conflicts_with_all = ["close", "server_name", "body_bytes"])]
    bulk: bool,
    /// Over TCP, each connection sends the ClientHello of a client that asks for this name, and no more
    #[arg(long, value_name = "NAME", conflicts_with = "body_bytes")]
    server_name: Option<String>,
    /// Datagrams in flight over all sources, which are the connections [default: 64, or as many as there are
    /// sources]
    #[arg(long, value_name = "N")]
    at_once: Option<u32>,
    /// Be slow clients on all connections; prints `ready` when they stand
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["websocket", "idle", "http3"])]
    slow: Option<Slow>,
    /// A slow client's turn, in which it sends one byte or takes eight, comes once in this time
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    slow_interval_ms: u64,
    /// Ask once on each connection and leave it open; prints `ready` when they stand
    #[arg(long, conflicts_with_all = ["websocket", "http3"])]
    idle: bool,
    /// Slow and idle clients come one by one in this time [default: as fast as they can]
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, hide_default_value = true)]
    ramp_up: f64,
    /// Print the outcome as JSON, on one line
    #[arg(long)]
    json: bool,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LoadTlsVersion {
    /// TLS 1.2
    #[value(name = "1.2")]
    V1_2,
    /// TLS 1.3
    #[value(name = "1.3")]
    V1_3,
}

/// The slow part of slow clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Slow {
    /// A request's head, sent by the byte
    Heads,
    /// A request's body, sent by the byte; see --body-bytes
    Bodies,
    /// The answer, taken by eight bytes; ask for a large one
    Readers,
}

/// Sends requests and prints the outcome, also when it is ended by SIGINT or SIGTERM. Exit code 1 if no
/// response came although some were expected; other failures are in the outcome.
pub fn execute_lab_load(arguments: &LoadArguments) -> anyhow::Result<ExitCode> {
    let plan = arguments.plan()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("signals cannot be waited for")?;
    }
    let outcome = load::generate_load(&plan, &stop, || print("ready\n"))?;
    if arguments.json {
        print(&format!("{}\n", serde_json::to_string(&outcome)?));
    } else {
        print(&load::summary(&outcome));
    }
    let is_crowd = matches!(plan.manner, LoadMode::Crowd(_));
    Ok(if outcome.requests == 0 && !is_crowd { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl LoadArguments {
    fn plan(&self) -> anyhow::Result<LoadPlan> {
        let every = Duration::from_millis(self.slow_interval_ms);
        let mut target = LoadTarget::parse(&self.url)?;
        let is_layer4 = target.transport != LoadTransport::Http;
        if let Some(name) = &self.server_name {
            target.host.clone_from(name);
        }
        let has_other_manner = self.websocket || self.http3 || self.idle || self.slow.is_some();
        if is_layer4 && has_other_manner {
            bail!("tcp:// and udp:// carry bytes: --websocket, --http3, --idle and --slow are about HTTP");
        }
        if (self.bulk || self.server_name.is_some()) && target.transport != LoadTransport::Tcp {
            bail!("--bulk and --server-name need a URL with tcp://");
        }
        if self.at_once.is_some() && target.transport != LoadTransport::Udp {
            bail!("--at-once needs a URL with udp://");
        }
        let manner = match self.slow {
            _ if target.transport == LoadTransport::Udp => {
                LoadMode::Udp { at_once: self.at_once.unwrap_or(USUAL_AT_ONCE.min(self.connections)) }
            }
            _ if self.bulk => LoadMode::Tcp(Talk::Bulk),
            _ if self.server_name.is_some() => LoadMode::Tcp(Talk::Hello),
            _ if is_layer4 => LoadMode::Tcp(Talk::Messages),
            _ if self.websocket => LoadMode::Websocket,
            _ if self.http3 => LoadMode::Http3 { streams: self.streams },
            _ if self.idle => LoadMode::Crowd(Habit::Idle),
            Some(Slow::Heads) => LoadMode::Crowd(Habit::Heads { every }),
            Some(Slow::Bodies) => LoadMode::Crowd(Habit::Bodies { every }),
            Some(Slow::Readers) => LoadMode::Crowd(Habit::Readers { every }),
            None => LoadMode::Http,
        };
        let is_crowd = matches!(manner, LoadMode::Crowd(_));
        if !(self.timeout > 0.0 && self.timeout <= LONGEST_TIMEOUT_SECONDS) {
            bail!("--timeout is more than 0 and no more than {LONGEST_TIMEOUT_SECONDS} seconds");
        }
        if !(0.0..=LONGEST_RAMP_SECONDS).contains(&self.ramp_up) {
            bail!("--ramp-up is no more than {LONGEST_RAMP_SECONDS} seconds");
        }
        let timeout = Duration::from_secs_f64(self.timeout);
        let usual_seconds = (self.requests.is_none() && !is_crowd).then_some(USUAL_SECONDS);
        let usual_body_bytes = match manner {
            LoadMode::Websocket | LoadMode::Udp { .. } | LoadMode::Tcp(Talk::Messages) => USUAL_MESSAGE_BYTES,
            _ => 0,
        };
        Ok(LoadPlan {
            target,
            manner,
            connections: self.connections,
            threads: self.threads,
            seconds: self.seconds.or(usual_seconds),
            requests: self.requests,
            rate: self.rate,
            ramp_up: Duration::from_secs_f64(self.ramp_up),
            per_connection: if self.close { Some(1) } else { self.requests_per_connection },
            body_bytes: self.body_bytes.unwrap_or(usual_body_bytes),
            timeout,
            tls: Tls {
                resume: self.resume,
                version: self.tls_version.map(|version| match version {
                    LoadTlsVersion::V1_2 => TlsVersion::V1_2,
                    LoadTlsVersion::V1_3 => TlsVersion::V1_3,
                }),
            },
            expect: Expectation {
                status: self.expect_status,
                bytes: self.expect_bytes,
                failing_one_in: self.expect_failing_one_in,
                check: self.check,
                body: self.expected_body(timeout)?,
            },
        })
    }

    /// The body of `--expect-like`.
    fn expected_body(&self, timeout: Duration) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(url) = &self.expect_like else { return Ok(None) };
        let (status, body) = load::fetch(&LoadTarget::parse(url)?, timeout).context("--expect-like")?;
        if status != self.expect_status {
            bail!("--expect-like {url} answers with status {status} instead of {}", self.expect_status);
        }
        Ok(Some(body))
    }
}

/// A closed standard output is no error.
fn print(text: &str) {
    let mut output = io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

const USUAL_SECONDS: f64 = 10.0;
const USUAL_MESSAGE_BYTES: u64 = 64;
/// Fewer than the kernel's usual receive buffer holds.
const USUAL_AT_ONCE: u32 = 64;
const LONGEST_TIMEOUT_SECONDS: f64 = 3600.0;
const LONGEST_RAMP_SECONDS: f64 = 3600.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn plan(line: &str) -> anyhow::Result<LoadPlan> {
        plan_for("http://127.0.0.1:9/x", line)
    }

    fn plan_for(url: &str, line: &str) -> anyhow::Result<LoadPlan> {
        let words = format!("load {url} {line}");
        Line::try_parse_from(words.split_whitespace())?.load.plan()
    }

    #[test]
    fn urls_of_layer_4_become_a_plan() {
        let check = |url: &str, line: &str, wanted: (LoadMode, u64)| {
            let plan = plan_for(url, line).unwrap();
            assert_eq!((plan.manner, plan.body_bytes), wanted, "{url} {line}");
        };
        let (tcp, udp) = ("tcp://127.0.0.1:9", "udp://127.0.0.1:9");
        check(tcp, "-b 100", (LoadMode::Tcp(Talk::Messages), 100));
        check(tcp, "--bulk", (LoadMode::Tcp(Talk::Bulk), 0));
        check(tcp, "--server-name a.example", (LoadMode::Tcp(Talk::Hello), 0));
        check(udp, "-c 1000", (LoadMode::Udp { at_once: 64 }, 64));
        check(udp, "-c 10", (LoadMode::Udp { at_once: 10 }, 64));
        for (url, line, reason) in [
            (tcp, "--websocket", "carry bytes"),
            (udp, "--bulk", "need a URL with tcp://"),
            (tcp, "--at-once 3", "needs a URL with udp://"),
            (tcp, "--bulk --close", "cannot be used with"),
        ] {
            let error = plan_for(url, line).unwrap_err().to_string();
            assert!(error.contains(reason), "{url} {line}: {error}");
        }
    }

    #[test]
    fn arguments_become_a_plan() {
        let usual = plan("").unwrap();
        assert_eq!((usual.connections, usual.threads, usual.seconds), (64, 1, Some(10.0)));
        let check = |line: &str, test: fn(&LoadPlan) -> bool| assert!(test(&plan(line).unwrap()), "{line}");
        check("", |plan| plan.expect.status == 200 && plan.expect.check == ResponseCheck::Bytes);
        check("-n 100", |plan| plan.seconds.is_none() && plan.requests == Some(100));
        check("-n 100 -s 5", |plan| plan.seconds == Some(5.0));
        check("--close", |plan| plan.per_connection == Some(1));
        check("--requests-per-connection 7", |plan| plan.per_connection == Some(7));
        check("--websocket", |plan| plan.manner == LoadMode::Websocket && plan.body_bytes == 64);
        check("--websocket -b 9", |plan| plan.body_bytes == 9);
        check("--idle", |plan| plan.manner == LoadMode::Crowd(Habit::Idle) && plan.seconds.is_none());
        check("--slow heads --slow-interval-ms 10", |plan| {
            plan.manner == LoadMode::Crowd(Habit::Heads { every: Duration::from_millis(10) })
        });
        check("--close --resume --tls-version 1.2", |plan| {
            plan.tls == Tls { resume: true, version: Some(TlsVersion::V1_2) }
        });
        check("--http3 --streams 10", |plan| plan.manner == LoadMode::Http3 { streams: 10 });
        check("--idle --ramp-up 2.5", |plan| plan.ramp_up == Duration::from_millis(2500));
        check("--check length --expect-bytes 21", |plan| {
            plan.expect.check == ResponseCheck::Length && plan.expect.bytes == Some(21)
        });
    }

    #[test]
    fn conflicting_arguments_are_refused() {
        let check = |line: &str, reason: &str| {
            let error = format!("{:#}", plan(line).unwrap_err());
            assert!(error.contains(reason), "{line}: {error}");
        };
        check("--close --requests-per-connection 2", "cannot be used with");
        check("--idle --slow heads", "cannot be used with");
        check("--websocket --idle", "cannot be used with");
        check("--websocket --http3", "cannot be used with");
        check("--streams 10", "--http3");
        check("--idle --ramp-up 3601", "--ramp-up is no more than");
        check("--idle --ramp-up NaN", "--ramp-up is no more than");
        check("--timeout 0", "--timeout is more than 0");
        check("--expect-like https://127.0.0.1/", "without TLS only");
        check("--slow tails", "invalid value");
    }
}
