//! Fills in progress: one for each key of a zone, so that requests that miss together become one request to
//! the upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use stdx::hash::FastMap;
use tokio::sync::Notify;

/// Fills of one zone at the same time that others may wait for; requests beyond them do not wait.
const FLIGHTS_MAX: usize = 65_536;

/// The fills of one zone.
#[derive(Default)]
pub(super) struct Flights(Mutex<FastMap<Arc<[u8]>, Arc<Flight>>>);

/// A fill in progress.
pub(super) struct Flight {
    /// The key without its variant.
    primary: Arc<[u8]>,
    /// It has ended, whether or not there is an entry now.
    ended: AtomicBool,
    /// The response cannot be stored: waiting requests need not wait for each other.
    passes: AtomicBool,
    /// The key was purged meanwhile, so that the response must not be stored.
    purged: AtomicBool,
    notify: Notify,
}

/// The right to fill a key; dropping it lets the others go on.
pub(super) struct Leader {
    flights: Arc<Flights>,
    key: Arc<[u8]>,
    flight: Arc<Flight>,
}

/// The way on for a request that misses.
pub(super) enum FlightRole {
    /// It asks the upstream, and others wait for it.
    Lead(Leader),
    /// It waits for another one.
    Wait(Arc<Flight>),
    /// It asks the upstream for itself.
    Alone,
}

impl Flights {
    /// Takes part in the fill of `key`.
    /// `primary` is the key without its variant.
    pub(super) fn join(self: &Arc<Self>, key: &Arc<[u8]>, primary: &Arc<[u8]>) -> FlightRole {
        let mut all = self.0.lock();
        if let Some(flight) = all.get(key) {
            return if flight.is_released() { FlightRole::Alone } else { FlightRole::Wait(flight.clone()) };
        }
        if all.len() >= FLIGHTS_MAX {
            return FlightRole::Alone;
        }
        let flight = Arc::new(Flight {
            primary: primary.clone(),
            ended: AtomicBool::new(false),
            passes: AtomicBool::new(false),
            purged: AtomicBool::new(false),
            notify: Notify::new(),
        });
        all.insert(key.clone(), flight.clone());
        FlightRole::Lead(Leader { flights: self.clone(), key: key.clone(), flight })
    }

    /// Notes that a key was purged: a response that is under way for one of its variants is older than that.
    /// A purge is rare, and looks at all fills.
    pub(super) fn purge(&self, primary: &[u8]) {
        for flight in self.0.lock().values().filter(|flight| *flight.primary == *primary) {
            flight.purged.store(true, Ordering::Relaxed);
        }
    }
}

impl Flight {
    /// Whether it goes on and others do not wait for it.
    fn is_released(&self) -> bool {
        self.passes.load(Ordering::Relaxed)
    }

    /// Waits until the fill has ended. Gives whether the response cannot be stored.
    pub(super) async fn ended(&self) -> bool {
        // Made before the look, so that an end in between is not missed.
        let notified = self.notify.notified();
        if !self.ended.load(Ordering::Acquire) {
            notified.await;
        }
        self.passes.load(Ordering::Relaxed)
    }
}

impl Leader {
    /// Says that the response cannot be stored.
    pub(super) fn pass(self) {
        self.flight.passes.store(true, Ordering::Relaxed);
    }

    /// Lets the others go on by themselves, while the response may be stored still.
    pub(super) fn release(&self) {
        self.flight.passes.store(true, Ordering::Relaxed);
        self.flight.ended.store(true, Ordering::Release);
        self.flight.notify.notify_waiters();
    }

    /// Whether the key was purged since the fill began.
    pub(super) fn is_purged(&self) -> bool {
        self.flight.purged.load(Ordering::Relaxed)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.flights.0.lock().remove(&self.key);
        self.flight.ended.store(true, Ordering::Release);
        self.flight.notify.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_until_it_ends() {
        let flights = Arc::<Flights>::default();
        let key: Arc<[u8]> = b"k"[..].into();
        let FlightRole::Lead(leader) = flights.join(&key, &key) else { panic!("no other request fills") };
        let FlightRole::Wait(flight) = flights.join(&key, &key) else { panic!("one fills already") };
        flights.purge(b"k");
        assert!(leader.is_purged());
        leader.pass();
        let mut ended = std::pin::pin!(flight.ended());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(ended.as_mut().poll(&mut cx), std::task::Poll::Ready(true));
        assert!(matches!(flights.join(&key, &key), FlightRole::Lead(_)));
    }

    #[test]
    fn released_fill_is_waited_for_by_nobody() {
        let flights = Arc::<Flights>::default();
        let key: Arc<[u8]> = b"k"[..].into();
        let FlightRole::Lead(leader) = flights.join(&key, &key) else { panic!("no other request fills") };
        let FlightRole::Wait(flight) = flights.join(&key, &key) else { panic!("one fills already") };
        leader.release();
        let mut ended = std::pin::pin!(flight.ended());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(ended.as_mut().poll(&mut cx), std::task::Poll::Ready(true));
        assert!(matches!(flights.join(&key, &key), FlightRole::Alone));
        flights.purge(b"k");
        assert!(leader.is_purged(), "a response that is stored later is still known");
    }
}
