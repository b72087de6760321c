//! The decoder of field sections; it does not know what the fields mean, and hands each to a visitor.

use message::FieldId;
use multiplex::string::{self, Text};
use multiplex::{Field, FieldVisitor, integer, is_name, is_value, pool};

use super::{QpackError, static_table};

/// Decodes a whole field section and hands its fields to `visitor` (RFC 9204 section 4.5).
///
/// # Errors
/// The section is not QPACK, or refers to the dynamic table. Fields before the fault were handed out.
pub fn decode(section: &[u8], visitor: &mut impl FieldVisitor) -> Result<(), QpackError> {
    let mut scratch = pool::take_bytes();
    let result = decode_with(section, visitor, &mut scratch);
    pool::give_bytes(scratch);
    result
}

fn decode_with(
    mut section: &[u8],
    visitor: &mut impl FieldVisitor,
    scratch: &mut Vec<u8>,
) -> Result<(), QpackError> {
    prefix(&mut section)?;
    while let Some(&first) = section.first() {
        match first {
            0x80.. => {
                let (name, value, id) = *static_entry(&mut section, first & 0x40 != 0, 6)?;
                let (name, value) = (name.as_bytes(), value.as_bytes());
                visitor.field(&Field { name, value, id, is_valid: true, is_sensitive: false });
            }
            0x40.. => {
                let (name, _, id) = *static_entry(&mut section, first & 0x10 != 0, 4)?;
                scratch.clear();
                let value = string::read_string(&mut section, 7, scratch)?;
                let value = value.of(scratch);
                let is_valid = is_value(value);
                let is_sensitive = first & 0x20 != 0;
                visitor.field(&Field { name: name.as_bytes(), value, id, is_valid, is_sensitive });
            }
            0x20.. => {
                scratch.clear();
                let name = string::read_string(&mut section, 3, scratch)?;
                let value = string::read_string(&mut section, 7, scratch)?;
                visitor.field(&literal(name, value, scratch, first & 0x10 != 0));
            }
            // Both forms with a post-base index.
            _ => return Err(QpackError::Dynamic),
        }
    }
    Ok(())
}

fn literal<'a>(name: Text<'a>, value: Text<'a>, scratch: &'a [u8], is_sensitive: bool) -> Field<'a> {
    let (name, value) = (name.of(scratch), value.of(scratch));
    let is_valid = is_name(name) && is_value(value);
    Field { name, value, id: FieldId::of(name), is_valid, is_sensitive }
}

/// Reads the prefix of the section: no insertion is required, so that the base has no meaning but must not be
/// negative (RFC 9204 section 4.5.1).
#[inline]
fn prefix(section: &mut &[u8]) -> Result<(), QpackError> {
    if let [0, 0, rest @ ..] = section {
        *section = rest;
        return Ok(());
    }
    let required = integer::read_long(section, 8)?;
    let is_negative = section.first().is_some_and(|byte| byte & 0x80 != 0);
    integer::read_long(section, 7)?;
    if required != 0 || is_negative { Err(QpackError::Dynamic) } else { Ok(()) }
}

/// Reads an index of `bits` bits and finds its entry.
#[inline]
fn static_entry(
    section: &mut &[u8],
    is_static: bool,
    bits: u32,
) -> Result<&'static static_table::StaticEntry, QpackError> {
    let index = integer::read_integer(section, bits)?;
    if !is_static {
        return Err(QpackError::Dynamic);
    }
    static_table::get(index).ok_or(QpackError::Index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Collects fields as `name: value` lines.
    #[derive(Default)]
    struct Lines(Vec<String>);

    impl FieldVisitor for Lines {
        fn field(&mut self, field: &Field<'_>) {
            assert_eq!(field.id, FieldId::of(field.name));
            let marks = [(field.is_sensitive, "!"), (!field.is_valid, "?")];
            let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.0.push(format!("{marks}{}: {}", text(field.name), text(field.value)));
        }
    }

    fn lines(section: &[u8]) -> Result<Vec<String>, QpackError> {
        let mut lines = Lines::default();
        decode(section, &mut lines).map(|()| lines.0)
    }

    #[test]
    fn every_representation_is_read() {
        let table: [(&[u8], &[&str]); 9] = [
            (b"\0\0", &[]),
            // RFC 9204 section B.1.
            (b"\0\0\x51\x0b/index.html", &[":path: /index.html"]),
            (b"\0\0\xd1\xd7\xc1", &[":method: GET", ":scheme: https", ":path: /"]),
            (b"\0\0\xff\x23", &["x-frame-options: sameorigin"]),
            (b"\0\0\x5f\x00\x01a", &[":method: a"]),
            (b"\0\0\x75\x01a", &["!cookie: a"]),
            (b"\0\0\x23abc\x01d\x33x-y\x00", &["abc: d", "!x-y: "]),
            (b"\0\0\x21A\x01b\x21a\x01\n", &["?A: b", "?a: \n"]),
            // A base without a meaning.
            (b"\0\x7f\x80\x01\xd1", &[":method: GET"]),
        ];
        for (section, expected) in table {
            assert_eq!(lines(section).unwrap(), expected, "{section:?}");
        }
    }

    #[test]
    fn huffman_code_is_read() {
        let section = b"\0\0\x2f\x02\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x82\x64\x02";
        let [mut section, text] = [section.to_vec(), b"www.example".to_vec()];
        let mut name = vec![];
        string::write_string(&mut name, 0x20, 3, &text);
        section.splice(2..section.len() - 3, name);
        assert_eq!(lines(&section).unwrap(), ["www.example: 302"]);
    }

    #[test]
    fn faulty_sections_are_refused() {
        let table: [(&[u8], QpackError); 18] = [
            (b"", QpackError::Truncated),
            (b"\0", QpackError::Truncated),
            (b"\x01\0", QpackError::Dynamic),
            (b"\0\x80", QpackError::Dynamic),
            (b"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", QpackError::Integer),
            (b"\0\0\x80", QpackError::Dynamic),
            (b"\0\0\x40\0", QpackError::Dynamic),
            (b"\0\0\x10", QpackError::Dynamic),
            (b"\0\0\x00\0", QpackError::Dynamic),
            (b"\0\0\xff\x24", QpackError::Index),
            (b"\0\0\x5f\x54\0", QpackError::Index),
            (b"\0\0\xff", QpackError::Truncated),
            (b"\0\0\xff\xff\xff\xff\xff\x7f", QpackError::Integer),
            (b"\0\0\x51", QpackError::Truncated),
            (b"\0\0\x51\x02a", QpackError::Truncated),
            (b"\0\0\x22a", QpackError::Truncated),
            (b"\0\0\x51\x81\x00", QpackError::Huffman),
            (b"\0\0\x29\xff\0", QpackError::Huffman),
        ];
        for (section, error) in table {
            assert_eq!(lines(section), Err(error), "{section:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(section in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = lines(&section);
            let _ = lines(&[&[0, 0][..], &section].concat());
        }

        /// Fields survive encoding and decoding, with static references where the table has the name or the
        /// field.
        #[test]
        fn fields_survive_a_round_trip(
            fields in proptest::collection::vec((0..130_usize, "[ -~]{0,30}", any::<bool>(), any::<bool>()), 0..20),
        ) {
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            super::super::begin(&mut out);
            for (index, text, is_static_value, is_sensitive) in fields {
                let entry = static_table::get(index).filter(|entry| !entry.0.starts_with(':'));
                let (name, value) = entry.map_or(("x-Other", ""), |entry| (entry.0, entry.1));
                let value = if is_static_value { value } else { text.trim() };
                let id = FieldId::of(name.as_bytes());
                super::super::field(&mut out, id, name.as_bytes(), value.as_bytes(), is_sensitive);
                expected.push(format!("{}: {value}", name.to_ascii_lowercase()));
            }
            let mut read = lines(&out).unwrap();
            read.iter_mut().for_each(|line| *line = line.trim_start_matches('!').to_owned());
            prop_assert_eq!(read, expected);
        }
    }
}
