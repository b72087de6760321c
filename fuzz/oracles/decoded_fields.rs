//! Decoded fields as the oracles of HPACK and QPACK keep them.

use message::FieldId;
use multiplex::{Field, FieldVisitor};

/// A field with its mark.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedField {
    /// The name as it was decoded.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Whether it must never be put into a table.
    pub is_sensitive: bool,
}

/// The fields of a section in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DecodedFields(pub Vec<OwnedField>);

impl FieldVisitor for DecodedFields {
    fn field(&mut self, field: &Field<'_>) {
        assert_eq!(field.id, FieldId::of(field.name), "{}", field.name.escape_ascii());
        let (name, value) = (field.name.to_vec(), field.value.to_vec());
        self.0.push(OwnedField { name, value, is_sensitive: field.is_sensitive });
    }
}

impl DecodedFields {
    /// Asserts that these fields are the `written` ones. An encoder may mark more of them as sensitive.
    pub fn assert_same(&self, written: &DecodedFields) {
        assert_eq!(self.0.len(), written.0.len());
        for (read, written) in self.0.iter().zip(&written.0) {
            assert_eq!((&read.name, &read.value), (&written.name, &written.value));
            assert!(read.is_sensitive || !written.is_sensitive, "a mark was lost");
        }
    }
}
