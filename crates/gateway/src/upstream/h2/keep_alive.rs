//! PINGs of a connection with requests that wait: an endpoint that has vanished without closing is found by
//! them. It sends none without a request.

use std::rc::Rc;
use std::task::Context;

use super::link::H2Link;
use exchange::WorkerLocal;
use exchange::deadline::Deadline;
use exchange::failure::Cause;

/// The time after the second PING without a response in between. gRPC servers end a connection with too many
/// PINGs that are less than five minutes apart, and count anew when they send a response.
const LATER_PINGS_MS: u64 = 330_000;

/// See the module.
pub(super) struct KeepAlive {
    deadline: Deadline,
    /// Since when the endpoint has been silent while a stream waited; none without a stream.
    silent_from_ms: Option<u64>,
    /// The PING that was sent has not been answered since this time.
    pinged_at_ms: Option<u64>,
    /// PINGs since the endpoint last made progress with a stream.
    pings: u32,
    armed_for_ms: u64,
}

impl KeepAlive {
    pub(super) fn new(local: &Rc<WorkerLocal>) -> KeepAlive {
        KeepAlive {
            deadline: Deadline::new(local),
            silent_from_ms: None,
            pinged_at_ms: None,
            pings: 0,
            armed_for_ms: 0,
        }
    }

    /// Bytes arrived, or not; the endpoint made progress with a stream, or not.
    pub(super) fn note(&mut self, link: &H2Link, has_read: bool, has_progress: bool) {
        if has_progress {
            self.pings = 0;
        }
        let is_waiting = link.active() > 0;
        if has_read || !is_waiting {
            self.pinged_at_ms = None;
            self.silent_from_ms = is_waiting.then(|| link.local().now_ms());
        } else {
            self.silent_from_ms.get_or_insert_with(|| link.local().now_ms());
        }
    }

    /// Sends what is due, ends a connection without an answer, and sets the deadline.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, link: &H2Link) {
        let limits = &link.local().options.limits.upstream_http2;
        let Some(silent_from_ms) = self.silent_from_ms.filter(|_| limits.ping_after_ms != 0) else { return };
        let now_ms = link.local().now_ms();
        let due_ms = match self.pinged_at_ms {
            Some(pinged_at_ms) => {
                let until_ms = pinged_at_ms.saturating_add(limits.ping_timeout_ms);
                if now_ms >= until_ms {
                    let detail = "it did not answer a PING in time";
                    return link.lose(Cause::ReadTimeout, detail);
                }
                until_ms
            }
            None => {
                let after_ms = match self.pings {
                    0 => limits.ping_after_ms,
                    1 => limits.ping_after_ms.saturating_mul(2),
                    _ => limits.ping_after_ms.max(LATER_PINGS_MS),
                };
                let at_ms = silent_from_ms.saturating_add(after_ms);
                if now_ms >= at_ms {
                    self.pings += 1;
                    self.pinged_at_ms = Some(now_ms);
                    link.engine().ping();
                    // A transport that has ended shows at the next read.
                    let _ = link.flush(cx);
                    now_ms.saturating_add(limits.ping_timeout_ms)
                } else {
                    at_ms
                }
            }
        };
        // A deadline that is set too early only wakes the task once more, so that it is not moved by every
        // byte.
        if self.armed_for_ms <= now_ms || due_ms < self.armed_for_ms {
            self.armed_for_ms = due_ms;
            self.deadline.set(cx, due_ms.saturating_sub(now_ms).max(1));
        }
    }
}
