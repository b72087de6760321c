//! Cache-Control of requests and responses (RFC 9111 section 5.2, RFC 5861), and the dates beside it. It
//! decides nothing.

use std::time::{Duration, UNIX_EPOCH};

use message::{FieldId, Headers};

use crate::shared::fields::is_token;

/// The directives of all Cache-Control fields of a message. A number that cannot be read is 0, so that the
/// response counts as stale; of a repeated directive the smallest counts. A list that is not one of RFC 9111
/// counts as `no-store`, because the directive that it was meant to hold is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) private: bool,
    /// `must-revalidate` or `proxy-revalidate`: it is never sent stale.
    pub(super) must_revalidate: bool,
    pub(super) only_if_cached: bool,
    pub(super) max_age: Option<u64>,
    pub(super) shared_max_age: Option<u64>,
    pub(super) min_fresh: Option<u64>,
    /// Seconds; `u64::MAX` without a number.
    pub(super) max_stale: Option<u64>,
    pub(super) stale_while_revalidate: Option<u64>,
    pub(super) stale_if_error: Option<u64>,
}

impl Directives {
    /// Those of a message with these fields.
    pub(super) fn of(headers: &Headers) -> Directives {
        let mut all = Directives::default();
        for list in headers.get_all_known(FieldId::CacheControl) {
            for directive in elements(list) {
                match split(directive) {
                    Some((name, value)) => all.add(name, value),
                    None => all.no_store = true,
                }
            }
        }
        all
    }

    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let seconds = || value.map_or(0, seconds);
        let least =
            |held: &mut Option<u64>, found: u64| *held = Some(held.map_or(found, |held| held.min(found)));
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        // A directive with a list of fields, such as `private="set-cookie"`, counts for the whole response.
        match () {
            () if is("no-store") => self.no_store = true,
            () if is("no-cache") => self.no_cache = true,
            () if is("private") => self.private = true,
            () if is("must-revalidate") || is("proxy-revalidate") => self.must_revalidate = true,
            () if is("only-if-cached") => self.only_if_cached = true,
            () if is("max-age") => least(&mut self.max_age, seconds()),
            () if is("s-maxage") => least(&mut self.shared_max_age, seconds()),
            () if is("min-fresh") => self.min_fresh = Some(seconds()),
            () if is("max-stale") => self.max_stale = Some(value.map_or(u64::MAX, self::seconds)),
            () if is("stale-while-revalidate") => least(&mut self.stale_while_revalidate, seconds()),
            () if is("stale-if-error") => least(&mut self.stale_if_error, seconds()),
            () => {}
        }
    }

    /// Whether the response may be stored for requests of others.
    pub(super) fn allows_storing(&self) -> bool {
        !self.no_store && !self.no_cache && !self.private
    }
}

/// The elements of a list, without empty ones. A comma inside a quoted string divides none.
fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    let elements = list.split(move |byte| {
        let is_escaped = escaped;
        escaped = quoted && !is_escaped && *byte == b'\\';
        quoted ^= *byte == b'"' && !is_escaped;
        *byte == b',' && !quoted
    });
    elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

/// Name and value of a directive: a token, and perhaps a token or a quoted string (RFC 9111 section 5.2).
fn split(directive: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (name, value) = match directive.iter().position(|byte| *byte == b'=') {
        Some(equals) => (directive[..equals].trim_ascii(), Some(directive[equals + 1..].trim_ascii())),
        None => (directive, None),
    };
    let is_token = |text: &[u8]| str::from_utf8(text).is_ok_and(is_token);
    let is_value = |value: &[u8]| is_token(value) || is_quoted(value);
    (is_token(name) && value.is_none_or(is_value)).then_some((name, value))
}

/// Whether a text is one quoted string (RFC 9110 section 5.6.4).
fn is_quoted(text: &[u8]) -> bool {
    let [b'"', inside @ .., b'"'] = text else { return false };
    let mut escaped = false;
    let ends_inside = inside.iter().any(|byte| {
        let is_escaped = escaped;
        escaped = !is_escaped && *byte == b'\\';
        *byte == b'"' && !is_escaped
    });
    !ends_inside && !escaped
}

/// Whole seconds, perhaps in quotes; 0 for anything else, and the most that a `u32` holds for more (RFC 9111
/// section 1.2.2).
fn seconds(text: &[u8]) -> u64 {
    let text = text.trim_ascii();
    let plain = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    if plain.is_empty() || !plain.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let digits = std::str::from_utf8(plain).unwrap_or_default();
    digits.parse::<u64>().map_or(u64::from(u32::MAX), |number| number.min(u64::from(u32::MAX)))
}

/// Unix seconds of a date in one of the three forms of HTTP; none if it is no date.
pub(super) fn date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    time.duration_since(UNIX_EPOCH).ok().as_ref().map(Duration::as_secs)
}

/// The date in a field; of several, the last counts.
pub(super) fn date_of(headers: &Headers, id: FieldId) -> Option<u64> {
    date(headers.get_all_known(id).last()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Directives {
        let mut headers = Headers::new();
        values.iter().for_each(|value| headers.append("Cache-Control", value.as_bytes()).unwrap());
        Directives::of(&headers)
    }

    #[test]
    fn directives_are_read_from_all_fields() {
        let none = Directives::default();
        let check = |values: &[&str], expected: Directives| assert_eq!(of(values), expected, "{values:?}");
        check(&[], none);
        check(&["public, foo=bar,,"], none);
        check(&["No-Store"], Directives { no_store: true, ..none });
        check(&["no-cache=\"a\"", "private"], Directives { no_cache: true, private: true, ..none });
        check(&["max-age=60, MAX-AGE=\"30\""], Directives { max_age: Some(30), ..none });
        check(&["s-maxage = 5"], Directives { shared_max_age: Some(5), ..none });
        check(&["max-age=x"], Directives { max_age: Some(0), ..none });
        check(&["max-age"], Directives { max_age: Some(0), ..none });
        check(&["max-age=-1"], Directives { max_age: Some(0), ..none });
        check(&["max-age=99999999999999999999999"], Directives { max_age: Some(4_294_967_295), ..none });
        check(&["max-stale"], Directives { max_stale: Some(u64::MAX), ..none });
        check(&["max-stale=3, min-fresh=4"], Directives { max_stale: Some(3), min_fresh: Some(4), ..none });
        check(&["proxy-revalidate"], Directives { must_revalidate: true, ..none });
        // A list of fields may hold commas, and quoted strings escapes.
        check(&["private=\"a, b\", max-age=5"], Directives { private: true, max_age: Some(5), ..none });
        check(&["foo=\"a\\\", no-store\", public"], none);
        let stale = Directives { stale_while_revalidate: Some(7), stale_if_error: Some(8), ..none };
        check(&["stale-while-revalidate=7, stale-if-error=8"], stale);
    }

    #[test]
    fn malformed_lists_forbid_storing() {
        for bad in [
            "\"private\", max-age=60",
            "max-age=60; private",
            "max-age=60 private",
            "max-age=",
            "=60",
            "private=\"a",
            "max-age=\"60\"x",
            "max-age=60, (private)",
            "max-age=\"6\"0\"",
            "pr\u{e4}vate",
        ] {
            assert!(!of(&[bad]).allows_storing(), "{bad}");
            assert!(!of(&["max-age=60", bad]).allows_storing(), "{bad}");
        }
        for good in ["", ",", "max-age=60", "max-age = 60", "x-own=\"a;b\", public"] {
            assert!(of(&[good]).allows_storing(), "{good}");
        }
    }

    #[test]
    fn only_dates_of_http_are_dates() {
        assert_eq!(date(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(date(b"Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
        for bad in ["", "0", "-1", "tomorrow"] {
            assert_eq!(date(bad.as_bytes()), None, "{bad}");
        }
    }
}
