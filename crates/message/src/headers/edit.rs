//! Changing a field list, with every name and value checked.

use super::{FOLLOWS, Field, Headers, REMOVED, hop_by_hop_flag};
use crate::{FieldId, HEADERS_BYTES_MAX, Span, syntax};

/// Why a field was not added. The list is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldError {
    /// The name is not a token (RFC 9110 section 5.1).
    Name,
    /// The value holds a control character other than HTAB (RFC 9110 section 5.5).
    Value,
    /// The list would hold more than [`HEADERS_BYTES_MAX`].
    TooLarge,
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Name => "the field name is not a token",
            Self::Value => "the field value holds a control character",
            Self::TooLarge => "the fields are too large",
        })
    }
}

impl std::error::Error for FieldError {}

impl Headers {
    /// Adds a field behind the others. Surrounding white space of the value is dropped.
    pub fn append(&mut self, name: &str, value: &[u8]) -> Result<(), FieldError> {
        let value = self.checked(name, value)?;
        self.drop_alike(name.as_bytes());
        self.push_raw(name.as_bytes(), value);
        Ok(())
    }

    /// Adds a field with a known name behind the others. [`FieldId::Other`] has no name and is an error.
    pub fn append_known(&mut self, id: FieldId, value: &[u8]) -> Result<(), FieldError> {
        self.append(id.name(), value)
    }

    /// Makes this the only field of its name: the first one's place is kept, the others are removed; without
    /// one it is appended. A hop-by-hop mark that came from a nomination is gone.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), FieldError> {
        let value = self.checked(name, value)?;
        self.drop_alike(name.as_bytes());
        let id = FieldId::of(name.as_bytes());
        let Some(first) = self.position(id, name.as_bytes(), 0) else {
            self.push_identified(name.as_bytes(), value, id);
            return Ok(());
        };
        self.remove_from(first + 1, id, name.as_bytes());
        let (name, value) = self.write_line(name.as_bytes(), value);
        self.replace(first, Field { name, value, id, flags: hop_by_hop_flag(id) | self.own_flag() });
        Ok(())
    }

    /// [`Headers::set`] for a known name.
    pub fn set_known(&mut self, id: FieldId, value: &[u8]) -> Result<(), FieldError> {
        self.set(id.name(), value)
    }

    /// Removes all fields of this name; true when there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.drop_alike(name.as_bytes()) | self.remove_from(0, FieldId::of(name.as_bytes()), name.as_bytes())
    }

    /// Removes all fields with this id; true when there was one. [`FieldId::Other`] removes nothing.
    #[inline]
    pub fn remove_known(&mut self, id: FieldId) -> bool {
        self.seen & id.bit() != 0 && self.remove_from(0, id, &[])
    }

    /// Keeps a text that belongs to the head beside the fields; no field's line is touched. The caller has
    /// checked it.
    pub fn keep_text(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        Span::new(start, self.bytes.len())
    }

    fn checked<'a>(&self, name: &str, value: &'a [u8]) -> Result<&'a [u8], FieldError> {
        if !syntax::is_token(name.as_bytes()) {
            return Err(FieldError::Name);
        }
        if !syntax::is_field_value(value) {
            return Err(FieldError::Value);
        }
        if self.bytes.len() + name.len() + value.len() + b": \r\n".len() > HEADERS_BYTES_MAX {
            return Err(FieldError::TooLarge);
        }
        Ok(syntax::trim(value))
    }

    fn position(&self, id: FieldId, name: &[u8], from: usize) -> Option<usize> {
        if id != FieldId::Other && self.seen & id.bit() == 0 {
            return None;
        }
        let matches = |field: &Field| !field.is_removed() && self.is_named(field, id, name);
        self.fields[from..].iter().position(matches).map(|offset| from + offset)
    }

    fn remove_from(&mut self, mut from: usize, id: FieldId, name: &[u8]) -> bool {
        let mut found = false;
        while let Some(index) = self.position(id, name, from) {
            self.fields[index].flags |= REMOVED;
            self.live -= 1;
            from = index + 1;
            found = true;
        }
        found
    }

    /// Puts a line written at the end of the bytes in the place of another; neither neighbour adjoins it.
    fn replace(&mut self, index: usize, field: Field) {
        self.fields[index] = field;
        match self.fields.get_mut(index + 1) {
            Some(next) => next.flags &= !FOLLOWS,
            None => self.tail = Span::new(0, self.bytes.len()).end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldSet;

    /// Applies one edit to `A: 1`, `Host: h`, `a: 2`, `B: 3` and compares the lines that are left.
    fn check(edit: impl FnOnce(&mut Headers), expected: &[&str]) {
        let mut headers = Headers::new();
        for (name, value) in [("A", "1"), ("Host", "h"), ("a", "2"), ("B", "3")] {
            headers.append(name, value.as_bytes()).unwrap();
        }
        edit(&mut headers);
        let lines: Vec<String> = headers
            .iter()
            .map(|field| {
                format!("{}={}", String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value))
            })
            .collect();
        assert_eq!(lines, expected);
        assert_eq!(headers.len(), expected.len());
        let mut written = Vec::new();
        headers.for_each_run(FieldSet::EMPTY, |run| {
            written.extend_from_slice(run);
            written.extend_from_slice(b"\r\n");
        });
        let expected: String = expected.iter().map(|line| line.replacen('=', ": ", 1) + "\r\n").collect();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn edits_keep_order_and_case() {
        check(|_| {}, &["A=1", "Host=h", "a=2", "B=3"]);
        check(|h| h.set("a", b"9").unwrap(), &["a=9", "Host=h", "B=3"]);
        check(|h| h.set("b", b"9").unwrap(), &["A=1", "Host=h", "a=2", "b=9"]);
        check(|h| h.set("C", b" 9\t").unwrap(), &["A=1", "Host=h", "a=2", "B=3", "C=9"]);
        check(|h| h.set_known(FieldId::Host, b"x").unwrap(), &["A=1", "Host=x", "a=2", "B=3"]);
        check(|h| assert!(h.remove("A")), &["Host=h", "B=3"]);
        check(|h| assert!(h.remove_known(FieldId::Host)), &["A=1", "a=2", "B=3"]);
        check(|h| assert!(!h.remove("Z")), &["A=1", "Host=h", "a=2", "B=3"]);
        check(|h| assert!(!h.remove_known(FieldId::Other)), &["A=1", "Host=h", "a=2", "B=3"]);
        check(|h| h.append("B", b"").unwrap(), &["A=1", "Host=h", "a=2", "B=3", "B="]);
        check(
            |h| {
                h.set("B", b"8").unwrap();
                h.append("C", b"7").unwrap();
                h.remove("A");
                h.set("A", b"6").unwrap();
            },
            &["Host=h", "B=8", "C=7", "A=6"],
        );
    }

    #[test]
    fn injection_is_refused() {
        let mut headers = Headers::new();
        for name in ["", "a b", "a:", "a\r\nb", "\u{e9}"] {
            assert_eq!(headers.append(name, b"1"), Err(FieldError::Name), "{name:?}");
            assert_eq!(headers.set(name, b"1"), Err(FieldError::Name), "{name:?}");
        }
        for value in ["a\r\nb: c", "a\n", "\r", "\0", "\u{7f}"] {
            assert_eq!(headers.append("a", value.as_bytes()), Err(FieldError::Value), "{value:?}");
        }
        assert_eq!(headers.append_known(FieldId::Other, b"1"), Err(FieldError::Name));
        assert!(headers.is_empty());
        let large = vec![b'a'; HEADERS_BYTES_MAX];
        assert_eq!(headers.append("a", &large), Err(FieldError::TooLarge));
    }

    #[test]
    fn look_ups() {
        let mut headers = Headers::new();
        headers.append("Accept-Encoding", b"gzip, BR ,").unwrap();
        headers.append("X-Thing", b"1").unwrap();
        headers.append("x-thing", b"2").unwrap();
        headers.append("Connection", b"close").unwrap();
        assert_eq!(headers.get("x-thing"), Some(&b"1"[..]));
        assert_eq!(headers.get_all("X-THING").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(headers.get_known(FieldId::Host), None);
        assert!(headers.contains_token(FieldId::AcceptEncoding, "br"));
        assert!(!headers.contains_token(FieldId::AcceptEncoding, "b"));
        assert!(headers.contains("connection") && headers.contains_known(FieldId::Connection));
        assert!(headers.iter().last().unwrap().hop_by_hop);
        headers.clear();
        assert!(headers.is_empty() && headers.get("x-thing").is_none());
    }
}
