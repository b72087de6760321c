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

/// How many connections are kept, over all checks, those included on which a response is read to its end.
pub(super) struct KeptConnections {
    count: Cell<u64>,
    max: u64,
}

impl Default for KeptConnections {
    fn default() -> KeptConnections {
        KeptConnections { count: Cell::new(0), max: env::open_files_limit() / DESCRIPTORS_PART }
    }
}

/// A place among the connections that are kept, until it is dropped.
struct KeptPlace(Rc<KeptConnections>);

impl KeptPlace {
    /// None if as many are taken as may be.
    fn take(all: &Rc<KeptConnections>) -> Option<KeptPlace> {
        let count = all.count.get();
        (count < all.max).then(|| {
            all.count.set(count + 1);
            KeptPlace(all.clone())
        })
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
    }
}

/// The connection of one check, between two of its requests.
pub(super) struct KeptSlot {
    connection: RefCell<Option<(CheckConnection, KeptPlace)>>,
    /// A response is being read to its end. Of each check there is one at most, because reading may take
    /// longer than the interval.
    is_reading: Cell<bool>,
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

/// The connection of an HTTP check after the head of its response.
pub(super) struct HttpResponse {
    pub(super) connection: CheckConnection,
    pub(super) wire: ResponseWire,
    /// The bytes behind the head.
    pub(super) rest: Vec<u8>,
}

impl KeptSlot {
    /// An empty one, counted in `all`.
    pub(super) fn new(all: &Rc<KeptConnections>) -> KeptSlot {
        KeptSlot { connection: RefCell::default(), is_reading: Cell::new(false), all: all.clone() }
    }

    /// The kept connection, if it can be used: it is not too old, and the node has neither closed it nor sent
    /// anything that was not asked for.
    pub(super) fn take(&self) -> Option<CheckConnection> {
        let (kept, _place) = self.connection.borrow_mut().take()?;
        let age_ns = env::monotonic_ns().saturating_sub(kept.opened_ns);
        (age_ns < USED_FOR_NS && !kept.transport.is_readable()).then_some(kept)
    }

    /// Reads the rest of `response`, for `timeout_ms` at most, and keeps its connection for the next check.
    /// Closes it where the response does not end in time, or as many are kept as may be.
    pub(super) async fn keep(&self, response: HttpResponse, timeout_ms: u64) {
        let HttpResponse { mut connection, wire, rest } = response;
        let Some(place) = KeptPlace::take(&self.all).filter(|_| !self.is_reading.replace(true)) else {
            return;
        };
        let is_whole = tokio::select! {
            biased;
            read = read_to_end(&mut connection.transport, &wire, rest) => read.unwrap_or(false),
            () = env::sleep_ms(timeout_ms) => false,
        };
        self.is_reading.set(false);
        if is_whole {
            // A check that has begun meanwhile has a connection of its own, which is closed here.
            *self.connection.borrow_mut() = Some((connection, place));
        }
    }
}

/// Reads the body behind a head, of which `input` has come, and drops it. True if the connection can carry
/// another request: the body has ended, within its limit, and nothing is behind it.
async fn read_to_end(transport: &mut Transport, wire: &ResponseWire, mut input: Vec<u8>) -> io::Result<bool> {
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

// They have real sockets.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// A response that has ended, without a body, on a connection that was opened `age_ns` ago.
    async fn ended_response(node: &TcpListener, age_ns: u64) -> HttpResponse {
        let stream = env::connect(node.local_addr().unwrap()).await.unwrap();
        let mut connection = CheckConnection::new(Transport::from(stream));
        connection.opened_ns = connection.opened_ns.saturating_sub(age_ns);
        let mut wire = ResponseWire::default();
        wire.keep_alive = true;
        HttpResponse { connection, wire, rest: Vec::new() }
    }

    #[test]
    fn kept_connections_have_a_limit_and_an_age() {
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = Rc::new(KeptConnections { count: Cell::new(0), max: 1 });
        env::block_on(async {
            let (first, second) = (KeptSlot::new(&all), KeptSlot::new(&all));
            first.keep(ended_response(&node, 0).await, 1_000).await;
            second.keep(ended_response(&node, 0).await, 1_000).await;
            assert!(second.take().is_none(), "one is kept at most");
            assert!(first.take().is_some());
            second.keep(ended_response(&node, 0).await, 1_000).await;
            assert!(second.take().is_some(), "the place is free again");
            first.keep(ended_response(&node, USED_FOR_NS).await, 1_000).await;
            assert!(first.take().is_none(), "it is too old");
            first.keep(ended_response(&node, 0).await, 1_000).await;
            drop(first);
        })
        .unwrap();
        assert_eq!(all.count.get(), 0);
    }

    #[test]
    fn unasked_bytes_end_a_kept_connection() {
        let node = TcpListener::bind("127.0.0.1:0").unwrap();
        env::block_on(async {
            let slot = KeptSlot::new(&Rc::default());
            let mut response = ended_response(&node, 0).await;
            node.accept().unwrap().0.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").unwrap();
            poll_fn(|cx| response.connection.transport.poll_read_ready(cx)).await.unwrap();
            slot.keep(response, 1_000).await;
            assert!(slot.take().is_none());
        })
        .unwrap();
    }
}
