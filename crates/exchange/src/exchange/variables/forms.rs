//! Arguments of a query or a form, and cookies. Pure functions over bytes.

use std::borrow::Cow;

use message::{FieldId, Headers};
use percent_encoding::percent_decode;
use router::vars::Value;

/// The first argument `name` of an urlencoded text, decoded. An argument without `=` is the empty text.
pub(super) fn argument<'a>(text: &'a [u8], name: &str) -> Option<Value<'a>> {
    pairs(text)
        .find_map(|(key, value)| (*decode(key) == *name.as_bytes()).then(|| Value::Bytes(decode(value))))
}

/// All arguments of an urlencoded text, decoded; bytes that are not UTF-8 are replaced.
pub(super) fn arguments(text: &[u8]) -> impl Iterator<Item = (String, String)> {
    let decoded = |text: &[u8]| String::from_utf8_lossy(&decode(text)).into_owned();
    pairs(text).map(move |(key, value)| (decoded(key), decoded(value)))
}

fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| match pair.iter().position(|byte| *byte == b'=') {
        Some(equals) => (&pair[..equals], &pair[equals + 1..]),
        None => (pair, &b""[..]),
    })
}

/// The cookie `name` (RFC 6265 section 4.2).
pub(super) fn cookie<'a>(headers: &'a Headers, name: &str) -> Option<Value<'a>> {
    let pairs = headers.get_all_known(FieldId::Cookie).flat_map(|field| field.split(|byte| *byte == b';'));
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| {
        let rest = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(Value::borrowed(rest))
    })
}

fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return Cow::from(percent_decode(text));
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let check = |text: &str, name: &str, want: Option<&str>| {
            let found = argument(text.as_bytes(), name)
                .map(|value| String::from_utf8_lossy(&value.text()).into_owned());
            assert_eq!(found.as_deref(), want, "{name} in {text}");
        };
        check("a=1&b=2", "b", Some("2"));
        check("a=1&a=2", "a", Some("1"));
        check("a", "a", Some(""));
        check("x=%41+%2B", "x", Some("A +"));
        check("%61=1", "a", Some("1"));
        check("ab=1", "a", None);
        check("", "a", None);
    }

    #[test]
    fn cookies() {
        let mut headers = Headers::default();
        headers.append("Cookie", b"ab=0; a=1;b=x=y").unwrap();
        let check = |name: &str, want: Option<&str>| {
            let found =
                cookie(&headers, name).map(|value| String::from_utf8_lossy(&value.text()).into_owned());
            assert_eq!(found.as_deref(), want, "{name}");
        };
        check("a", Some("1"));
        check("b", Some("x=y"));
        check("c", None);
    }
}
