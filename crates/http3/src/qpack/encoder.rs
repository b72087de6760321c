//! The encoder of field sections; it does not know frames and which fields a message needs.

use message::FieldId;
use multiplex::{integer, string};

use super::static_table::{self, NO_INDEX};

/// A pseudo-field with the first index of its name in the static table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pseudo {
    Authority = static_table::AUTHORITY as isize,
    Method = static_table::METHOD as isize,
    Path = static_table::PATH as isize,
    Scheme = static_table::SCHEME as isize,
    Status = static_table::STATUS as isize,
}

/// Begins a section in `out`: writes the prefix that announces no reference to the dynamic table.
#[inline]
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field. `id` is the number of the name, `name` is its text in any case and is written in lower
/// case; both were checked. A field that is sensitive, or is known to be a secret, is marked so that no
/// further hop puts it into a table.
pub fn field(out: &mut Vec<u8>, id: FieldId, name: &[u8], value: &[u8], is_sensitive: bool) {
    let is_sensitive = is_sensitive || is_secret(id, value);
    match static_table::first_of(id, name) {
        NO_INDEX => {
            let pattern = if is_sensitive { 0x30 } else { 0x20 };
            string::write_lower(out, pattern, 3, name);
            string::write_string(out, 0x00, 7, value);
        }
        first => with_name(out, first, value, is_sensitive),
    }
}

/// Appends a pseudo-field.
#[inline]
pub(crate) fn pseudo(out: &mut Vec<u8>, pseudo: Pseudo, value: &[u8]) {
    with_name(out, pseudo as u8, value, false);
}

/// Appends a field with the name of the entry `first`, the first one with its name.
#[inline]
fn with_name(out: &mut Vec<u8>, first: u8, value: &[u8], is_sensitive: bool) {
    if !is_sensitive && let Some(index) = static_table::with_value(first, value) {
        return integer::write_integer(out, 0xC0, 6, usize::from(index));
    }
    let pattern = if is_sensitive { 0x70 } else { 0x50 };
    integer::write_integer(out, pattern, 4, usize::from(first));
    string::write_string(out, 0x00, 7, value);
}

/// True for secrets that could be guessed by the size of what is sent, if a further hop put them into a table
/// (RFC 9204 section 7.1.3).
fn is_secret(id: FieldId, value: &[u8]) -> bool {
    match id {
        FieldId::Authorization | FieldId::ProxyAuthorization | FieldId::ApiKey => true,
        FieldId::Cookie => value.len() < SHORT_COOKIE_BYTES,
        _ => false,
    }
}

/// Below 20 bytes a cookie can be guessed by trials that watch the size of requests.
const SHORT_COOKIE_BYTES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, value: &str, is_sensitive: bool) -> Vec<u8> {
        let mut out = Vec::new();
        field(&mut out, FieldId::of(name.as_bytes()), name.as_bytes(), value.as_bytes(), is_sensitive);
        out
    }

    #[test]
    fn shortest_representation_is_chosen() {
        let table: [(&str, &str, &[u8]); 9] = [
            ("vary", "accept-encoding", &[0xc0 | 59]),
            ("Server", "weir", b"\x5f\x4d\x04weir"),
            ("X-Frame-Options", "sameorigin", &[0xff, 98 - 63]),
            ("x-frame-options", "other", b"\x5f\x52\x05other"),
            ("alt-svc", "clear", &[0xff, 83 - 63]),
            ("Via", "x", b"\x23via\x01x"),
            ("Cookie", "a=b", b"\x75\x03a=b"),
            ("Authorization", "x", b"\x7f\x45\x01x"),
            ("date", "", &[0xc0 | 6]),
        ];
        for (name, value, expected) in table {
            assert_eq!(encoded(name, value, false), expected, "{name}");
        }
        assert_eq!(encoded("vary", "accept-encoding", true)[..2], [0x7f, 59 - 15]);
        assert_eq!(encoded("x-other", "y", true)[0], 0x30 | 7);
    }

    #[test]
    fn pseudo_fields_are_static_where_possible() {
        let table: [(Pseudo, &str, &[u8]); 7] = [
            (Pseudo::Method, "POST", &[0xd4]),
            (Pseudo::Method, "PATCH", b"\x5f\x00\x05PATCH"),
            (Pseudo::Status, "200", &[0xd9]),
            (Pseudo::Status, "500", &[0xff, 8]),
            (Pseudo::Scheme, "https", &[0xd7]),
            (Pseudo::Path, "/", &[0xc1]),
            (Pseudo::Authority, "h", b"\x50\x01h"),
        ];
        for (name, value, expected) in table {
            let mut out = Vec::new();
            pseudo(&mut out, name, value.as_bytes());
            assert_eq!(out, expected, "{name:?} {value}");
        }
    }
}
