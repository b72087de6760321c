//! The codings that a client accepts, by its `Accept-Encoding` (RFC 9110 section 12.5.3). It knows no response.

use message::{FieldId, Headers};

/// The weight of a coding without a `q`, in thousandths.
const FULL: u16 = 1_000;

/// How much the client of a request with these fields wants `coding`: thousandths, 0 for not at all. A coding that is not
/// listed has the weight of `*`. A client that lists `identity` with a greater weight wants the body as it is.
pub(super) fn weight(request: &Headers, coding: &str) -> u16 {
    let (mut listed, mut any, mut identity) = (None, None, None);
    for line in request.get_all_known(FieldId::AcceptEncoding) {
        for entry in line.split(|byte| *byte == b',') {
            let mut parts = entry.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let place = match name {
                b"*" => &mut any,
                name if is(name, coding) => &mut listed,
                name if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                _ => continue,
            };
            let given = parts.find_map(|part| quality(part.trim_ascii()));
            let weight = given.unwrap_or(FULL);
            *place = Some(place.map_or(weight, |before: u16| before.max(weight)));
        }
    }
    let weight = listed.or(any).unwrap_or(0);
    if identity.is_some_and(|identity| identity > weight) { 0 } else { weight }
}

/// Whether `name` is the coding; `x-gzip` is an old name of `gzip` (RFC 9110 section 8.4.1.3).
fn is(name: &[u8], coding: &str) -> bool {
    let old = name.strip_prefix(b"x-").filter(|_| coding == "gzip");
    old.unwrap_or(name).eq_ignore_ascii_case(coding.as_bytes())
}

/// The weight in a parameter `q=0.5`; 0 for one that is malformed, and nothing for another parameter.
fn quality(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    Some(thousandths(value.trim_ascii()).unwrap_or(0))
}

/// A number from 0 to 1 with at most three digits behind the point.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0') * FULL;
    let mut unit = 100;
    for digit in digits {
        thousandths += u16::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * unit;
        unit /= 10;
    }
    (thousandths <= FULL).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_of_coding_is_what_client_says() {
        let check = |lines: &[&str], coding: &str, expected: u16| {
            let mut headers = Headers::new();
            for line in lines {
                headers.append("Accept-Encoding", line.as_bytes()).unwrap();
            }
            assert_eq!(weight(&headers, coding), expected, "{lines:?} {coding}");
        };
        check(&[], "gzip", 0);
        check(&[""], "gzip", 0);
        check(&["gzip"], "gzip", 1_000);
        check(&["GZip"], "gzip", 1_000);
        check(&["x-gzip"], "gzip", 1_000);
        check(&["x-br"], "br", 0);
        check(&["gzip"], "br", 0);
        check(&["gzip, deflate, br"], "br", 1_000);
        check(&["deflate", "br;q=0.5"], "br", 500);
        check(&["gzip;q=0"], "gzip", 0);
        check(&["gzip;q=0.001"], "gzip", 1);
        check(&["gzip ; q=1.000 "], "gzip", 1_000);
        check(&["gzip;q=0.0"], "gzip", 0);
        check(&["*"], "br", 1_000);
        check(&["gzip;q=0.8, deflate, sdch;q=0.6, *;q=0.1"], "br", 100);
        check(&["gzip;q=0.8, *;q=0.1"], "gzip", 800);
        check(&["br;q=0, *"], "br", 0);
        check(&["*;q=0"], "br", 0);
        // A malformed weight counts as none.
        for malformed in ["2", "0.5.5", "0.1234", "-1", "", "1.001", "0,5", ".5"] {
            check(&[&format!("gzip;q={malformed}")], "gzip", 0);
        }
        check(&["gzip;level=9;q=0.3"], "gzip", 300);
        check(&["gzipped"], "gzip", 0);
    }

    #[test]
    fn identity_wins_only_with_greater_weight() {
        let check = |line: &str, expected: u16| {
            let mut headers = Headers::new();
            headers.append("Accept-Encoding", line.as_bytes()).unwrap();
            assert_eq!(weight(&headers, "gzip"), expected, "{line}");
        };
        check("identity, gzip;q=0.5", 0);
        check("identity;q=0.5, gzip", 1_000);
        check("identity, gzip", 1_000);
        check("identity;q=0, gzip;q=0.2", 200);
        check("identity;q=0.3, *;q=0.2", 0);
        check("identity;q=0", 0);
    }
}
