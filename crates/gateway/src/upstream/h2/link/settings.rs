//! The SETTINGS of the endpoint, for requests that must know them before they are sent, and changes of our
//! own. It reads no frame.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::{H2Link, LinkStage};
use crate::h2::windows::Windows;
use exchange::deadline::Deadline;

impl H2Link {
    /// Changes the windows of received data if memory has become short, or is no longer.
    #[inline]
    pub(in crate::upstream::h2) fn adapt_windows(&self) {
        let local = &self.local;
        let changed = self.windows.borrow_mut().note(local.shared.memory.sheds_idle(), local.now_ms());
        if let Some(Windows { stream_bytes, connection_bytes }) = changed {
            self.engine().set_window_limits(stream_bytes, connection_bytes);
        }
    }

    /// Whether the endpoint takes extended CONNECT (RFC 8441 section 3); none before its SETTINGS have
    /// arrived.
    pub(in crate::upstream) fn takes_tunnels(&self) -> Option<bool> {
        let engine = self.engine();
        let settings = engine.peer_settings();
        settings.has_arrived.then_some(settings.enable_connect_protocol)
    }

    /// Waits for the SETTINGS of the endpoint. Returns [`H2Link::takes_tunnels`], and none if the connection
    /// ended before.
    pub(in crate::upstream) async fn wait_for_settings(&self) -> Option<bool> {
        poll_fn(|cx| {
            let known = self.takes_tunnels();
            if known.is_some() || self.stage.get() == LinkStage::Lost {
                return Poll::Ready(known);
            }
            let mut waiters = self.settings_waiters.borrow_mut();
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Whether the connection is open and the endpoint allows no stream at all.
    pub(in crate::upstream) fn allows_none(&self) -> bool {
        !self.has_ended() && self.allowed_streams() == Some(0)
    }

    /// Waits until the endpoint allows streams again, or the connection takes none any more; false if neither
    /// happens within `timeout_ms`.
    pub(in crate::upstream) async fn wait_for_streams(&self, timeout_ms: u64) -> bool {
        let deadline = Deadline::new(&self.local);
        let mut is_armed = false;
        poll_fn(|cx| {
            if !self.allows_none() {
                return Poll::Ready(true);
            }
            if !std::mem::replace(&mut is_armed, true) {
                deadline.set(cx, timeout_ms.max(1));
            } else if deadline.expired() {
                return Poll::Ready(false);
            }
            let mut waiters = self.settings_waiters.borrow_mut();
            if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Wakes the requests that wait for the SETTINGS.
    pub(super) fn wake_settings_waiters(&self) {
        self.settings_waiters.take().into_iter().for_each(Waker::wake);
    }
}
