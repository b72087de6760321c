//! A small plugin for each thing that the plugin trait offers beyond a decision on the request, through the
//! real chain.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::control::Control;
use super::*;
use exchange::plugin::chain::PluginInstance;
use exchange::plugin::{LogTask, NextAttempt, ReplyStream, StreamedReply, UpstreamRef};

/// Waits in both phases of the response, and leaves a task behind.
struct Patient {
    streams: bool,
}

/// Log tasks that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Plugin for Patient {
    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        ResponseStep::Wait(Box::pin(async {
            tokio::task::yield_now().await;
            exchange.response.headers.set("X-Patient", b"waited").unwrap();
        }))
    }

    fn wants_response_body(&self, _: &Exchange) -> BodyNeed {
        if self.streams { BodyNeed::Stream } else { BodyNeed::Buffer { limit_bytes: 99 } }
    }

    fn response_body<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        body: &'a mut Vec<u8>,
        _: Portion,
    ) -> ResponseStep<'a> {
        ResponseStep::Wait(Box::pin(async {
            tokio::task::yield_now().await;
            body.extend_from_slice(exchange.response.headers.get("x-patient").unwrap_or_default());
        }))
    }

    fn log_task(&self, _: &Exchange) -> Option<LogTask> {
        Some(Box::pin(async {
            tokio::task::yield_now().await;
            ENDED.fetch_add(1, Ordering::Relaxed);
        }))
    }
}

pub(super) const PATIENT: PluginKind = PluginKind {
    name: "patient",
    phases: &[PluginPhase::ResponseHead, PluginPhase::ResponseBody, PluginPhase::Log],
    build: |_, config| Ok(Arc::new(Patient { streams: config["streams"] == true })),
    ..TRAILER_MARK
};

#[test]
fn response_waits_for_its_plugins() {
    let origin = Origin::answering("hello ");
    let check = |plugins: Value, calls: &str, answer: &str| {
        let got = exchange_through(plugins, &origin, "GET /here", scripted(&[], BodyLength::None));
        assert_eq!(got, (calls.to_owned(), answer.to_owned()));
    };
    check(json!({"patient": {}}), "start:200:Known(12) finish:0", "hello waited");
    let local = json!({"patient": {}, "shouter": {"answers": true}});
    check(local, "start:403:Known(8) finish:0", "NOwaited");
    // The pieces after a wait would have to be held, so the response is cut.
    check(json!({"patient": {"streams": true}}), "start:200:Unknown abort", "");
}

#[test]
fn log_task_ends_after_the_exchange() {
    let origin = Origin::answering("hello");
    let before = ENDED.load(Ordering::Relaxed);
    let local = tokio::runtime::LocalOptions::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(local).unwrap();
    runtime.block_on(async {
        let context = context(&[origin.address()], &json!({"patient": {}}));
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        request_head(&mut exchange, "GET /here");
        let mut downstream = scripted(&[], BodyLength::None);
        let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
        log(&context, &mut exchange, served.log);
        drop(exchange);
        while ENDED.load(Ordering::Relaxed) == before {
            tokio::task::yield_now().await;
        }
    });
}

/// Replaces the request body if it has read it.
struct Rewriter {
    reads: bool,
}

impl Plugin for Rewriter {
    fn wants_request_body(&self, _: &Exchange) -> BodyNeed {
        if self.reads { BodyNeed::Buffer { limit_bytes: 99 } } else { BodyNeed::None }
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let mut body = exchange.request_body().unwrap_or_default().to_vec();
        body.extend_from_slice(b", twice");
        match exchange.set_request_body(body) {
            Ok(()) => Flow::Continue,
            Err(_) => Flow::reply(exchange::plugin::BufferedReply::status(500)),
        }
    }
}

pub(super) const REWRITER: PluginKind = PluginKind {
    name: "rewriter",
    phases: &[PluginPhase::RequestBody, PluginPhase::Access],
    build: |_, config| Ok(Arc::new(Rewriter { reads: config["reads"] == true })),
    ..TRAILER_MARK
};

#[test]
fn plugin_replaces_only_a_body_it_has_read() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let body = || scripted(&[Some("hel"), Some("lo")], BodyLength::Known(5));
    let (_, answer) = exchange_through(json!({"rewriter": {"reads": true}}), &origin, "POST /here", body());
    assert_eq!(answer, "hello, twice");
    assert_eq!(origin.last_request().header("content-length"), Some("12"));
    let (calls, _) = exchange_through(json!({"rewriter": {}}), &origin, "POST /here", body());
    assert_eq!(calls, "start:500:Known(0) finish:0");
}

/// Sends requests to its own upstream; with a fallback, only after the route's has failed.
struct Chooser {
    upstream: UpstreamRef,
    is_fallback: bool,
}

impl Plugin for Chooser {
    fn before_proxy<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        if self.is_fallback {
            exchange.allow_fallbacks(1);
        } else {
            exchange.set_upstream(self.upstream.clone());
        }
        Flow::Continue
    }

    fn before_attempt(&self, exchange: &mut Exchange, attempt: NextAttempt) {
        if self.is_fallback && attempt.cause == Some(Cause::NoResponse) {
            exchange.set_forward_path(b"/fallback").unwrap();
            exchange.set_upstream(self.upstream.clone());
        }
    }
}

pub(super) const CHOOSER: PluginKind = PluginKind {
    name: "chooser",
    phases: &[PluginPhase::BeforeProxy, PluginPhase::Attempt],
    build: |build, config| {
        let upstream = match config["upstream"].as_object() {
            Some(_) => build.upstream("upstream", &config["upstream"])?,
            None => UpstreamRef::by_id("missing"),
        };
        Ok(Arc::new(Chooser { upstream, is_fallback: config["fallback"] == true }))
    },
    ..TRAILER_MARK
};

#[test]
fn plugin_selects_an_upstream_of_its_own() {
    let (first, second) = (Origin::answering("first"), Origin::start(|request| Reply::ok(request.path())));
    let own = json!({"nodes": {second.address().to_string(): 1}});
    let check = |origin: &Origin, config: Value, calls: &str, answer: &str| {
        let plugins = json!({"chooser": config});
        let (got, body) = exchange_through(plugins, origin, "GET /here", scripted(&[], BodyLength::None));
        assert!(got.starts_with(calls), "{got}");
        assert_eq!(body, answer);
    };
    check(&first, json!({"upstream": own}), "start:200", "/here");
    check(&first, json!({"upstream": own, "fallback": true}), "start:200", "first");
    let lost = Origin::start(|_| Reply::new().close());
    check(&lost, json!({"upstream": own, "fallback": true}), "start:200", "/fallback");
    let none = json!({"chooser": {}});
    let (got, body) = exchange_through(none, &first, "GET /here", scripted(&[], BodyLength::None));
    let missing = "{\"error_msg\":\"503 Service Unavailable: no_upstream\",\"request_id\":\"";
    assert!(got.starts_with("start:503") && body.starts_with(missing), "{got} {body}");
}

#[test]
fn upstream_of_plugin_is_dropped_with_it() {
    let route = |plugins: Value| json!({"uri": "/here", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": plugins});
    let mut control = Control::new();
    let mut apply = |revision: u64, kind: ObjectKind, value: Value| {
        let (runtime, faults) = control.apply(revision, kind, &value);
        assert_eq!(faults, Vec::new());
        runtime.upstream_slots.keys().map(|name| name.to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let own = json!({"chooser": {"upstream": {"nodes": {"127.0.0.1:2": 1}}}});
    let shared = json!({"nodes": {"127.0.0.1:3": 1}});
    assert!(apply(1, ObjectKind::Upstream, shared).contains(UpstreamRef::by_id("1").identity()));
    let names = ["/routes/1", "/routes/1#upstream", "/upstreams/1"];
    assert_eq!(apply(2, ObjectKind::Route, route(own)).into_iter().collect::<Vec<_>>(), names);
    apply(3, ObjectKind::Route, route(json!({})));
    // The compiler looks for holders with each change; the change before still held the route's first chain.
    let left = apply(4, ObjectKind::Route, route(json!({})));
    assert_eq!(left.into_iter().collect::<Vec<_>>(), ["/routes/1", "/upstreams/1"]);
}

/// Runs another plugin inside itself.
struct Outer {
    inner: Option<Arc<PluginInstance>>,
}

impl Plugin for Outer {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Some(inner) = &self.inner else { return Flow::Continue };
        *exchange.state::<u32>() = 7;
        Flow::Wait(Box::pin(async {
            let decision = inner.run(PluginPhase::Access, exchange).await;
            assert_eq!(*exchange.state::<u32>(), 7, "the state is its own again");
            decision
        }))
    }
}

pub(super) const OUTER: PluginKind = PluginKind {
    name: "outer",
    phases: &[PluginPhase::Access],
    build: |build, config| {
        let (name, inner) = config["inner"].as_object().and_then(|inner| inner.iter().next()).unwrap();
        Ok(Arc::new(Outer { inner: build.plugin("inner", name, inner)? }))
    },
    ..TRAILER_MARK
};

#[test]
fn plugin_runs_another_inside_itself() {
    let origin = Origin::answering("hello");
    let answered = |inner: Value| {
        let plugins = json!({"outer": {"inner": inner}});
        exchange_through(plugins, &origin, "GET /here", scripted(&[], BodyLength::None)).1
    };
    assert_eq!(answered(json!({"shouter": {"answers": true}})), "no");
    assert_eq!(answered(json!({"shouter": {"answers": false}})), "hello");
    assert_eq!(answered(json!({"shouter": {"answers": true, "_meta": {"disable": true}}})), "hello");
    let filtered = json!({"shouter": {"answers": true, "_meta": {"filter": [["arg_a", "==", "b"]]}}});
    assert_eq!(answered(filtered), "hello");
    assert_eq!(answered(json!({"outer": {"inner": {"shouter": {"answers": true}}}})), "no");
}

#[test]
fn nested_plugins_have_a_limit() {
    let mut config = json!({"shouter": {}});
    for _ in 0..exchange::plugin::NESTED_MAX {
        config = json!({"outer": {"inner": config}});
    }
    let states = exchange::plugin::state::StateRegistry::default();
    let services = exchange::testing::services();
    let build = exchange::testing::build("routes/1", None, &states, &services);
    let deep = exchange::plugin::Build { depth: exchange::plugin::NESTED_MAX - 1, ..build };
    assert!(
        deep.plugin("inner", "shouter", &config).is_err_and(|reason| reason.contains("inside each other"))
    );
}

/// Replies with pieces that come one at a time.
struct Speaker {
    pieces: usize,
    fails: bool,
}

/// Pieces still to come.
struct Pieces {
    left: usize,
    waits: bool,
    fails: bool,
}

impl ReplyStream for Pieces {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, String>>> {
        self.waits = !self.waits;
        if self.waits {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Poll::Ready(self.fails.then(|| Err("as the test asks".to_owned())));
        };
        self.left = left;
        Poll::Ready(Some(Ok(format!("piece {left} ").into_bytes())))
    }
}

impl Plugin for Speaker {
    fn access<'a>(&'a self, _: &'a mut Exchange) -> Flow<'a> {
        let body = Box::new(Pieces { left: self.pieces, waits: false, fails: self.fails });
        Flow::Stream(Box::new(StreamedReply { head: exchange::plugin::BufferedReply::status(200), body }))
    }
}

pub(super) const SPEAKER: PluginKind = PluginKind {
    name: "speaker",
    priority: 9,
    phases: &[PluginPhase::Access],
    build: |_, config| {
        let pieces = config["pieces"].as_u64().unwrap_or(2) as usize;
        Ok(Arc::new(Speaker { pieces, fails: config["fails"] == true }))
    },
    ..TRAILER_MARK
};

#[test]
fn streamed_reply_passes_the_response_phases() {
    let origin = Origin::answering("unasked");
    let check = |plugins: Value, request: &str, calls: &str, answer: &str| {
        let got = exchange_through(plugins, &origin, request, scripted(&[], BodyLength::None));
        assert_eq!(got, (calls.to_owned(), answer.to_owned()));
    };
    let known = "start:200:Unknown finish:0";
    check(json!({"speaker": {}}), "GET /here", known, "piece 1 piece 0 ");
    check(json!({"speaker": {"pieces": 0}}), "GET /here", known, "");
    check(json!({"speaker": {}}), "HEAD /here", known, "");
    check(json!({"speaker": {}, "shouter": {}}), "GET /here", known, "PIECE 1 PIECE 0 ");
    let whole = json!({"speaker": {}, "patient": {}});
    check(whole, "GET /here", "start:200:Known(22) finish:0", "piece 1 piece 0 waited");
    check(json!({"speaker": {"fails": true}}), "GET /here", "start:200:Unknown abort", "piece 1 piece 0 ");
    let (calls, answer) = exchange_through(
        json!({"speaker": {"pieces": 20}, "patient": {}}),
        &origin,
        "GET /here",
        scripted(&[], BodyLength::None),
    );
    assert!(calls.starts_with("start:502") && answer.contains("buffer_limit"), "{calls} {answer}");
    assert_eq!(origin.connections(), 0);
}

/// Numbers the pieces of the request body, and says at its end how many there were.
struct Numberer;

impl Plugin for Numberer {
    fn wants_request_body(&self, _: &Exchange) -> BodyNeed {
        BodyNeed::Stream
    }

    fn request_body(&self, exchange: &mut Exchange, body: &mut Vec<u8>, portion: Portion) {
        let count = exchange.state::<u32>();
        *count += u32::from(portion == Portion::Piece);
        body.extend_from_slice(format!("<{count}>").as_bytes());
    }
}

pub(super) const NUMBERER: PluginKind = PluginKind {
    name: "numberer",
    phases: &[PluginPhase::RequestBody],
    build: |_, _| Ok(Arc::new(Numberer)),
    ..TRAILER_MARK
};

#[test]
fn request_body_is_edited_on_its_way() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let ask = |origin: &Origin, body: Scripted| {
        exchange_through(json!({"numberer": {}}), origin, "POST /here", body)
    };
    let (_, answer) = ask(&origin, scripted(&[Some("hel"), Some("lo")], BodyLength::Unknown));
    assert_eq!(answer, "hel<1>lo<2><2>");
    assert_eq!(origin.last_request().header("transfer-encoding"), Some("chunked"));
    let (_, answer) = ask(&origin, scripted(&[], BodyLength::None));
    assert_eq!(answer, "", "there is no body to edit");
    let lost = Origin::start(|_| Reply::new().close());
    let (calls, _) = ask(&lost, scripted(&[Some("hello")], BodyLength::Unknown));
    assert!(calls.starts_with("start:502"), "{calls}");
    assert_eq!(lost.connections(), 1, "a body that was edited is not sent again");
}
