//! The responses of certificates that are to be stapled, and the time at which each responder is asked next.
//! It does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use model::ObjectKey;

use super::message::Response;
use super::request::{OcspSubject, own_der};

/// Shortest time between two answers of one responder about one certificate.
const REFRESH_MIN: Duration = Duration::from_secs(60);
/// Time until a responder that failed is asked again: it doubles with each failure up to the second value.
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// Requests are spread over this part of their interval, so that instances do not ask at the same moment.
const JITTER_PART: u32 = 5;

/// A chain that an object wants to have stapled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedChain {
    /// The chain, PEM.
    pub(super) chain: String,
    pub(super) skip_verify: bool,
    pub(super) cache_ttl_s: u64,
}

/// The certificates by the digest of their DER.
#[derive(Default)]
pub(super) struct OcspCache {
    known: BTreeMap<Digest, OcspEntry>,
    /// The certificates of each object.
    objects: BTreeMap<ObjectKey, Vec<Digest>>,
}

type Digest = [u8; 32];

struct OcspEntry {
    wanted: WantedChain,
    subject: Result<OcspSubject, String>,
    users: BTreeSet<ObjectKey>,
    response: Option<Response>,
    /// The time of the next request; none while one is out, or if nothing can be asked.
    due: Option<Instant>,
    failures: u32,
}

/// A request that is to be made.
pub(super) struct OcspTask {
    pub(super) digest: Digest,
    pub(super) subject: OcspSubject,
    pub(super) skip_verify: bool,
}

impl OcspCache {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Sets the chains of an object; responses of chains that stay are kept.
    pub(super) fn set(&mut self, key: &ObjectKey, wanted: Vec<WantedChain>) {
        let before = self.objects.remove(key).unwrap_or_default();
        let mut now = Vec::new();
        for wanted in wanted {
            // A chain that cannot be read is reported by the compiler.
            let Ok(der) = own_der(&wanted.chain) else { continue };
            let digest = sha256(&der);
            let entry = self.known.entry(digest).or_insert_with(|| OcspEntry::new(wanted.clone()));
            if entry.wanted != wanted {
                // An unverified response does not outlive the permission to show it.
                let is_trusted = wanted.skip_verify || !entry.wanted.skip_verify;
                let response = entry.response.take().filter(|_| is_trusted);
                *entry =
                    OcspEntry { users: std::mem::take(&mut entry.users), response, ..OcspEntry::new(wanted) };
            }
            if entry.users.insert(key.clone())
                && let Err(reason) = &entry.subject
            {
                tracing::warn!(ssl = %key.id, %reason, "no OCSP response can be stapled");
            }
            now.push(digest);
        }
        for digest in before.iter().filter(|digest| !now.contains(digest)) {
            if let Some(entry) = self.known.get_mut(digest) {
                entry.users.remove(key);
                if entry.users.is_empty() {
                    self.known.remove(digest);
                }
            }
        }
        if !now.is_empty() {
            self.objects.insert(key.clone(), now);
        }
    }

    /// The response to staple to a certificate.
    pub(super) fn response(&self, der: &[u8], now_s: i64) -> Option<Vec<u8>> {
        let entry = self.known.get(&sha256(der))?;
        entry
            .response
            .as_ref()
            .filter(|response| !is_over(response, now_s))
            .map(|response| response.der.clone())
    }

    /// Forgets responses that have ended; the objects that show them.
    pub(super) fn expire(&mut self, now_s: i64) -> BTreeSet<ObjectKey> {
        let mut changed = BTreeSet::new();
        for entry in self.known.values_mut() {
            if entry.response.as_ref().is_some_and(|response| is_over(response, now_s)) {
                entry.response = None;
                changed.extend(entry.users.iter().cloned());
            }
        }
        changed
    }

    /// Forgets requests that are out; their responders are asked at `at`. A request twice does no harm.
    pub(super) fn ask_again(&mut self, at: Instant) {
        let is_out = |entry: &&mut OcspEntry| entry.due.is_none() && entry.subject.is_ok();
        self.known.values_mut().filter(is_out).for_each(|entry| entry.due = Some(at));
    }

    /// At most `most` requests that are due.
    pub(super) fn due(&mut self, now: Instant, most: usize) -> Vec<OcspTask> {
        let due = |(digest, entry): (&Digest, &mut OcspEntry)| {
            let subject = entry.subject.as_ref().ok()?;
            entry.due.take_if(|due| *due <= now)?;
            Some(OcspTask {
                digest: *digest,
                subject: subject.clone(),
                skip_verify: entry.wanted.skip_verify,
            })
        };
        self.known.iter_mut().filter_map(due).take(most).collect()
    }

    /// The time of the next request or the next end of a response, at most an hour away.
    pub(super) fn next(&self, now: Instant, now_s: i64) -> Instant {
        let due = self.known.values().filter_map(|entry| entry.due);
        let ends = self.known.values().filter_map(|entry| entry.response.as_ref()?.next_update_s);
        let ends = ends.map(|end_s| now + Duration::from_secs(u64::try_from(end_s - now_s).unwrap_or(0)));
        due.chain(ends).chain([now + RETRY_MAX]).min().unwrap_or(now)
    }

    /// Takes an answer; the objects to publish again. `random` spreads the next request.
    pub(super) fn answered(
        &mut self,
        digest: &Digest,
        answer: Result<Response, String>,
        (now, now_s): (Instant, i64),
        random: u32,
    ) -> BTreeSet<ObjectKey> {
        let Some(entry) = self.known.get_mut(digest) else { return BTreeSet::new() };
        let ssl = entry.users.iter().map(|key| &*key.id).collect::<Vec<_>>().join(", ");
        match answer {
            Ok(response) => {
                if std::mem::take(&mut entry.failures) > 0 {
                    tracing::info!(ssl, "the OCSP responder answers again");
                }
                let left_s = response
                    .next_update_s
                    .map_or(u64::MAX, |end_s| u64::try_from(end_s - now_s).unwrap_or(0));
                // Half of the time that is left gives a responder that is down as long again to come back.
                let wait = Duration::from_secs(entry.wanted.cache_ttl_s.min(left_s / 2)).max(REFRESH_MIN);
                entry.due = Some(now + spread(wait, random));
                let is_new = entry.response.as_ref().is_none_or(|before| before.der != response.der);
                entry.response = Some(response);
                if is_new { entry.users.clone() } else { BTreeSet::new() }
            }
            Err(reason) => {
                let must_staple = entry.subject.as_ref().is_ok_and(|subject| subject.must_staple);
                let has_response = entry.response.is_some();
                // One line for a loss, not one for each attempt.
                if entry.failures == 0 {
                    tracing::warn!(ssl, %reason, has_response, must_staple, "no new OCSP response; it is tried again");
                }
                let wait = RETRY_MIN.saturating_mul(1 << entry.failures.min(16)).min(RETRY_MAX);
                entry.failures += 1;
                entry.due = Some(now + spread(wait, random));
                BTreeSet::new()
            }
        }
    }

    /// How many certificates have a valid response, and how many have none.
    pub(super) fn counts(&self, now_s: i64) -> (usize, usize) {
        let has_one =
            |entry: &&OcspEntry| entry.response.as_ref().is_some_and(|response| !is_over(response, now_s));
        let valid = self.known.values().filter(has_one).count();
        (valid, self.known.len() - valid)
    }
}

impl OcspEntry {
    fn new(wanted: WantedChain) -> OcspEntry {
        let subject = OcspSubject::of_chain(&wanted.chain);
        let due = subject.is_ok().then(Instant::now);
        OcspEntry { wanted, subject, users: BTreeSet::new(), response: None, due, failures: 0 }
    }
}

fn is_over(response: &Response, now_s: i64) -> bool {
    response.next_update_s.is_some_and(|end_s| end_s <= now_s)
}

/// `wait` less up to a fifth of it.
fn spread(wait: Duration, random: u32) -> Duration {
    let part = wait / JITTER_PART;
    wait - part.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

fn sha256(der: &[u8]) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, der).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ocsp::message::testing::Responder;
    use model::ObjectKind;

    #[test]
    fn responses_are_renewed_and_end() {
        let responder = Responder::new();
        let wanted = WantedChain { chain: responder.chain.clone(), skip_verify: false, cache_ttl_s: 3600 };
        let key = ObjectKey::new(ObjectKind::Ssl, "1").unwrap();
        let mut cache = OcspCache::default();
        cache.set(&key, vec![wanted.clone()]);
        let (now, now_s) = (Instant::now(), 1_000);
        let task = cache.due(now, 8).pop().unwrap();
        assert!(cache.due(now, 8).is_empty(), "one request at a time");
        let wait = |cache: &OcspCache| cache.next(now, now_s).duration_since(now).as_secs();
        // Failures are tried again, later each time.
        let answer =
            |cache: &mut OcspCache, answer| cache.answered(&task.digest, answer, (now, now_s), 0).len();
        for expected_s in [5, 10, 20] {
            assert_eq!(answer(&mut cache, Err("down".to_owned())), 0);
            assert_eq!(wait(&cache), expected_s);
        }
        let response = |end_s| Response { der: vec![1], next_update_s: end_s };
        assert_eq!(answer(&mut cache, Ok(response(Some(now_s + 1_000)))), 1);
        assert_eq!(wait(&cache), 500, "half of its time");
        assert_eq!(answer(&mut cache, Ok(response(Some(now_s + 1_000)))), 0, "the same again");
        answer(&mut cache, Ok(response(None)));
        assert_eq!(wait(&cache), 3_600, "the longest time of the object");
        answer(&mut cache, Ok(response(Some(now_s + 1_000))));
        let der = own_der(&responder.chain).unwrap();
        assert_eq!(cache.response(&der, now_s), Some(vec![1]));
        assert_eq!(cache.counts(now_s), (1, 0));
        // It is never shown behind its end.
        assert_eq!(cache.response(&der, now_s + 1_000), None);
        assert_eq!(cache.expire(now_s + 999).len(), 0);
        assert_eq!(cache.expire(now_s + 1_000).len(), 1);
        cache.set(&key, Vec::new());
        assert!(cache.is_empty());
    }

    #[test]
    fn chain_without_a_responder_is_never_asked() {
        let key = ObjectKey::new(ObjectKind::Ssl, "1").unwrap();
        let mut cache = OcspCache::default();
        let chain = crate::testing::certificate().0.clone();
        cache.set(&key, vec![WantedChain { chain, skip_verify: false, cache_ttl_s: 60 }]);
        assert!(cache.due(Instant::now(), 8).is_empty());
        assert_eq!(cache.counts(0), (0, 1));
    }
}
