//! Connections of HTTP checks between two of them, and the reading of a response to its end, which one needs
//! before the next request. It decides nothing about nodes.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use http1::chunked::{Decoder, Piece};
use http1::{ResponseFraming, ResponseWire};
use net::env;
use net::transport::Transport;

use super::io::read_some;

/// How long a connection is used. A node that accepts no new connections is noticed when this time is over.
const USED_FOR_NS: u64 = 30_000_000_000;
/// The longest body that is read for the sake of the connection; those of health endpoints have a few hundred
/// bytes.
const BODY_MAX_BYTES: usize = 64 * 1024;
/// The part of the process's descriptors that kept connections may take.
const DESCRIPTORS_PART: u64 = 4;

/// The number of connections that are kept, over all checks.
pub(super) struct KeptConnections {
    count: Cell<u64>,
    max: u64,
}

impl Default for KeptConnections {
    fn default() -> KeptConnections {
        KeptConnections { count: Cell::new(0), max: env::open_files_limit() / DESCRIPTORS_PART }
    }
}

/// The place for the connection of one check.
pub(super) struct KeptSlot {
    connection: RefCell<Option<CheckConnection>>,
    all: Rc<KeptConnections>,
}

/// A connection of checks.
pub(super) struct CheckConnection {
    pub(super) transport: Transport,
    opened_ns: u64,
}

impl CheckConnection {
    /// One that was just opened.
    pub(super) fn new(transport: Transport) -> CheckConnection {
        CheckConnection { transport, opened_ns: env::monotonic_ns() }
    }
}

impl KeptSlot {
    /// An empty place, counted in `all`.
    pub(super) fn new(all: &Rc<KeptConnections>) -> KeptSlot {
        KeptSlot { connection: RefCell::default(), all: all.clone() }
    }

    /// The kept connection, if it can be used: it is not too old, and the node has neither closed it nor sent
    /// anything that was not asked for.
    pub(super) fn take(&self) -> Option<CheckConnection> {
        let kept = self.connection.borrow_mut().take()?;
        self.all.count.set(self.all.count.get() - 1);
        let age_ns = env::monotonic_ns().saturating_sub(kept.opened_ns);
        (age_ns < USED_FOR_NS && !kept.transport.is_readable()).then_some(kept)
    }

    /// Keeps `connection` for the next check, unless as many are kept as may be.
    pub(super) fn keep(&self, connection: CheckConnection) {
        if self.all.count.get() < self.all.max && self.connection.borrow().is_none() {
            self.all.count.set(self.all.count.get() + 1);
            *self.connection.borrow_mut() = Some(connection);
        }
    }
}

impl Drop for KeptSlot {
    fn drop(&mut self) {
        self.take();
    }
}

/// Reads the body behind a head, of which `input` has come, and drops it. True if the connection can carry
/// another request: the body has ended, within its limit, and nothing is behind it.
pub(super) async fn read_to_end(
    transport: &mut Transport,
    wire: &ResponseWire,
    mut input: Vec<u8>,
) -> io::Result<bool> {
    if !wire.keep_alive {
        return Ok(false);
    }
    match wire.framing {
        ResponseFraming::None => Ok(input.is_empty()),
        ResponseFraming::UntilClose => Ok(false),
        ResponseFraming::Length(bytes) => {
            let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes <= BODY_MAX_BYTES) else {
                return Ok(false);
            };
            while input.len() < bytes {
                if read_some(transport, &mut input).await? == 0 {
                    return Ok(false);
                }
            }
            Ok(input.len() == bytes)
        }
        ResponseFraming::Chunked => {
            let (mut decoder, mut at) = (Decoder::new(), 0);
            loop {
                let Ok(step) = decoder.decode(&input[at..]) else { return Ok(false) };
                at += step.consumed;
                match step.piece {
                    Piece::Data(count) => {
                        decoder.took(count);
                        at += count;
                    }
                    Piece::End => return Ok(at == input.len()),
                    Piece::More if input.len() > BODY_MAX_BYTES => return Ok(false),
                    Piece::More => {
                        if read_some(transport, &mut input).await? == 0 {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }
}
