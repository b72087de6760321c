//! A field list that keeps order and case: owned bytes and a table of spans into them, reused message after
//! message. It does not know what the fields mean beyond their hop-by-hop mark.
//!
//! Parsed lines stay as they came; edits append new lines behind them and move the spans, and an encoder
//! copies unmodified neighbours in one run. Names and values are checked on every edit, so a line break
//! cannot be smuggled in: header injection is impossible.

mod alike;
mod edit;
mod iter;

pub use edit::FieldError;
pub use iter::{FieldRef, Fields};

use crate::{FieldId, FieldSet, Span, syntax};

/// An ordered list of fields.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    /// Bits of the ids that were ever added: a miss, the usual answer, costs one test.
    seen: u128,
    /// How many fields are not removed.
    live: u32,
    /// Where the line of the last field in the table ends in `bytes`.
    tail: u32,
    /// Edits take the client's fields with alike names away.
    is_guarded: bool,
    /// Whether a guarded list may have a name with an underscore.
    has_underscores: bool,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    name: Span,
    value: Span,
    id: FieldId,
    flags: u8,
}

impl Headers {
    /// An empty list without memory of its own.
    pub const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            fields: Vec::new(),
            seen: 0,
            live: 0,
            tail: 0,
            is_guarded: false,
            has_underscores: false,
        }
    }

    /// Forgets all fields and keeps the memory for the next message.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.seen = 0;
        self.live = 0;
        self.tail = 0;
        self.is_guarded = false;
        self.has_underscores = false;
    }

    /// Makes this list the same as `other` and keeps its memory.
    pub fn copy_from(&mut self, other: &Headers) {
        self.bytes.clone_from(&other.bytes);
        self.fields.clone_from(&other.fields);
        (self.seen, self.live, self.tail) = (other.seen, other.live, other.tail);
        (self.is_guarded, self.has_underscores) = (other.is_guarded, other.has_underscores);
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    /// Nothing was ever put into it since it was made or cleared.
    pub fn is_blank(&self) -> bool {
        self.bytes.is_empty() && self.fields.is_empty()
    }

    /// Number of fields (lines), the hop-by-hop ones included.
    pub fn len(&self) -> usize {
        self.live as usize
    }

    /// True without any field.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The value of the first field of this name, in any case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// The value of the first field with this id.
    #[inline]
    pub fn get_known(&self, id: FieldId) -> Option<&[u8]> {
        if self.seen & id.bit() == 0 { None } else { self.find_known(id) }
    }

    fn find_known(&self, id: FieldId) -> Option<&[u8]> {
        let field = self.fields.iter().find(|field| field.id == id && !field.is_removed())?;
        Some(self.text(field.value))
    }

    /// False when no name of the set was ever there; costs one test.
    #[inline]
    pub fn may_contain(&self, names: FieldSet) -> bool {
        names.meets(self.seen)
    }

    /// The values of all fields of this name in order.
    pub fn get_all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let id = FieldId::of(name.as_bytes());
        let fields =
            if id != FieldId::Other && self.seen & id.bit() == 0 { &[][..] } else { &self.fields[..] };
        fields
            .iter()
            .filter(move |field| !field.is_removed() && self.is_named(field, id, name.as_bytes()))
            .map(|field| self.text(field.value))
    }

    /// The values of all fields with this id in order.
    pub fn get_all_known(&self, id: FieldId) -> impl Iterator<Item = &[u8]> {
        let fields = if self.seen & id.bit() == 0 { &[][..] } else { &self.fields[..] };
        fields
            .iter()
            .filter(move |field| field.id == id && !field.is_removed())
            .map(|field| self.text(field.value))
    }

    /// True when a field of this name is there.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// True when a field with this id is there.
    #[inline]
    pub fn contains_known(&self, id: FieldId) -> bool {
        self.get_known(id).is_some()
    }

    /// True when one of the comma-separated elements of these fields is `token`, in any case.
    pub fn contains_token(&self, id: FieldId, token: &str) -> bool {
        self.get_all_known(id)
            .flat_map(syntax::list)
            .any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
    }

    /// The fields in order, the hop-by-hop ones included (they are marked).
    pub fn iter(&self) -> Fields<'_> {
        Fields::new(self)
    }

    /// The bytes of a span that a head handed out.
    pub fn text(&self, span: Span) -> &[u8] {
        &self.bytes[span.range()]
    }

    /// Calls `write` with the bytes of each run of fields that may be sent and are not in `skip`:
    /// neighbouring lines untouched since they were parsed come as one slice. A run lacks its final CRLF.
    pub fn for_each_run(&self, skip: FieldSet, mut write: impl FnMut(&[u8])) {
        let mut run: Option<Span> = None;
        for field in &self.fields {
            if field.flags & (REMOVED | HOP_BY_HOP) != 0 || skip.contains(field.id) {
                if let Some(span) = run.take() {
                    write(self.text(span));
                }
                continue;
            }
            run = match run {
                Some(span) if field.flags & FOLLOWS != 0 => {
                    Some(Span { start: span.start, end: field.value.end })
                }
                other => {
                    if let Some(span) = other {
                        write(self.text(span));
                    }
                    Some(Span { start: field.name.start, end: field.value.end })
                }
            };
        }
        if let Some(span) = run {
            write(self.text(span));
        }
    }

    /// Starts a list over the bytes of a whole head; `start_line_end` is where the first field line begins.
    pub fn adopt(&mut self, head: &[u8], start_line_end: usize) {
        self.clear();
        self.bytes.extend_from_slice(head);
        self.tail = Span::new(0, start_line_end).end;
    }

    /// Adds a line that lies in the adopted bytes directly behind the one before it. The parser has checked
    /// it.
    pub fn push_span(&mut self, name: Span, value: Span, id: FieldId) {
        // An empty value may come without a place of its own; its line still needs one to be copied.
        let value = if value.is_empty() { Span { start: name.end + 1, end: name.end + 1 } } else { value };
        let follows = if self.fields.is_empty() { 0 } else { FOLLOWS };
        self.fields.push(Field { name, value, id, flags: follows | hop_by_hop_flag(id) });
        self.seen |= id.bit();
        self.live += 1;
    }

    /// Says where the last adopted line ends, so that appended lines join its run when they lie behind it.
    pub fn seal(&mut self, last_line_end: usize) {
        self.bytes.truncate(last_line_end);
        self.tail = Span::new(0, last_line_end).end;
    }

    /// Adds a line that the caller has checked.
    pub fn push_raw(&mut self, name: &[u8], value: &[u8]) {
        self.push_identified(name, value, FieldId::of(name));
    }

    /// Adds a line that the caller has checked; `id` is the number of its name.
    #[inline]
    pub fn push_identified(&mut self, name: &[u8], value: &[u8], id: FieldId) {
        let follows =
            if !self.fields.is_empty() && self.tail as usize == self.bytes.len() { FOLLOWS } else { 0 };
        self.has_underscores |= self.is_guarded && id == FieldId::Other && name.contains(&b'_');
        let (name, value) = self.write_line(name, value);
        let flags = follows | hop_by_hop_flag(id) | self.own_flag();
        self.fields.push(Field { name, value, id, flags });
        self.seen |= id.bit();
        self.live += 1;
        self.tail = Span::new(0, self.bytes.len()).end;
    }

    /// Marks the last field as one that no compression may put into a table (RFC 7541 section 7.1.3). An edit
    /// of the field removes the mark.
    pub fn mark_last_sensitive(&mut self) {
        if let Some(field) = self.fields.last_mut() {
            field.flags |= SENSITIVE;
        }
    }

    /// Marks every field of this name as hop-by-hop unless the name is protected from nomination.
    pub fn nominate(&mut self, name: Span) {
        let id = FieldId::of(self.text(name));
        if id.ignores_nomination() {
            return;
        }
        for index in 0..self.fields.len() {
            if self.is_named(&self.fields[index], id, self.text(name)) {
                self.fields[index].flags |= HOP_BY_HOP;
            }
        }
    }

    /// Marks the fields with this id as not to be sent on.
    pub fn mark_hop_by_hop(&mut self, id: FieldId) {
        for field in self.fields.iter_mut().filter(|field| field.id == id) {
            field.flags |= HOP_BY_HOP;
        }
    }

    /// Where the value of the first field with this id lies.
    pub fn span_of(&self, id: FieldId) -> Option<Span> {
        self.fields.iter().find(|field| field.id == id && !field.is_removed()).map(|field| field.value)
    }

    /// Where the value of the `index`-th field with this id lies.
    pub fn nth_span_of(&self, id: FieldId, index: usize) -> Option<Span> {
        self.fields
            .iter()
            .filter(|field| field.id == id && !field.is_removed())
            .nth(index)
            .map(|field| field.value)
    }

    fn is_named(&self, field: &Field, id: FieldId, name: &[u8]) -> bool {
        field.id == id && (id != FieldId::Other || self.text(field.name).eq_ignore_ascii_case(name))
    }

    /// The mark of a field that is added now.
    fn own_flag(&self) -> u8 {
        if self.is_guarded { OWN } else { 0 }
    }

    fn write_line(&mut self, name: &[u8], value: &[u8]) -> (Span, Span) {
        let start = self.bytes.len();
        let value_start = start + name.len() + b": ".len();
        let value_end = value_start + value.len();
        // Growing once costs less than four times.
        self.bytes.reserve(value_end + b"\r\n".len() - start);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        (Span::new(start, start + name.len()), Span::new(value_start, value_end))
    }
}

impl Field {
    fn is_removed(&self) -> bool {
        self.flags & REMOVED != 0
    }

    fn is_own(&self) -> bool {
        self.flags & OWN != 0
    }
}

fn hop_by_hop_flag(id: FieldId) -> u8 {
    if id.is_hop_by_hop() { HOP_BY_HOP } else { 0 }
}

/// The field was removed; its place is kept so that indices and runs stay valid.
const REMOVED: u8 = 1;
/// The field concerns this connection only; encoders skip it.
const HOP_BY_HOP: u8 = 2;
/// The field's line begins where the line of the field before it in the table ends.
const FOLLOWS: u8 = 4;
/// The sender of the field forbade to put it into a compression table.
const SENSITIVE: u8 = 8;
/// The field of a guarded list that was set after the client's fields.
const OWN: u8 = 16;
