//! The deadlines of an HTTP/2 connection, its place among the idle ones, its drain and its end. It reads and
//! writes no frame; it tells the engine when to announce the end.
//!
//! A connection drains in two steps (RFC 9113 section 6.8), so that no request is lost that was on its way:
//! GOAWAY for all streams with a PING, then, once that is answered, GOAWAY with the last stream that was
//! taken.

use std::task::{Context, Poll};

use http2::ErrorCode;

use super::link::DownstreamH2Link;
use crate::downstream::h1::connection::H1Connection;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::idle_clock::{IdleClock, deadline_after, must_drain};
use crate::h2::output::poll_write_output;

/// How long the answer to the PING of a drain is waited for: a few round trips of a slow network.
const DRAIN_STEP_MS: u64 = 1_000;

/// How long a connection without exchanges keeps the memory of many, so that bursts of requests that follow
/// each other allocate nothing.
const REST_AFTER_MS: u64 = 1_000;

/// The exchanges of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLoad {
    /// How many are in flight.
    pub(super) in_flight: usize,
    /// Memory of earlier ones is held, more than an idle connection keeps.
    pub(super) holds_slots: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum H2CloseMode {
    /// Everything was written; the client may still be sending.
    InOrder,
    /// It is closed as it is.
    AtOnce,
    /// It is reset, because frames that wait to be written are lost.
    Cut,
}

/// See the module.
pub(super) struct H2Lifecycle {
    stage: H2LifecycleStage,
    idle: IdleClock,
    /// The head that has not arrived as a whole, and when it began.
    unfinished: Option<(u32, u64)>,
    /// When output was last taken, while some waits.
    blocked_from_ms: Option<u64>,
    has_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum H2LifecycleStage {
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

impl H2Lifecycle {
    /// Of a connection without a stream at `now_ms`.
    pub(super) fn new(now_ms: u64) -> H2Lifecycle {
        H2Lifecycle {
            stage: H2LifecycleStage::Open,
            idle: IdleClock::new(now_ms),
            unfinished: None,
            blocked_from_ms: None,
            has_written: false,
        }
    }

    /// Whether more is read.
    pub(super) fn reads(&self) -> bool {
        !matches!(self.stage, H2LifecycleStage::Failed | H2LifecycleStage::Lost)
    }

    /// Whether output is written.
    pub(super) fn writes(&self) -> bool {
        self.stage != H2LifecycleStage::Lost
    }

    /// The client broke a rule of the connection.
    pub(super) fn fail(&mut self) {
        if self.stage != H2LifecycleStage::Lost {
            self.stage = H2LifecycleStage::Failed;
        }
    }

    /// The transport is gone.
    pub(super) fn lose(&mut self) {
        self.stage = H2LifecycleStage::Lost;
    }

    /// An exchange begins.
    pub(super) fn begin_stream(&mut self, timer: &ConnectionTimer) {
        self.idle.begin_stream(timer);
    }

    /// Whether the connection has been idle for so long that it gives memory back.
    pub(super) fn rests(&self, now_ms: u64) -> bool {
        self.idle.idle_for(REST_AFTER_MS).is_some_and(|at_ms| now_ms >= at_ms)
    }

    /// Output was written, or has waited in vain.
    pub(super) fn note_output(&mut self, has_moved: bool) {
        self.has_written |= has_moved;
    }

    /// Ready when the connection is to end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut H1Connection,
        timer: &ConnectionTimer,
        link: &DownstreamH2Link,
        load: ConnectionLoad,
    ) -> Poll<H2CloseMode> {
        let in_flight = load.in_flight;
        let now_ms = timer.context.local.now_ms();
        let is_written = link.engine().output_bytes() == 0;
        match self.stage {
            H2LifecycleStage::Lost if in_flight == 0 => return Poll::Ready(H2CloseMode::AtOnce),
            H2LifecycleStage::Failed if in_flight == 0 && is_written => {
                return Poll::Ready(H2CloseMode::InOrder);
            }
            _ => {}
        }
        if in_flight == 0 {
            self.idle.note_idle(now_ms);
        }
        self.drain(connection, timer, link, now_ms);
        if link.engine().is_drained() && is_written && link.engine().output_bytes() == 0 {
            return Poll::Ready(H2CloseMode::InOrder);
        }
        if in_flight == 0 && timer.gives_way() {
            return self.give_way(cx, connection, link);
        }
        self.look_at_frames(link, now_ms, is_written);
        if let Some(ended) = self.expire(timer, link, now_ms) {
            return Poll::Ready(ended);
        }
        self.arm(cx, timer, link, load, now_ms);
        if in_flight == 0 {
            self.idle.list(timer, connection.requests);
        }
        Poll::Pending
    }

    /// Begins to drain if the connection is to end, and goes on with it.
    fn drain(
        &mut self,
        connection: &H1Connection,
        timer: &ConnectionTimer,
        link: &DownstreamH2Link,
        now_ms: u64,
    ) {
        match self.stage {
            H2LifecycleStage::Open
                if must_drain(timer, connection.is_closing(now_ms), connection.requests) =>
            {
                self.announce(link, now_ms);
            }
            H2LifecycleStage::Announced(at_ms) if now_ms >= at_ms => {
                self.stage = H2LifecycleStage::Draining;
                link.engine().shutdown();
            }
            _ => {}
        }
    }

    fn announce(&mut self, link: &DownstreamH2Link, now_ms: u64) {
        self.stage = H2LifecycleStage::Announced(now_ms + DRAIN_STEP_MS);
        link.engine().shutdown();
    }

    /// Ends at once for another client. A request that is on its way is not taken, which GOAWAY tells its
    /// client.
    #[cold]
    fn give_way(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut H1Connection,
        link: &DownstreamH2Link,
    ) -> Poll<H2CloseMode> {
        let mut engine = link.engine();
        engine.shutdown();
        engine.shutdown();
        match poll_write_output(&engine, cx, &mut connection.stream) {
            Poll::Ready(Ok(count)) if count == engine.output_bytes() => Poll::Ready(H2CloseMode::AtOnce),
            _ => Poll::Ready(H2CloseMode::Cut),
        }
    }

    /// Notes since when a head or the output waits.
    fn look_at_frames(&mut self, link: &DownstreamH2Link, now_ms: u64, is_written: bool) {
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
    fn expire(
        &mut self,
        timer: &ConnectionTimer,
        link: &DownstreamH2Link,
        now_ms: u64,
    ) -> Option<H2CloseMode> {
        let is_over = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| now_ms >= at_ms);
        if is_over(self.blocked_until(timer)) {
            // Exchanges that wait for the same client have ended by their own timeouts, or end now.
            link.engine().connection_lost();
            return Some(H2CloseMode::Cut);
        }
        if is_over(self.head_until(timer)) && self.reads() {
            link.engine().close(ErrorCode::NO_ERROR);
            self.stage = H2LifecycleStage::Failed;
        }
        if is_over(self.idle_until(timer, link)) && self.stage == H2LifecycleStage::Open {
            if link.engine().peer_settings().has_arrived {
                self.announce(link, now_ms);
            } else {
                link.engine().close(ErrorCode::NO_ERROR);
                self.stage = H2LifecycleStage::Failed;
            }
        }
        None
    }

    /// Sets the deadline for what expires first.
    fn arm(
        &mut self,
        cx: &Context<'_>,
        timer: &ConnectionTimer,
        link: &DownstreamH2Link,
        load: ConnectionLoad,
        now_ms: u64,
    ) {
        let step_until = match self.stage {
            H2LifecycleStage::Announced(at_ms) => Some(at_ms),
            _ => None,
        };
        let idle_until = self.idle_until(timer, link).filter(|_| self.stage == H2LifecycleStage::Open);
        let rest_until = self.idle.idle_for(REST_AFTER_MS).filter(|_| load.holds_slots);
        let times = [step_until, rest_until, idle_until, self.head_until(timer), self.blocked_until(timer)];
        let next_ms = times.into_iter().flatten().min();
        self.idle.arm(cx, timer, next_ms, now_ms);
    }

    fn idle_until(&self, timer: &ConnectionTimer, link: &DownstreamH2Link) -> Option<u64> {
        self.idle.idle_until(timer, link.engine().peer_settings().has_arrived)
    }

    fn head_until(&self, timer: &ConnectionTimer) -> Option<u64> {
        let from_ms = self.unfinished.map(|(_, from_ms)| from_ms);
        deadline_after(from_ms, timer.context.local.options.limits.head_timeout_ms)
    }

    fn blocked_until(&self, timer: &ConnectionTimer) -> Option<u64> {
        deadline_after(self.blocked_from_ms, timer.context.local.options.limits.send_timeout_ms)
    }
}
