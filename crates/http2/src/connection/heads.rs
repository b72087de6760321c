//! Header blocks: HEADERS and CONTINUATION frames, decoding, and what a head does to its stream. It does not
//! know the rules for fields.

use multiplex::{Field, FieldVisitor, HeadReader, Parsed, Section, StoredHead};
use stdx::pooled::PooledBox;

use super::records::Closed;
use super::{Closing, Connection, Event};
use crate::error::{ConnectionError, ErrorCode};
use crate::flood::Cost;
use crate::frame::{self, FrameHeader, flag};
use crate::stream::{Side, Stream};
use crate::streams::StreamKey;
use crate::{Limits, pool};

/// A header block; its end has not arrived.
#[derive(Debug)]
pub(super) struct HeadBlock {
    pub(super) stream: u32,
    is_end_stream: bool,
    depends_on_itself: bool,
    continuations: u32,
    bytes: Vec<u8>,
}

impl HeadBlock {
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// A complete header block.
#[derive(Clone, Copy)]
struct Complete<'a> {
    stream: u32,
    is_end_stream: bool,
    depends_on_itself: bool,
    bytes: &'a [u8],
}

/// The purpose of a block.
enum Target {
    /// A request on a new stream.
    New,
    /// The next section of a stream.
    Section(StreamKey, Section),
    /// A stream error of a stream that has a slot.
    Fault(StreamKey),
    /// A stream error of a stream without a slot.
    Closed,
    /// The stream was reset by this side: the block only keeps the table up to date.
    Ignored,
}

impl Connection {
    pub(super) fn headers_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("HEADERS on stream 0"));
        }
        let mut bytes = strip_padding(header, payload)?;
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (priority, rest) = bytes
                .split_at_checked(5)
                .ok_or(ConnectionError::frame_size("HEADERS too short for its priority"))?;
            depends_on_itself = frame::read_u32(priority) & frame::MAX_31_BITS == header.stream;
            bytes = rest;
        }
        let is_end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.complete_block(Complete {
                stream: header.stream,
                is_end_stream,
                depends_on_itself,
                bytes,
            });
        }
        let mut kept = pool::take_bytes();
        kept.extend_from_slice(bytes);
        let stream = header.stream;
        self.block = Some(Box::new(HeadBlock {
            stream,
            is_end_stream,
            depends_on_itself,
            continuations: 0,
            bytes: kept,
        }));
        Ok(())
    }

    pub(super) fn continuation_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        let (limit, most) = match self.is_server {
            true => (self.config.block_bytes(), Limits::CONTINUATION_FRAMES),
            false => (
                self.config.block_bytes().max(Limits::SERVER_HEAD_BLOCK_BYTES),
                Limits::SERVER_CONTINUATION_FRAMES,
            ),
        };
        let Some(block) = &mut self.block else {
            return Err(ConnectionError::protocol("CONTINUATION without HEADERS"));
        };
        block.continuations += 1;
        if block.continuations > most {
            return Err(ConnectionError::calm("too many CONTINUATION frames"));
        }
        if block.bytes.len() + payload.len() > limit {
            return Err(ConnectionError::calm("header block too large"));
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return Ok(());
        }
        let block = self.block.take().expect("it was there two lines above");
        let result = self.complete_block(Complete {
            stream: block.stream,
            is_end_stream: block.is_end_stream,
            depends_on_itself: block.depends_on_itself,
            bytes: &block.bytes,
        });
        pool::give_bytes(block.bytes);
        result
    }

    /// Decodes a block, whatever it is for, because the table has to follow, and applies it.
    fn complete_block(&mut self, block: Complete<'_>) -> Result<(), ConnectionError> {
        let target = self.target_of(block.stream)?;
        let section = match target {
            Target::New => Section::Request { extended: self.config.extended_connect },
            Target::Section(_, section) => section,
            Target::Fault(_) | Target::Closed | Target::Ignored => {
                self.decode(block.bytes, &mut Dropped)?;
                return self.drop_block(target, block.stream);
            }
        };
        let mut reader = HeadReader::new(section, self.config.head);
        self.decode(block.bytes, &mut reader)?;
        let mut parsed = reader.finish();
        if block.depends_on_itself {
            parsed = parsed.malformed("a stream depends on itself");
        }
        match target {
            Target::New => self.on_request(block, parsed),
            Target::Section(key, Section::Trailers) => self.on_trailers(key, block, parsed),
            Target::Section(key, _) => self.on_response(key, block, parsed),
            Target::Fault(_) | Target::Closed | Target::Ignored => Ok(()),
        }
    }

    fn decode(&mut self, block: &[u8], visitor: &mut impl FieldVisitor) -> Result<(), ConnectionError> {
        self.decoder
            .decode(block, visitor)
            .map_err(|error| ConnectionError { code: ErrorCode::COMPRESSION_ERROR, reason: error.reason() })
    }

    fn target_of(&self, id: u32) -> Result<Target, ConnectionError> {
        if id & 1 == 0 {
            return Err(ConnectionError::protocol("HEADERS on a stream with an even identifier"));
        }
        if let Some(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get(key)
        {
            return Ok(match (stream.reset, stream.receiving) {
                (Some(reset), _) if reset.by == super::ResetBy::Peer => Target::Fault(key),
                (Some(_), _) => Target::Ignored,
                (None, Side::Ended) => Target::Fault(key),
                (None, Side::Body) => Target::Section(key, Section::Trailers),
                (None, Side::Head) => Target::Section(key, Section::Response),
            });
        }
        if id > self.last_id {
            let fault = ConnectionError::protocol("HEADERS on a stream that was not started");
            return if self.is_server { Ok(Target::New) } else { Err(fault) };
        }
        match self.records.state(id) {
            // A server's fault on one stream must not end the others.
            _ if !self.is_server => Ok(Target::Ignored),
            Closed::ResetByUs => Ok(Target::Ignored),
            Closed::ResetByPeer => Ok(Target::Closed),
            Closed::Ended => Err(ConnectionError::closed("HEADERS on a closed stream")),
            Closed::Skipped => Err(ConnectionError::protocol("HEADERS on a stream below the last one")),
        }
    }

    fn drop_block(&mut self, target: Target, id: u32) -> Result<(), ConnectionError> {
        match target {
            Target::Fault(key) => {
                self.stream_fault(key, ErrorCode::STREAM_CLOSED, "HEADERS on a stream that the peer ended")
            }
            Target::Closed => self.refuse(id, ErrorCode::STREAM_CLOSED),
            _ => self.flood.charge(Cost::LateFrame),
        }
    }

    /// A request on a new stream.
    fn on_request(&mut self, block: Complete<'_>, parsed: Parsed) -> Result<(), ConnectionError> {
        let id = block.stream;
        self.records.opened(self.last_id, id);
        self.last_id = id;
        let is_beyond_end = matches!(self.closing, Closing::Final { .. });
        let is_full = self.active >= self.config.max_streams || self.streams.len() >= self.config.slots();
        let is_good = matches!(parsed, Parsed::Good(_));
        let head = match parsed {
            Parsed::Malformed(reason, head) => return self.refuse_request(block, head, reason),
            Parsed::Good(head)
                if block.is_end_stream && head.content_length.is_some_and(|length| length > 0) =>
            {
                return self.refuse_request(block, head, "Content-Length differs from the content");
            }
            Parsed::Good(mut head) => {
                head.block_bytes = block.bytes.len();
                head
            }
            Parsed::TooLarge(head) => head,
        };
        if is_beyond_end || is_full {
            pool::give_head(head);
            return self.refuse(id, ErrorCode::REFUSED_STREAM);
        }
        let mut stream = Stream::new(id, self.peer.initial_window_bytes, self.receive_initial);
        stream.receiving = if block.is_end_stream { Side::Ended } else { Side::Body };
        let early = self.records.take_priority(id);
        if is_good {
            stream.content_length = head.content_length;
            stream.priority = early.or(head.priority).unwrap_or_default();
        }
        (stream.head_queued, stream.is_too_large) = (is_good, !is_good);
        stream.head = Some(head);
        let key = self.streams.insert(PooledBox::new(stream));
        self.active += 1;
        self.report(if is_good { Event::Head(key) } else { Event::HeadTooLarge(key) });
        Ok(())
    }

    /// Resets the stream of a malformed request, and keeps its texts for the driver's log.
    #[cold]
    fn refuse_request(
        &mut self,
        block: Complete<'_>,
        mut head: Box<StoredHead>,
        reason: &'static str,
    ) -> Result<(), ConnectionError> {
        head.block_bytes = block.bytes.len();
        let refused = self.refused.get_or_insert_default();
        if refused.len() < Limits::REFUSED_REQUESTS {
            refused.push_back((head, reason));
        } else {
            pool::give_head(head);
        }
        self.refuse(block.stream, ErrorCode::PROTOCOL_ERROR)
    }

    /// An interim or final response.
    fn on_response(
        &mut self,
        key: StreamKey,
        block: Complete<'_>,
        parsed: Parsed,
    ) -> Result<(), ConnectionError> {
        let head = match good_head(parsed, "response head too large") {
            Ok(head) => head,
            Err((code, reason)) => return self.stream_fault(key, code, reason),
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        if let Err((code, reason)) = stream.accept_response(&head, block.is_end_stream) {
            pool::give_head(head);
            return self.stream_fault(key, code, reason);
        }
        stream.store_head(head);
        if !std::mem::replace(&mut stream.head_queued, true) {
            self.report(Event::Head(key));
        }
        self.settle(key);
        Ok(())
    }

    /// The trailers of either message.
    fn on_trailers(
        &mut self,
        key: StreamKey,
        block: Complete<'_>,
        parsed: Parsed,
    ) -> Result<(), ConnectionError> {
        let head = match good_head(parsed, "trailers too large") {
            Ok(head) => head,
            Err((code, reason)) => return self.stream_fault(key, code, reason),
        };
        if !block.is_end_stream {
            pool::give_head(head);
            return self.stream_fault(key, ErrorCode::PROTOCOL_ERROR, "trailers without END_STREAM");
        }
        if let Some(stream) = self.streams.get_mut(key) {
            if head.headers.is_empty() {
                pool::give_head(head);
            } else {
                stream.trailers = Some(head);
            }
        }
        self.end_of_message(key)
    }

    /// The peer ended its message.
    pub(super) fn end_of_message(&mut self, key: StreamKey) -> Result<(), ConnectionError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        if !stream.no_content && stream.content_length.is_some_and(|length| length != stream.received_bytes) {
            let reason = "Content-Length differs from the content";
            return self.stream_fault(key, ErrorCode::PROTOCOL_ERROR, reason);
        }
        stream.receiving = Side::Ended;
        self.report(Event::End(key));
        self.settle(key);
        Ok(())
    }
}

impl Stream {
    /// Checks a response head against the state of the stream and takes over what follows from it.
    fn accept_response(&mut self, head: &StoredHead, is_end: bool) -> Result<(), (ErrorCode, &'static str)> {
        if head.status < 200 {
            self.interim_heads += 1;
            return match (is_end, self.interim_heads > Limits::INTERIM_HEADS) {
                (true, _) => Err((ErrorCode::PROTOCOL_ERROR, "interim response with END_STREAM")),
                (_, true) => Err((ErrorCode::ENHANCE_YOUR_CALM, "too many interim responses")),
                _ => Ok(()),
            };
        }
        self.no_content = self.asked_head || matches!(head.status, 204 | 304);
        self.content_length = head.content_length;
        if is_end && !self.no_content && head.content_length.is_some_and(|length| length > 0) {
            return Err((ErrorCode::PROTOCOL_ERROR, "Content-Length differs from the content"));
        }
        self.receiving = if is_end { Side::Ended } else { Side::Body };
        Ok(())
    }
}

/// Drops the fields of a block, because its stream is gone.
struct Dropped;

impl FieldVisitor for Dropped {
    fn field(&mut self, _: &Field<'_>) {}
}

/// The payload of a frame without its padding (RFC 9113 section 6.1 and 6.2).
pub(super) fn strip_padding(header: FrameHeader, payload: &[u8]) -> Result<&[u8], ConnectionError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload
        .split_first()
        .ok_or(ConnectionError::frame_size("padded frame without its padding length"))?;
    let length = rest.len().checked_sub(usize::from(padding));
    length.map(|length| &rest[..length]).ok_or(ConnectionError::protocol("padding longer than its frame"))
}

/// The head of a response, or trailers, if they may be used; otherwise the fault of the stream, with the
/// reason `too_large` for a head beyond the limits.
fn good_head(parsed: Parsed, too_large: &'static str) -> Result<Box<StoredHead>, (ErrorCode, &'static str)> {
    let (head, fault) = match parsed {
        Parsed::Good(head) => return Ok(head),
        Parsed::Malformed(reason, head) => (head, (ErrorCode::PROTOCOL_ERROR, reason)),
        Parsed::TooLarge(head) => (head, (ErrorCode::ENHANCE_YOUR_CALM, too_large)),
    };
    pool::give_head(head);
    Err(fault)
}
