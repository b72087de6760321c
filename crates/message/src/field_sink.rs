//! How a head is written, field by field, whatever the form of its protocol. It does not know which fields a
//! message needs.

use crate::{FieldSet, Headers};

/// Writes the fields of one head in the form of its protocol. Names may have any case; names and values were
/// checked when they were read or set.
pub trait FieldSink {
    /// Writes every field that is neither hop-by-hop nor in `skip`.
    fn fields_except(&mut self, headers: &Headers, skip: FieldSet);

    /// Begins a field with a value that comes in parts.
    fn begin(&mut self, name: &str);

    /// Appends to the value of the field that was begun.
    fn part(&mut self, bytes: &[u8]);

    /// Ends the field that was begun.
    fn end(&mut self);

    /// Writes a field.
    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        self.begin(name);
        self.part(value);
        self.end();
    }
}
