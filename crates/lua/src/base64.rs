//! Base64 as nginx reads it. It knows no plugin.

use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};

/// The standard alphabet, without padding; bits behind the last whole byte are ignored.
static LENIENT: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    specification.check_trailing_bits = false;
    specification.encoding().ok()
});

/// The bytes that `text` encodes; what follows the first `=` does not count. None if it is no Base64.
pub fn decode_leniently(text: &[u8]) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'=', text).unwrap_or(text.len());
    LENIENT.as_ref()?.decode(&text[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_and_spare_bits_are_ignored() {
        let check = |text: &str, expected: Option<&[u8]>| {
            assert_eq!(decode_leniently(text.as_bytes()).as_deref(), expected, "{text}");
        };
        check("aGVsbG8=", Some(b"hello"));
        check("aGVsbG8", Some(b"hello"));
        check("aGVsbG9", Some(b"hello"));
        check("aGVsbG8=?", Some(b"hello"));
        check("", Some(b""));
        check("hello", None);
        check("{{name}}", None);
    }
}
