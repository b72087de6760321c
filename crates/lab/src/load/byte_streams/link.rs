//! One connection of the load generator for bytes: it sends a message and compares the bytes that come. It
//! does not choose the next message, and counts nothing.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::{ByteStreamShare, Talk};
use crate::echo::language::{BLOCK_BYTES, block};
use crate::load::socket;
use crate::load::tally::FailureKind;

/// A connection and its message.
#[derive(Debug, Default)]
pub(super) struct ByteStreamLink {
    socket: Option<OwnedFd>,
    pub(super) phase: ByteStreamPhase,
    /// When the phase, or the message, began.
    pub(super) since_ns: u64,
    /// Whether a message is on its way.
    is_talking: bool,
    sent: usize,
    /// Bytes of the message that came; in bulk, the place within the block.
    had: usize,
    differs: bool,
}

/// The phase in the life of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ByteStreamPhase {
    #[default]
    Closed,
    Connecting,
    Open,
    /// Closed after a failure, before the next attempt.
    Resting,
}

/// The meaning of the bytes of one read.
#[derive(Debug)]
pub(super) enum Taken {
    /// A part of a message.
    Part,
    /// The end of a message, or of so many blocks; with the end of the connection where each has one message.
    Whole {
        times: u32,
        is_same: bool,
    },
    Fault(FailureKind, &'static str),
}

impl ByteStreamLink {
    pub(super) fn is_open(&self) -> bool {
        self.phase == ByteStreamPhase::Open
    }

    pub(super) fn has_message(&self) -> bool {
        self.is_talking
    }

    /// A message is due now.
    pub(super) fn begin(&mut self, now_ns: u64) {
        (self.is_talking, self.sent, self.had, self.differs, self.since_ns) = (true, 0, 0, false, now_ns);
    }

    pub(super) fn end_message(&mut self) {
        self.is_talking = false;
    }

    /// The connection was begun.
    pub(super) fn opened(&mut self, socket: OwnedFd, now_ns: u64) {
        (self.socket, self.phase) = (Some(socket), ByteStreamPhase::Connecting);
        if !self.is_talking {
            self.since_ns = now_ns;
        }
    }

    /// The result of connecting.
    pub(super) fn connected(&mut self) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        socket::connected(socket)?;
        self.phase = ByteStreamPhase::Open;
        Ok(())
    }

    pub(super) fn close(&mut self, phase: ByteStreamPhase) {
        (self.socket, self.phase) = (None, phase);
    }

    /// Sends the rest of the message, as far as the kernel takes it.
    pub(super) fn push(&mut self, message: &[u8]) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        while self.sent < message.len() {
            match socket::send_bytes(socket, &message[self.sent..])? {
                0 => return Ok(()),
                bytes => self.sent += bytes,
            }
        }
        Ok(())
    }

    /// From now on events are about bytes to read only, and come as long as there are any.
    pub(super) fn watch_input(&self, epoll: &OwnedFd, number: u64) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        socket::watch_input(socket, epoll, number)
    }

    /// Reads once; `None` if nothing is there. Returns the number of bytes and their meaning.
    pub(super) fn pull(
        &mut self,
        buffer: &mut [u8],
        share: &ByteStreamShare<'_>,
    ) -> Result<Option<(usize, Taken)>, Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        let Some(read) = socket::receive(socket, buffer)? else { return Ok(None) };
        Ok(Some((read, self.take(&buffer[..read], share))))
    }

    fn take(&mut self, came: &[u8], share: &ByteStreamShare<'_>) -> Taken {
        if came.is_empty() {
            let is_whole = self.had == share.message.len();
            return match share.closes && self.is_talking && is_whole {
                true => Taken::Whole { times: 1, is_same: !self.differs },
                false => Taken::Fault(FailureKind::Broken, "a connection ended before its message came back"),
            };
        }
        if !self.is_talking {
            return Taken::Fault(FailureKind::Content, "bytes came that no message was sent for");
        }
        if share.talk == Talk::Bulk {
            return self.take_block(came);
        }
        let Some(wanted) = share.message.get(self.had..self.had + came.len()) else {
            return Taken::Fault(FailureKind::Content, "more bytes came back than were sent");
        };
        self.differs |= wanted != came;
        self.had += came.len();
        match self.had == share.message.len() && !share.closes {
            true => Taken::Whole { times: 1, is_same: !self.differs },
            false => Taken::Part,
        }
    }

    fn take_block(&mut self, mut came: &[u8]) -> Taken {
        let mut times = 0;
        while !came.is_empty() {
            let length = came.len().min(BLOCK_BYTES - self.had);
            let (piece, rest) = came.split_at(length);
            self.differs |= piece != &block()[self.had..self.had + length];
            self.had += length;
            came = rest;
            if self.had == BLOCK_BYTES {
                (self.had, times) = (0, times + 1);
            }
        }
        if times == 0 {
            return Taken::Part;
        }
        // After a lost byte all following ones differ, so that this is never forgotten.
        Taken::Whole { times, is_same: !self.differs }
    }

    /// Names the missing part when the time is over.
    pub(super) fn lateness(&self, message: &[u8]) -> &'static str {
        match self.had == message.len() {
            true => "a message came back, and the connection did not end in time",
            false => "no whole message came back in time",
        }
    }
}
