//! Heads and trailers out of decoded fields, under the message rules of RFC 9113 section 8 and RFC 9114
//! section 4, which are the same. It does not know frames and the states of streams.

mod fields;
mod refused;
mod request;
mod response;
#[cfg(test)]
mod tests;

use message::{FieldId, HeadLimits, Headers, Method, RequestSpans};

use crate::{Field, FieldVisitor, Priority, pool};

/// The scheme of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    #[default]
    Https,
    /// Any other scheme. A gateway has no use for it, but the message is well-formed.
    Other,
}

/// A head or a trailer section between its arrival and the gateway that takes it.
#[derive(Debug, Default)]
pub struct StoredHead {
    /// The fields; the authority of a request is also the first of them, as `host`.
    pub headers: Headers,
    /// The method of a request.
    pub method: Method,
    /// Where the texts of a request lie in `headers`.
    pub spans: RequestSpans,
    /// The scheme of a request.
    pub scheme: Scheme,
    /// The status of a response.
    pub status: u16,
    /// The announced length of the content.
    pub content_length: Option<u64>,
    /// The value of a request's `priority` field.
    pub priority: Option<Priority>,
    /// Bytes of the compressed block.
    pub block_bytes: usize,
}

impl StoredHead {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self { headers, ..Self::default() };
    }

    /// Bytes of heap memory.
    pub fn memory(&self) -> usize {
        self.headers.memory()
    }
}

/// Which section of a message a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// A request; `extended` says whether extended CONNECT was announced (RFC 8441).
    Request {
        /// Whether `:protocol` is allowed.
        extended: bool,
    },
    /// A response, interim ones too.
    Response,
    /// Trailers of either message.
    Trailers,
}

/// The result of a complete block.
#[derive(Debug)]
pub enum Parsed {
    /// A well-formed section.
    Good(Box<StoredHead>),
    /// Larger than the limits; of a request the texts that a log wants.
    TooLarge(Box<StoredHead>),
    /// Malformed, with the reason (RFC 9113 section 8.1.1); of a request the texts that a log wants.
    Malformed(&'static str, Box<StoredHead>),
}

impl Parsed {
    /// The section, malformed for this reason unless it is so already.
    #[must_use]
    pub fn malformed(self, reason: &'static str) -> Self {
        match self {
            Self::Good(head) | Self::TooLarge(head) => Self::Malformed(reason, head),
            Self::Malformed(..) => self,
        }
    }
}

/// Collects the fields of one block. After a fault it ignores fields, because only the decoder's table has to
/// follow.
#[derive(Debug)]
pub struct HeadReader {
    section: Section,
    limits: HeadLimits,
    head: Box<StoredHead>,
    /// Bits of the pseudo-fields that were there.
    pseudo: u8,
    has_regular: bool,
    has_host: bool,
    fields: usize,
    /// The size as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    list_bytes: usize,
    is_too_large: bool,
    fault: Option<&'static str>,
    /// The crumbs of the Cookie field, joined (RFC 9113 section 8.2.3).
    cookie: Vec<u8>,
    has_cookie: bool,
    is_cookie_sensitive: bool,
}

impl HeadReader {
    /// A reader for one block.
    pub fn new(section: Section, limits: HeadLimits) -> Self {
        Self {
            section,
            limits,
            head: pool::take_head(),
            pseudo: 0,
            has_regular: false,
            has_host: false,
            fields: 0,
            list_bytes: 0,
            is_too_large: false,
            fault: None,
            cookie: Vec::new(),
            has_cookie: false,
            is_cookie_sensitive: false,
        }
    }

    /// The section, once all fields were seen.
    pub fn finish(mut self) -> Parsed {
        if self.has_cookie {
            self.end_cookie();
        }
        let complete = match self.section {
            _ if self.fault.is_some() || self.is_too_large => Ok(()),
            Section::Request { .. } => self.complete_request(),
            Section::Response => self.complete_response(),
            Section::Trailers => Ok(()),
        };
        // A list that is too large was not looked at as a whole, so that this verdict comes first.
        if !self.is_too_large
            && let Some(reason) = self.fault.or(complete.err())
        {
            return Parsed::Malformed(reason, self.into_refused());
        }
        if self.is_too_large {
            return Parsed::TooLarge(self.into_refused());
        }
        Parsed::Good(self.head)
    }
}

impl FieldVisitor for HeadReader {
    #[inline]
    fn field(&mut self, field: &Field<'_>) {
        self.fields += usize::from(self.counts(field));
        self.list_bytes += field.name.len() + field.value.len() + LIST_OVERHEAD;
        self.is_too_large |=
            self.list_bytes > self.limits.max_head_bytes || self.fields > self.limits.max_fields;
        if self.is_too_large || self.fault.is_some() {
            return self.note_refused(field);
        }
        if let Err(reason) = self.take(field) {
            self.fault = Some(reason);
            self.note_refused(field);
        }
    }
}

impl HeadReader {
    /// Whether a field counts towards the limit of fields. A field of a request that this version of HTTP
    /// splits, or that is part of the start line in HTTP/1, counts as in a message of HTTP/1: crumbs of
    /// Cookie are one field, and pseudo-fields and Host are none. The size of the list bounds how many there
    /// are.
    #[inline]
    fn counts(&self, field: &Field<'_>) -> bool {
        match field.id {
            FieldId::Cookie => !(self.has_cookie && self.is_request()),
            FieldId::Host => !self.is_request(),
            _ => field.name.first() != Some(&b':'),
        }
    }

    pub(super) fn is_request(&self) -> bool {
        matches!(self.section, Section::Request { .. })
    }
}

/// Bytes that each field counts besides its texts (RFC 9113 section 6.5.2).
const LIST_OVERHEAD: usize = 32;
