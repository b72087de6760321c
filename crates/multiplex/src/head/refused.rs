//! The texts of a request that is malformed or too large, for logs: those that were read before the fault,
//! and those behind it. It does not know why it is refused.

use message::FieldId;
use message::refused::{RefusedTexts, keep_field};

use super::{HeadReader, StoredHead};
use crate::{Field, pool};

impl HeadReader {
    /// Notes the text of a field at a fault or behind it, if a log wants it and none was read.
    #[cold]
    pub(super) fn note_refused(&mut self, field: &Field<'_>) {
        if !self.is_request() || field.value.len() > self.limits.max_head_bytes {
            return;
        }
        let (headers, spans) = (&mut self.head.headers, &mut self.head.spans);
        let (method, target) = match field.name {
            b":method" if spans.method.is_empty() => (field.value, &b""[..]),
            b":path" if spans.target.is_empty() => (&b""[..], field.value),
            b":authority" if spans.authority.is_empty() => {
                spans.authority = keep_field(headers, b"host", field.value).unwrap_or_default();
                return;
            }
            name => {
                if let Some(authority) = keep_field(headers, name, field.value) {
                    spans.authority = authority;
                }
                return;
            }
        };
        let (kept_method, kept) = RefusedTexts { method, target }.keep(headers);
        if target.is_empty() {
            self.head.method = kept_method;
            spans.method = kept.method;
        } else {
            (spans.target, spans.path, spans.query) = (kept.target, kept.path, kept.query);
        }
    }

    /// The texts of a refused request that a log wants, in a head of their own, because the refused one may
    /// be large. Empty for another section.
    #[cold]
    pub(super) fn into_refused(self) -> Box<StoredHead> {
        let mut refused = pool::take_head();
        if self.is_request() {
            let (headers, spans) = (&self.head.headers, &self.head.spans);
            let texts =
                RefusedTexts { method: headers.text(spans.method), target: headers.text(spans.target) };
            let (_, kept) = texts.keep(&mut refused.headers);
            (refused.method, refused.spans) = (self.head.method, kept);
            for field in headers.iter() {
                let authority = keep_field(&mut refused.headers, field.name, field.value);
                if let Some(authority) = authority.filter(|_| field.id == FieldId::Host) {
                    refused.spans.authority = authority;
                }
            }
        }
        pool::give_head(self.head);
        refused
    }
}
