//! A decoded field, its receiver, and the bytes that a field may have. It does not know how fields are
//! compressed and what they mean.

use message::{FieldId, syntax};

/// A decoded field.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// The name as it was sent.
    pub name: &'a [u8],
    /// The value as it was sent.
    pub value: &'a [u8],
    /// The number of the name.
    pub id: FieldId,
    /// Whether RFC 9113 section 8.2.1 and RFC 9114 section 4.2 allow name and value: a lower-case token (a
    /// pseudo-field's colon aside), and a value without control characters and without white space at its
    /// ends.
    pub is_valid: bool,
    /// The sender forbade to put the field into a table (RFC 7541 section 6.2.3, RFC 9204 section 4.5.4).
    pub is_sensitive: bool,
}

/// Receives the fields of a section in order.
pub trait FieldVisitor {
    /// One field. A decoder goes on in any case, because its table must follow the encoder's.
    fn field(&mut self, field: &Field<'_>);
}

/// True for a lower-case token, behind the colon of a pseudo-field if there is one.
#[inline]
pub fn is_name(name: &[u8]) -> bool {
    let token = name.strip_prefix(b":").unwrap_or(name);
    syntax::is_token(token) && !token.iter().any(u8::is_ascii_uppercase)
}

/// True for a value without control characters other than HTAB and without white space at its ends.
#[inline]
pub fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // A fold without early exit: values are nearly always good, and this one vectorises.
    let good =
        value.iter().fold(true, |good, &byte| good & ((byte >= b' ') | (byte == b'\t')) & (byte != 0x7F));
    good && !is_blank(value.first()) && !is_blank(value.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        for (name, expected) in [
            ("a-b", true),
            (":path", true),
            ("", false),
            (":", false),
            ("A", false),
            ("a b", false),
            ("a:", false),
        ] {
            assert_eq!(is_name(name.as_bytes()), expected, "{name}");
        }
        for (value, expected) in [
            ("", true),
            ("a\tb", true),
            ("\u{e9}", true),
            (" a", false),
            ("a\t", false),
            ("a\r\nb", false),
            ("\0", false),
        ] {
            assert_eq!(is_value(value.as_bytes()), expected, "{value:?}");
        }
    }
}
