//! The beginning of a connection: TCP, the TLS handshake, the handshake of WebSocket. It sends no requests
//! itself.

use std::time::Instant;

use rustls::HandshakeKind;

use super::{ConnectionPhase, EventOutcome, LoadConnection, LoadJob, broken, nanoseconds};
use crate::load::socket;
use crate::load::tally::{FailureKind, Tally};
use crate::load::websocket::Echo;

impl LoadConnection {
    pub(super) fn connected(&mut self, job: &LoadJob, tally: &mut Tally, clock: &Instant) -> EventOutcome {
        let Some(wire) = &self.wire else { return EventOutcome::Wait };
        if let Err(error) = wire.connected() {
            return EventOutcome::Failed(FailureKind::Connect, socket::cannot_connect(error));
        }
        if wire.is_secure() {
            self.phase = ConnectionPhase::Securing;
            return self.secure(job, tally, clock);
        }
        self.begin(job, clock)
    }

    /// Goes on with the TLS handshake.
    pub(super) fn secure(&mut self, job: &LoadJob, tally: &mut Tally, clock: &Instant) -> EventOutcome {
        let Some(wire) = &mut self.wire else { return EventOutcome::Wait };
        match wire.secure() {
            Ok(None) => return EventOutcome::Wait,
            Ok(Some(kind)) => self.judge_handshake(kind, tally),
            Err(error) => return broken(error),
        }
        self.begin(job, clock)
    }

    /// Counts the handshake. One of another kind than the run asks for is a failure, because the run would
    /// measure something else.
    fn judge_handshake(&self, kind: HandshakeKind, tally: &mut Tally) {
        let is_resumed = kind == HandshakeKind::Resumed;
        tally.handshake(is_resumed);
        if self.has_to_resume && !is_resumed {
            tally.fail(FailureKind::Connect, || {
                "a handshake was full although there was a session to resume".to_owned()
            });
        }
    }

    /// The connection can carry requests, after the handshake of WebSocket if there is one.
    fn begin(&mut self, job: &LoadJob, clock: &Instant) -> EventOutcome {
        self.sent = 0;
        if job.websocket.is_some() {
            self.phase = ConnectionPhase::Upgrading;
            self.came.clear();
            self.owed.clear();
            self.frames = Echo::default();
            return self.push(job);
        }
        self.stands(job, clock)
    }

    /// The connection is established; sends the request if it was opened for one.
    pub(super) fn stands(&mut self, job: &LoadJob, clock: &Instant) -> EventOutcome {
        self.phase = ConnectionPhase::Idle;
        if self.due_ns.is_some() { self.ask(job, nanoseconds(clock)) } else { EventOutcome::Ready }
    }
}
