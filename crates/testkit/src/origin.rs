//! A scripted origin: a test says, per request, which bytes go back and when; knows nothing of who asks.
//!
//! One thread per connection. What it saw (requests, connections, closes, bytes written) can be read and waited for
//! at any time. Its rudeness (cut bodies, resets, late or early answers, garbage) is in the steps of a reply.

mod connection;
mod reply;

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::net::{self, AddressFamily, SocketType};

pub use reply::{Reply, Step};

use crate::wait::{wait_for, wait_until};
use crate::wire::header;

/// A running origin; stops, and drops its connections, when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// One request as the origin saw it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// The request target, as sent.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The fields in the order and case sent.
    pub headers: Vec<(String, String)>,
    /// The first mebibyte of the body, without its framing.
    pub body: Vec<u8>,
    /// How long the body was in all, in bytes.
    pub body_length: u64,
    /// The trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The request line and fields, byte for byte.
    pub raw_head: Vec<u8>,
    /// Which connection brought it, counted from 0 in the order of acceptance.
    pub connection: usize,
    /// Why the body could not be read to its end. Begins with `not a body` or `not a request` where the bytes are at
    /// fault; otherwise the connection is.
    pub body_error: Option<String>,
}

/// When a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsAt {
    /// Before the first byte was read; the target of its request is empty.
    Accept,
    /// After the head; the reply's [`Step::ReadBody`] reads the body.
    Head,
    /// After the whole request.
    Body,
}

pub(crate) type Script = dyn Fn(&Request) -> Reply + Send + Sync;

#[derive(Default)]
pub(crate) struct Shared {
    requests: Mutex<Vec<Request>>,
    /// A copy of each open connection's socket, by its number.
    streams: Mutex<HashMap<usize, TcpStream>>,
    accepted: AtomicUsize,
    closed: AtomicUsize,
    written: AtomicU64,
    stopping: AtomicBool,
}

impl Origin {
    /// An origin on a free port of 127.0.0.1 that runs `script` on every request, once its body was read.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen("127.0.0.1:0", RunsAt::Body, Arc::new(script))
    }

    /// As [`Origin::start`], at an address of the test's choice, e.g. `[::1]:0`.
    pub fn start_at(address: &str, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen(address, RunsAt::Body, Arc::new(script))
    }

    /// Runs `script` as soon as the head is there; its [`Step::ReadBody`] reads the body.
    pub fn on_head(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen("127.0.0.1:0", RunsAt::Head, Arc::new(script))
    }

    /// Runs `script` on every connection before anything is read, with the number of the connection.
    pub fn on_accept(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Origin {
        let script = move |request: &Request| script(request.connection);
        Origin::listen("127.0.0.1:0", RunsAt::Accept, Arc::new(script))
    }

    /// Answers everything with 200 and `body`.
    pub fn answering(body: &str) -> Origin {
        let body = body.to_owned();
        Origin::start(move |_| Reply::ok(&body))
    }

    /// Answers everything with 200 and the request it saw, as text: the request line, then the fields, one a line.
    pub fn echoing() -> Origin {
        Origin::start(|request| Reply::ok(&String::from_utf8_lossy(&request.raw_head)))
    }

    /// An address of 127.0.0.1 where nobody listens, as long as the test runs: it is taken, so that the kernel gives it to
    /// nobody who asks for a free port. [`Origin::start_at`] may begin to listen there.
    pub fn nowhere() -> SocketAddr {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option of every socket");
        net::bind(&socket, &any).expect("a free port");
        let address = net::getsockname(&socket).expect("a bound socket");
        // Until the process ends.
        std::mem::forget(socket);
        address.try_into().expect("an address of the family asked for")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests seen so far, in the order of their completion.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests().clone()
    }

    /// Waits until at least `count` requests were seen, and returns them.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        wait_for(&format!("the origin has seen {count} requests"), || {
            let requests = self.shared.requests();
            (requests.len() >= count).then(|| requests.clone())
        })
    }

    /// The latest request; panics when there was none.
    pub fn last_request(&self) -> Request {
        self.shared.requests().last().cloned().expect("the origin saw no request")
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections that have ended, by either side.
    pub fn closed_connections(&self) -> usize {
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// Waits until `count` connections have ended.
    pub fn wait_for_closed(&self, count: usize) {
        wait_until(&format!("{count} connections to the origin have ended"), || {
            self.closed_connections() >= count
        });
    }

    /// Bytes written to all connections so far: what back-pressure let through.
    pub fn bytes_written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }

    /// Closes every open connection and keeps listening: what a restarted origin looks like to a pool.
    pub fn drop_connections(&self) {
        for (_, stream) in self.shared.streams().drain() {
            // A connection that has ended meanwhile is as good as dropped.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn listen(address: &str, runs_at: RunsAt, script: Arc<Script>) -> Origin {
        let listener =
            TcpListener::bind(address).unwrap_or_else(|error| panic!("cannot bind {address}: {error}"));
        let address = listener.local_addr().expect("a bound listener");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    return;
                }
                accepting.serve(stream, runs_at, &script);
            }
        });
        Origin { address, shared }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.drop_connections();
        // Wakes the accepting thread, which then sees the flag and frees the port.
        let _ = TcpStream::connect(self.address);
    }
}

impl Request {
    /// The first value of a field, by name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The target up to its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, stream: TcpStream, runs_at: RunsAt, script: &Arc<Script>) {
        let number = self.accepted.fetch_add(1, Ordering::SeqCst);
        if let Ok(copy) = stream.try_clone() {
            self.streams().insert(number, copy);
        }
        let (shared, script) = (Arc::clone(self), Arc::clone(script));
        thread::spawn(move || {
            connection::serve(stream, number, runs_at, &*script, &shared);
            // The peer sees the end (or the reset) when the last copy of the socket goes.
            shared.streams().remove(&number);
            shared.closed.fetch_add(1, Ordering::SeqCst);
        });
    }

    pub(crate) fn record(&self, request: Request) {
        self.requests().push(request);
    }

    pub(crate) fn count_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<usize, TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
