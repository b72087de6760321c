//! Whether a response may be stored and how long it is fresh, by RFC 9111 and by the contract where it is
//! less strict. It keeps nothing.

use message::{FieldId, Headers, Version};

use super::directives::{Directives, date_of};

/// How long a response may be used, in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) fresh_s: u64,
    pub(super) initial_age_s: u64,
    pub(super) while_revalidate_s: u64,
    pub(super) if_error_s: u64,
    pub(super) must_revalidate: bool,
}

/// Where the time to live comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// These seconds, whatever the response says.
    Fixed(u64),
    /// The response; one that says nothing is not stored.
    Response,
    /// The response as nginx reads it, `X-Accel-Expires` first; these seconds if it says nothing.
    ResponseOr(u64),
}

/// The rules of one instance.
#[derive(Clone, Debug)]
pub(super) struct CacheRules {
    pub(super) statuses: Box<[u16]>,
    pub(super) lifetime: Lifetime,
    pub(super) stores_cookies: bool,
    /// For responses that say nothing of it.
    pub(super) while_revalidate_s: u64,
    pub(super) if_error_s: u64,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StorageRefusal {
    /// Its status is not one of those.
    Status,
    /// It says that it must not be stored, or used without being asked for again.
    Directive,
    /// It sets a cookie.
    Cookie,
    /// It depends on more than fields of the request.
    Varies,
    /// It is stale already.
    Stale,
    /// Its end is the end of a connection, so that a cut could not be told from it.
    Unbounded,
}

impl CacheRules {
    /// How long the response with this head may be used, of which `has_end` says whether its length or its
    /// last chunk bounds it.
    ///
    /// # Errors
    /// Why it must not be stored.
    pub(super) fn judge(
        &self,
        status: u16,
        headers: &Headers,
        has_end: bool,
        now_s: u64,
    ) -> Result<Freshness, StorageRefusal> {
        // Of a part or of a validation nothing can be served.
        if !self.statuses.contains(&status) || matches!(status, 206 | 304) {
            return Err(StorageRefusal::Status);
        }
        if headers.contains_known(FieldId::ContentRange) {
            return Err(StorageRefusal::Status);
        }
        let directives = Directives::of(headers);
        if !directives.allows_storing() {
            return Err(StorageRefusal::Directive);
        }
        if !self.stores_cookies && headers.contains_known(FieldId::SetCookie) {
            return Err(StorageRefusal::Cookie);
        }
        if headers.get_all_known(FieldId::Vary).any(|list| list.contains(&b'*')) {
            return Err(StorageRefusal::Varies);
        }
        if !has_end {
            return Err(StorageRefusal::Unbounded);
        }
        self.freshness(headers, now_s).ok_or(StorageRefusal::Stale)
    }

    /// How long a response with these fields is fresh from now; none if it is stale already.
    pub(super) fn freshness(&self, headers: &Headers, now_s: u64) -> Option<Freshness> {
        let directives = Directives::of(headers);
        let stated_s = match self.lifetime {
            Lifetime::Fixed(_) => None,
            Lifetime::Response => lifetime_of(headers, &directives, now_s),
            Lifetime::ResponseOr(_) => {
                accel_expires(headers, now_s).or_else(|| lifetime_of(headers, &directives, now_s))
            }
        };
        let initial_age_s = initial_age(headers, now_s);
        let fresh_s = match (stated_s, self.lifetime) {
            (Some(stated_s), _) => stated_s.saturating_sub(initial_age_s),
            (None, Lifetime::Fixed(seconds) | Lifetime::ResponseOr(seconds)) => seconds,
            (None, Lifetime::Response) => 0,
        };
        // With a fixed time the rest of the field does not count either.
        let own = match self.lifetime {
            Lifetime::Fixed(_) => {
                Directives { must_revalidate: directives.must_revalidate, ..Directives::default() }
            }
            Lifetime::Response | Lifetime::ResponseOr(_) => directives,
        };
        (fresh_s > 0).then(|| Freshness {
            fresh_s,
            initial_age_s,
            while_revalidate_s: own.stale_while_revalidate.unwrap_or(self.while_revalidate_s),
            if_error_s: own.stale_if_error.unwrap_or(self.if_error_s),
            // RFC 9111 section 5.2.2.10: `s-maxage` has the meaning of `proxy-revalidate`.
            must_revalidate: own.must_revalidate || own.shared_max_age.is_some(),
        })
    }
}

/// The lifetime that a response gives itself for shared caches, its age included (RFC 9111 section 4.2.1).
fn lifetime_of(headers: &Headers, directives: &Directives, now_s: u64) -> Option<u64> {
    if let Some(seconds) = directives.shared_max_age.or(directives.max_age) {
        return Some(seconds);
    }
    headers.get_known(FieldId::Expires)?;
    // An invalid date is one in the past, `0` above all.
    let expires_s = date_of(headers, FieldId::Expires).unwrap_or_default();
    Some(expires_s.saturating_sub(date_of(headers, FieldId::Date).unwrap_or(now_s)))
}

/// `X-Accel-Expires`, by which a node tells nginx a lifetime: seconds, or `@` and a Unix time.
fn accel_expires(headers: &Headers, now_s: u64) -> Option<u64> {
    let value = headers.get("X-Accel-Expires")?;
    let (text, from_s) = match value.strip_prefix(b"@") {
        Some(time) => (time, now_s),
        None => (value, 0),
    };
    let seconds: u64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    Some(seconds.saturating_sub(from_s))
}

/// The age of a response that came just now (RFC 9111 section 4.2.3).
fn initial_age(headers: &Headers, now_s: u64) -> u64 {
    let stated_s =
        headers.get_known(FieldId::Age).and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
    let apparent = date_of(headers, FieldId::Date).map_or(0, |date_s| now_s.saturating_sub(date_s));
    apparent.max(stated_s.unwrap_or_default())
}

/// Whether the end of a body is told by its message, so that a cut one can be told from it.
pub(super) fn has_end(status: u16, version: Version, headers: &Headers) -> bool {
    matches!(status, 204)
        || !matches!(version, Version::Http10 | Version::Http11)
        || headers.contains_known(FieldId::ContentLength)
        || headers.contains_known(FieldId::TransferEncoding)
}

#[cfg(test)]
mod tests;
