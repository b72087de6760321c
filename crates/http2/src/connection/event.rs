//! The events of a connection and the facts that come with heads and resets; it does not know when they
//! happen.

use message::{RequestHead, ResponseHead, Version};

use super::Connection;
use crate::streams::StreamKey;
use crate::{ErrorCode, Priority, Scheme, pool};

/// Something that happened on the connection. Events are small copies; heads and data stay in the connection
/// until they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A head arrived: a request (server), or an interim or final response (client). A server's driver knows
    /// the stream from this event on and has to [`release`](Connection::release) it.
    Head(StreamKey),
    /// A request arrived with fields beyond the limits; its head has only texts for a log. The driver answers
    /// 431 and releases it.
    HeadTooLarge(StreamKey),
    /// Data arrived. One event may stand for several frames.
    Data(StreamKey),
    /// The message of the peer is complete; trailers may be there.
    End(StreamKey),
    /// The stream was reset, by the peer or because of a fault of the peer. It still has to be released.
    Reset(StreamKey, ErrorCode),
    /// A stream that asked for capacity in vain has some now. It is reserved until the call of
    /// [`next_event`](Connection::next_event) behind the next one that returns none.
    Writable(StreamKey),
    /// Settings of the peer arrived; they are in force.
    SettingsChanged,
    /// The peer takes no further streams. Streams that it will not process have got reset events.
    GoAway(ErrorCode),
    /// The answer to [`ping`](Connection::ping) with this number.
    Pong(u32),
    /// The graceful shutdown is complete: no stream is left and none will come.
    Drained,
}

impl Event {
    /// The stream that the event is about.
    pub fn stream(&self) -> Option<StreamKey> {
        match *self {
            Self::Head(key)
            | Self::HeadTooLarge(key)
            | Self::Data(key)
            | Self::End(key)
            | Self::Reset(key, _)
            | Self::Writable(key) => Some(key),
            Self::SettingsChanged | Self::GoAway(_) | Self::Pong(_) | Self::Drained => None,
        }
    }
}

/// Why a stream ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// The code that was received or sent.
    pub code: ErrorCode,
    /// The side that ended it.
    pub by: ResetBy,
    /// The peer says that it did not process the request, so that it may be sent again (RFC 9113 section
    /// 8.7).
    pub is_unprocessed: bool,
    /// The fault in a few words, for logs.
    pub reason: &'static str,
}

/// The side that reset a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetBy {
    /// The peer sent RST_STREAM.
    Peer,
    /// The peer sent GOAWAY, and the stream is above its last one.
    GoAway,
    /// This side, because the peer broke a rule on the stream.
    Fault,
    /// The driver called [`reset`](Connection::reset).
    Driver,
    /// The connection ended.
    Connection,
}

/// Facts of a request besides its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The `:scheme`. That of plain CONNECT is `https`, because it has none.
    pub scheme: Scheme,
    /// The announced length of the content.
    pub content_length: Option<u64>,
    /// Whether the message ended with its head, so that there is no content.
    pub is_end: bool,
    /// The priority in force.
    pub priority: Priority,
    /// Bytes of the head as it arrived, compressed and without the headers of its frames.
    pub block_bytes: usize,
}

/// Facts of a malformed request besides its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The fault in a few words.
    pub reason: &'static str,
    /// Bytes of the head as it arrived.
    pub block_bytes: usize,
}

/// Facts of a response besides its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseInfo {
    /// The announced length of the content. A response without content (HEAD, 304) may announce the length
    /// that it would have.
    pub content_length: Option<u64>,
    /// Whether the message ended with its head.
    pub is_end: bool,
}

impl Connection {
    /// Moves a request that arrived into `head`; the earlier memory of `head` goes back to the pool. None if
    /// there is none, and for one that is larger than the limits: `head` has the texts then that a log wants,
    /// cut and unchecked.
    ///
    /// The authority is also the first field, as `host`; a Cookie field that came in parts is one field.
    pub fn take_request(&mut self, key: StreamKey, head: &mut RequestHead) -> Option<RequestInfo> {
        let stream = self.streams.get_mut(key).filter(|_| self.is_server)?;
        let mut stored = stream.head.take()?;
        std::mem::swap(&mut head.headers, &mut stored.headers);
        (head.method, head.version, head.spans) = (stored.method, Version::Http2, stored.spans);
        let info = RequestInfo {
            scheme: stored.scheme,
            content_length: stored.content_length,
            is_end: stream.is_ended_by_head(),
            priority: stream.priority,
            block_bytes: stored.block_bytes,
        };
        pool::give_head(stored);
        (!stream.is_too_large).then_some(info)
    }

    /// Moves the texts of a malformed request, which was reset and has no event, into `head`, for a log: cut
    /// and unchecked. None if there is none; drivers that log refused requests ask behind the last event of a
    /// turn.
    pub fn take_refused(&mut self, head: &mut RequestHead) -> Option<RefusedRequest> {
        let (mut stored, reason) = self.refused.as_mut()?.pop_front()?;
        std::mem::swap(&mut head.headers, &mut stored.headers);
        (head.method, head.version, head.spans) = (stored.method, Version::Http2, stored.spans);
        let refused = RefusedRequest { reason, block_bytes: stored.block_bytes };
        pool::give_head(stored);
        self.refused.take_if(|heads| heads.is_empty());
        Some(refused)
    }

    /// Whether there is a malformed request to take.
    #[inline]
    pub fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Moves the first response head that was not taken into `head`: interim ones in their order, then the
    /// final one. None if there is none. One event may stand for several heads; of interim ones that are not
    /// taken, [`Limits::WAITING_INTERIM_HEADS`](crate::Limits::WAITING_INTERIM_HEADS) are kept.
    pub fn take_response(&mut self, key: StreamKey, head: &mut ResponseHead) -> Option<ResponseInfo> {
        let stream = self.streams.get_mut(key).filter(|_| !self.is_server)?;
        let mut stored = stream.take_head()?;
        std::mem::swap(&mut head.headers, &mut stored.headers);
        (head.status, head.version) = (stored.status, Version::Http2);
        (head.reason, head.upgrade) = (message::Span::default(), None);
        let is_end = stored.status >= 200 && stream.is_ended_by_head();
        let info = ResponseInfo { content_length: stored.content_length, is_end };
        pool::give_head(stored);
        Some(info)
    }

    /// The request's priority in force; the default for a stream that is gone.
    pub fn priority(&self, key: StreamKey) -> Priority {
        self.streams.get(key).map_or(Priority::default(), |stream| stream.priority)
    }

    /// The identifier of a stream on the wire, for logs. Zero for a stream that is gone.
    pub fn stream_id(&self, key: StreamKey) -> u32 {
        self.streams.get(key).map_or(0, |stream| stream.id)
    }
}
