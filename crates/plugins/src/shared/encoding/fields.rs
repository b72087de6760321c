//! The fields of a coded response (RFC 9110 section 8): writes `Vary` and `Content-Encoding`, and lets the
//! fields go that hold for the body before it was coded. It knows no coding.

use exchange::plugin::changed_body;
use message::{FieldId, Headers};

/// Says that the response depends on `Accept-Encoding`, unless it says so already.
pub(super) fn vary(response: &mut Headers) {
    let says = |name: &[u8]| {
        let name = name.trim_ascii();
        name == b"*" || name.eq_ignore_ascii_case(b"Accept-Encoding")
    };
    let says_so =
        response.get_all_known(FieldId::Vary).flat_map(|line| line.split(|byte| *byte == b',')).any(says);
    if !says_so {
        // Without room for one more field, the response is refused elsewhere.
        let _ = response.append_known(FieldId::Vary, b"Accept-Encoding");
    }
}

/// Makes the fields those of a body in `coding`; false if there is no room for them.
pub(super) fn mark_coded(response: &mut Headers, coding: &str) -> bool {
    if response.set_known(FieldId::ContentEncoding, coding.as_bytes()).is_err() {
        return false;
    }
    changed_body::forget(response);
    true
}

#[cfg(test)]
mod tests {
    use exchange::testing::{headers_of, lines};

    use super::*;

    #[test]
    fn vary_names_accept_encoding_once() {
        let check = |before: &[&str], after: &[&str]| {
            let mut headers = headers_of(&before.iter().map(|line| ("Vary", *line)).collect::<Vec<_>>());
            vary(&mut headers);
            vary(&mut headers);
            let expected: Vec<String> = after.iter().map(|line| format!("Vary: {line}")).collect();
            assert_eq!(lines(&headers), expected);
        };
        check(&[], &["Accept-Encoding"]);
        check(&["upstream"], &["upstream", "Accept-Encoding"]);
        check(&["Origin, accept-encoding"], &["Origin, accept-encoding"]);
        check(&["Origin", "Accept-Encoding"], &["Origin", "Accept-Encoding"]);
        check(&["*"], &["*"]);
        check(&["X-Accept-Encoding"], &["X-Accept-Encoding", "Accept-Encoding"]);
    }

    #[test]
    fn coded_response_drops_what_no_longer_holds() {
        let mut headers = headers_of(&[
            ("Content-Length", "26"),
            ("Accept-Ranges", "bytes"),
            ("Content-Digest", "sha-256=:AA==:"),
            ("X-A", "b"),
        ]);
        assert!(mark_coded(&mut headers, "br"));
        assert_eq!(lines(&headers), ["X-A: b", "Content-Encoding: br"]);
    }
}
