//! A query after the runner has changed some of its arguments; all others stay as the client has sent them.

use message::query::{arguments, decode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::super::messages::NameValueEntry;

/// The bytes that are encoded in names and values: all but the unreserved ones (RFC 3986 section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The query after `changes`: the first change of a name takes the place of all its values, each further one
/// adds a value, and one without a value removes the argument.
pub(super) fn changed(query: &[u8], changes: &[NameValueEntry<'_>]) -> Vec<u8> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> =
        arguments(query).map(|(whole, name, _)| (decode(name).into_owned(), whole.to_vec())).collect();
    let mut seen: Vec<&[u8]> = Vec::new();
    for (name, value) in changes {
        let Some(value) = value else {
            all.retain(|(known, _)| known != name);
            continue;
        };
        let written = format!("{}={}", percent_encode(name, ENCODED), percent_encode(value, ENCODED));
        let entry = (name.to_vec(), written.into_bytes());
        if seen.contains(name) {
            all.push(entry);
            continue;
        }
        seen.push(name);
        match all.iter().position(|(known, _)| known == name) {
            Some(first) => {
                let mut at = 0;
                all.retain(|(known, _)| {
                    at += 1;
                    at - 1 <= first || known != name
                });
                all[first] = entry;
            }
            None => all.push(entry),
        }
    }
    let written: Vec<&[u8]> = all.iter().map(|(_, written)| &written[..]).collect();
    written.join(&b'&')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_replaced_added_and_removed() {
        let check = |query: &str, changes: &[(&str, Option<&str>)], expected: &str| {
            let changes: Vec<NameValueEntry<'_>> =
                changes.iter().map(|(name, value)| (name.as_bytes(), value.map(str::as_bytes))).collect();
            let new = changed(query.as_bytes(), &changes);
            assert_eq!(String::from_utf8_lossy(&new), expected, "{query} {changes:?}");
        };
        check(
            "c=foo&d=bar",
            &[("a", Some("foo")), ("d", None), ("c", Some("bar")), ("a", Some("bar"))],
            "c=bar&a=foo&a=bar",
        );
        check("x=1&y&x=2&z=%20+", &[("x", Some("a b&"))], "x=a%20b%26&y&z=%20+");
        check("", &[("a", Some(""))], "a=");
        check("a=1&%61=2", &[("a", None)], "");
        check("b=1", &[("c", None)], "b=1");
    }
}
