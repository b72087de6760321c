//! A field that is written in parts, by the writers of heads of both protocols; it does not know how fields
//! are encoded.

use message::{FieldId, FieldRef};

use crate::pool;

/// The name and the value of one field in one buffer, which is borrowed from the thread's pool.
#[derive(Debug, Default)]
pub struct PartedField {
    text: Vec<u8>,
    name_length: usize,
}

impl PartedField {
    /// Begins a field; an earlier one is forgotten.
    pub fn begin(&mut self, name: &str) {
        if self.text.capacity() == 0 {
            self.text = pool::take_bytes();
        }
        self.text.clear();
        self.text.extend_from_slice(name.as_bytes());
        self.name_length = name.len();
    }

    /// Appends to the value.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    /// Makes the value of `:path` with a query.
    pub fn path(&mut self, path: &[u8], query: &[u8]) {
        self.begin("");
        self.part(path);
        self.part(b"?");
        self.part(query);
    }

    /// The number of the name, the name and the value.
    pub fn get(&self) -> (FieldId, &[u8], &[u8]) {
        let (name, value) = self.text.split_at(self.name_length);
        (FieldId::of(name), name, value)
    }
}

impl Drop for PartedField {
    fn drop(&mut self) {
        pool::give_bytes(std::mem::take(&mut self.text));
    }
}

/// Whether a field may be sent in trailers.
pub fn is_trailer(field: &FieldRef<'_>) -> bool {
    !field.hop_by_hop && !field.id.is_forbidden_in_trailers()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_memory_is_reused() {
        let mut field = PartedField::default();
        field.begin("Via");
        field.part(b"2 ");
        field.part(b"weir");
        assert_eq!(field.get(), (FieldId::Via, &b"Via"[..], &b"2 weir"[..]));
        field.path(b"/a", b"b=c");
        assert_eq!(field.get().2, b"/a?b=c");
        let capacity = field.text.capacity();
        drop(field);
        let mut next = PartedField::default();
        next.begin("x");
        assert!(next.text.capacity() >= capacity);
    }
}
