//! The name service of a simulation: names with changing, late or failing answers. It knows no upstreams.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use net::env;
use net::resolver::{Lookup, LookupAnswer, LookupFuture, TtlBounds};

/// Time to live of an answer, in milliseconds.
const TTL_MS: u64 = 100;
/// Longest delay of an answer, in milliseconds.
const LATE_MS: u64 = 30;
/// Time after a failure at which the gateway asks again, in nanoseconds (two seconds, as its own constant).
const RETRY_NS: u64 = 2_000_000_000;
/// Allowance for the steps of a change and for rounded timers, in nanoseconds.
const SLACK_NS: u64 = 50_000_000;

/// Bounds of the time to live that leave the answers' own value unchanged.
pub(crate) const BOUNDS: TtlBounds =
    TtlBounds { min: Duration::from_millis(1), max: Duration::from_millis(TTL_MS) };
/// Latest time at which a changed answer must be in force if no lookup fails, in nanoseconds.
pub(crate) const STALE_NS: u64 = (TTL_MS + LATE_MS) * 1_000_000 + SLACK_NS;
/// Latest time at which a changed answer must be in force after the end of a failure, in nanoseconds.
pub(crate) const STALE_AFTER_FAILURE_NS: u64 = RETRY_NS + LATE_MS * 1_000_000 + SLACK_NS;

/// Names and their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    zone: Arc<Mutex<BTreeMap<String, Entry>>>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    addresses: Vec<IpAddr>,
    failure: Option<Failure>,
}

/// How a lookup fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The name server does not answer, or answers with an error.
    Error,
    /// The answer holds no address.
    NoAddress,
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.zone.lock()
    }

    /// Makes `name` lead to `addresses` from now on.
    pub(crate) fn set(&self, name: &str, addresses: Vec<IpAddr>) {
        self.lock().entry(name.to_owned()).or_default().addresses = addresses;
    }

    /// Makes lookups of `name` fail from now on, or succeed again with `None`.
    pub(crate) fn fail(&self, name: &str, failure: Option<Failure>) {
        self.lock().entry(name.to_owned()).or_default().failure = failure;
    }
}

impl Lookup for Names {
    fn lookup(&self, name: &str) -> LookupFuture {
        let (names, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            env::sleep_ms(env::random_u64() % LATE_MS).await;
            let Entry { addresses, failure } = names.lock().get(&name).cloned().unwrap_or_default();
            let ttl = BOUNDS.max;
            match failure {
                None => Ok(LookupAnswer { addresses, ttl, failure: None }),
                Some(Failure::NoAddress) => Ok(LookupAnswer { ttl, ..LookupAnswer::default() }),
                Some(Failure::Error) => Err(format!("{name} cannot be looked up")),
            }
        })
    }
}
