//! The state of a listener as its connections see it: whether it closes, and when each of them ends then.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::command::{AcceptQueuePolicy, ListenerClosing};
use exchange::options::Options;
use net::listener::Listener;

/// Stands for "no end planned".
const NEVER: u64 = u64::MAX;
/// A listener as its connections on this worker see it.
pub(crate) struct OpenListener {
    pub(crate) listener: Arc<Listener>,
    /// Milliseconds of the worker's clock at which the listener began to close; [`NEVER`] while it is open.
    closing_from_ms: Cell<u64>,
    /// The time at which the last of its connections begins to close.
    all_closing_from_ms: Cell<u64>,
    closing: Cell<ListenerClosing>,
    began_to_close: Notify,
    /// The value of Alt-Svc that its responses carry.
    alt_svc: Option<Rc<str>>,
    /// Whether its clients may speak HTTP/2.
    serves_http2: bool,
}

impl OpenListener {
    pub(crate) fn new(listener: Arc<Listener>, options: &Options) -> OpenListener {
        let (wanted, address) = (listener.wanted(), listener.address());
        let alt_svc = options.forward.alt_svc.value(address.port()).filter(|_| wanted.protocols.http3);
        OpenListener {
            alt_svc: alt_svc.map(Rc::from),
            serves_http2: options.serves_http2(wanted.address, address),
            listener,
            closing_from_ms: Cell::new(NEVER),
            all_closing_from_ms: Cell::new(NEVER),
            closing: Cell::new(ListenerClosing::at_once(0)),
            began_to_close: Notify::new(),
        }
    }

    /// The value of Alt-Svc (RFC 7838) that tells clients of HTTP/3; none where it is not served, or not
    /// announced.
    pub(crate) fn alt_svc(&self) -> Option<Rc<str>> {
        self.alt_svc.clone()
    }

    /// Whether its clients may speak HTTP/2, by ALPN over TLS or by prior knowledge without it.
    #[inline]
    pub(crate) fn serves_http2(&self) -> bool {
        self.serves_http2
    }

    /// Whether the connection with this number is to end after the exchange in flight.
    #[inline]
    pub(crate) fn is_closing(&self, connection: u64, now_ms: u64) -> bool {
        self.closing_from_ms.get() != NEVER && self.connection_closes_from_ms(connection) <= now_ms
    }

    /// The time at which this connection is closed if no request comes; none while the listener is open.
    #[inline]
    pub(crate) fn closes_idle_at_ms(&self, connection: u64, is_fresh: bool) -> Option<u64> {
        if self.closing_from_ms.get() == NEVER {
            return None;
        }
        let closing = self.closing.get();
        let wait_ms = if is_fresh { closing.first_ms } else { closing.kept_ms };
        Some(self.connection_closes_from_ms(connection).saturating_add(wait_ms))
    }

    /// Multiples of the golden ratio fall evenly into any range, so connections with successive numbers begin
    /// to close at even intervals.
    fn connection_closes_from_ms(&self, connection: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let fraction = u128::from(connection.wrapping_mul(GOLDEN));
        let offset_ms = (fraction * u128::from(self.closing.get().spread_ms)) >> 64;
        let from_ms = self.closing_from_ms.get().saturating_add(offset_ms as u64);
        from_ms.min(self.all_closing_from_ms.get())
    }

    /// Treatment of the kernel's queue, once the listener is closing.
    pub(crate) fn queue(&self) -> Option<AcceptQueuePolicy> {
        (self.closing_from_ms.get() != NEVER).then(|| self.closing.get().queue)
    }

    /// Ready when the listener begins to close; for callers that have seen it open.
    pub(crate) async fn closing(&self) {
        self.began_to_close.notified().await;
    }

    /// Begins to close at `now_ms`. The second time it only shortens the spread of the first.
    pub(crate) fn close(&self, now_ms: u64, closing: ListenerClosing) {
        let all_from_ms = now_ms.saturating_add(closing.spread_ms);
        self.all_closing_from_ms.set(all_from_ms.min(self.all_closing_from_ms.get()));
        if self.closing_from_ms.get() == NEVER {
            self.closing_from_ms.set(now_ms);
            self.closing.set(closing);
        }
        self.began_to_close.notify_waiters();
    }
}

#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;
    use net::listener::{Protocols, WantedListener};

    fn open_listener() -> OpenListener {
        let wanted = WantedListener { address: "127.0.0.1:0".parse().unwrap(), protocols: Protocols::HTTP1 };
        OpenListener::new(Arc::new(Listener::bind(wanted, 1).unwrap()), &exchange::testing::options())
    }

    #[test]
    fn open_listener_closes_no_connection() {
        let open = open_listener();
        assert!(!open.is_closing(1, u64::MAX - 1));
        assert_eq!(open.closes_idle_at_ms(1, true), None);
    }

    #[test]
    fn connections_begin_to_close_evenly() {
        const SPREAD_MS: u64 = 10_000;
        let open = open_listener();
        let closing = ListenerClosing {
            spread_ms: SPREAD_MS,
            kept_ms: 200,
            first_ms: 500,
            queue: AcceptQueuePolicy::Leave,
        };
        open.close(1_000, closing);
        for (after_ms, least, most) in [(0, 0, 1), (2_500, 24, 27), (5_000, 49, 52), (SPREAD_MS, 100, 100)] {
            let count = (1..=100).filter(|id| open.is_closing(*id, 1_000 + after_ms)).count();
            assert!((least..=most).contains(&count), "{count} of 100 after {after_ms} ms");
        }
        let fresh = open.closes_idle_at_ms(7, true).unwrap();
        assert_eq!(fresh, open.closes_idle_at_ms(7, false).unwrap() + 300);
    }

    #[test]
    fn second_close_shortens_the_spread() {
        let open = open_listener();
        let closing = ListenerClosing {
            spread_ms: 10_000,
            kept_ms: 200,
            first_ms: 200,
            queue: AcceptQueuePolicy::Leave,
        };
        open.close(1_000, closing);
        let early = (1..=100).filter(|id| open.is_closing(*id, 2_000)).count();
        open.close(2_000, ListenerClosing { spread_ms: 0, kept_ms: 9_000, first_ms: 9_000, ..closing });
        assert!((1..=100).all(|id| open.is_closing(id, 2_000)));
        assert!((1..=100).all(|id| open.closes_idle_at_ms(id, false) <= Some(2_200)));
        assert!(early > 0 && (1..=100).any(|id| open.closes_idle_at_ms(id, false) < Some(2_200)));
    }
}
