//! Texts of other encodings than UTF-8, for readers that take UTF-8 alone: each byte becomes the character of
//! its number and a byte again. It knows no plugin.

use std::borrow::Cow;

/// `bytes` as text, and whether they were UTF-8.
pub fn widen(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), true),
        Err(_) => (Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()), false),
    }
}

/// The bytes of a part of a widened text. A character that no byte has, which an escape has made, is written
/// in UTF-8.
pub fn narrow(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u8::try_from(u32::from(character)) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b"plain"[..], "\u{e9}\u{20ac}".as_bytes()] {
            let (text, is_utf8) = widen(bytes);
            assert!(is_utf8 && text.as_bytes() == bytes);
        }
        let all: Vec<u8> = (0..=255).collect();
        let (text, is_utf8) = widen(&all);
        assert!(!is_utf8);
        assert_eq!(narrow(&text), all);
        assert_eq!(narrow("a\u{20ac}"), [b'a', 0xe2, 0x82, 0xac]);
    }
}
