//! The bodies of an exchange as plugins see them: the request's where it was read whole, its limits, the
//! beginnings that are kept while both bodies are sent on, and the upstream's bytes for a plugin that stores
//! them.

use std::rc::Rc;

use super::body_demand::{BodyDemand, BodyUnavailable, CollectedBody};
use super::{BodyArrival, BodyCopy, BodyUnread, Exchange};
use crate::plugin::stored::BodyTap;

impl Exchange {
    /// The body of the request, where matching or a plugin asked to see it whole.
    pub fn request_body(&self) -> Option<&[u8]> {
        self.body.whole()
    }

    /// Replaces the body of the request, of which a plugin asked to see the whole; trailers are dropped with
    /// the old one.
    ///
    /// # Errors
    /// When the body was not read whole: its rest would follow the new one.
    pub fn set_request_body(&mut self, body: Vec<u8>) -> Result<(), BodyUnread> {
        self.body.whole().ok_or(BodyUnread)?;
        self.body.keep_whole(body, None);
        Ok(())
    }

    /// The question and answer of plugins that want the request body while they wait.
    pub fn body_demand(&self) -> &Rc<BodyDemand> {
        &self.body_demand
    }

    /// Reads the request body whole, unless that was done before, for a plugin that waits in a phase of the
    /// request; then [`Exchange::request_body`] gives it. Of a longer body the read beginning is kept, so
    /// that the request can go on.
    ///
    /// # Errors
    /// It is longer than `limit_bytes` or than bodies of this request may be, or nothing reads it in this
    /// phase.
    pub async fn collect_request_body(&mut self, limit_bytes: usize) -> Result<(), BodyUnavailable> {
        let Some(left_bytes) = self.missing_request_body(limit_bytes)? else { return Ok(()) };
        let demand = self.body_demand.clone();
        let read = demand.ask(left_bytes).await.ok_or(BodyUnavailable::Gone)?;
        self.keep_collected_body(read)
    }

    /// How many bytes of the request body may be read at most so that it has no more than `limit_bytes`; none
    /// if it was read whole.
    ///
    /// # Errors
    /// More was read already.
    pub fn missing_request_body(&self, limit_bytes: usize) -> Result<Option<usize>, BodyUnavailable> {
        let accepted_bytes = match self.max_request_body_bytes() {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let limit_bytes = limit_bytes.min(accepted_bytes);
        if let Some(body) = self.body.whole() {
            return if body.len() > limit_bytes { Err(BodyUnavailable::TooLong) } else { Ok(None) };
        }
        let read_bytes = self.body.prefix().map_or(0, |prefix| prefix.bytes.len());
        limit_bytes.checked_sub(read_bytes).map(Some).ok_or(BodyUnavailable::TooLong)
    }

    /// Keeps what was read on demand behind what had been read before.
    ///
    /// # Errors
    /// It is not the whole body.
    pub fn keep_collected_body(&mut self, read: CollectedBody) -> Result<(), BodyUnavailable> {
        let mut bytes = self.body.prefix().map_or_else(Vec::new, |prefix| prefix.bytes.to_vec());
        self.times.body_waited_ns += read.waited_ns;
        if bytes.is_empty() {
            bytes = read.bytes;
        } else {
            bytes.extend_from_slice(&read.bytes);
        }
        if read.is_whole {
            self.body.keep_whole(bytes, read.trailers);
            return Ok(());
        }
        if !bytes.is_empty() {
            self.body.keep_prefix(bytes);
        }
        Err(BodyUnavailable::TooLong)
    }

    /// Refuses a request body of more than `bytes`; 0 is without a limit. The limit of the engine holds
    /// besides.
    pub fn limit_request_body(&mut self, bytes: u64) {
        self.decision.max_body_bytes = bytes;
    }

    /// The longest request body that is accepted, in bytes; 0 is without a limit.
    pub fn max_request_body_bytes(&self) -> u64 {
        match (self.decision.max_body_bytes, self.local.options.limits.max_body_bytes) {
            (0, limit) | (limit, 0) => limit,
            (own, general) => own.min(general),
        }
    }

    /// Says how much of the request body is awaited before an endpoint is selected.
    pub fn await_request_body(&mut self, arrival: BodyArrival) {
        self.decision.body_arrival = arrival;
    }

    /// Calls `read` with the first bytes of the request body as far as they are known here: the whole body if
    /// a plugin asked for it, or the copy that one asked for. None if no plugin asked, or nothing was read.
    pub fn read_request_body<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match (self.body.whole(), &self.copies.request) {
            (Some(body), _) => Some(read(body)),
            (None, Some(copy)) => copy.read(read),
            (None, None) => None,
        }
    }

    /// Calls `read` with the request body, if it is known whole: it was read before an endpoint was selected,
    /// or was sent on to its end and a plugin asked for a copy at least as long.
    pub fn read_whole_request_body<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match (self.body.whole(), &self.copies.request) {
            (Some(body), _) => Some(read(body)),
            (None, copy) => copy.as_ref()?.whole(read),
        }
    }

    /// The copy of the request body that a plugin asked for, where it was not read whole.
    pub(super) fn copied_request_body(&self) -> Option<Vec<u8>> {
        self.copies.request.as_ref()?.read(<[u8]>::to_vec)
    }

    /// The beginning of the response body as the client got it; nothing if no plugin asked for a copy.
    pub fn response_copy(&self) -> Option<&[u8]> {
        self.copies.response.as_ref().map(BodyCopy::bytes)
    }

    /// Keeps at least the first `limit_bytes` of the response body.
    pub fn copy_response(&mut self, limit_bytes: usize) {
        let shared = self.local.shared.clone();
        self.copies.response.get_or_insert_with(|| BodyCopy::new(shared)).extend_limit(limit_bytes);
    }

    /// Notes a piece of the response body on its way to the client.
    #[inline]
    pub fn note_response(&mut self, piece: &[u8]) {
        if let Some(copy) = &mut self.copies.response {
            copy.add(piece);
        }
    }

    /// Gives the bytes of the upstream's response body to `tap`, from
    /// [`Plugin::upstream_response`](crate::plugin::Plugin::upstream_response).
    pub fn tap_response(&mut self, tap: Box<dyn BodyTap>) {
        self.copies.tap = Some(tap);
    }

    /// Notes a piece of the response body as it came from the upstream.
    #[inline]
    pub fn note_upstream_body(&mut self, piece: &[u8]) {
        if let Some(tap) = &mut self.copies.tap
            && !tap.piece(piece)
        {
            self.copies.tap = None;
            if let Some(refusal) = &self.copies.tap_refusal {
                refusal.set(true);
            }
        }
    }

    /// Notes that the response body of the upstream is complete.
    #[inline]
    pub fn note_upstream_end(&mut self) {
        if let Some(tap) = self.copies.tap.take() {
            tap.end();
        }
    }
}
