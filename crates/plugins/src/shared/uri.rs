//! Percent-encoding of texts that plugins write into targets and `Location`.

use exchange::Exchange;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// The bytes that nginx escapes in a path (`ngx_escape_uri` of type 0, which APISIX calls): all that are not allowed in
/// one.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The bytes that are not allowed in a field with a URI reference.
const LOCATION: &AsciiSet = &CONTROLS.add(b' ');

/// Appends a decoded path in encoded form, as the path of `exchange` was decoded.
pub(crate) fn encode_path(exchange: &Exchange, decoded: &[u8], out: &mut Vec<u8>) {
    encode(decoded, exchange.local().options.path.match_uri_encoded_slash, out);
}

/// Appends a decoded path in encoded form. With `keeps_encoded_slash` the decoded form keeps encoded slashes, so that
/// `%2F` stays unchanged; otherwise its percent sign is text and is encoded.
fn encode(decoded: &[u8], keeps_encoded_slash: bool, out: &mut Vec<u8>) {
    if !keeps_encoded_slash {
        return push(decoded, PATH, out);
    }
    let mut rest = decoded;
    while let Some(at) = find_slash(rest) {
        push(&rest[..at], PATH, out);
        out.extend_from_slice(b"%2F");
        rest = &rest[at + 3..];
    }
    push(rest, PATH, out);
}

/// The text in a form that is allowed in a `Location` field or a request line: bytes that no URI may hold are encoded,
/// all others stay unchanged.
pub(crate) fn location(text: &[u8]) -> String {
    percent_encode(text, LOCATION).to_string()
}

fn push(text: &[u8], set: &'static AsciiSet, out: &mut Vec<u8>) {
    for part in percent_encode(text, set) {
        out.extend_from_slice(part.as_bytes());
    }
}

fn find_slash(text: &[u8]) -> Option<usize> {
    text.windows(3).position(|bytes| bytes == b"%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let encoded = |decoded: &str, keeps_encoded_slash: bool| {
            let mut out = Vec::new();
            encode(decoded.as_bytes(), keeps_encoded_slash, &mut out);
            String::from_utf8(out).unwrap()
        };
        let check = |decoded: &str, want: &str| assert_eq!(encoded(decoded, true), want, "{decoded}");
        check("/a-b_c~d.e/@:!$&'()*+,;=", "/a-b_c~d.e/@:!$&'()*+,;=");
        check("/a b?c#d%e", "/a%20b%3Fc%23d%25e");
        check("/a%2Fb%2fc", "/a%2Fb%252fc");
        check("/ä", "/%C3%A4");
        check("", "");
        assert_eq!(encoded("/a%2Fb/c?", false), "/a%252Fb/c%3F");
    }

    #[test]
    fn locations_hold_no_line_break() {
        assert_eq!(location(b"/a b\r\nX: y%20\xff"), "/a%20b%0D%0AX:%20y%20%FF");
    }
}
