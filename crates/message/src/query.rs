//! The arguments of a query. It knows no request.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The arguments of a query: each as a whole, its name and its value, both as sent.
pub fn arguments(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    query.split(|byte| *byte == b'&').filter(|whole| !whole.is_empty()).map(|whole| {
        match whole.iter().position(|byte| *byte == b'=') {
            Some(equals) => (whole, &whole[..equals], &whole[equals + 1..]),
            None => (whole, whole, &b""[..]),
        }
    })
}

/// As a form is decoded: `+` is a space.
pub fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return Cow::from(percent_decode(text));
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}
