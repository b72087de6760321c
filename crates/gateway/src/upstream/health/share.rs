//! One check for all upstreams that ask a node the same: a node in a thousand upstreams is asked twice in an
//! interval, and not a thousand times. The outcome of a check serves others that are due within half of their
//! interval, so that two results of one upstream never come from the same check.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use super::kept::{KeptConnections, KeptSlot};
use super::outcome::CheckOutcome;
use super::schedule::Id;

/// Everything that a node sees of a check; two checks with equal keys are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckKey {
    pub(super) address: SocketAddr,
    /// With a port only where `upstream_host` or `host` is written with one; an IPv6 address is in brackets.
    pub(super) host: Box<str>,
    /// The bytes of an HTTP check, the service of one by gRPC; none for a connection alone.
    pub(super) asks: CheckQuestion,
    /// The identity of TLS by its number.
    pub(super) tls: Option<u64>,
    pub(super) timeout_ms: u64,
}

/// The question of a check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CheckQuestion {
    Connection,
    Http(Box<[u8]>),
    Grpc(Box<str>),
}

/// The checks that are in use.
#[derive(Default)]
pub(super) struct Shares {
    known: HashMap<Rc<CheckKey>, Weak<SharedCheck>>,
    kept: Rc<KeptConnections>,
}

impl Shares {
    /// The check for `key`, made if no target holds it.
    pub(super) fn of(&mut self, key: CheckKey) -> Rc<SharedCheck> {
        if let Some(share) = self.known.get(&key).and_then(Weak::upgrade) {
            return share;
        }
        // Checks without a holder are removed whenever the table would have to grow.
        if self.known.len() == self.known.capacity() {
            self.known.retain(|_, share| share.strong_count() > 0);
        }
        let key = Rc::new(key);
        let share = Rc::new(SharedCheck::new(key.clone(), KeptSlot::new(&self.kept)));
        self.known.insert(key, Rc::downgrade(&share));
        share
    }
}

/// One check, its last outcome, and the targets that wait for the next one.
pub(super) struct SharedCheck {
    pub(super) key: Rc<CheckKey>,
    /// The connection of the last check, where the next one may use it.
    pub(super) connection: KeptSlot,
    /// When the check in flight began.
    in_flight: Cell<Option<u64>>,
    /// The last outcome, and when its check began.
    last: RefCell<Option<(u64, CheckOutcome)>>,
    /// Targets that take the outcome of the check in flight; bounded by the nodes of all upstreams.
    waiting: RefCell<Vec<Id>>,
}

/// The next step of a due target.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It makes the check.
    Check,
    /// It waits for the check in flight.
    Wait,
    /// It takes this outcome, of the check that began at this time.
    Take(u64, CheckOutcome),
}

impl SharedCheck {
    fn new(key: Rc<CheckKey>, connection: KeptSlot) -> SharedCheck {
        let (in_flight, last, waiting) = (Cell::new(None), RefCell::default(), RefCell::default());
        SharedCheck { key, connection, in_flight, last, waiting }
    }

    /// The step of `target`, which is due now, has checks at this interval, and last counted the check that
    /// began at `counted_ms`. It never takes the outcome of that check again: passive checks may have taken
    /// the node out since.
    pub(super) fn begin(&self, target: Id, now_ms: u64, interval_ms: u64, counted_ms: Option<u64>) -> Begin {
        if self.in_flight.get().is_some() {
            self.waiting.borrow_mut().push(target);
            return Begin::Wait;
        }
        if let Some((began_ms, outcome)) = &*self.last.borrow()
            && now_ms < began_ms.saturating_add(interval_ms / 2)
            && counted_ms != Some(*began_ms)
        {
            return Begin::Take(*began_ms, outcome.clone());
        }
        self.in_flight.set(Some(now_ms));
        Begin::Check
    }

    /// The check has ended; returns its beginning and the targets that waited for it. An outcome of none, or
    /// without an observation, serves no later target.
    pub(super) fn ended(&self, outcome: Option<&CheckOutcome>) -> (u64, Vec<Id>) {
        let began_ms = self.in_flight.take().unwrap_or_default();
        let useful = outcome.filter(|outcome| outcome.observation.is_some());
        *self.last.borrow_mut() = useful.map(|outcome| (began_ms, outcome.clone()));
        (began_ms, std::mem::take(&mut *self.waiting.borrow_mut()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(timeout_ms: u64) -> CheckKey {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        CheckKey { address, host: "a".into(), asks: CheckQuestion::Connection, tls: None, timeout_ms }
    }

    #[test]
    fn equal_checks_are_one_while_held() {
        let mut shares = Shares::default();
        let first = shares.of(key(1));
        assert!(Rc::ptr_eq(&first, &shares.of(key(1))));
        assert!(!Rc::ptr_eq(&first, &shares.of(key(2))));
        first.begin(1, 0, 1_000, None);
        first.ended(Some(&CheckOutcome::status(200)));
        drop(first);
        assert_eq!(
            shares.of(key(1)).begin(1, 0, 1_000, None),
            Begin::Check,
            "a check without holder is forgotten"
        );
    }

    #[test]
    fn outcome_serves_half_an_interval_from_its_beginning() {
        let share = Shares::default().of(key(1));
        let outcome = CheckOutcome::status(200);
        assert_eq!(share.begin(1, 1_000, 1_000, None), Begin::Check);
        assert_eq!(
            (share.begin(2, 1_100, 1_000, None), share.begin(3, 1_700, 1_000, None)),
            (Begin::Wait, Begin::Wait)
        );
        assert_eq!(share.ended(Some(&outcome)), (1_000, vec![2, 3]));
        // now, interval → what the target does
        assert_eq!(share.begin(4, 1_499, 1_000, None), Begin::Take(1_000, outcome.clone()));
        assert_eq!(share.begin(4, 1_500, 2_000, None), Begin::Take(1_000, outcome));
        assert_eq!(share.begin(4, 1_500, 1_000, None), Begin::Check);
        assert_eq!(share.ended(None), (1_500, vec![]));
        assert_eq!(
            share.begin(5, 1_501, 1_000, None),
            Begin::Check,
            "a check that was not made serves no other"
        );
        share.ended(Some(&CheckOutcome::not_made("no descriptor")));
        assert_eq!(share.begin(5, 1_502, 1_000, None), Begin::Check);
    }

    #[test]
    fn outcome_is_taken_once_by_a_target() {
        let share = Shares::default().of(key(1));
        let outcome = CheckOutcome::status(200);
        assert_eq!(share.begin(1, 1_000, 10_000, None), Begin::Check);
        share.ended(Some(&outcome));
        // The interval grew to a minute since, because the node went down.
        assert_eq!(share.begin(2, 11_000, 60_000, Some(900)), Begin::Take(1_000, outcome));
        assert_eq!(share.begin(1, 11_000, 60_000, Some(1_000)), Begin::Check);
    }
}
