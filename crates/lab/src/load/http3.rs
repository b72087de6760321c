//! The load generator over HTTP/3: clients with a QUIC connection and a UDP socket each, and some requests in
//! flight on it. QUIC is quinn's, so that this is a runtime per thread and costs more than the generator for
//! TCP; framing is the crate `http3`. It plans nothing: `load` says how many, how long and what to expect.

mod link;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http3::{Fault, RequestEvent, RequestReader, RequestTarget, StartError, writer};
use message::ResponseHead;
use quinn::{ClientConfig, ReadError, RecvStream, SendStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinHandle, spawn_local};

use super::connection::{LoadJob, nanoseconds};
use super::expect::BodyComparison;
use super::tally::{FailureKind, Tally};
use super::tls;
use link::Http3Link;

/// The share of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Http3Share {
    pub(super) connections: usize,
    /// Requests in flight on each connection.
    pub(super) streams: u16,
    pub(super) requests: u64,
    /// Time until which requests are sent; nanoseconds since the beginning.
    pub(super) end_ns: u64,
    /// Limit for connecting, and for each request.
    pub(super) timeout: Duration,
}

/// Carries out the share of one thread, from `barrier` on, after its connections stand. Fails if the machine
/// lacks a resource.
pub(super) fn run_http3(
    share: Http3Share,
    job: &Arc<LoadJob>,
    tally: Tally,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> anyhow::Result<Tally> {
    let prepared = Http3ThreadState::new(share, job, tally).and_then(|shared| {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        Ok((shared, runtime))
    });
    let (shared, runtime) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // The other threads wait for this one.
            barrier.wait();
            return Err(error);
        }
    };
    let links = runtime.block_on(connect(&shared));
    barrier.wait();
    shared.clock.set(Instant::now());
    runtime.block_on(async {
        let clients: Vec<_> =
            links.into_iter().map(|link| spawn_local(client(Rc::clone(&shared), link))).collect();
        wait(clients, stop).await;
        // Every connection is told that it is closed; otherwise servers would hold it until its idle timeout.
        shared.is_over.set(true);
        shared.links.borrow().iter().for_each(Http3Link::end);
        tokio::time::sleep(FAREWELL).await;
    });
    Ok(shared.tally.replace(Tally::new(0.0)))
}

/// The data that all clients of a thread have in common.
struct Http3ThreadState {
    share: Http3Share,
    job: Arc<LoadJob>,
    quic: ClientConfig,
    /// The name of the server in TLS.
    server: String,
    /// The HEADERS frame of every request.
    request: Vec<u8>,
    /// Requests that are not sent yet.
    left: Cell<u64>,
    clock: Cell<Instant>,
    tally: RefCell<Tally>,
    /// The connections that stand.
    links: RefCell<Vec<Http3Link>>,
    is_over: Cell<bool>,
}

impl Http3ThreadState {
    fn new(share: Http3Share, job: &Arc<LoadJob>, tally: Tally) -> anyhow::Result<Rc<Self>> {
        let (server, tls) = tls::for_quic(&job.target.host)?;
        let mut shared = Self {
            share,
            job: Arc::clone(job),
            quic: link::build_quic_config(tls, share.timeout * 2)?,
            server,
            request: Vec::new(),
            left: Cell::new(share.requests),
            clock: Cell::new(Instant::now()),
            tally: RefCell::new(tally),
            links: RefCell::default(),
            is_over: Cell::new(false),
        };
        // The same bytes on every stream, because only the static table is used.
        let mut request = Vec::new();
        writer::request(&mut request, &shared.target()).finish();
        shared.request = request;
        Ok(Rc::new(shared))
    }

    fn target(&self) -> RequestTarget<'_> {
        let target = &self.job.target;
        let (path, query) = match target.path.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (target.path.as_str(), None),
        };
        let authority = target.host.as_bytes();
        RequestTarget {
            method: b"GET",
            scheme: "https",
            authority,
            path: path.as_bytes(),
            query,
            protocol: None,
        }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(&self.clock.get())
    }

    /// Whether further requests are to be sent.
    fn goes_on(&self) -> bool {
        !self.is_over.get() && self.left.get() > 0 && self.now_ns() < self.share.end_ns
    }

    fn fail(&self, kind: FailureKind, words: impl FnOnce() -> String) {
        if !self.is_over.get() {
            self.tally.borrow_mut().fail(kind, words);
        }
    }
}

/// Opens all connections, each tried once.
async fn connect(shared: &Rc<Http3ThreadState>) -> Vec<Option<Http3Link>> {
    let opening: Vec<_> = (0..shared.share.connections)
        .map(|_| {
            let shared = Rc::clone(shared);
            spawn_local(async move { open(&shared).await })
        })
        .collect();
    let mut links = Vec::with_capacity(opening.len());
    for task in opening {
        links.push(task.await.ok().flatten());
    }
    links
}

async fn open(shared: &Http3ThreadState) -> Option<Http3Link> {
    match Http3Link::connect(shared).await {
        Ok(link) => {
            shared.tally.borrow_mut().handshake(false);
            shared.links.borrow_mut().push(link.clone());
            Some(link)
        }
        Err(words) => {
            shared.fail(FailureKind::Connect, || words);
            None
        }
    }
}

/// Waits for all clients, or until `stop`.
async fn wait(clients: Vec<JoinHandle<()>>, stop: &AtomicBool) {
    let mut all = std::pin::pin!(async {
        for client in clients {
            // A client that panicked has printed why; the others go on.
            let _ = client.await;
        }
    });
    loop {
        tokio::select! {
            () = &mut all => return,
            () = tokio::time::sleep(LOOK) => if stop.load(Ordering::Relaxed) { return },
        }
    }
}

/// One client: its streams, and another connection when one was lost.
async fn client(shared: Rc<Http3ThreadState>, mut link: Option<Http3Link>) {
    while shared.goes_on() {
        let Some(present) = link.take() else {
            link = open(&shared).await;
            if link.is_none() {
                tokio::time::sleep(REST).await;
            }
            continue;
        };
        let streams: Vec<_> = (0..shared.share.streams)
            .map(|_| spawn_local(stream(Rc::clone(&shared), present.clone())))
            .collect();
        for stream in streams {
            let _ = stream.await;
        }
        present.end();
        shared.links.borrow_mut().retain(|link| link.quic.close_reason().is_none());
    }
}

/// Sends one request after another, as long as the connection stands.
async fn stream(shared: Rc<Http3ThreadState>, link: Http3Link) {
    let mut comparison = BodyComparison::default();
    let mut head = ResponseHead::new();
    while shared.goes_on() {
        shared.left.set(shared.left.get() - 1);
        let sent_ns = shared.now_ns();
        comparison.begin(&shared.job.measure);
        let exchange = exchange(&shared, &link, &mut comparison, &mut head, sent_ns / 1_000_000);
        let ended = tokio::time::timeout(shared.share.timeout, exchange).await;
        match ended.unwrap_or_else(|_| {
            Err(Http3Failure::Failed(FailureKind::Timeout, "no whole answer came in time".to_owned()))
        }) {
            Ok(status) => {
                let now_ns = shared.now_ns();
                let verdict = comparison.end(&shared.job.measure, status);
                shared.tally.borrow_mut().answer(now_ns, now_ns.saturating_sub(sent_ns), &verdict);
            }
            Err(Http3Failure::Failed(kind, words)) => shared.fail(kind, || words),
            // The request was not sent. It is sent on the next connection.
            Err(Http3Failure::Refused) => {
                shared.left.set(shared.left.get() + 1);
                return;
            }
            Err(Http3Failure::Lost(words)) => {
                shared.fail(FailureKind::Broken, || words);
                return;
            }
        }
    }
}

/// Why an exchange has no answer.
enum Http3Failure {
    Failed(FailureKind, String),
    /// The connection takes no further requests.
    Refused,
    /// The connection is gone.
    Lost(String),
}

/// One request and its response; returns the status.
async fn exchange(
    shared: &Http3ThreadState,
    link: &Http3Link,
    comparison: &mut BodyComparison,
    head: &mut ResponseHead,
    now_ms: u64,
) -> Result<u16, Http3Failure> {
    let opened: Result<(SendStream, RecvStream), _> = link.quic.open_bi().await;
    let (mut sending, mut receiving) = opened.map_err(|error| lost(&error))?;
    let mut reader = link.start(&receiving, shared, now_ms).map_err(|error| match error {
        StartError::GoAway => Http3Failure::Refused,
        error => lost(&error),
    })?;
    sending.write_all(&shared.request).await.map_err(|error| match error {
        // The response, or its reset, says why.
        quinn::WriteError::Stopped(code) => reset(code.into_inner()),
        error => lost(&error),
    })?;
    // Fails only if the stream was stopped, which the response explains.
    let _ = sending.finish();
    let mut status = 0;
    loop {
        let chunk = match receiving.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) => chunk.bytes,
            Ok(None) => {
                reader.finish(&mut link.engine.borrow_mut()).map_err(|fault| faulty(link, fault))?;
                link.engine.borrow_mut().request_completed();
                return Ok(status);
            }
            Err(ReadError::Reset(code)) => return Err(reset(code.into_inner())),
            Err(error) => return Err(lost(&error)),
        };
        shared.tally.borrow_mut().read(chunk.len());
        read(shared, link, &mut reader, chunk, comparison, head, &mut status)?;
    }
}

/// Reads what came of a response.
fn read(
    shared: &Http3ThreadState,
    link: &Http3Link,
    reader: &mut RequestReader,
    mut chunk: Bytes,
    comparison: &mut BodyComparison,
    head: &mut ResponseHead,
    status: &mut u16,
) -> Result<(), Http3Failure> {
    while !chunk.is_empty() {
        let step = reader.read(&mut link.engine.borrow_mut(), &chunk).map_err(|fault| faulty(link, fault))?;
        let part = chunk.split_to(step.consumed);
        match step.event {
            Some(RequestEvent::Head) => {
                reader.take_response(head);
                *status = head.status;
            }
            Some(RequestEvent::HeadTooLarge) => {
                return Err(Http3Failure::Failed(
                    FailureKind::Content,
                    "the fields of an answer are too large".to_owned(),
                ));
            }
            Some(RequestEvent::Data(range)) => comparison.take(&shared.job.measure, *status, &part[range]),
            None => {}
        }
    }
    Ok(())
}

fn faulty(link: &Http3Link, fault: Fault) -> Http3Failure {
    let words = format!("an answer is no HTTP/3: {}", fault.reason());
    if let Fault::Connection(error) = fault {
        link::close(&link.quic, error);
    }
    Http3Failure::Failed(FailureKind::Content, words)
}

fn reset(code: u64) -> Http3Failure {
    Http3Failure::Failed(FailureKind::Broken, format!("the server reset a stream with code {code:#x}"))
}

fn lost(error: &dyn std::fmt::Display) -> Http3Failure {
    Http3Failure::Lost(format!("a connection broke: {error}"))
}

/// How often the signal to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Pause between two attempts to connect, so that a server that is away is not tried all the time.
const REST: Duration = Duration::from_millis(100);
/// Time in which the closing frames of all connections are sent.
const FAREWELL: Duration = Duration::from_millis(20);
