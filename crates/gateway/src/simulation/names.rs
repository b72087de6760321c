//! The name service of a simulation: names whose answers change, come late or fail. It knows no upstreams.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use net::env;
use net::resolver::{Answer, Lookup, Pending, TtlBounds};

/// How long answers hold, in milliseconds.
const TTL_MS: u64 = 100;
/// The longest an answer takes, in milliseconds.
const LATE_MS: u64 = 30;
/// The gateway asks again so long after a failure, in nanoseconds (its own constant is two seconds).
const RETRY_NS: u64 = 2_000_000_000;
/// Steps and rounded timers, in nanoseconds.
const SLACK_NS: u64 = 50_000_000;

/// Within these answers hold for what they say.
pub(crate) const BOUNDS: TtlBounds =
    TtlBounds { min: Duration::from_millis(1), max: Duration::from_millis(TTL_MS) };
/// When a changed answer must be in force at the latest, in nanoseconds, where nothing fails.
pub(crate) const STALE_NS: u64 = (TTL_MS + LATE_MS) * 1_000_000 + SLACK_NS;
/// The same from the end of a failure.
pub(crate) const STALE_AFTER_FAILURE_NS: u64 = RETRY_NS + LATE_MS * 1_000_000 + SLACK_NS;

/// Names with what they lead to.
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
    /// Nobody answers, or with an error.
    Error,
    /// There is an answer, without an address.
    NoAddress,
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.zone.lock()
    }

    /// From now on `name` leads to `addresses`.
    pub(crate) fn set(&self, name: &str, addresses: Vec<IpAddr>) {
        self.lock().entry(name.to_owned()).or_default().addresses = addresses;
    }

    /// From now on lookups of `name` fail so, or no longer.
    pub(crate) fn fail(&self, name: &str, failure: Option<Failure>) {
        self.lock().entry(name.to_owned()).or_default().failure = failure;
    }
}

impl Lookup for Names {
    fn lookup(&self, name: &str) -> Pending {
        let (names, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            env::sleep_ms(env::random_u64() % LATE_MS).await;
            let Entry { addresses, failure } = names.lock().get(&name).cloned().unwrap_or_default();
            let ttl = BOUNDS.max;
            match failure {
                None => Ok(Answer { addresses, ttl }),
                Some(Failure::NoAddress) => Ok(Answer { addresses: Vec::new(), ttl }),
                Some(Failure::Error) => Err(format!("{name} cannot be looked up")),
            }
        })
    }
}
