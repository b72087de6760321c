//! Percent-encoding of texts that plugins write into targets and `Location`.

use exchange::Exchange;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode, percent_encode_byte};

/// The bytes that nginx escapes in a path (`ngx_escape_uri` of type 0, which APISIX calls): all that are not
/// allowed in one.
const PATH: &AsciiSet = &NEVER.add(b'#').add(b'%').add(b'?');

/// The bytes that end an argument of a query, or that a reader decodes there.
const ARGUMENT: &AsciiSet =
    &NEVER.add(b'#').add(b'%').add(b'&').add(b'+').add(b';').add(b'=').add(b'[').add(b']');

/// The bytes that stand nowhere in a URI (RFC 3986 section 2).
const NEVER: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The bytes of the configuration's text that are not allowed in a field or a request line.
const LITERAL: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// Appends a decoded path in encoded form, as the path of `exchange` was decoded.
pub(crate) fn encode_path(exchange: &Exchange, decoded: &[u8], out: &mut Vec<u8>) {
    encode(decoded, PATH, keeps_encoded_slash(exchange), out);
}

/// Appends a text, which may be a part of the decoded path of `exchange`, as the name or the value of an
/// argument.
pub(crate) fn encode_argument(exchange: &Exchange, text: &[u8], out: &mut Vec<u8>) {
    encode(text, ARGUMENT, keeps_encoded_slash(exchange), out);
}

/// Appends a part of a URI: what it has encoded stays, and bytes that no URI may hold, `#`, a percent sign
/// without two hexadecimal digits and `also` are encoded.
pub(crate) fn encode_uri(text: &[u8], also: Option<u8>, out: &mut Vec<u8>) {
    let must_be_encoded = |byte: u8| byte == b'#' || also == Some(byte);
    push_uri(text, NEVER, must_be_encoded, out);
}

/// Appends text of the configuration: what it has encoded stays; without `has_fragment` a `#` is encoded.
pub(crate) fn write_literal(text: &str, has_fragment: bool, out: &mut Vec<u8>) {
    push_uri(text.as_bytes(), LITERAL, |byte| byte == b'#' && !has_fragment, out);
}

fn keeps_encoded_slash(exchange: &Exchange) -> bool {
    exchange.local().options.path.match_uri_encoded_slash
}

/// Appends a decoded text in encoded form. With `keeps_encoded_slash` the decoded form keeps encoded slashes,
/// so that `%2F` stays unchanged; otherwise its percent sign is text and is encoded.
fn encode(decoded: &[u8], set: &'static AsciiSet, keeps_encoded_slash: bool, out: &mut Vec<u8>) {
    if !keeps_encoded_slash {
        return push(decoded, set, out);
    }
    let mut rest = decoded;
    while let Some(at) = find_slash(rest) {
        push(&rest[..at], set, out);
        out.extend_from_slice(b"%2F");
        rest = &rest[at + 3..];
    }
    push(rest, set, out);
}

/// Appends text in which percent-encoded bytes stay, and bytes of `set` and of `more` are encoded.
fn push_uri(text: &[u8], set: &'static AsciiSet, more: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut copied = 0;
    for (at, byte) in text.iter().enumerate() {
        let is_bare_percent = *byte == b'%' && !(is_digit(at + 1) && is_digit(at + 2));
        if is_bare_percent || more(*byte) {
            push(&text[copied..at], set, out);
            out.extend_from_slice(percent_encode_byte(*byte).as_bytes());
            copied = at + 1;
        }
    }
    push(&text[copied..], set, out);
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
            encode(decoded.as_bytes(), PATH, keeps_encoded_slash, &mut out);
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
    fn parts_of_uris_keep_what_is_encoded() {
        let check = |text: &[u8], also: Option<u8>, want: &str| {
            let mut out = Vec::new();
            encode_uri(text, also, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        };
        check(b"/a b\r\nX: y%20\xff", None, "/a%20b%0D%0AX:%20y%20%FF");
        check(b"/a?b=c&d#e", None, "/a?b=c&d%23e");
        check(b"%zz%4%", Some(b'?'), "%25zz%254%25");
        check(b"/a?b=\"<>\\", Some(b'?'), "/a%3Fb=%22%3C%3E%5C");
    }

    #[test]
    fn literals_keep_what_the_configuration_wrote() {
        let check = |text: &str, has_fragment: bool, want: &str| {
            let mut out = Vec::new();
            write_literal(text, has_fragment, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        };
        check("\\$a{b}?c=%20&d=5%#e f", true, "\\$a{b}?c=%20&d=5%25#e%20f");
        check("?a#b", false, "?a%23b");
    }
}
