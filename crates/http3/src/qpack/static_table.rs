//! The static table of RFC 9204 appendix A, with the numbers of the names, and the way from a field to its
//! entry. It refuses to know how references are written.

use message::FieldId::{self, Other};

/// An entry: name, value (empty for none), and the number of the name.
pub(super) type StaticEntry = (&'static str, &'static str, FieldId);

/// Number of entries; the first has the index zero.
pub(super) const LENGTH: usize = 99;
/// The index of no entry.
pub(super) const NO_INDEX: u8 = u8::MAX;

pub(super) const AUTHORITY: usize = 0;
pub(super) const PATH: usize = 1;
pub(super) const METHOD: usize = 15;
pub(super) const SCHEME: usize = 22;
pub(super) const STATUS: usize = 24;

/// The entry of an index.
#[inline]
pub(super) fn get(index: usize) -> Option<&'static StaticEntry> {
    TABLE.get(index)
}

/// The index of the first entry with a name in any case, [`NO_INDEX`] if there is none. Pseudo-fields are not
/// found.
#[inline]
pub(super) fn first_of(id: FieldId, name: &[u8]) -> u8 {
    if id != Other { LINKS.by_id[id as usize & 0x7F] } else { first_by_name(name) }
}

/// The index of the entry with this value, among those with the name of the entry `first`.
#[inline]
pub(super) fn with_value(first: u8, value: &[u8]) -> Option<u8> {
    let mut index = first;
    while let Some(entry) = TABLE.get(usize::from(index)) {
        if entry.1.as_bytes() == value {
            return Some(index);
        }
        index = LINKS.same_name[usize::from(index)];
    }
    None
}

fn first_by_name(name: &[u8]) -> u8 {
    let mut index = LINKS.by_length.get(name.len()).copied().unwrap_or(NO_INDEX);
    while let Some(entry) = TABLE.get(usize::from(index)) {
        if entry.0.as_bytes().eq_ignore_ascii_case(name) {
            return index;
        }
        index = LINKS.same_length[usize::from(index)];
    }
    NO_INDEX
}

/// Chains of entries, each of which ends with [`NO_INDEX`].
struct Links {
    /// The first entry with a known name.
    by_id: [u8; 128],
    /// The next entry with the same name.
    same_name: [u8; LENGTH],
    /// The first of the unknown names with a length.
    by_length: [u8; NAME_BYTES],
    /// The next unknown name of the same length.
    same_length: [u8; LENGTH],
}

/// Above the longest name that is not known by number.
const NAME_BYTES: usize = 32;

static LINKS: Links = links();

const fn links() -> Links {
    let mut links = Links {
        by_id: [NO_INDEX; 128],
        same_name: [NO_INDEX; LENGTH],
        by_length: [NO_INDEX; NAME_BYTES],
        same_length: [NO_INDEX; LENGTH],
    };
    let mut index = LENGTH;
    while index > 0 {
        index -= 1;
        let (name, _, id) = TABLE_VALUES[index];
        let name = name.as_bytes();
        links.same_name[index] = next_of(name, index);
        if !matches!(id, Other) {
            links.by_id[id as usize] = index as u8;
        } else if name[0] != b':' && is_first(name, index) {
            links.same_length[index] = links.by_length[name.len()];
            links.by_length[name.len()] = index as u8;
        }
    }
    links
}

const fn next_of(name: &[u8], index: usize) -> u8 {
    let mut next = index + 1;
    while next < LENGTH {
        if is_same(TABLE_VALUES[next].0.as_bytes(), name) {
            return next as u8;
        }
        next += 1;
    }
    NO_INDEX
}

const fn is_first(name: &[u8], index: usize) -> bool {
    let mut before = 0;
    while before < index {
        if is_same(TABLE_VALUES[before].0.as_bytes(), name) {
            return false;
        }
        before += 1;
    }
    true
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

static TABLE: [StaticEntry; LENGTH] = TABLE_VALUES;
const TABLE_VALUES: [StaticEntry; LENGTH] = [
    (":authority", "", Other),
    (":path", "/", Other),
    ("age", "0", FieldId::Age),
    ("content-disposition", "", Other),
    ("content-length", "0", FieldId::ContentLength),
    ("cookie", "", FieldId::Cookie),
    ("date", "", FieldId::Date),
    ("etag", "", FieldId::Etag),
    ("if-modified-since", "", FieldId::IfModifiedSince),
    ("if-none-match", "", FieldId::IfNoneMatch),
    ("last-modified", "", FieldId::LastModified),
    ("link", "", Other),
    ("location", "", FieldId::Location),
    ("referer", "", FieldId::Referer),
    ("set-cookie", "", FieldId::SetCookie),
    (":method", "CONNECT", Other),
    (":method", "DELETE", Other),
    (":method", "GET", Other),
    (":method", "HEAD", Other),
    (":method", "OPTIONS", Other),
    (":method", "POST", Other),
    (":method", "PUT", Other),
    (":scheme", "http", Other),
    (":scheme", "https", Other),
    (":status", "103", Other),
    (":status", "200", Other),
    (":status", "304", Other),
    (":status", "404", Other),
    (":status", "503", Other),
    ("accept", "*/*", FieldId::Accept),
    ("accept", "application/dns-message", FieldId::Accept),
    ("accept-encoding", "gzip, deflate, br", FieldId::AcceptEncoding),
    ("accept-ranges", "bytes", Other),
    ("access-control-allow-headers", "cache-control", Other),
    ("access-control-allow-headers", "content-type", Other),
    ("access-control-allow-origin", "*", FieldId::AccessControlAllowOrigin),
    ("cache-control", "max-age=0", FieldId::CacheControl),
    ("cache-control", "max-age=2592000", FieldId::CacheControl),
    ("cache-control", "max-age=604800", FieldId::CacheControl),
    ("cache-control", "no-cache", FieldId::CacheControl),
    ("cache-control", "no-store", FieldId::CacheControl),
    ("cache-control", "public, max-age=31536000", FieldId::CacheControl),
    ("content-encoding", "br", FieldId::ContentEncoding),
    ("content-encoding", "gzip", FieldId::ContentEncoding),
    ("content-type", "application/dns-message", FieldId::ContentType),
    ("content-type", "application/javascript", FieldId::ContentType),
    ("content-type", "application/json", FieldId::ContentType),
    ("content-type", "application/x-www-form-urlencoded", FieldId::ContentType),
    ("content-type", "image/gif", FieldId::ContentType),
    ("content-type", "image/jpeg", FieldId::ContentType),
    ("content-type", "image/png", FieldId::ContentType),
    ("content-type", "text/css", FieldId::ContentType),
    ("content-type", "text/html; charset=utf-8", FieldId::ContentType),
    ("content-type", "text/plain", FieldId::ContentType),
    ("content-type", "text/plain;charset=utf-8", FieldId::ContentType),
    ("range", "bytes=0-", FieldId::Range),
    ("strict-transport-security", "max-age=31536000", FieldId::StrictTransportSecurity),
    ("strict-transport-security", "max-age=31536000; includesubdomains", FieldId::StrictTransportSecurity),
    (
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload",
        FieldId::StrictTransportSecurity,
    ),
    ("vary", "accept-encoding", FieldId::Vary),
    ("vary", "origin", FieldId::Vary),
    ("x-content-type-options", "nosniff", Other),
    ("x-xss-protection", "1; mode=block", Other),
    (":status", "100", Other),
    (":status", "204", Other),
    (":status", "206", Other),
    (":status", "302", Other),
    (":status", "400", Other),
    (":status", "403", Other),
    (":status", "421", Other),
    (":status", "425", Other),
    (":status", "500", Other),
    ("accept-language", "", FieldId::AcceptLanguage),
    ("access-control-allow-credentials", "FALSE", FieldId::AccessControlAllowCredentials),
    ("access-control-allow-credentials", "TRUE", FieldId::AccessControlAllowCredentials),
    ("access-control-allow-headers", "*", Other),
    ("access-control-allow-methods", "get", Other),
    ("access-control-allow-methods", "get, post, options", Other),
    ("access-control-allow-methods", "options", Other),
    ("access-control-expose-headers", "content-length", Other),
    ("access-control-request-headers", "content-type", FieldId::AccessControlRequestHeaders),
    ("access-control-request-method", "get", FieldId::AccessControlRequestMethod),
    ("access-control-request-method", "post", FieldId::AccessControlRequestMethod),
    ("alt-svc", "clear", Other),
    ("authorization", "", FieldId::Authorization),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'", Other),
    ("early-data", "1", Other),
    ("expect-ct", "", Other),
    ("forwarded", "", FieldId::Forwarded),
    ("if-range", "", Other),
    ("origin", "", FieldId::Origin),
    ("purpose", "prefetch", Other),
    ("server", "", FieldId::Server),
    ("timing-allow-origin", "*", Other),
    ("upgrade-insecure-requests", "1", Other),
    ("user-agent", "", FieldId::UserAgent),
    ("x-forwarded-for", "", FieldId::XForwardedFor),
    ("x-frame-options", "deny", Other),
    ("x-frame-options", "sameorigin", Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found() {
        for (index, (name, value, id)) in TABLE.iter().enumerate() {
            assert_eq!(FieldId::of(name.as_bytes()), *id, "{name}");
            let first = match *name {
                ":authority" => AUTHORITY as u8,
                ":path" => PATH as u8,
                ":method" => METHOD as u8,
                ":scheme" => SCHEME as u8,
                ":status" => STATUS as u8,
                _ => first_of(*id, name.to_ascii_uppercase().as_bytes()),
            };
            assert_eq!(TABLE[usize::from(first)].0, *name);
            assert!(usize::from(first) <= index, "the first of {name}");
            assert_eq!(with_value(first, value.as_bytes()), Some(index as u8), "{name}: {value}");
            assert_eq!(with_value(first, b"no such value"), None);
        }
        assert!(get(LENGTH).is_none());
    }

    #[test]
    fn other_names_are_not_found() {
        let long = "x".repeat(200);
        for name in ["via", "x-real-ip", "x-unknown", "", "a", ":status", &long] {
            assert_eq!(first_of(FieldId::of(name.as_bytes()), name.as_bytes()), NO_INDEX, "{name}");
        }
    }
}
