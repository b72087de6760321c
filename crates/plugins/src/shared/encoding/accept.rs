//! The codings that a client accepts, by its `Accept-Encoding` (RFC 9110 section 12.5.3). It knows no
//! response.

use message::accept::FULL_WEIGHT;
use message::{FieldId, Headers};

/// How much the client of a request with these fields wants `coding`: thousandths, 0 for not at all. A coding
/// that is not listed has the weight of `*`. A client that lists `identity` with a greater weight wants the
/// body as it is.
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
            let given = parts.find_map(|part| message::accept::weight(part.trim_ascii()));
            let weight = given.unwrap_or(FULL_WEIGHT);
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
