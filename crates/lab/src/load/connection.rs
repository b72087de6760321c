//! One connection of the load generator: from its beginning through many requests to its end. It moves bytes
//! and judges responses; it does not choose the next request or its time.

mod messages;
mod opening;

use std::os::fd::OwnedFd;
use std::time::Instant;

use peer::Fault;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::expect::{BodyComparison, ComparisonResult, Measure};
use super::reading::ResponseParser;
use super::socket;
use super::tally::{FailureKind, Tally};
use super::target::LoadTarget;
use super::tls::{LoadTlsClient, Tls};
use super::websocket::Echo;
use super::wire::{Wire, WireError};

/// The bytes sent on every connection of a run, and the expected response.
#[derive(Debug)]
pub(super) struct LoadJob {
    pub(super) target: LoadTarget,
    /// The bytes of a request, or of a message in WebSocket.
    pub(super) request: Vec<u8>,
    /// The last request of a connection, which asks the server to close it.
    pub(super) last_request: Vec<u8>,
    /// Requests of one connection.
    pub(super) per_connection: u64,
    pub(super) websocket: Option<Upgrade>,
    /// Its TLS, and the first client of it, if the URL asks for it.
    pub(super) tls: Option<(Tls, LoadTlsClient)>,
    pub(super) measure: Measure,
}

/// The additional data of a WebSocket run.
#[derive(Debug)]
pub(super) struct Upgrade {
    pub(super) handshake: Vec<u8>,
    /// Payload of a message, which has to be echoed.
    pub(super) payload: Vec<u8>,
}

/// A connection and the state of its request.
#[derive(Debug)]
pub(super) struct LoadConnection {
    wire: Option<Wire>,
    /// Its TLS, with the sessions of the connections before.
    client: Option<LoadTlsClient>,
    /// Whether the last connection was answered, so that its session can be resumed.
    has_session: bool,
    /// Whether the handshake of this connection has to resume a session.
    has_to_resume: bool,
    pub(super) phase: ConnectionPhase,
    /// When the phase began, if it has a limit.
    pub(super) since_ns: u64,
    /// When the request of the connection was due; `None` without one.
    pub(super) due_ns: Option<u64>,
    /// Requests answered on this connection.
    served: u64,
    /// Bytes of the current message that were sent.
    sent: usize,
    reading: ResponseParser,
    comparison: BodyComparison,
    frames: Echo,
    /// The part of a handshake's response that has arrived.
    came: Vec<u8>,
    /// Pongs to send after the message.
    owed: Vec<u8>,
}

/// Phase in the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    Closed,
    Connecting,
    /// The TLS handshake is in progress.
    Securing,
    /// The WebSocket handshake is in progress.
    Upgrading,
    /// Open, without a request.
    Idle,
    Asking,
    /// The last response is complete; the server has to close.
    Ending,
    /// Closed after it could not be opened, or was closed unexpectedly; it waits so that not all time goes
    /// into attempts.
    Resting,
}

/// Result of an event.
#[derive(Debug)]
pub(super) enum EventOutcome {
    /// More events are needed.
    Wait,
    /// The connection is open and has no request.
    Ready,
    /// The request was answered, at this time; [`ConnectionPhase`] tells whether the connection is open, ends
    /// or is closed.
    Answered(u64),
    /// The expected end of the connection came.
    Ended,
    Failed(FailureKind, String),
}

impl LoadConnection {
    pub(super) fn new(job: &LoadJob) -> LoadConnection {
        LoadConnection {
            wire: None,
            client: job.tls.as_ref().map(|(tls, first)| first.another(*tls)),
            has_session: false,
            has_to_resume: false,
            phase: ConnectionPhase::Closed,
            since_ns: 0,
            due_ns: None,
            served: 0,
            sent: 0,
            reading: ResponseParser::default(),
            comparison: BodyComparison::default(),
            frames: Echo::default(),
            came: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// Begins to connect.
    pub(super) fn open(
        &mut self,
        job: &LoadJob,
        epoll: &OwnedFd,
        number: u64,
        now_ns: u64,
    ) -> Result<(), String> {
        self.wire = Some(Wire::connect(job.target.address, self.client.as_ref(), epoll, number)?);
        (self.phase, self.since_ns, self.served) = (ConnectionPhase::Connecting, now_ns, 0);
        // A connection that fails before its end has used the session up.
        let has_session = std::mem::take(&mut self.has_session);
        self.has_to_resume = has_session && job.tls.as_ref().is_some_and(|(tls, _)| tls.resume);
        Ok(())
    }

    /// Sends the request on an open connection.
    pub(super) fn ask(&mut self, job: &LoadJob, now_ns: u64) -> EventOutcome {
        (self.phase, self.since_ns, self.sent) = (ConnectionPhase::Asking, now_ns, 0);
        if job.websocket.is_none() {
            self.reading.begin();
            self.comparison.begin(&job.measure);
        }
        self.push(job)
    }

    /// Closes the connection and keeps its memory.
    pub(super) fn close(&mut self, phase: ConnectionPhase) {
        self.wire = None;
        self.phase = phase;
    }

    /// Whether it is being opened.
    pub(super) fn is_opening(&self) -> bool {
        matches!(
            self.phase,
            ConnectionPhase::Connecting | ConnectionPhase::Securing | ConnectionPhase::Upgrading
        )
    }

    /// Whether it broke before its first response.
    pub(super) fn is_unused(&self) -> bool {
        self.served == 0
    }

    /// Handles an event of its socket.
    pub(super) fn event(
        &mut self,
        job: &LoadJob,
        flags: EventFlags,
        buffer: &mut [u8],
        tally: &mut Tally,
        clock: &Instant,
    ) -> EventOutcome {
        match self.phase {
            ConnectionPhase::Closed | ConnectionPhase::Resting => EventOutcome::Wait,
            ConnectionPhase::Connecting => self.connected(job, tally, clock),
            ConnectionPhase::Securing => self.secure(job, tally, clock),
            ConnectionPhase::Upgrading | ConnectionPhase::Asking => {
                if flags.contains(EventFlags::OUT) && self.has_unsent(job) {
                    match self.push(job) {
                        EventOutcome::Wait => {}
                        failed => return failed,
                    }
                }
                self.receive(job, flags, buffer, tally, clock)
            }
            ConnectionPhase::Idle => self.disturbed(job, buffer),
            ConnectionPhase::Ending => self.ended(flags, buffer),
        }
    }

    /// The bytes to send in this phase.
    fn saying<'a>(&self, job: &'a LoadJob) -> &'a [u8] {
        match (&job.websocket, self.phase) {
            (Some(upgrade), ConnectionPhase::Upgrading) => &upgrade.handshake,
            (None, _) if self.served + 1 >= job.per_connection => &job.last_request,
            _ => &job.request,
        }
    }

    fn has_unsent(&self, job: &LoadJob) -> bool {
        let is_encrypted_unsent = self.wire.as_ref().is_some_and(Wire::has_unsent);
        self.sent < self.saying(job).len() || !self.owed.is_empty() || is_encrypted_unsent
    }

    /// Sends as many bytes as the kernel takes. A pending pong is sent before or after a message, never
    /// inside it.
    fn push(&mut self, job: &LoadJob) -> EventOutcome {
        let Some(mut wire) = self.wire.take() else { return EventOutcome::Wait };
        let step = wire.flush().map_or_else(broken, |()| self.push_to(&mut wire, job));
        self.wire = Some(wire);
        step
    }

    fn push_to(&mut self, wire: &mut Wire, job: &LoadJob) -> EventOutcome {
        let saying = self.saying(job);
        loop {
            let is_pong = !self.owed.is_empty() && (self.sent == 0 || self.sent == saying.len());
            let rest = if is_pong { &self.owed[..] } else { &saying[self.sent..] };
            if rest.is_empty() {
                return EventOutcome::Wait;
            }
            match wire.send(rest) {
                Ok(0) => return EventOutcome::Wait,
                Ok(bytes) if is_pong => drop(self.owed.drain(..bytes)),
                Ok(bytes) => self.sent += bytes,
                // The response that explains it may be readable.
                Err(WireError::Socket(Errno::PIPE | Errno::CONNRESET)) if self.sent > 0 => {
                    self.sent = saying.len();
                    self.owed.clear();
                }
                Err(error) => return broken(error),
            }
        }
    }

    /// Reads the arrived part of a response.
    fn receive(
        &mut self,
        job: &LoadJob,
        flags: EventFlags,
        buffer: &mut [u8],
        tally: &mut Tally,
        clock: &Instant,
    ) -> EventOutcome {
        loop {
            let Some(wire) = &mut self.wire else { return EventOutcome::Wait };
            let bytes = match wire.receive(buffer) {
                Ok(None) => return EventOutcome::Wait,
                Ok(Some(0)) => return self.closed_by_peer(job, tally, clock),
                Ok(Some(bytes)) => bytes,
                Err(error) => return broken(error),
            };
            let is_drained = wire.is_empty_after(bytes, buffer.len());
            tally.read(bytes);
            let step = match (&job.websocket, self.phase) {
                (None, _) => self.take_answer(job, flags, &buffer[..bytes], tally, clock),
                (Some(_), ConnectionPhase::Upgrading) => self.take_handshake(job, &buffer[..bytes], clock),
                (Some(upgrade), _) => self.take_frames(job, upgrade, &buffer[..bytes], tally, clock),
            };
            match step {
                // A short read: more bytes cause another event, unless this event reported the end.
                EventOutcome::Wait if is_drained && !socket::is_over(flags) => return EventOutcome::Wait,
                EventOutcome::Wait => {}
                step => return step,
            }
        }
    }

    fn take_answer(
        &mut self,
        job: &LoadJob,
        flags: EventFlags,
        bytes: &[u8],
        tally: &mut Tally,
        clock: &Instant,
    ) -> EventOutcome {
        let LoadConnection { reading, comparison, .. } = self;
        let used = match reading.take(bytes, |status, piece| comparison.take(&job.measure, status, piece)) {
            Ok(used) => used,
            Err(Fault(fault)) => {
                return EventOutcome::Failed(FailureKind::Content, format!("an answer is no HTTP: {fault}"));
            }
        };
        if !self.reading.is_whole() {
            return EventOutcome::Wait;
        }
        if used < bytes.len() {
            let rest = bytes.len() - used;
            return EventOutcome::Failed(
                FailureKind::Content,
                format!("{rest} bytes behind an answer belong to no request"),
            );
        }
        self.whole(job, socket::is_over(flags), tally, clock)
    }

    /// Handles a complete response: judges it and decides about the connection.
    fn whole(&mut self, job: &LoadJob, is_over: bool, tally: &mut Tally, clock: &Instant) -> EventOutcome {
        let now_ns = nanoseconds(clock);
        let verdict = self.comparison.end(&job.measure, self.reading.status);
        // A server that answers before it has read the request cannot be sent another after the rest of the
        // body.
        let is_cut = self.sent < self.saying(job).len();
        self.served += 1;
        self.has_session = true;
        if is_over || is_cut {
            self.close(ConnectionPhase::Closed);
        } else if !self.reading.keeps || self.served >= job.per_connection {
            (self.phase, self.since_ns) = (ConnectionPhase::Ending, now_ns);
        } else {
            self.phase = ConnectionPhase::Idle;
        }
        self.answered(now_ns, &verdict, tally)
    }

    fn answered(&mut self, now_ns: u64, verdict: &ComparisonResult, tally: &mut Tally) -> EventOutcome {
        let due_ns = self.due_ns.take().unwrap_or(now_ns);
        tally.answer(now_ns, now_ns.saturating_sub(due_ns), verdict);
        EventOutcome::Answered(now_ns)
    }

    fn closed_by_peer(&mut self, job: &LoadJob, tally: &mut Tally, clock: &Instant) -> EventOutcome {
        if self.phase == ConnectionPhase::Asking && job.websocket.is_none() && self.reading.take_end() {
            return self.whole(job, true, tally, clock);
        }
        let how = match self.phase {
            ConnectionPhase::Upgrading => "the server closed in the handshake",
            _ if self.reading.is_untouched() => "the server closed without an answer",
            _ => "the server closed in the middle of an answer",
        };
        EventOutcome::Failed(FailureKind::Broken, how.to_owned())
    }

    /// Handles an event of a connection without a request: usually the server closed it, as it may.
    fn disturbed(&mut self, job: &LoadJob, buffer: &mut [u8]) -> EventOutcome {
        let Some(wire) = &mut self.wire else { return EventOutcome::Wait };
        match wire.receive(buffer) {
            Ok(None) => EventOutcome::Wait,
            Ok(Some(0)) | Err(_) => {
                self.close(ConnectionPhase::Closed);
                EventOutcome::Wait
            }
            Ok(Some(bytes)) if job.websocket.is_some() => self.ping_while_idle(job, &buffer[..bytes]),
            Ok(Some(bytes)) => EventOutcome::Failed(
                FailureKind::Content,
                format!("{bytes} bytes on an idle connection belong to no request"),
            ),
        }
    }

    fn ended(&mut self, flags: EventFlags, buffer: &mut [u8]) -> EventOutcome {
        let Some(wire) = &mut self.wire else { return EventOutcome::Wait };
        match wire.receive(buffer) {
            Ok(Some(bytes)) if bytes > 0 => EventOutcome::Failed(
                FailureKind::Content,
                format!("{bytes} bytes behind the last answer belong to no request"),
            ),
            Ok(None) if !socket::is_over(flags) => EventOutcome::Wait,
            _ => {
                self.close(ConnectionPhase::Closed);
                EventOutcome::Ended
            }
        }
    }
}

/// Nanoseconds on a clock that began with the run.
pub(super) fn nanoseconds(clock: &Instant) -> u64 {
    clock.elapsed().as_nanos() as u64
}

fn broken(error: WireError) -> EventOutcome {
    let words = match error {
        WireError::Socket(error) => std::io::Error::from(error).to_string(),
        WireError::Tls(fault) => fault,
    };
    EventOutcome::Failed(FailureKind::Broken, format!("a connection broke: {words}"))
}
