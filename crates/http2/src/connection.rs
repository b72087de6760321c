//! One connection: its state, its construction, its events and its output. It does not know how frames are
//! read and written, which its modules do.

mod body;
mod close;
mod config;
mod control;
mod data;
mod event;
mod head_writer;
mod heads;
mod receive;
mod records;
mod schedule;
mod settings;
mod start;

use std::collections::VecDeque;
use std::io::IoSlice;

use multiplex::StoredHead;

pub use body::BodyState;
pub use config::Config;
pub use event::{Event, RefusedRequest, RequestInfo, Reset, ResetBy, ResponseInfo};
pub use head_writer::HeadWriter;
pub use start::StartError;

use crate::flood::Flood;
use crate::flow::{DEFAULT_WINDOW, ReceiveWindow, SendWindow};
use crate::frame::PREFACE;
use crate::hpack::{Decoder, Encoder};
use crate::output::Output;
use crate::streams::{StreamKey, Streams};
use crate::{ConnectionError, PeerSettings, pool};
use heads::HeadBlock;
use receive::Reading;
use records::Records;

/// One HTTP/2 connection of either role, without I/O. The crate's documentation says how it is driven.
#[derive(Debug)]
pub struct Connection {
    is_server: bool,
    config: Config,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    output: Output,
    streams: Streams,
    events: VecDeque<Event>,
    /// Malformed requests for the driver's log. In a box, because few connections ever have one, and each
    /// holds its engine while it is idle.
    refused: Option<Box<RefusedHeads>>,
    flood: Flood,
    /// The part of a frame or preface that the next received byte belongs to.
    reading: Reading,
    /// The start of a frame; its rest has not arrived.
    partial: Vec<u8>,
    /// Frames, or header blocks of several frames, that arrived as a whole.
    finished: u32,
    /// A header block; its CONTINUATION frames have not all arrived.
    block: Option<Box<HeadBlock>>,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The window that new streams have in the view of the peer, or more before it acknowledged a smaller
    /// one.
    receive_initial: u32,
    /// SETTINGS frames that the peer has not acknowledged.
    unacknowledged: u32,
    /// The largest identifier that the peer used (server) or this side (client).
    last_id: u32,
    records: Records,
    /// Streams that count against the limit of open ones.
    active: u32,
    /// Streams that wait for capacity of the connection or of the output.
    waiting: Vec<StreamKey>,
    /// Bytes granted to streams in this turn.
    reserved: usize,
    turn: u32,
    is_turn_over: bool,
    closing: Closing,
    /// The largest stream that the peer will process, once it sent GOAWAY.
    peer_last_id: Option<u32>,
    failure: Option<ConnectionError>,
    ping_count: u32,
}

/// Heads of malformed requests in their order, with the reasons.
type RefusedHeads = VecDeque<(Box<StoredHead>, &'static str)>;

const REFUSED_BYTES: usize = size_of::<(Box<StoredHead>, &str)>();

/// How far the end of the connection has come on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// GOAWAY with the largest identifier and a PING were sent.
    Announced,
    /// GOAWAY with the real last identifier was sent.
    Final {
        is_reported: bool,
    },
}

impl Connection {
    /// A server's side. The SETTINGS frame is in the output.
    pub fn server(config: Config) -> Self {
        Self::new(config, true)
    }

    /// A client's side. Preface and SETTINGS frame are in the output; requests may be started at once.
    pub fn client(config: Config) -> Self {
        Self::new(config, false)
    }

    fn new(config: Config, is_server: bool) -> Self {
        let config = config.within_bounds();
        let mut connection = Self {
            is_server,
            config,
            peer: PeerSettings::default(),
            decoder: Decoder::new(
                Config::TABLE_BEFORE_ACKNOWLEDGEMENT.max(config.header_table_bytes as usize),
            ),
            encoder: Encoder::new(),
            output: Output::default(),
            streams: Streams::new(),
            events: VecDeque::new(),
            refused: None,
            flood: if is_server { Flood::of_client() } else { Flood::of_server() },
            reading: if is_server { Reading::Preface(0) } else { Reading::FirstFrame },
            partial: Vec::new(),
            finished: 0,
            block: None,
            send_window: SendWindow::new(DEFAULT_WINDOW),
            receive_window: ReceiveWindow::new(DEFAULT_WINDOW),
            receive_initial: config.stream_window_bytes.max(DEFAULT_WINDOW),
            unacknowledged: 0,
            last_id: 0,
            records: Records::default(),
            active: 0,
            waiting: Vec::new(),
            reserved: 0,
            turn: 0,
            is_turn_over: false,
            closing: Closing::No,
            peer_last_id: None,
            failure: None,
            ping_count: 0,
        };
        if !is_server {
            connection.output.buffer().extend_from_slice(PREFACE);
        }
        connection.send_first_settings();
        connection
    }

    /// The next event, until there is none. A driver lets the streams work on the events and asks again:
    /// capacity that no stream used goes to others then. It may wait for its transport once the first call
    /// returns none.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            if self.announce(&event) {
                return Some(event);
            }
        }
        pool::give_events(std::mem::take(&mut self.events));
        let event = self.next_grant();
        self.is_turn_over = event.is_none();
        event
    }

    /// The bytes to be written to the transport that come next, as far as they lie in one piece; empty only
    /// if none wait.
    pub fn output(&self) -> &[u8] {
        self.output.next_slice()
    }

    /// Number of all bytes to be written to the transport.
    #[inline]
    pub fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// Puts the bytes to be written into `slices`, the next ones first and as many slices as there is room
    /// for; how many slices were filled.
    pub fn output_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.output.slices(slices)
    }

    /// Says that `count` bytes of the output were written. The memory of an output that was written as a
    /// whole is given back.
    ///
    /// # Panics
    /// When fewer bytes wait.
    pub fn advance(&mut self, count: usize) {
        self.output.advance(count);
    }

    /// Whether this is the server's side.
    pub fn is_server(&self) -> bool {
        self.is_server
    }

    /// The settings of the peer that are in force.
    pub fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// Number of streams that the driver has not released.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Whether a frame or a header block has begun and not ended: a number that stays the same until its rest
    /// has arrived, so that a driver can time it. The content of DATA frames does not count, because streams
    /// take it as it comes.
    pub fn unfinished(&self) -> Option<u32> {
        (self.block.is_some() || !self.partial.is_empty()).then_some(self.finished)
    }

    /// The fault that ended the connection.
    pub fn failure(&self) -> Option<ConnectionError> {
        self.failure
    }

    /// Bytes of heap memory that the connection itself owns, without the content of its streams.
    pub fn memory(&self) -> usize {
        self.decoder.memory()
            + self.encoder.memory()
            + self.output.memory()
            + self.streams.memory()
            + self.events.capacity() * size_of::<Event>()
            + self.partial.capacity()
            + self.block.as_ref().map_or(0, |block| size_of::<HeadBlock>() + block.memory())
            + self.records.memory()
            + self
                .refused
                .as_ref()
                .map_or(0, |heads| size_of_val(&**heads) + heads.capacity() * REFUSED_BYTES)
            + self.waiting.capacity() * size_of::<StreamKey>()
    }

    /// Queues an event.
    fn report(&mut self, event: Event) {
        if self.events.capacity() == 0 {
            self.events = pool::take_events();
        }
        self.events.push_back(event);
    }

    /// Prepares the stream of an event for its delivery; false if the event is stale, because its stream is
    /// gone.
    fn announce(&mut self, event: &Event) -> bool {
        let Some(key) = event.stream() else { return true };
        let Some(stream) = self.streams.get_mut(key) else { return false };
        match event {
            Event::Head(_) => {
                stream.is_known = true;
                // A stream that was reset has no head any more; the event of the reset follows.
                std::mem::take(&mut stream.head_queued) && stream.head.is_some()
            }
            Event::HeadTooLarge(_) => {
                stream.is_known = true;
                true
            }
            Event::Data(_) => std::mem::take(&mut stream.data_queued) && stream.is_readable(),
            Event::End(_) => stream.is_readable(),
            _ => true,
        }
    }
}
