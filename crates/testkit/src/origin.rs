//! A scripted origin: for each request, a script gives the bytes to send and their time.
//!
//! It has one thread per connection. A test can read the requests, connections, closes and written bytes at
//! any time, or wait for them. Faults (cut bodies, resets, late or early responses, garbage) are steps of a
//! reply.

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

/// One received request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The header fields, in the order and case of the request.
    pub headers: Vec<(String, String)>,
    /// The first mebibyte of the body, without its framing.
    pub body: Vec<u8>,
    /// The length of the whole body in bytes.
    pub body_length: u64,
    /// The trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The request line and fields, byte for byte.
    pub raw_head: Vec<u8>,
    /// The number of the connection, counted from 0 in the order of acceptance.
    pub connection: usize,
    /// The reason for an incomplete body. It begins with `not a body` or `not a request` if the bytes are
    /// malformed; otherwise the connection failed.
    pub body_error: Option<String>,
}

/// The time at which a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsAt {
    /// Before the first byte is read; the target of the request is empty.
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
    /// A copy of the socket of each open connection, by number.
    streams: Mutex<HashMap<usize, TcpStream>>,
    accepted: AtomicUsize,
    closed: AtomicUsize,
    written: AtomicU64,
    stopping: AtomicBool,
}

impl Origin {
    /// An origin on a free port of 127.0.0.1 that runs `script` for every request after its body was read.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen("127.0.0.1:0", RunsAt::Body, Arc::new(script))
    }

    /// As [`Origin::start`], at this address, e.g. `[::1]:0`.
    pub fn start_at(address: &str, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen(address, RunsAt::Body, Arc::new(script))
    }

    /// Runs `script` after the head was read; its [`Step::ReadBody`] reads the body.
    pub fn on_head(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        Origin::listen("127.0.0.1:0", RunsAt::Head, Arc::new(script))
    }

    /// Runs `script` for every connection before a byte is read, with the number of the connection.
    pub fn on_accept(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Origin {
        let script = move |request: &Request| script(request.connection);
        Origin::listen("127.0.0.1:0", RunsAt::Accept, Arc::new(script))
    }

    /// Answers every request with 200 and `body`.
    pub fn answering(body: &str) -> Origin {
        let body = body.to_owned();
        Origin::start(move |_| Reply::ok(&body))
    }

    /// Answers every request with 200 and the request as text: the request line, then one header field per
    /// line.
    pub fn echoing() -> Origin {
        Origin::start(|request| Reply::ok(&String::from_utf8_lossy(&request.raw_head)))
    }

    /// An address of 127.0.0.1 without a listener as long as the test runs. A socket is bound to it, so that
    /// the kernel does not give the port to another process. [`Origin::start_at`] can listen there later.
    pub fn nowhere() -> SocketAddr {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option of every socket");
        net::bind(&socket, &any).expect("a free port");
        let address = net::getsockname(&socket).expect("a bound socket");
        // The socket stays bound until the process ends.
        std::mem::forget(socket);
        address.try_into().expect("an address of the family asked for")
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of the listener.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests received so far, in the order of their completion.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests().clone()
    }

    /// Waits for at least `count` requests, and returns them.
    pub fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        wait_for(&format!("the origin has seen {count} requests"), || {
            let requests = self.shared.requests();
            (requests.len() >= count).then(|| requests.clone())
        })
    }

    /// The latest request; panics if there was none.
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

    /// Bytes written to all connections so far; backpressure limits them.
    pub fn bytes_written(&self) -> u64 {
        self.shared.written.load(Ordering::SeqCst)
    }

    /// Closes every open connection and keeps listening, which looks like a restart to a connection pool.
    pub fn drop_connections(&self) {
        for (_, stream) in self.shared.streams().drain() {
            // The error of a connection that has ended in the meantime does not matter.
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
        // The connection wakes the accepting thread, which then reads the flag and closes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

impl Request {
    /// The first value of a header field; the name is case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The target without its query.
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
            // The kernel sends FIN or RST when the last copy of the socket is closed.
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
