//! Questions for certificates of names that no certificate covers: the rule that allows a name, and bounds on
//! how many are noted and ordered. Questions come from handshakes, so that a client decides how many there
//! are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::acme::{CertificateQueryOutcome, OnDemand};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::config::OnDemandConfig;
use super::names;

/// The names that handshakes have asked for.
pub(super) struct Wishes {
    allow: Vec<String>,
    state: Mutex<OnDemandState>,
    noted: Notify,
}

#[derive(Default)]
struct OnDemandState {
    waiting: HashSet<String>,
    /// When a name was taken; it is not noted again for a while.
    taken: HashMap<String, Instant>,
}

impl Wishes {
    pub(super) fn new(config: &OnDemandConfig) -> Arc<Wishes> {
        Arc::new(Wishes { allow: config.allow.clone(), state: Mutex::default(), noted: Notify::new() })
    }

    /// The names that wait, at most `count` of them; the others go on waiting.
    pub(super) fn take(&self, count: usize) -> Vec<String> {
        let mut state = self.state.lock();
        let names: Vec<String> = state.waiting.iter().take(count).cloned().collect();
        let now = Instant::now();
        state.taken.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
        for name in &names {
            state.waiting.remove(name);
            state.taken.insert(name.clone(), now);
        }
        names
    }

    /// Whether the rule allows a name.
    pub(super) fn allows(&self, name: &str) -> bool {
        names::is_allowed(&self.allow, name)
    }

    /// Until a name is noted.
    pub(super) async fn noted(&self) {
        self.noted.notified().await;
    }

    fn note(&self, name: &str) -> CertificateQueryOutcome {
        let is_plain = !name.starts_with("*.") && names::checked(name).is_ok_and(|checked| checked == name);
        if !is_plain || !self.allows(name) {
            return CertificateQueryOutcome::NotAllowed;
        }
        let mut state = self.state.lock();
        let is_recent = state.taken.get(name).is_some_and(|at| at.elapsed() < AGAIN_AFTER);
        if is_recent || state.waiting.contains(name) {
            return CertificateQueryOutcome::Noted;
        }
        if state.waiting.len() >= WAITING_MAX || state.taken.len() >= TAKEN_MAX {
            return CertificateQueryOutcome::Full;
        }
        state.waiting.insert(name.to_owned());
        drop(state);
        self.noted.notify_one();
        CertificateQueryOutcome::Noted
    }
}

/// The questions as the data plane asks them.
pub(super) struct Asking(pub(super) Arc<Wishes>);

impl OnDemand for Asking {
    fn ask(&self, name: &str) -> CertificateQueryOutcome {
        self.0.note(name)
    }
}

/// Bounds how often something happens: a bucket that fills with time.
#[derive(Debug)]
pub(super) struct TokenBucket {
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    pub(super) fn new(now: Instant) -> TokenBucket {
        TokenBucket { tokens: RATE_BURST, filled: now }
    }

    /// How many times it may happen now, at most `wanted`; they are counted.
    pub(super) fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.tokens = (self.tokens + passed * RATE_PER_SECOND).min(RATE_BURST);
        let mut taken = 0;
        while taken < wanted && self.tokens >= 1.0 {
            self.tokens -= 1.0;
            taken += 1;
        }
        taken
    }
}

/// Names that wait until they are taken, which is done within a second unless the rate is used up.
const WAITING_MAX: usize = 256;
/// Names that were taken lately and are remembered.
const TAKEN_MAX: usize = 4096;
/// A name that was taken is not noted again before: its order runs, or has failed and has a pause of its own.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// New names on demand at once, and in the long run one in 36 seconds, which are the 300 orders in three
/// hours that Let's Encrypt allows an account.
const RATE_BURST: f64 = 20.0;
const RATE_PER_SECOND: f64 = 1.0 / 36.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes() -> Arc<Wishes> {
        Wishes::new(&OnDemandConfig { allow: vec!["*.shop.example".to_owned()], limit: 10 })
    }

    #[test]
    fn only_allowed_names_are_noted_once() {
        let wishes = wishes();
        let check = |name: &str, expected| assert_eq!(wishes.note(name), expected, "{name}");
        check("a.shop.example", CertificateQueryOutcome::Noted);
        check("a.shop.example", CertificateQueryOutcome::Noted);
        for name in [
            "shop.example",
            "a.b.shop.example",
            "*.shop.example",
            "A.shop.example",
            "a b.shop.example",
            "",
            "a.test",
        ] {
            check(name, CertificateQueryOutcome::NotAllowed);
        }
        assert_eq!(wishes.take(9), ["a.shop.example"]);
        check("a.shop.example", CertificateQueryOutcome::Noted);
        assert!(wishes.take(9).is_empty(), "it was taken a moment ago");
    }

    #[test]
    fn flood_of_names_is_bounded() {
        let wishes = wishes();
        for number in 0..WAITING_MAX {
            assert_eq!(wishes.note(&format!("n{number}.shop.example")), CertificateQueryOutcome::Noted);
        }
        assert_eq!(wishes.note("more.shop.example"), CertificateQueryOutcome::Full);
        assert_eq!(wishes.take(3).len(), 3);
        assert_eq!(wishes.note("more.shop.example"), CertificateQueryOutcome::Noted);
    }

    #[test]
    fn rate_allows_a_burst_and_refills() {
        let start = Instant::now();
        let mut rate = TokenBucket::new(start);
        assert_eq!(rate.take(50, start), 20);
        assert_eq!(rate.take(1, start + Duration::from_secs(30)), 0);
        assert_eq!(rate.take(5, start + Duration::from_secs(80)), 2);
        assert_eq!(rate.take(50, start + Duration::from_secs(10_000)), 20);
    }
}
