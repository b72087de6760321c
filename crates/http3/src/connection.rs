//! One connection: its state, its construction, its requests and its events. It does not know how streams are
//! read, which its modules and the request readers do.

mod config;
mod control;
mod event;
mod shutdown;
mod uni;

use std::collections::VecDeque;

use multiplex::{Priority, RequestTarget};

pub use config::Config;
pub use event::Event;
pub use uni::{UniState, UniStream};

use crate::flood::{Cost, Flood};
use crate::frame::stream;
use crate::request::RequestReader;
use crate::{ConnectionError, ErrorCode, Limits, PeerSettings, StreamError, settings, varint};
use control::ControlReader;

/// One HTTP/3 connection of either role, without I/O. The crate's documentation says how it is driven.
#[derive(Debug)]
pub struct Connection {
    is_server: bool,
    config: Config,
    peer: PeerSettings,
    /// Bytes for this side's control stream.
    control_output: Vec<u8>,
    control: ControlReader,
    /// Which of the peer's control, encoder and decoder streams have been opened.
    has_stream: [bool; 3],
    events: VecDeque<Event>,
    flood: Flood,
    /// Behind the largest request stream that was opened.
    next_request_id: u64,
    /// The identifier of the last GOAWAY that was sent.
    sent_goaway: Option<u64>,
    /// The identifier of the last GOAWAY that was received.
    received_goaway: Option<u64>,
    max_push_id: Option<u64>,
    /// Priorities for streams that have not been opened, oldest first.
    early_priorities: VecDeque<(u64, Priority)>,
    /// The time of the first call of `tick`.
    started_ms: Option<u64>,
    failure: Option<ConnectionError>,
}

/// Why a request cannot be started on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// One of the sides closes the connection.
    GoAway,
    /// The connection has failed, or is a server's.
    Closed,
    /// The server did not announce extended CONNECT (RFC 9220 section 3), or its SETTINGS have not arrived.
    NoExtendedConnect,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::GoAway => "the connection is being closed",
            Self::Closed => "the connection is closed",
            Self::NoExtendedConnect => "the server does not take extended CONNECT",
        })
    }
}

impl std::error::Error for StartError {}

impl Connection {
    /// A server's side. The start of the control stream is in the output.
    pub fn server(config: Config) -> Self {
        Self::new(config, true)
    }

    /// A client's side. The start of the control stream is in the output; requests may be started at once.
    pub fn client(config: Config) -> Self {
        Self::new(config, false)
    }

    fn new(config: Config, is_server: bool) -> Self {
        let mut control_output = Vec::new();
        varint::write_varint(&mut control_output, stream::CONTROL);
        settings::write_settings(&mut control_output, &config, is_server);
        Self {
            is_server,
            config,
            peer: PeerSettings::default(),
            control_output,
            control: ControlReader::default(),
            has_stream: [false; 3],
            events: VecDeque::new(),
            flood: Flood::default(),
            next_request_id: 0,
            sent_goaway: None,
            received_goaway: None,
            max_push_id: None,
            early_priorities: VecDeque::new(),
            started_ms: None,
            failure: None,
        }
    }

    /// Says what time it is on a clock that does not go back: once in a turn, before what was received is
    /// passed on. Rates and the deadline of the peer's SETTINGS depend on it.
    ///
    /// # Errors
    /// SETTINGS did not arrive within [`Limits::SETTINGS_TIMEOUT_MS`] of the first call, or the connection
    /// has failed.
    pub fn tick(&mut self, now_ms: u64) -> Result<(), ConnectionError> {
        self.check_failure()?;
        self.flood.tick(now_ms);
        let started_ms = *self.started_ms.get_or_insert(now_ms);
        let is_late = now_ms.saturating_sub(started_ms) >= Limits::SETTINGS_TIMEOUT_MS;
        if is_late && !self.peer.has_arrived {
            let reason = "no SETTINGS within the timeout";
            return Err(self.fail(ConnectionError::new(ErrorCode::MISSING_SETTINGS, reason)));
        }
        Ok(())
    }

    /// The time at which [`tick`](Connection::tick) fails unless SETTINGS arrive before. None when they have
    /// arrived, or before the first call.
    pub fn settings_deadline_ms(&self) -> Option<u64> {
        let started_ms = self.started_ms.filter(|_| !self.peer.has_arrived)?;
        Some(started_ms.saturating_add(Limits::SETTINGS_TIMEOUT_MS))
    }

    /// The next event, until there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            // Events are rare, and an idle connection keeps no queue.
            self.events = VecDeque::new();
        }
        event
    }

    /// Makes the reader of a bidirectional stream that the client opened; `stream_id` is that of QUIC.
    /// Streams are opened in the order of their identifiers.
    ///
    /// # Errors
    /// The final GOAWAY was sent: the request is rejected, and the client may repeat it elsewhere.
    pub fn open_request(&mut self, stream_id: u64) -> Result<RequestReader, StreamError> {
        if self.sent_goaway.is_some_and(|end| stream_id >= end) || self.failure.is_some() || !self.is_server {
            return Err(StreamError::new(ErrorCode::REQUEST_REJECTED, "the connection is being closed"));
        }
        self.next_request_id = self.next_request_id.max(stream_id.saturating_add(REQUEST_ID_STEP));
        let early = self.take_early_priority(stream_id);
        Ok(RequestReader::server(early))
    }

    /// Makes the reader of the response on a stream that the driver opened;
    /// [`writer::request`](crate::writer::request) writes the request.
    ///
    /// # Errors
    /// The connection cannot take the request; the driver resets the stream or does not open it.
    pub fn start_request(
        &mut self,
        stream_id: u64,
        target: &RequestTarget<'_>,
    ) -> Result<RequestReader, StartError> {
        if self.failure.is_some() || self.is_server {
            return Err(StartError::Closed);
        }
        if self.sent_goaway.is_some() || self.received_goaway.is_some() {
            return Err(StartError::GoAway);
        }
        if target.protocol.is_some() && !self.peer.enable_connect_protocol {
            return Err(StartError::NoExtendedConnect);
        }
        self.next_request_id = self.next_request_id.max(stream_id.saturating_add(REQUEST_ID_STEP));
        Ok(RequestReader::client(target.method))
    }

    /// Says that a request and its response are complete, which allows the peer more of some frames.
    pub fn request_completed(&mut self) {
        self.flood.stream_completed();
    }

    /// Says that the peer reset or stopped a request stream that was not complete.
    ///
    /// # Errors
    /// A client did so too often. Servers may, because they reset no more streams than this side has started.
    pub fn request_reset(&mut self) -> Result<(), ConnectionError> {
        self.check_failure()?;
        if !self.is_server {
            return Ok(());
        }
        self.charge(Cost::PeerReset)
    }

    /// The bytes to be written to this side's control stream, the stream's type included.
    pub fn control_output(&self) -> &[u8] {
        &self.control_output
    }

    /// Says that `count` bytes of the control output were written.
    ///
    /// # Panics
    /// When fewer bytes wait.
    pub fn advance_control(&mut self, count: usize) {
        assert!(count <= self.control_output.len(), "more was written than waited");
        self.control_output.drain(..count);
        if self.control_output.is_empty() {
            self.control_output = Vec::new();
        }
    }

    /// Whether this is the server's side.
    pub fn is_server(&self) -> bool {
        self.is_server
    }

    /// The settings of the peer.
    pub fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// The fault that ended the connection.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failure
    }

    /// Bytes of heap memory that the connection itself owns, without its request readers.
    pub fn memory(&self) -> usize {
        self.control_output.capacity()
            + self.control.memory()
            + self.events.capacity() * size_of::<Event>()
            + self.early_priorities.capacity() * size_of::<(u64, Priority)>()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The fault that ended the connection, as an error.
    pub(crate) fn check_failure(&self) -> Result<(), ConnectionError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Remembers the fault that ends the connection.
    pub(crate) fn fail(&mut self, error: ConnectionError) -> ConnectionError {
        *self.failure.get_or_insert(error)
    }

    /// A DATA frame with data arrived.
    #[inline]
    pub(crate) fn data_frame(&mut self) {
        self.flood.data_frame();
    }

    /// When the current interval of the account began.
    pub(crate) fn interval_start_ms(&self) -> u64 {
        self.flood.interval_start_ms()
    }

    /// Counts a frame that costs more than it pays.
    pub(crate) fn charge(&mut self, cost: Cost) -> Result<(), ConnectionError> {
        self.flood.charge(cost).map_err(|error| self.fail(error))
    }
}

/// Distance of the identifiers of request streams (RFC 9000 section 2.1).
const REQUEST_ID_STEP: u64 = 4;
