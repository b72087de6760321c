//! The graceful end of a connection (RFC 9114 section 5.2); it does not know how long a driver waits.

use super::Connection;
use crate::frame::kind;
use crate::varint;

impl Connection {
    /// Announces the end: a server sends GOAWAY with the largest identifier, so that requests on their way
    /// are still accepted, and a client starts no further requests. A server's driver calls
    /// [`finish_shutdown`](Connection::finish_shutdown) about a round trip later.
    pub fn shutdown(&mut self) {
        let id = if self.is_server { LARGEST_REQUEST_ID } else { 0 };
        self.send_goaway(id);
    }

    /// Ends the acceptance of requests: GOAWAY says which were opened, and later ones are rejected. The
    /// driver closes the connection with H3_NO_ERROR once the accepted ones are complete.
    pub fn finish_shutdown(&mut self) {
        let id = if self.is_server { self.next_request_id } else { 0 };
        self.send_goaway(id);
    }

    /// Whether later requests are rejected (server) or none is started (client).
    pub fn is_shut_down(&self) -> bool {
        self.sent_goaway.is_some_and(|id| id < LARGEST_REQUEST_ID)
    }

    /// Writes GOAWAY unless one with this identifier or a smaller one was sent.
    fn send_goaway(&mut self, id: u64) {
        if self.failure.is_some() || self.sent_goaway.is_some_and(|sent| sent <= id) {
            return;
        }
        self.sent_goaway = Some(id);
        varint::write_varint(&mut self.control_output, kind::GOAWAY);
        varint::write_varint(&mut self.control_output, varint::length(id) as u64);
        varint::write_varint(&mut self.control_output, id);
    }
}

/// The largest identifier of a stream that a client opens in both directions.
const LARGEST_REQUEST_ID: u64 = varint::MAX - 3;
