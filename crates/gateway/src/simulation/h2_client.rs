//! The connections of HTTP/2 of a simulation's clients: several requests at once, over the client's role of
//! the crate `http2`. Each response is compared with its request byte by byte, as those of HTTP/1 are. It
//! opens no tunnel.

mod call;

use std::future::poll_fn;
use std::task::{Context, Poll};

use http2::{Config, Connection};

use super::client::Client;
use super::ledger::{Ending, Excuse};
use call::Call;
use net::env::memory::{Random, note, sleep_ns};
use net::env::{Stream, monotonic_ns};

/// Most requests that a client has in flight on a connection.
const AT_ONCE_MAX: u64 = 8;
/// Longest pause of a client without a fault, in nanoseconds.
const PAUSE_NS: u64 = 60_000_000;
/// A pause longer than every timeout of the gateway in a simulation, in nanoseconds.
const TOO_LONG_NS: u64 = 1_300_000_000;
/// Shortest idle time after which the gateway may close a kept connection because `max_connections` is small,
/// in nanoseconds.
const IDLE_LEAST_NS: u64 = 1_000_000_000;

/// Fault of a client during some requests at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The client resets streams before their end.
    Resets,
    /// The client closes the connection before the responses are there.
    Leaves,
    /// The client stops sending its bodies for longer than the gateway waits.
    Stops,
    /// The client stops reading the connection for longer than the gateway waits.
    ReadsLate,
}

const FAULTS: &[Fault] = &[Fault::Resets, Fault::Leaves, Fault::Stops, Fault::ReadsLate];

/// A connection and the reasons for which it may end.
struct Line {
    stream: Stream,
    engine: Connection,
    room: Vec<u8>,
    /// The gateway has closed or reset the connection.
    has_ended: bool,
    /// A write failed; what has arrived before can still be read.
    is_write_broken: bool,
    answers: usize,
    /// When the current requests were sent; `before_ns` is the time of the requests before them.
    sent_ns: u64,
    before_ns: u64,
}

/// Runs one connection from its first request to its end.
pub(crate) async fn talk(client: &Client, stream: Stream, random: &mut Random) {
    let now_ns = monotonic_ns();
    let config = Config {
        stream_window_bytes: *random.pick(&[100, 5_000, 65_535, 1 << 20]),
        connection_window_bytes: *random.pick(&[65_535, 1 << 20]),
        ..Config::default()
    };
    let mut line = Line {
        stream,
        engine: Connection::client(config),
        room: vec![0; random.between(100, 20_000) as usize],
        has_ended: false,
        is_write_broken: false,
        answers: 0,
        sent_ns: now_ns,
        before_ns: now_ns,
    };
    let mut left = client.plan.requests;
    while left > 0 {
        let count = random.between(1, AT_ONCE_MAX.min(left));
        left -= count;
        if !batch(client, &mut line, count, random).await {
            return;
        }
        let long = random.chance(5);
        let pause_ns = if long { TOO_LONG_NS } else { random.below(PAUSE_NS) };
        line.drive_for(client, &mut [], random, pause_ns).await;
    }
    line.engine.shutdown();
    line.drive_for(client, &mut [], random, PAUSE_NS / 4).await;
    let _ = poll_fn(|cx| line.stream.poll_shutdown(cx)).await;
}

/// Sends `count` requests at once and reads their responses; false if the connection is over.
async fn batch(client: &Client, line: &mut Line, count: u64, random: &mut Random) -> bool {
    if line.engine.can_start().is_err() {
        return false;
    }
    (line.before_ns, line.sent_ns) = (line.sent_ns, monotonic_ns());
    let fault = random.chance(client.plan.faults.client).then(|| *random.pick(FAULTS));
    let pause_ns = random.below(PAUSE_NS);
    let mut calls: Vec<Call> = (0..count).map(|_| Call::start(client, &mut line.engine, random)).collect();
    // A panic ends the connection, with all requests on it.
    let panics = calls.iter().any(|call| call.panics);
    for call in &calls {
        note(|| format!("client {}: {} over HTTP/2, {fault:?}", client.number, call.id));
        if panics {
            client.ledger.excuse(call.id, Excuse::Panic);
        }
        if fault.is_some() {
            client.ledger.excuse(call.id, Excuse::Client);
        }
    }
    match fault {
        Some(Fault::Resets) => {
            line.drive_for(client, &mut calls, random, pause_ns).await;
            for call in calls.iter_mut().filter(|call| !call.is_over) {
                if random.chance(50) {
                    call.cancel(client, &mut line.engine);
                }
            }
        }
        Some(Fault::Leaves) => {
            line.drive_for(client, &mut calls, random, pause_ns).await;
            if random.chance(50) {
                line.stream.reset_on_close();
            }
            calls.iter_mut().filter(|call| !call.is_over).for_each(|call| call.leave(client));
            return false;
        }
        Some(Fault::Stops) => {
            calls.iter_mut().for_each(Call::hold_back);
            line.drive_for(client, &mut calls, random, TOO_LONG_NS).await;
            calls.iter_mut().for_each(Call::go_on);
        }
        Some(Fault::ReadsLate) => sleep_ns(TOO_LONG_NS).await,
        None => {}
    }
    poll_fn(|cx| line.poll(cx, client, &mut calls, random)).await;
    line.answers += calls.len();
    !line.has_ended
}

impl Line {
    /// Moves bytes and calls until all calls have ended, but not longer than `limit_ns`; without calls, for
    /// `limit_ns`.
    async fn drive_for(&mut self, client: &Client, calls: &mut [Call], random: &mut Random, limit_ns: u64) {
        let is_pause = calls.is_empty();
        let work = poll_fn(|cx| match self.poll(cx, client, calls, random) {
            Poll::Ready(()) if is_pause && !self.has_ended => Poll::Pending,
            polled => polled,
        });
        tokio::select! {
            biased;
            () = work => {}
            () = sleep_ns(limit_ns) => {}
        }
    }

    /// Moves bytes and calls; ready once all calls have ended.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        client: &Client,
        calls: &mut [Call],
        random: &mut Random,
    ) -> Poll<()> {
        loop {
            let mut has_moved = self.poll_io(cx, client);
            while self.engine.next_event().is_some() {}
            for call in calls.iter_mut().filter(|call| !call.is_over) {
                has_moved |= call.step(client, &mut self.engine, random);
                if let Some(ending) = call.ending(client, &mut self.engine) {
                    let ending = match ending {
                        Ending::Nothing { expected } => {
                            Ending::Nothing { expected: expected || self.may_end(client) }
                        }
                        other => other,
                    };
                    if matches!(ending, Ending::Answer { execution: Some(_), whole: true, .. }) {
                        let answers = &client.ledger.answers_http2;
                        answers.set(answers.get() + 1);
                    }
                    client.ledger.end(call.id, ending, self.stream.is_harmed());
                    has_moved = true;
                }
            }
            if !has_moved {
                break;
            }
        }
        if calls.iter().all(|call| call.is_over) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Writes and reads once; whether a byte moved or the connection has ended.
    fn poll_io(&mut self, cx: &mut Context<'_>, client: &Client) -> bool {
        let mut has_moved = false;
        while !self.engine.output().is_empty() && !self.is_write_broken && !self.has_ended {
            match self.stream.poll_write(cx, self.engine.output()) {
                Poll::Ready(Ok(count)) => {
                    self.engine.advance(count);
                    has_moved = true;
                }
                Poll::Ready(Err(_)) => self.is_write_broken = true,
                Poll::Pending => break,
            }
        }
        if self.has_ended {
            return has_moved;
        }
        match self.stream.poll_read(cx, &mut self.room) {
            Poll::Ready(Ok(count @ 1..)) => {
                let now_ms = monotonic_ns() / 1_000_000;
                if let Err(error) = self.engine.receive(&self.room[..count], now_ms) {
                    client.ledger.violation(format!("client {} got no HTTP/2: {error:?}", client.number));
                    self.has_ended = true;
                }
                true
            }
            Poll::Ready(_) => {
                self.has_ended = true;
                self.engine.connection_lost();
                true
            }
            Poll::Pending => has_moved,
        }
    }

    /// Whether the gateway may have closed the connection before it knew of the current requests.
    fn may_end(&self, client: &Client) -> bool {
        let limits = &client.plan.limits;
        let idle_ns = monotonic_ns() - self.before_ns;
        client.ledger.drain_ns.get() != u64::MAX
            || client.ledger.is_upset_since(self.before_ns)
            || limits.max_connections < 1_000 && (self.answers == 0 || idle_ns >= IDLE_LEAST_NS)
            || idle_ns >= limits.idle_timeout_ms * 1_000_000
    }
}
