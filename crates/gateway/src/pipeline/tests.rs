//! Runs a protocol that is not HTTP/1 through the pipeline: a script replaces the client's connection, so
//! that the pipeline is shown to know a client only as a [`DownstreamStream`]; `node` does the same for
//! endpoints.

mod control;
mod deadlines;
mod detached;
mod node;
mod plugins;
mod segments;
mod stored;
mod tls;
mod trailers;
mod turns;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use message::{Headers, ResponseHead, Version};
use model::catalog::{PluginCatalog, PluginInfo};
use model::snapshot::{FaultPolicy, Snapshot, SnapshotChange};
use model::{ObjectKey, ObjectKind, WrittenObject};
use serde_json::{Value, json};
use stdx::published::Published;
use stdx::segment::ByteSegment;
use testkit::{Origin, Reply};

use super::{PipelineOutcome, log, run_pipeline};
use crate::body::{BodyEvent, BodyLength, Capacity, RequestBody, ResponseProgress, ResponseSink};
use crate::compile::SnapshotCompiler;
use crate::context::{ContextParts, WorkerContext};
use exchange::Exchange;
use exchange::WorkerLocal;
use exchange::deadline::Deadline;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::observe::metrics::WorkerMetrics;
use exchange::options::AttemptTimeouts;
use exchange::plugin::{BodyNeed, Flow, Plugin, PluginKind, PluginPhase, Portion, ResponseStep};

/// A client of a protocol in which a message is a list of words.
#[derive(Default)]
struct Scripted {
    /// The pieces of the request body that are still to come; `None` is a reset.
    body: Vec<Option<&'static str>>,
    length: Option<BodyLength>,
    /// How much of the response it takes at once.
    window_bytes: usize,
    /// The calls that it received, one word each.
    calls: Vec<String>,
    answer: Vec<u8>,
    /// Pieces that passed in either direction.
    pieces: Rc<Cell<usize>>,
    started: bool,
    taken: bool,
    /// Whether it takes pieces of the response with their memory, and those that it took so.
    takes_segments: bool,
    segments: Vec<usize>,
    /// Whether it hands pieces of the request body over.
    gives_segments: bool,
}

impl RequestBody for Scripted {
    fn poll_body<'a>(&'a mut self, _: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        Poll::Ready(match self.body.first() {
            Some(Some(piece)) => BodyEvent::Data(piece.as_bytes()),
            Some(None) => BodyEvent::Reset(ExchangeFailure::new(Cause::ClientGone, "the script says so")),
            None => BodyEvent::End(None),
        })
    }

    fn consume(&mut self, count: usize) {
        self.taken = true;
        self.pieces.set(self.pieces.get() + 1);
        let piece = self.body[0].take().expect("only data is consumed");
        if count < piece.len() {
            self.body[0] = Some(&piece[count..]);
        } else {
            self.body.remove(0);
        }
    }

    fn body_length(&self) -> BodyLength {
        self.length.unwrap_or(BodyLength::None)
    }

    fn rewind(&mut self) -> bool {
        !self.taken
    }

    fn take_segment(&mut self, count: usize) -> Option<ByteSegment> {
        let piece = self.body[0].filter(|piece| self.gives_segments && piece.len() == count)?;
        self.consume(count);
        Some(ByteSegment::from_vector(piece.into(), 0, drop))
    }
}

impl ResponseSink for Scripted {
    fn send_informational(&mut self, head: &ResponseHead) {
        self.calls.push(format!("interim:{}", head.status));
    }

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        self.started = true;
        self.calls.push(format!("start:{}:{length:?}", exchange.response.status));
    }

    fn poll_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        Poll::Ready(Ok(Capacity::Firm(self.window_bytes)))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let count = data.len().min(self.window_bytes);
        self.answer.extend_from_slice(&data[..count]);
        self.pieces.set(self.pieces.get() + 1);
        Poll::Ready(Ok(count))
    }

    fn takes_segment(&mut self, _: usize) -> bool {
        self.takes_segments
    }

    fn write_segment(&mut self, _: &mut Context<'_>, segment: ByteSegment) -> io::Result<()> {
        self.answer.extend_from_slice(segment.bytes());
        self.segments.push(segment.len());
        Ok(())
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        self.calls.push(format!("finish:{}", trailers.map_or(0, Headers::len)));
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn close_afterwards(&mut self) {
        self.calls.push("close".to_owned());
    }

    fn abort(&mut self, _: Blame) {
        self.calls.push("abort".to_owned());
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.started, sent_bytes: self.answer.len() as u64 }
    }
}

/// Runs one exchange of `downstream` against `origin`; returns the calls that the client received, in order,
/// and the body.
fn exchange(origin: &Origin, method_and_path: &str, downstream: Scripted) -> (String, String) {
    exchange_through(json!({}), origin, method_and_path, downstream)
}

/// As [`exchange`], with these plugins on the route.
fn exchange_through(
    plugins: Value,
    origin: &Origin,
    method_and_path: &str,
    mut downstream: Scripted,
) -> (String, String) {
    on_loop(async {
        let context = context(&[origin.address()], &plugins);
        let deadline = Deadline::new(&context.local);
        let mut exchange = context.exchanges.checkout();
        request_head(&mut exchange, method_and_path);
        let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
        assert!(matches!(served.outcome, PipelineOutcome::Done));
        log(&context, &mut exchange, served.log);
        (downstream.calls.join(" "), String::from_utf8(std::mem::take(&mut downstream.answer)).unwrap())
    })
}

/// Runs a future on an event loop like a worker's.
fn on_loop<T>(future: impl Future<Output = T>) -> T {
    let options = tokio::runtime::LocalOptions::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(options).unwrap();
    runtime.block_on(future)
}

/// Fills the head of a request with the words of `method_and_path`.
fn request_head(exchange: &mut Exchange, method_and_path: &str) {
    let (method, path) = method_and_path.split_once(' ').unwrap();
    exchange.request.set(Version::Http2, method.as_bytes(), b"h", path.as_bytes()).unwrap();
}

fn scripted(body: &[Option<&'static str>], length: BodyLength) -> Scripted {
    Scripted { body: body.to_vec(), length: Some(length), window_bytes: 3, ..Scripted::default() }
}

#[test]
fn bodies_pass_both_ways_with_backpressure() {
    let origin = Origin::start(|request| Reply::chunked(&["you said ", &request.text()], &[("X-Sum", "1")]));
    let (calls, answer) =
        exchange(&origin, "POST /here", scripted(&[Some("hel"), Some("lo")], BodyLength::Unknown));
    assert_eq!((calls.as_str(), answer.as_str()), ("start:200:Unknown finish:1", "you said hello"));
    let (calls, answer) = exchange(&origin, "PUT /here", scripted(&[Some("hello")], BodyLength::Known(5)));
    assert_eq!((calls.as_str(), answer.as_str()), ("start:200:Unknown finish:1", "you said hello"));
    assert_eq!(origin.last_request().header("content-length"), Some("5"));
}

#[test]
fn interim_responses_and_lengths_are_forwarded() {
    let origin = Origin::start(|_| {
        Reply::raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    });
    let (calls, answer) = exchange(&origin, "GET /here", scripted(&[], BodyLength::None));
    assert_eq!((calls.as_str(), answer.as_str()), ("interim:103 start:200:Known(5) finish:0", "hello"));
}

#[test]
fn local_replies_use_the_same_sink() {
    let origin = Origin::answering("");
    let (calls, answer) = exchange(&origin, "GET /elsewhere", scripted(&[], BodyLength::None));
    assert_eq!(answer, "{\"error_msg\":\"404 Route Not Found\"}\n");
    assert_eq!(calls, format!("start:404:Known({}) finish:0", answer.len()));
    assert_eq!(origin.connections(), 0);
}

#[test]
fn failure_of_one_side_ends_the_other() {
    let origin = Origin::answering("");
    let (calls, _) = exchange(&origin, "POST /here", scripted(&[Some("hel"), None], BodyLength::Known(5)));
    assert_eq!((calls.as_str(), origin.connections()), ("abort", 0), "no node was asked yet");
    let (calls, _) = exchange(&origin, "POST /here", scripted(&[Some("hel"), None], BodyLength::Unknown));
    assert_eq!(calls, "abort", "a client that is gone is told nothing");
    origin.wait_for_closed(1);
    assert!(origin.requests().iter().all(|request| request.body_error.is_some()));

    let cut = Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").close());
    let (calls, _) = exchange(&cut, "GET /here", scripted(&[], BodyLength::None));
    assert_eq!(calls, "start:200:Known(9) abort");
}

/// Adds a trailer if there are any, and does not touch the body.
struct TrailerMark;

impl Plugin for TrailerMark {
    fn response_trailers(&self, _: &mut Exchange, trailers: &mut Headers) {
        trailers.append("X-Mark", b"seen").unwrap();
    }
}

const TRAILER_MARK: PluginKind = PluginKind {
    name: "trailer-mark",
    priority: 1,
    phases: &[PluginPhase::ResponseBody],
    auth: false,
    prefer_route: false,
    schema: || json!({"type": "object"}),
    consumer_schema: None,
    metadata_schema: None,
    check: |_| Ok(()),
    check_running: None,
    consumer_key: &[],
    compile_credential: None,
    serves_http: true,
    check_consumer: |_| Ok(()),
    check_metadata: |_| Ok(()),
    check_with_metadata: |_, _| Ok(()),
    is_global: false,
    check_stream: |_| Ok(()),
    check_proto: None,
    check_contract: None,
    build: |_, _| Ok(Arc::new(TrailerMark)),
    stream: None,
    apis: &[],
    control_endpoints: &[],
    parts: &[],
    opens_endpoints: false,
    runs_by_metadata: false,
    documentation: "",
};

#[test]
fn plugins_see_trailers_where_there_are_any() {
    let mark = || json!({"trailer-mark": {}});
    let with = Origin::start(|_| Reply::chunked(&["hello"], &[("X-Sum", "1")]));
    let (calls, answer) = exchange_through(mark(), &with, "GET /here", scripted(&[], BodyLength::None));
    assert_eq!((calls.as_str(), answer.as_str()), ("start:200:Unknown finish:2", "hello"));
    let without = Origin::answering("hello");
    let (calls, _) = exchange_through(mark(), &without, "GET /here", scripted(&[], BodyLength::None));
    assert_eq!(calls, "start:200:Known(5) finish:0");
}

/// Appends the copies of both bodies to those of earlier requests.
struct Copier {
    limit_bytes: usize,
}

/// The bodies that copiers received, by the query of the request.
static COPIES: Mutex<Vec<(String, String, String)>> = Mutex::new(Vec::new());

impl Plugin for Copier {
    fn wants_request_body(&self, _: &Exchange) -> BodyNeed {
        BodyNeed::Copy { limit_bytes: self.limit_bytes }
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        BodyNeed::Copy { limit_bytes: self.limit_bytes }
    }

    fn log(&self, exchange: &Exchange) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let request = exchange.read_request_body(text).unwrap_or_default();
        let response = exchange.response_copy().map(text).unwrap_or_default();
        let query = exchange.request.query().map(text).unwrap_or_default();
        COPIES.lock().unwrap().push((query, request, response));
    }
}

const COPIER: PluginKind = PluginKind {
    name: "copier",
    priority: 2,
    phases: &[PluginPhase::RequestBody, PluginPhase::ResponseBody, PluginPhase::Log],
    build: |_, config| Ok(Arc::new(Copier { limit_bytes: config["limit"].as_u64().unwrap() as usize })),
    ..TRAILER_MARK
};

/// Makes every piece of the body upper case, or replies in the endpoint's place.
struct Shouter {
    answers: bool,
}

impl Plugin for Shouter {
    fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
        if self.answers {
            Flow::reply(exchange::plugin::BufferedReply::status(403).with_body(b"no".as_slice()))
        } else {
            Flow::Continue
        }
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        BodyNeed::Stream
    }

    fn response_body<'a>(
        &'a self,
        _: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _: Portion,
    ) -> ResponseStep<'a> {
        body.make_ascii_uppercase();
        ResponseStep::Done
    }
}

const SHOUTER: PluginKind = PluginKind {
    name: "shouter",
    priority: 3,
    phases: &[PluginPhase::Access, PluginPhase::ResponseBody],
    build: |_, config| Ok(Arc::new(Shouter { answers: config["answers"] == true })),
    ..TRAILER_MARK
};

#[test]
fn plugins_get_copies_of_bodies_that_pass_untouched() {
    let origin = Origin::start(|request| Reply::ok(&format!("you said {}", request.text())));
    let check = |name: &str, plugins: Value, calls: &str, copies: (&str, &str)| {
        let path = format!("POST /here?{name}");
        let body = scripted(&[Some("hel"), Some("lo")], BodyLength::Known(5));
        let (got, _) = exchange_through(plugins, &origin, &path, body);
        assert_eq!(got, calls, "{name}");
        let seen = COPIES.lock().unwrap().iter().find(|(query, ..)| query == name).cloned().unwrap();
        assert_eq!((seen.1.as_str(), seen.2.as_str()), copies, "{name}");
    };
    let known = "start:200:Known(14) finish:0";
    check("whole", json!({"copier": {"limit": 99}}), known, ("hello", "you said hello"));
    check("cut", json!({"copier": {"limit": 4}}), known, ("hell", "you "));
    let edited = json!({"copier": {"limit": 99}, "shouter": {}});
    check("edited", edited, "start:200:Unknown finish:0", ("hello", "YOU SAID HELLO"));
    let refused = json!({"copier": {"limit": 99}, "shouter": {"answers": true}});
    check("refused", refused, "start:403:Known(2) finish:0", ("", "NO"));
    let lost = Origin::start(|_| Reply::new().close());
    let body = scripted(&[Some("hel"), Some("lo")], BodyLength::Known(5));
    exchange_through(json!({"copier": {"limit": 99}}), &lost, "PUT /here?lost", body);
    let seen = COPIES.lock().unwrap().iter().find(|(query, ..)| query == "lost").cloned().unwrap();
    assert_eq!(seen.1, "hello", "also of what failed");
    let gone = scripted(&[Some("hel"), None], BodyLength::Known(5));
    exchange_through(json!({"copier": {"limit": 99}}), &origin, "PUT /here?gone", gone);
    let seen = COPIES.lock().unwrap().iter().find(|(query, ..)| query == "gone").cloned().unwrap();
    assert_eq!(seen.1, "hel", "and of what never came to a node");
}

#[test]
fn prefix_is_streamed_when_memory_is_short() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let answer = on_loop(async {
        let context = context(&[origin.address()], &json!({}));
        // Memory is so short that requests are served and only one byte may be held.
        context.local.shared.memory.update(89, 100);
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        request_head(&mut exchange, "POST /here");
        let mut downstream = scripted(&[Some("hel"), Some("lo")], BodyLength::Known(5));
        let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
        log(&context, &mut exchange, served.log);
        downstream.answer
    });
    assert_eq!(answer, b"hello");
}

const KINDS: &[&PluginKind] = &[
    &SHOUTER,
    &COPIER,
    &TRAILER_MARK,
    &plugins::PATIENT,
    &plugins::REWRITER,
    &plugins::CHOOSER,
    &plugins::OUTER,
    &plugins::SPEAKER,
    &detached::LEAVER,
    &detached::EARLY,
    &detached::LATE,
    &stored::TAPPER,
    &stored::KEEPER,
    &plugins::NUMBERER,
    &tls::PINGER,
    &trailers::MOVER,
];

/// A context with one route, `/here`, to the nodes at `addresses`.
fn context(addresses: &[SocketAddr], plugins: &Value) -> Rc<WorkerContext> {
    let nodes: Value = addresses.iter().map(|address| (address.to_string(), json!(1))).collect();
    context_of(&json!({"nodes": nodes}), plugins)
}

/// A context with one route, `/here`, to this upstream.
fn context_of(upstream: &Value, plugins: &Value) -> Rc<WorkerContext> {
    let route = json!({"uri": "/here", "upstream": upstream, "plugins": plugins});
    let key = ObjectKey::new(ObjectKind::Route, "1").unwrap();
    let written = WrittenObject {
        key: key.clone(),
        text: route.to_string().into(),
        created_index: 1,
        modified_index: 1,
    };
    let change = SnapshotChange { key, written: Some(written) };
    let info = |kind: &&'static PluginKind| PluginInfo::new(kind.name, 1, (kind.schema)());
    let catalog = PluginCatalog::new(KINDS.iter().map(info).collect()).unwrap();
    let applied = Snapshot::empty().apply(&catalog, &[change], 1, FaultPolicy::Strict);
    let services = Arc::new(exchange::testing::services());
    let mut compiler =
        SnapshotCompiler::new(KINDS, router::Mode::default(), AttemptTimeouts::default(), services);
    let (runtime, faults) = compiler.apply(&applied);
    assert_eq!(faults, Vec::new());
    let (reclaimer, _) = channel();
    let local = WorkerLocal::new(0, Arc::new(exchange::testing::options()), Arc::default());
    let parts = ContextParts {
        published: Arc::new(Published::new(runtime)),
        reclaimer,
        status: Arc::default(),
        upstream_warnings: Arc::default(),
        metrics: WorkerMetrics::default(),
        access_log: None,
        session_log: None,
    };
    WorkerContext::new(local, parts)
}
