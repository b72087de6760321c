//! Since when a connection with many streams has none, its place among the idle connections of its worker,
//! and the deadline that its task wakes for. It knows no protocol and ends no connection.

use std::task::Context;

use super::h1::timer::ConnectionTimer;
use crate::observe::idle_counts::IdleState;

/// See the module.
pub(super) struct IdleClock {
    /// When the last exchange ended, or the connection began, while there is none.
    from_ms: Option<u64>,
    /// It is among the idle connections of the worker.
    is_listed: bool,
    /// The time that the deadline is set for; 0 before it is.
    armed_for_ms: u64,
}

impl IdleClock {
    /// Of a connection without a stream at `now_ms`.
    pub(super) fn new(now_ms: u64) -> IdleClock {
        IdleClock { from_ms: Some(now_ms), is_listed: false, armed_for_ms: 0 }
    }

    /// A stream begins.
    pub(super) fn begin_stream(&mut self, timer: &ConnectionTimer) {
        self.from_ms = None;
        if std::mem::take(&mut self.is_listed) {
            timer.end_idle();
        }
    }

    /// The connection has no stream at `now_ms`.
    pub(super) fn note_idle(&mut self, now_ms: u64) {
        self.from_ms.get_or_insert(now_ms);
    }

    /// Lists the connection, which has no stream and had `requests`, among the idle ones.
    pub(super) fn list(&mut self, timer: &ConnectionTimer, requests: u32) {
        if !std::mem::replace(&mut self.is_listed, true) {
            timer.begin_idle(if requests == 0 { IdleState::Unspoken } else { IdleState::Idle });
        }
    }

    /// When the connection has been without a stream for `timeout_ms`.
    pub(super) fn idle_for(&self, timeout_ms: u64) -> Option<u64> {
        deadline_after(self.from_ms, timeout_ms)
    }

    /// The end of the wait for a stream: before the client's settings arrived the time of a head, then the
    /// idle time. PING does not prolong it, because a client that wants to keep a connection can send a
    /// request.
    pub(super) fn idle_until(&self, timer: &ConnectionTimer, has_settings: bool) -> Option<u64> {
        let limits = &timer.context.local.options.limits;
        self.idle_for(if has_settings { limits.idle_timeout_ms } else { limits.head_timeout_ms })
    }

    /// Sets the deadline to `next_ms`. One that is set too early only wakes the task once more.
    pub(super) fn arm(
        &mut self,
        cx: &Context<'_>,
        timer: &ConnectionTimer,
        next_ms: Option<u64>,
        now_ms: u64,
    ) {
        if let Some(at_ms) = next_ms
            && (at_ms != self.armed_for_ms || timer.deadline.expired())
        {
            self.armed_for_ms = at_ms;
            timer.deadline.set(cx, at_ms.saturating_sub(now_ms).max(1));
        }
    }
}

/// Whether an open connection that had `requests` is to drain: its listener closes, memory is short, or it
/// had its most requests.
pub(super) fn must_drain(timer: &ConnectionTimer, listener_closes: bool, requests: u32) -> bool {
    let local = &timer.context.local;
    let most = local.options.limits.max_requests_per_connection;
    listener_closes || local.shared.memory.sheds_idle() || (most != 0 && u64::from(requests) >= most)
}

/// The end of a wait that began at `from_ms`; a timeout of 0 has none.
pub(super) fn deadline_after(from_ms: Option<u64>, timeout_ms: u64) -> Option<u64> {
    from_ms.filter(|_| timeout_ms != 0).map(|from_ms| from_ms.saturating_add(timeout_ms))
}
