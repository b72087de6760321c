//! A stored response: its head, its body and its times. An entry never changes; a refreshed one takes its
//! place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use message::{FieldId, Headers};

use super::disk::DiskFile;
use super::rules::Freshness;

/// A stored response.
pub(super) struct CacheEntry {
    pub(super) status: u16,
    /// The fields to send, without those of one connection, `Content-Length` and `Age`.
    pub(super) headers: Headers,
    pub(super) body: CachedBody,
    pub(super) times: EntryTimes,
    /// The Unix second up to which it is not updated in the background.
    pub(super) held_until_s: AtomicU64,
}

/// The body of an entry.
#[derive(Clone)]
pub(super) enum CachedBody {
    Memory(Bytes),
    Disk(Arc<DiskFile>),
}

/// When a response was stored, and how long it may be used, in seconds; `stored_s` is a Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryTimes {
    pub(super) stored_s: u64,
    /// Its age when it was stored.
    pub(super) initial_age_s: u64,
    /// How long it is fresh after it was stored.
    pub(super) fresh_s: u64,
    /// How long after that it may be sent while another request revalidates it.
    pub(super) while_revalidate_s: u64,
    /// How long after that it may be sent where the upstream fails.
    pub(super) if_error_s: u64,
    /// It is never sent stale.
    pub(super) must_revalidate: bool,
}

impl EntryTimes {
    /// Those of a response that is stored at `now_s`.
    pub(super) fn new(freshness: &Freshness, now_s: u64) -> EntryTimes {
        EntryTimes {
            stored_s: now_s,
            initial_age_s: freshness.initial_age_s,
            fresh_s: freshness.fresh_s,
            while_revalidate_s: freshness.while_revalidate_s,
            if_error_s: freshness.if_error_s,
            must_revalidate: freshness.must_revalidate,
        }
    }

    /// Seconds since it was stored. A wall clock that was set back makes a new entry, not one from the
    /// future.
    pub(super) fn resident_s(&self, now_s: u64) -> u64 {
        now_s.saturating_sub(self.stored_s)
    }

    /// Its age (RFC 9111 section 4.2.3).
    pub(super) fn age_s(&self, now_s: u64) -> u64 {
        self.initial_age_s.saturating_add(self.resident_s(now_s))
    }

    /// Whether it is fresh.
    pub(super) fn is_fresh(&self, now_s: u64) -> bool {
        self.resident_s(now_s) < self.fresh_s
    }

    /// Seconds since it is stale; 0 while it is fresh.
    pub(super) fn stale_s(&self, now_s: u64) -> u64 {
        self.resident_s(now_s).saturating_sub(self.fresh_s)
    }

    /// Whether it may be sent although it is stale, within `limit_s` seconds.
    pub(super) fn may_be_stale(&self, now_s: u64, limit_s: u64) -> bool {
        !self.must_revalidate && limit_s > 0 && self.stale_s(now_s) <= limit_s
    }
}

/// Seconds, beside the rest of the current one, for which a stale entry is not updated after an update in
/// vain: clients are answered from it, and would otherwise send one request after the other to an upstream
/// that fails.
const HOLD_S: u64 = 1;

impl CacheEntry {
    /// Keeps the entry from being updated for a moment.
    pub(super) fn hold_updates(&self, now_s: u64) {
        self.held_until_s.store(now_s + HOLD_S, Ordering::Relaxed);
    }

    /// Whether it is kept from being updated.
    pub(super) fn holds_updates(&self, now_s: u64) -> bool {
        now_s <= self.held_until_s.load(Ordering::Relaxed)
    }

    /// The length of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        match &self.body {
            CachedBody::Memory(bytes) => bytes.len() as u64,
            CachedBody::Disk(file) => file.length(),
        }
    }

    /// The validators for a conditional request to the upstream.
    pub(super) fn validators(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.headers.get_known(FieldId::Etag), self.headers.get_known(FieldId::LastModified))
    }

    /// The bytes that it takes of the zone in memory: its head and, where it is in memory, its body.
    pub(super) fn memory_bytes(&self) -> u64 {
        let body = match &self.body {
            CachedBody::Memory(bytes) => bytes.len(),
            CachedBody::Disk(_) => size_of::<DiskFile>(),
        };
        (body + self.headers.memory() + size_of::<CacheEntry>()) as u64
    }

    /// The entry after a 304 with these fields (RFC 9111 section 3.2): they replace stored fields of the same
    /// name.
    pub(super) fn refreshed(&self, fields: &Headers, times: EntryTimes) -> CacheEntry {
        let mut headers = self.headers.clone();
        let is_newer = |id: FieldId| !KEPT_BY_REFRESH.contains(&id);
        let newer: Vec<_> = kept(fields).filter(|field| is_newer(field.id)).collect();
        for field in &newer {
            headers.remove(&String::from_utf8_lossy(field.name));
        }
        for field in newer {
            headers.push_raw(field.name, field.value);
        }
        CacheEntry {
            status: self.status,
            headers,
            body: self.body.clone(),
            times,
            held_until_s: AtomicU64::new(0),
        }
    }
}

/// Fields of a 304 that describe its own lack of a body.
const KEPT_BY_REFRESH: [FieldId; 3] = [FieldId::ContentType, FieldId::ContentEncoding, FieldId::ContentRange];

/// The fields of a response that are stored.
pub(super) fn kept(headers: &Headers) -> impl Iterator<Item = message::FieldRef<'_>> {
    headers.iter().filter(|field| {
        let is_own = matches!(field.id, FieldId::ContentLength | FieldId::Age | FieldId::Trailer);
        let is_status = field.name.eq_ignore_ascii_case(super::STATUS_FIELD.as_bytes());
        // The quota of one client says nothing to the next.
        let is_quota = field.name.windows(QUOTA.len()).any(|part| part.eq_ignore_ascii_case(QUOTA));
        !field.hop_by_hop && !is_own && !is_status && !is_quota
    })
}

const QUOTA: &[u8] = b"ratelimit-remaining";

/// The stored fields of a response that came at `date`.
pub(super) fn stored_fields(headers: &Headers, date: &[u8]) -> Headers {
    let mut stored = Headers::new();
    for field in kept(headers) {
        stored.push_raw(field.name, field.value);
    }
    if !stored.contains_known(FieldId::Date) {
        stored.push_raw(b"Date", date);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_tell_fresh_from_stale() {
        let times = EntryTimes {
            stored_s: 100,
            initial_age_s: 5,
            fresh_s: 10,
            while_revalidate_s: 0,
            if_error_s: 0,
            must_revalidate: false,
        };
        let check = |now_s: u64, age_s: u64, fresh: bool, stale_3: bool| {
            let got = (times.age_s(now_s), times.is_fresh(now_s), times.may_be_stale(now_s, 3));
            assert_eq!(got, (age_s, fresh, stale_3), "{now_s}");
        };
        check(90, 5, true, true);
        check(109, 14, true, true);
        check(110, 15, false, true);
        check(113, 18, false, true);
        check(114, 19, false, false);
        let strict = EntryTimes { must_revalidate: true, ..times };
        assert!(!strict.may_be_stale(111, 3) && !times.may_be_stale(111, 0));
    }

    #[test]
    fn fields_of_one_connection_are_not_stored() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("Content-Type", "text/plain"),
            ("Content-Length", "5"),
            ("Age", "3"),
            ("Connection", "close"),
            ("X-RateLimit-Remaining", "4"),
            ("Apisix-Cache-Status", "HIT"),
            ("ETag", "\"a\""),
        ] {
            headers.append(name, value.as_bytes()).unwrap();
        }
        let stored = stored_fields(&headers, b"Sun, 06 Nov 1994 08:49:37 GMT");
        let lines = exchange::testing::lines(&stored);
        assert_eq!(lines, ["Content-Type: text/plain", "ETag: \"a\"", "Date: Sun, 06 Nov 1994 08:49:37 GMT"]);
    }
}
