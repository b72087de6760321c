//! The start of requests and responses, with their pseudo-fields; it does not know regular fields.

use message::Method;
use multiplex::RequestTarget;
use stdx::pooled::PooledBox;

use super::{Closing, Connection, HeadWriter};
use crate::frame::MAX_31_BITS;
use crate::hpack::Pseudo;
use crate::stream::{Side, Stream};
use crate::streams::StreamKey;

/// Why a request cannot be started on this connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// As many streams are open as the peer or this side allows.
    TooManyStreams,
    /// One of the sides closes the connection.
    GoAway,
    /// All identifiers were used; a new connection is needed.
    IdsExhausted,
    /// The connection has failed, or is a server's.
    Closed,
    /// The server did not announce extended CONNECT (RFC 8441 section 3).
    NoExtendedConnect,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::TooManyStreams => "as many streams are open as are allowed",
            Self::GoAway => "the connection is being closed",
            Self::IdsExhausted => "all stream identifiers were used",
            Self::Closed => "the connection is closed",
            Self::NoExtendedConnect => "the server does not take extended CONNECT",
        })
    }
}

impl std::error::Error for StartError {}

impl Connection {
    /// Starts the final response of a stream. None if the stream was reset or its response was started
    /// before; there is nothing to write then.
    pub fn start_response(&mut self, key: StreamKey, status: u16) -> Option<HeadWriter<'_>> {
        let stream = self.streams.get_mut(key).filter(|_| self.is_server)?;
        if stream.reset.is_some() || stream.sending != Side::Head {
            return None;
        }
        stream.sending = Side::Body;
        Some(self.response_writer(key, status))
    }

    /// Starts an interim (1xx) response. None if the stream was reset or its final response was started.
    pub fn start_interim(&mut self, key: StreamKey, status: u16) -> Option<HeadWriter<'_>> {
        debug_assert!((100..200).contains(&status) && status != 101, "not an interim status: {status}");
        let stream = self.streams.get(key).filter(|_| self.is_server)?;
        if stream.reset.is_some() || stream.sending != Side::Head {
            return None;
        }
        Some(self.response_writer(key, status))
    }

    /// Whether a request can be started now, without starting it.
    ///
    /// # Errors
    /// The reason why not.
    pub fn can_start(&self) -> Result<(), StartError> {
        if self.failure.is_some() || self.is_server {
            return Err(StartError::Closed);
        }
        // A server that uses up a budget of cheap frames gets no further request, and those on the connection
        // can end.
        if self.closing != Closing::No || self.peer_last_id.is_some() || self.flood.is_exhausted() {
            return Err(StartError::GoAway);
        }
        if self.last_id >= MAX_31_BITS - 1 {
            return Err(StartError::IdsExhausted);
        }
        let allowed = self.peer.max_concurrent_streams.min(self.config.max_streams);
        if self.active >= allowed || self.streams.len() >= self.config.slots() {
            return Err(StartError::TooManyStreams);
        }
        Ok(())
    }

    /// Starts a request on a new stream, which the driver has to release. [`HeadWriter::key`] names it.
    ///
    /// # Errors
    /// The connection cannot take it; nothing was written.
    pub fn start_request(&mut self, target: &RequestTarget<'_>) -> Result<HeadWriter<'_>, StartError> {
        self.can_start()?;
        if target.protocol.is_some() && !self.peer.enable_connect_protocol {
            return Err(StartError::NoExtendedConnect);
        }
        let id = if self.last_id == 0 { 1 } else { self.last_id + 2 };
        self.last_id = id;
        let method = Method::of(target.method);
        let mut stream = Stream::new(id, self.peer.initial_window_bytes, self.receive_initial);
        stream.is_known = true;
        stream.asked_head = method == Method::Head;
        stream.sending = Side::Body;
        let key = self.streams.insert(PooledBox::new(stream));
        self.active += 1;
        let mut writer = HeadWriter::begin_block(self, key, id);
        writer.pseudo(Pseudo::Method, target.method, method != Method::Other);
        let is_plain_connect = method == Method::Connect && target.protocol.is_none();
        if !is_plain_connect {
            writer.pseudo(Pseudo::Scheme, target.scheme.as_bytes(), true);
        }
        if !target.authority.is_empty() {
            writer.pseudo(Pseudo::Authority, target.authority, true);
        }
        if !is_plain_connect {
            writer.path(target.path, target.query);
        }
        if let Some(protocol) = target.protocol {
            writer.protocol(protocol.as_bytes());
        }
        Ok(writer)
    }

    fn response_writer(&mut self, key: StreamKey, status: u16) -> HeadWriter<'_> {
        let id = self.streams.get(key).map_or(0, |stream| stream.id);
        let mut writer = HeadWriter::begin_block(self, key, id);
        writer.pseudo(Pseudo::Status, itoa::Buffer::new().format(status).as_bytes(), true);
        writer
    }
}
