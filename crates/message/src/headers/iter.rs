//! Walking over a field list; it refuses to change it.

use super::{Field, HOP_BY_HOP, Headers, SENSITIVE};
use crate::FieldId;

/// One field of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name as it was sent.
    pub name: &'a [u8],
    /// The value without surrounding white space.
    pub value: &'a [u8],
    /// The name's number.
    pub id: FieldId,
    /// True when the field concerns one connection only and is not sent on.
    pub hop_by_hop: bool,
    /// True when the sender forbade to put the field into a compression table (RFC 7541 section 7.1.3).
    pub sensitive: bool,
}

/// Iterator over the fields that are not removed, in order.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    headers: &'a Headers,
    fields: std::slice::Iter<'a, Field>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(headers: &'a Headers) -> Self {
        Self { headers, fields: headers.fields.iter() }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldRef<'a>;

    fn next(&mut self) -> Option<FieldRef<'a>> {
        let field = self.fields.find(|field| !field.is_removed())?;
        Some(FieldRef {
            name: self.headers.text(field.name),
            value: self.headers.text(field.value),
            id: field.id,
            hop_by_hop: field.flags & HOP_BY_HOP != 0,
            sensitive: field.flags & SENSITIVE != 0,
        })
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = FieldRef<'a>;
    type IntoIter = Fields<'a>;

    fn into_iter(self) -> Fields<'a> {
        self.iter()
    }
}
