//! The deadlines of an HTTP/2 connection, its place among the idle ones, its drain and its end. It reads and writes no
//! frame; it tells the engine when to announce the end.
//!
//! A connection drains in two steps (RFC 9113 section 6.8), so that no request is lost that was on its way: GOAWAY for all
//! streams with a PING, then, once that is answered, GOAWAY with the last stream that was taken.

use std::task::{Context, Poll};

use http2::ErrorCode;

use super::link::Link;
use crate::downstream::h1::connection::Connection;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::observe::idle_counts::IdleState;

/// How long the answer to the PING of a drain is waited for: a few round trips of a slow network.
const DRAIN_STEP_MS: u64 = 1_000;

/// How long a connection without exchanges keeps the memory of many, so that bursts of requests that follow each other
/// allocate nothing.
const REST_AFTER_MS: u64 = 1_000;

/// The exchanges of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// How many are in flight.
    pub(super) in_flight: usize,
    /// Memory of earlier ones is held, more than an idle connection keeps.
    pub(super) holds_slots: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything was written; the client may still be sending.
    InOrder,
    /// It is closed as it is.
    AtOnce,
    /// It is reset, because frames that wait to be written are lost.
    Cut,
}

/// See the module.
pub(super) struct Lifecycle {
    stage: Stage,
    /// When the last exchange ended, or the connection began, while there is none.
    idle_from_ms: Option<u64>,
    /// It is among the idle connections of the worker.
    is_listed: bool,
    /// The head that has not arrived as a whole, and when it began.
    unfinished: Option<(u32, u64)>,
    /// When output was last taken, while some waits.
    blocked_from_ms: Option<u64>,
    has_written: bool,
    /// The time that the deadline is set for; 0 before it is.
    armed_for_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The end was announced; the second step is due at this time.
    Announced(u64),
    /// The last stream is settled.
    Draining,
    /// The client broke a rule: GOAWAY is written, then the connection ends.
    Failed,
    /// The transport is gone.
    Lost,
}

impl Lifecycle {
    /// Of a connection without a stream at `now_ms`.
    pub(super) fn new(now_ms: u64) -> Lifecycle {
        Lifecycle {
            stage: Stage::Open,
            idle_from_ms: Some(now_ms),
            is_listed: false,
            unfinished: None,
            blocked_from_ms: None,
            has_written: false,
            armed_for_ms: 0,
        }
    }

    /// Whether more is read.
    pub(super) fn reads(&self) -> bool {
        !matches!(self.stage, Stage::Failed | Stage::Lost)
    }

    /// Whether output is written.
    pub(super) fn writes(&self) -> bool {
        self.stage != Stage::Lost
    }

    /// The client broke a rule of the connection.
    pub(super) fn fail(&mut self) {
        if self.stage != Stage::Lost {
            self.stage = Stage::Failed;
        }
    }

    /// The transport is gone.
    pub(super) fn lose(&mut self) {
        self.stage = Stage::Lost;
    }

    /// An exchange begins.
    pub(super) fn begin_stream(&mut self, timer: &ConnectionTimer) {
        self.idle_from_ms = None;
        if std::mem::take(&mut self.is_listed) {
            timer.end_idle();
        }
    }

    /// Whether the connection has been idle for so long that it gives memory back.
    pub(super) fn rests(&self, now_ms: u64) -> bool {
        after(self.idle_from_ms, REST_AFTER_MS).is_some_and(|at_ms| now_ms >= at_ms)
    }

    /// Output was written, or has waited in vain.
    pub(super) fn note_output(&mut self, has_moved: bool) {
        self.has_written |= has_moved;
    }

    /// Ready when the connection is to end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        timer: &ConnectionTimer,
        link: &Link,
        load: Load,
    ) -> Poll<Ended> {
        let in_flight = load.in_flight;
        let now_ms = timer.context.local.now_ms();
        let is_written = link.engine().output().is_empty();
        match self.stage {
            Stage::Lost if in_flight == 0 => return Poll::Ready(Ended::AtOnce),
            Stage::Failed if in_flight == 0 && is_written => return Poll::Ready(Ended::InOrder),
            _ => {}
        }
        if in_flight == 0 {
            self.idle_from_ms.get_or_insert(now_ms);
        }
        self.drain(connection, timer, link, now_ms);
        if link.engine().is_drained() && is_written && link.engine().output().is_empty() {
            return Poll::Ready(Ended::InOrder);
        }
        if in_flight == 0 && timer.gives_way() {
            return self.give_way(cx, connection, link);
        }
        self.look_at_frames(link, now_ms, is_written);
        if let Some(ended) = self.expire(timer, link, now_ms) {
            return Poll::Ready(ended);
        }
        self.arm(cx, timer, link, load, now_ms);
        if in_flight == 0 && !self.is_listed {
            self.is_listed = true;
            timer.begin_idle(if connection.requests == 0 { IdleState::Unspoken } else { IdleState::Idle });
        }
        Poll::Pending
    }

    /// Begins to drain if the connection is to end, and goes on with it.
    fn drain(&mut self, connection: &Connection, timer: &ConnectionTimer, link: &Link, now_ms: u64) {
        let local = &timer.context.local;
        let most = local.options.limits.max_requests_per_connection;
        match self.stage {
            Stage::Open
                if connection.is_closing(now_ms)
                    || local.shared.memory.sheds_idle()
                    || (most != 0 && u64::from(connection.requests) >= most) =>
            {
                self.announce(link, now_ms);
            }
            Stage::Announced(at_ms) if now_ms >= at_ms => {
                self.stage = Stage::Draining;
                link.engine().shutdown();
            }
            _ => {}
        }
    }

    fn announce(&mut self, link: &Link, now_ms: u64) {
        self.stage = Stage::Announced(now_ms + DRAIN_STEP_MS);
        link.engine().shutdown();
    }

    /// Ends at once for another client. A request that is on its way is not taken, which GOAWAY tells its client.
    #[cold]
    fn give_way(&mut self, cx: &mut Context<'_>, connection: &mut Connection, link: &Link) -> Poll<Ended> {
        let mut engine = link.engine();
        engine.shutdown();
        engine.shutdown();
        let output = engine.output();
        match connection.stream.poll_write(cx, output) {
            Poll::Ready(Ok(count)) if count == output.len() => Poll::Ready(Ended::AtOnce),
            _ => Poll::Ready(Ended::Cut),
        }
    }

    /// Notes since when a head or the output waits.
    fn look_at_frames(&mut self, link: &Link, now_ms: u64, is_written: bool) {
        let unfinished = link.engine().unfinished();
        self.unfinished = match (unfinished, self.unfinished) {
            (Some(number), Some((known, from_ms))) if number == known => Some((known, from_ms)),
            (Some(number), _) => Some((number, now_ms)),
            (None, _) => None,
        };
        let has_written = std::mem::take(&mut self.has_written);
        self.blocked_from_ms = match self.blocked_from_ms {
            _ if is_written => None,
            Some(from_ms) if !has_written => Some(from_ms),
            _ => Some(now_ms),
        };
    }

    /// Ends what has waited too long.
    fn expire(&mut self, timer: &ConnectionTimer, link: &Link, now_ms: u64) -> Option<Ended> {
        let is_over = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| now_ms >= at_ms);
        if is_over(self.blocked_until(timer)) {
            // Exchanges that wait for the same client have ended by their own timeouts, or end now.
            link.engine().connection_lost();
            return Some(Ended::Cut);
        }
        if is_over(self.head_until(timer)) && self.reads() {
            link.engine().close(ErrorCode::NO_ERROR);
            self.stage = Stage::Failed;
        }
        if is_over(self.idle_until(timer, link)) && self.stage == Stage::Open {
            if link.engine().peer_settings().has_arrived {
                self.announce(link, now_ms);
            } else {
                link.engine().close(ErrorCode::NO_ERROR);
                self.stage = Stage::Failed;
            }
        }
        None
    }

    /// Sets the deadline for what expires first.
    fn arm(&mut self, cx: &Context<'_>, timer: &ConnectionTimer, link: &Link, load: Load, now_ms: u64) {
        let step_until = match self.stage {
            Stage::Announced(at_ms) => Some(at_ms),
            _ => None,
        };
        let idle_until = self.idle_until(timer, link).filter(|_| self.stage == Stage::Open);
        let rest_until = after(self.idle_from_ms, REST_AFTER_MS).filter(|_| load.holds_slots);
        let times = [step_until, rest_until, idle_until, self.head_until(timer), self.blocked_until(timer)];
        let next_ms = times.into_iter().flatten().min();
        // A deadline that is set too early only wakes the task once more.
        match next_ms {
            Some(at_ms) if at_ms != self.armed_for_ms || timer.deadline.expired() => {
                self.armed_for_ms = at_ms;
                timer.deadline.set(cx, at_ms.saturating_sub(now_ms).max(1));
            }
            _ => {}
        }
    }

    /// Without a stream: after the connection began the time of a head for its first frames, then the idle time. PING does
    /// not prolong it, because a client that wants to keep a connection can send a request.
    fn idle_until(&self, timer: &ConnectionTimer, link: &Link) -> Option<u64> {
        let limits = &timer.context.local.options.limits;
        let has_begun = link.engine().peer_settings().has_arrived;
        let timeout_ms = if has_begun { limits.idle_timeout_ms } else { limits.head_timeout_ms };
        after(self.idle_from_ms, timeout_ms)
    }

    fn head_until(&self, timer: &ConnectionTimer) -> Option<u64> {
        let from_ms = self.unfinished.map(|(_, from_ms)| from_ms);
        after(from_ms, timer.context.local.options.limits.head_timeout_ms)
    }

    fn blocked_until(&self, timer: &ConnectionTimer) -> Option<u64> {
        after(self.blocked_from_ms, timer.context.local.options.limits.send_timeout_ms)
    }
}

/// The end of a wait; a timeout of 0 has none.
fn after(from_ms: Option<u64>, timeout_ms: u64) -> Option<u64> {
    from_ms.filter(|_| timeout_ms != 0).map(|from_ms| from_ms.saturating_add(timeout_ms))
}
