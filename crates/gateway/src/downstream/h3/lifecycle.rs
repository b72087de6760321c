//! The deadlines of an HTTP/3 connection, its place among the idle ones, its drain and its end. It reads and
//! writes no stream; it tells the engine when to announce the end.
//!
//! A connection drains in two steps (RFC 9114 section 5.2), so that no request is lost that was on its way:
//! GOAWAY for all streams, then, after a few round trips, GOAWAY with the first stream that is not taken.

use std::task::{Context, Poll};

use http3::ErrorCode;

use super::connection::H3Connection;
use super::link::H3Link;
use crate::downstream::h1::timer::ConnectionTimer;
use crate::downstream::idle_clock::{IdleClock, must_drain};

/// The time between the two steps: a few round trips of a slow network.
const DRAIN_STEP_MS: u64 = 1_000;
/// The time between the second step and the close, in which the client learns which requests were not taken.
const LAST_STEP_MS: u64 = 200;

/// See the module.
pub(super) struct H3Lifecycle {
    stage: H3LifecycleStage,
    idle: IdleClock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum H3LifecycleStage {
    Open,
    /// The end was announced; the second step is due at this time.
    Announced(u64),
    /// Later streams are rejected; the connection may be closed from this time on.
    Draining(u64),
}

impl H3Lifecycle {
    /// Of a connection without a stream at `now_ms`.
    pub(super) fn new(now_ms: u64) -> H3Lifecycle {
        H3Lifecycle { stage: H3LifecycleStage::Open, idle: IdleClock::new(now_ms) }
    }

    /// A stream begins.
    pub(super) fn begin_stream(&mut self, timer: &ConnectionTimer) {
        self.idle.begin_stream(timer);
    }

    /// Ready when the connection is over; it was closed then, or is lost.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &H3Connection,
        timer: &ConnectionTimer,
        link: &H3Link,
        in_flight: usize,
    ) -> Poll<()> {
        if link.is_lost() {
            return if in_flight == 0 { Poll::Ready(()) } else { Poll::Pending };
        }
        let now_ms = timer.context.local.now_ms();
        if in_flight == 0 {
            self.idle.note_idle(now_ms);
        }
        self.drain(connection, timer, link, now_ms);
        let is_over = matches!(self.stage, H3LifecycleStage::Draining(from_ms) if now_ms >= from_ms);
        if in_flight == 0 && (is_over || timer.gives_way()) {
            link.close(ErrorCode::NO_ERROR, "");
            return Poll::Ready(());
        }
        if self.stage == H3LifecycleStage::Open
            && self.idle_until(timer, link).is_some_and(|at_ms| now_ms >= at_ms)
        {
            self.announce(link, now_ms);
        }
        self.arm(cx, timer, link, now_ms);
        if in_flight == 0 {
            self.idle.list(timer, connection.requests);
        }
        Poll::Pending
    }

    /// Begins to drain if the connection is to end, and goes on with it.
    fn drain(&mut self, connection: &H3Connection, timer: &ConnectionTimer, link: &H3Link, now_ms: u64) {
        match self.stage {
            H3LifecycleStage::Open
                if must_drain(timer, connection.is_closing(now_ms), connection.requests) =>
            {
                self.announce(link, now_ms);
            }
            H3LifecycleStage::Announced(at_ms) if now_ms >= at_ms => {
                self.stage = H3LifecycleStage::Draining(now_ms + LAST_STEP_MS);
                link.engine().finish_shutdown();
            }
            _ => {}
        }
    }

    fn announce(&mut self, link: &H3Link, now_ms: u64) {
        self.stage = H3LifecycleStage::Announced(now_ms + DRAIN_STEP_MS);
        link.engine().shutdown();
    }

    /// Sets the deadline for what expires first.
    fn arm(&mut self, cx: &Context<'_>, timer: &ConnectionTimer, link: &H3Link, now_ms: u64) {
        let step_until = match self.stage {
            H3LifecycleStage::Open => self.idle_until(timer, link),
            H3LifecycleStage::Announced(at_ms) | H3LifecycleStage::Draining(at_ms) => {
                Some(at_ms).filter(|at_ms| *at_ms > now_ms)
            }
        };
        let settings_until = link.engine().settings_deadline_ms();
        let next_ms = step_until.into_iter().chain(settings_until).min();
        self.idle.arm(cx, timer, next_ms, now_ms);
    }

    fn idle_until(&self, timer: &ConnectionTimer, link: &H3Link) -> Option<u64> {
        self.idle.idle_until(timer, link.engine().peer_settings().has_arrived)
    }
}
