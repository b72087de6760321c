//! Response heads: the status and the fields of a response, with their own storage.

use crate::{Headers, Span, Version};

/// A response head with its own storage, to be reused.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// The status code, 100 to 999: codes above 599 exist in the wild and are passed on.
    pub status: u16,
    /// The reason phrase of an HTTP/1 response as it was sent; empty when there is none or it is not ASCII.
    pub reason: Span,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// The protocol that the response switches to: the Upgrade field of HTTP/1.1 where Connection lists it.
    pub upgrade: Option<Span>,
}

impl ResponseHead {
    /// A head without memory of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self { headers, ..Self::default() };
    }

    /// The reason phrase as it was sent.
    pub fn reason_text(&self) -> &[u8] {
        self.headers.text(self.reason)
    }

    /// The protocol that the response switches to, if it does.
    pub fn upgrade_text(&self) -> Option<&[u8]> {
        self.upgrade.map(|span| self.headers.text(span))
    }

    /// True for 1xx other than 101: another head follows.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}
