//! WebSocket on a connection: the answer to the handshake, messages that are echoed, pings. It moves no
//! bytes.

use std::time::Instant;

use peer::Fault;

use super::{ConnectionPhase, EventOutcome, LoadConnection, LoadJob, Upgrade, nanoseconds};
use crate::load::expect::ComparisonResult;
use crate::load::tally::{FailureKind, Tally};
use crate::load::websocket::{self, HandshakeFailure, Heard};

impl LoadConnection {
    pub(super) fn take_handshake(&mut self, job: &LoadJob, bytes: &[u8], clock: &Instant) -> EventOutcome {
        self.came.extend_from_slice(bytes);
        match websocket::check_handshake(&self.came) {
            Ok(None) => EventOutcome::Wait,
            Ok(Some(length)) if length == self.came.len() => {
                self.came.clear();
                self.stands(job, clock)
            }
            Ok(Some(_)) => {
                EventOutcome::Failed(FailureKind::Content, "frames came before any was sent".to_owned())
            }
            Err(HandshakeFailure::Status(status)) => EventOutcome::Failed(
                FailureKind::Status,
                format!("the handshake was answered with status {status}"),
            ),
            Err(HandshakeFailure::Content(fault)) => {
                EventOutcome::Failed(FailureKind::Content, fault.to_owned())
            }
        }
    }

    pub(super) fn take_frames(
        &mut self,
        job: &LoadJob,
        upgrade: &Upgrade,
        mut bytes: &[u8],
        tally: &mut Tally,
        clock: &Instant,
    ) -> EventOutcome {
        let mut answered = EventOutcome::Wait;
        while !bytes.is_empty() {
            let (used, heard) = match self.frames.take(bytes, &upgrade.payload) {
                Ok(taken) => taken,
                Err(Fault(fault)) => return EventOutcome::Failed(FailureKind::Content, fault.to_owned()),
            };
            bytes = &bytes[used..];
            match heard {
                None => {}
                Some(Heard::Close) => {
                    return EventOutcome::Failed(
                        FailureKind::Broken,
                        "the server closed the WebSocket".to_owned(),
                    );
                }
                Some(Heard::Ping(payload)) => {
                    self.owed.extend(websocket::pong(&payload));
                    match self.push(job) {
                        EventOutcome::Wait => {}
                        failed => return failed,
                    }
                }
                Some(Heard::Message { .. }) if self.due_ns.is_none() => {
                    return EventOutcome::Failed(
                        FailureKind::Content,
                        "a message that answers none".to_owned(),
                    );
                }
                Some(Heard::Message { same, bytes: had }) => {
                    let (wanted, had) = (upgrade.payload.len() as u64, had as u64);
                    let verdict = match same {
                        true => ComparisonResult::Good,
                        false if had == wanted => ComparisonResult::Bytes,
                        false => ComparisonResult::Length { wanted, had },
                    };
                    self.served += 1;
                    self.phase = ConnectionPhase::Idle;
                    answered = self.answered(nanoseconds(clock), &verdict, tally);
                }
            }
        }
        answered
    }

    pub(super) fn ping_while_idle(&mut self, job: &LoadJob, mut bytes: &[u8]) -> EventOutcome {
        while !bytes.is_empty() {
            match self.frames.take(bytes, &[]) {
                Ok((used, None)) => bytes = &bytes[used..],
                Ok((used, Some(Heard::Ping(payload)))) => {
                    bytes = &bytes[used..];
                    self.owed.extend(websocket::pong(&payload));
                    self.sent = self.saying(job).len();
                    match self.push(job) {
                        EventOutcome::Wait => {}
                        failed => return failed,
                    }
                }
                Ok((_, Some(Heard::Close))) => {
                    self.close(ConnectionPhase::Closed);
                    return EventOutcome::Wait;
                }
                _ => {
                    return EventOutcome::Failed(
                        FailureKind::Content,
                        "a frame that answers none".to_owned(),
                    );
                }
            }
        }
        EventOutcome::Wait
    }
}
