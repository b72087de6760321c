//! The peer's message on one request stream: its state and what a driver takes from it. It does not know how
//! frames and sections are read, which its modules do.

mod frames;
mod sections;

use std::ops::Range;

use message::{Headers, Method, RequestHead, ResponseHead, Span, Version};
use multiplex::{Priority, Scheme, StoredHead, pool};

use crate::varint::Partial;

/// Reads the peer's message of one request stream: a request on a server's side, responses on a client's.
#[derive(Debug)]
pub struct RequestReader {
    is_server: bool,
    partial: Partial,
    reading: Reading,
    side: Side,
    /// The start of a field section; its rest has not arrived.
    block: Vec<u8>,
    /// A head that the driver has not taken.
    head: Option<Box<StoredHead>>,
    /// The texts of a request that was refused, for the driver's log.
    refused: Option<Box<StoredHead>>,
    /// Trailers that the driver has not taken.
    trailers: Option<Box<StoredHead>>,
    content_length: Option<u64>,
    /// Content of the DATA frames that began.
    received_bytes: u64,
    /// Whether content of the message is refused: an answer to HEAD, or one without content by its status.
    has_no_content: bool,
    /// Whether the stream is a tunnel, on which DATA follows only (RFC 9114 section 4.4).
    is_tunnel: bool,
    /// The method of the request (client side).
    asked: Method,
    interim_heads: u32,
    /// DATA frames without data in a row, in the interval of the account that began at `empty_since_ms`.
    empty_frames: u32,
    empty_since_ms: u64,
    /// The priority of a PRIORITY_UPDATE frame, which wins over that of the field (RFC 9218 section 7.3).
    priority: Option<Priority>,
}

/// The part of a frame that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Header,
    /// The payload of HEADERS, of this length.
    Section(usize),
    /// So many bytes of DATA are left.
    Data(u64),
    /// So many bytes of an unknown frame are left.
    Skip(u64),
    /// After a fault, or a head beyond the limits: everything is dropped.
    Closed,
}

/// How far the message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// No final head yet.
    Head,
    /// The head is through, data may follow.
    Body,
    /// The trailers are through.
    Trailers,
}

/// The result of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were consumed: all of them, unless there is an event.
    pub consumed: usize,
    /// The event at the end of the consumed bytes.
    pub event: Option<RequestEvent>,
}

/// Something that was read from a request stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEvent {
    /// A head: the request (server), or an interim or final response (client). The driver takes it before it
    /// reads on.
    Head,
    /// A request with fields beyond the limits; it has no head to take. The driver answers 431 and stops the
    /// stream with H3_NO_ERROR. Further input is dropped.
    HeadTooLarge,
    /// Content: these bytes of the input. It is not empty.
    Data(Range<usize>),
}

/// Facts of a request besides its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The `:scheme`. That of plain CONNECT is `https`, because it has none.
    pub scheme: Scheme,
    /// The announced length of the content. Without it the end of the stream tells whether there is content.
    pub content_length: Option<u64>,
    /// The priority in force.
    pub priority: Priority,
}

/// Facts of a response besides its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The announced length of the content. A response without content (HEAD, 304) may announce the length
    /// that it would have.
    pub content_length: Option<u64>,
}

impl RequestReader {
    pub(crate) fn server(early_priority: Option<Priority>) -> Self {
        Self::new(true, Method::default(), early_priority)
    }

    pub(crate) fn client(method: &[u8]) -> Self {
        Self::new(false, Method::of(method), None)
    }

    fn new(is_server: bool, asked: Method, priority: Option<Priority>) -> Self {
        Self {
            is_server,
            partial: Partial::default(),
            reading: Reading::Header,
            side: Side::Head,
            block: Vec::new(),
            head: None,
            refused: None,
            trailers: None,
            content_length: None,
            received_bytes: 0,
            has_no_content: false,
            is_tunnel: false,
            asked,
            interim_heads: 0,
            empty_frames: 0,
            empty_since_ms: 0,
            priority,
        }
    }

    /// Moves the request that arrived into `head`; the earlier memory of `head` goes back to the pool. None
    /// if there is none.
    ///
    /// The authority is also the first field, as `host`; a Cookie field that came in parts is one field. A
    /// request may have no authority at all, which RFC 9114 section 4.3.1 makes malformed: the driver answers
    /// 400.
    ///
    /// None also for a request that is malformed or larger than the limits: `head` has the texts then that a
    /// log wants, cut and unchecked.
    pub fn take_request(&mut self, head: &mut RequestHead) -> Option<RequestInfo> {
        if let Some(mut refused) = self.refused.take() {
            std::mem::swap(&mut head.headers, &mut refused.headers);
            (head.method, head.version, head.spans) = (refused.method, Version::Http3, refused.spans);
            pool::give_head(refused);
            return None;
        }
        let mut stored = self.head.take_if(|_| self.is_server)?;
        std::mem::swap(&mut head.headers, &mut stored.headers);
        (head.method, head.version, head.spans) = (stored.method, Version::Http3, stored.spans);
        let (scheme, content_length) = (stored.scheme, stored.content_length);
        let priority = self.priority.or(stored.priority).unwrap_or_default();
        pool::give_head(stored);
        Some(RequestInfo { scheme, content_length, priority })
    }

    /// Moves the response that arrived into `head`. Interim responses come one after the other. None if there
    /// is none.
    pub fn take_response(&mut self, head: &mut ResponseHead) -> Option<ResponseInfo> {
        let mut stored = self.head.take_if(|_| !self.is_server)?;
        std::mem::swap(&mut head.headers, &mut stored.headers);
        (head.status, head.version) = (stored.status, Version::Http3);
        (head.reason, head.upgrade) = (Span::default(), None);
        let info = ResponseInfo { content_length: stored.content_length };
        pool::give_head(stored);
        Some(info)
    }

    /// The trailers that arrived, if there are some. They are complete once [`finish`](RequestReader::finish)
    /// has accepted the message.
    pub fn trailers(&self) -> Option<&Headers> {
        self.trailers.as_ref().map(|stored| &stored.headers)
    }

    /// Moves the trailers that arrived into `headers`; false if there are none. Fields that must not be in
    /// trailers were dropped.
    pub fn take_trailers(&mut self, headers: &mut Headers) -> bool {
        let Some(mut stored) = self.trailers.take() else { return false };
        std::mem::swap(headers, &mut stored.headers);
        pool::give_head(stored);
        true
    }

    /// Takes over the priority of a PRIORITY_UPDATE frame.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = Some(priority);
    }

    /// Bytes of heap memory that the reader owns.
    pub fn memory(&self) -> usize {
        let heads = [&self.head, &self.refused, &self.trailers].into_iter().flatten();
        self.block.capacity() + heads.map(|head| size_of::<StoredHead>() + head.memory()).sum::<usize>()
    }
}

impl Drop for RequestReader {
    fn drop(&mut self) {
        pool::give_bytes(std::mem::take(&mut self.block));
        let heads = [self.head.take(), self.refused.take(), self.trailers.take()];
        heads.into_iter().flatten().for_each(pool::give_head);
    }
}
