//! Conditional requests and ranges of clients, answered from a whole stored response (RFC 9110 sections 13
//! and 14).

use std::ops::Range;

use message::{FieldId, Headers};

use super::directives::date;

/// The conditions of a request, kept while the request is sent on without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    none_match: Option<Vec<u8>>,
    modified_since: Option<Vec<u8>>,
}

/// How a stored response answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    /// Whole.
    Whole,
    /// The client has it already.
    NotModified,
    /// These bytes of it.
    Part(Range<u64>),
    /// None of the bytes that were asked for exist.
    Unsatisfiable,
}

/// The fields of a request with a condition that a shared cache does not answer: they go to the upstream.
pub(super) fn has_precondition(headers: &Headers) -> bool {
    headers.contains_known(FieldId::IfMatch) || headers.contains("If-Unmodified-Since")
}

impl Conditions {
    /// Takes the conditions out of a request, so that the upstream answers with the whole response.
    pub(super) fn take(headers: &mut Headers) -> Conditions {
        let found = Conditions {
            none_match: joined(headers, FieldId::IfNoneMatch),
            modified_since: headers.get_known(FieldId::IfModifiedSince).map(<[u8]>::to_vec),
        };
        headers.remove_known(FieldId::IfNoneMatch);
        headers.remove_known(FieldId::IfModifiedSince);
        found
    }

    /// Whether the client has the response with these fields already.
    pub(super) fn hold(&self, stored: &Headers) -> bool {
        hold(self.none_match.as_deref(), self.modified_since.as_deref(), stored)
    }
}

/// How a response of `length` bytes with the fields `stored` answers a GET or HEAD with the fields `request`.
pub(super) fn portion(request: &Headers, status: u16, stored: &Headers, length: u64) -> Portion {
    // Most requests have none of these fields.
    if status != 200 || !request.may_contain(ASKING) {
        return Portion::Whole;
    }
    let several = request.get_all_known(FieldId::IfNoneMatch).nth(1).is_some();
    let list = if several { joined(request, FieldId::IfNoneMatch) } else { None };
    let none_match = list.as_deref().or_else(|| request.get_known(FieldId::IfNoneMatch));
    if hold(none_match, request.get_known(FieldId::IfModifiedSince), stored) {
        return Portion::NotModified;
    }
    let Some(range) = request.get_known(FieldId::Range) else { return Portion::Whole };
    if let Some(validator) = request.get("If-Range")
        && !is_same(validator, stored)
    {
        return Portion::Whole;
    }
    part(range, length)
}

const ASKING: message::FieldSet =
    message::FieldSet::of(&[FieldId::IfNoneMatch, FieldId::IfModifiedSince, FieldId::Range]);

fn joined(headers: &Headers, id: FieldId) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = headers.get_all_known(id).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

/// RFC 9110 section 13.2.2: a list of tags outweighs a date.
fn hold(none_match: Option<&[u8]>, modified_since: Option<&[u8]>, stored: &Headers) -> bool {
    if let Some(list) = none_match {
        let Some(tag) = stored.get_known(FieldId::Etag) else { return list.trim_ascii() == b"*" };
        return list.trim_ascii() == b"*" || tags(list).any(|one| weak(one) == weak(tag));
    }
    let Some(since_s) = modified_since.and_then(date) else { return false };
    stored.get_known(FieldId::LastModified).and_then(date).is_some_and(|changed_s| changed_s <= since_s)
}

/// The tags of a list; a comma may stand inside one.
fn tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !b", \t".contains(byte))?;
        rest = &rest[start..];
        let open = rest.iter().position(|byte| *byte == b'"')?;
        let close = open + 1 + rest[open + 1..].iter().position(|byte| *byte == b'"')?;
        let (tag, behind) = rest.split_at(close + 1);
        rest = behind;
        Some(tag)
    })
}

fn weak(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether the validator of `If-Range` is that of the stored response: a strong tag, or the very date
/// (section 13.1.5).
fn is_same(validator: &[u8], stored: &Headers) -> bool {
    let of = |id: FieldId| stored.get_known(id);
    match validator {
        [b'"', ..] => of(FieldId::Etag) == Some(validator),
        [b'W', b'/', ..] => false,
        _ => date(validator).is_some() && of(FieldId::LastModified).and_then(date) == date(validator),
    }
}

/// One range of bytes. Several ranges, and another unit, are answered by the whole response, as the RFC
/// allows.
fn part(range: &[u8], length: u64) -> Portion {
    let Some(Ok(set)) = range.strip_prefix(b"bytes=").map(std::str::from_utf8) else { return Portion::Whole };
    let Some((first, last)) = set.trim().split_once('-') else { return Portion::Whole };
    let number = |text: &str| match text {
        "" => Ok(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Some(digits.parse::<u64>().unwrap_or(u64::MAX)))
        }
        _ => Err(()),
    };
    match (number(first), number(last)) {
        (Ok(Some(first)), Ok(last)) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            match first {
                _ if last.is_some_and(|last| last < first) => Portion::Whole,
                _ if first >= length => Portion::Unsatisfiable,
                _ => Portion::Part(first..end),
            }
        }
        (Ok(None), Ok(Some(suffix))) if suffix == 0 || length == 0 => Portion::Unsatisfiable,
        (Ok(None), Ok(Some(suffix))) => Portion::Part(length.saturating_sub(suffix)..length),
        _ => Portion::Whole,
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::headers_of;

    use super::*;

    const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn check(request: &[(&str, &str)], expected: &Portion) {
        let stored = headers_of(&[("ETag", "\"a\""), ("Last-Modified", CHANGED)]);
        let got = portion(&headers_of(request), 200, &stored, 10);
        assert_eq!(&got, expected, "{request:?}");
        if !matches!(expected, Portion::Part(_) | Portion::Unsatisfiable) {
            let holds = Conditions::take(&mut headers_of(request)).hold(&stored);
            assert_eq!(holds, *expected == Portion::NotModified, "{request:?}");
        }
        assert_eq!(portion(&headers_of(request), 404, &stored, 10), Portion::Whole);
    }

    #[test]
    fn conditions_of_clients_are_answered() {
        for tag in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*", " \"x,y\" , \"a\""] {
            check(&[("If-None-Match", tag)], &Portion::NotModified);
        }
        for tag in ["\"b\"", "a", "", "\"a", "\"x, \"a\"\""] {
            check(&[("If-None-Match", tag)], &Portion::Whole);
        }
        check(&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], &Portion::NotModified);
        check(&[("If-Modified-Since", CHANGED)], &Portion::NotModified);
        check(&[("If-Modified-Since", LATER)], &Portion::NotModified);
        check(&[("If-Modified-Since", EARLIER)], &Portion::Whole);
        check(&[("If-Modified-Since", "yesterday")], &Portion::Whole);
        check(&[("If-None-Match", "\"b\""), ("If-Modified-Since", LATER)], &Portion::Whole);
    }

    #[test]
    fn one_range_is_cut_out() {
        let part = |range: &str, expected: &Portion| check(&[("Range", range)], expected);
        part("bytes=0-0", &Portion::Part(0..1));
        part("bytes=2-", &Portion::Part(2..10));
        part("bytes=2-99", &Portion::Part(2..10));
        part("bytes=-3", &Portion::Part(7..10));
        part("bytes=-99", &Portion::Part(0..10));
        part("bytes=99999999999999999999-", &Portion::Unsatisfiable);
        part("bytes=10-", &Portion::Unsatisfiable);
        part("bytes=-0", &Portion::Unsatisfiable);
        for odd in ["bytes=5-2", "bytes=0-1,3-4", "bytes=-", "bytes=a-b", "bytes=+1-2", "lines=0-1", "bytes"]
        {
            part(odd, &Portion::Whole);
        }
        assert_eq!(super::part(b"bytes=-5", 0), Portion::Unsatisfiable);
    }

    #[test]
    fn range_is_cut_only_from_the_same_response() {
        let check = |validator: &str, expected: &Portion| {
            check(&[("Range", "bytes=0-3"), ("If-Range", validator)], expected);
        };
        check("\"a\"", &Portion::Part(0..4));
        check("W/\"a\"", &Portion::Whole);
        check("\"b\"", &Portion::Whole);
        check(CHANGED, &Portion::Part(0..4));
        check(LATER, &Portion::Whole);
        check("", &Portion::Whole);
    }
}
