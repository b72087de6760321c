//! Requests that go on after a plugin has answered their client: which plugins run for them, what the
//! upstream gets, and how many there may be.

use std::sync::Mutex;

use bytes::Bytes;
use exchange::inner::{DETACHED_MAX, Detachment, InnerRequests};
use exchange::plugin::{StoredBody, StoredReply};
use net::env;
use testkit::Signal;

use super::*;
use crate::downstream::inner;

/// The words that the plugins of these tests noted, by the query of the request.
static SEEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

fn note(exchange: &Exchange, word: String) {
    let query = String::from_utf8_lossy(exchange.request.query().unwrap_or_default()).into_owned();
    SEEN.lock().unwrap().push((query, word));
}

fn seen(query: &str) -> Vec<String> {
    let all = SEEN.lock().unwrap();
    all.iter().filter(|(of, _)| of == query).map(|(_, word)| word.clone()).collect()
}

/// Answers every client, and lets its request go on.
struct Leaver;

impl Plugin for Leaver {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let requests = InnerRequests::of(exchange.local());
        let detachment = requests.detach(exchange, PluginPhase::Access, &mut |detached| {
            detached.request.headers.set("X-Detached", b"1").unwrap();
            *detached.state::<bool>() = true;
        });
        if detachment != Detachment::Begun {
            note(exchange, format!("{detachment:?}"));
        }
        exchange.response.clear();
        exchange.response.status = 200;
        Flow::Stored(Box::new(StoredReply {
            length: 6,
            body: StoredBody::Whole(Bytes::from_static(b"stored")),
        }))
    }

    fn log(&self, exchange: &Exchange) {
        let failure = exchange.failure.as_ref().map(|failure| failure.cause.code());
        if exchange.peek_state::<bool>().is_some() {
            note(exchange, format!("ended {} {failure:?}", exchange.response.status));
        }
    }
}

pub(super) const LEAVER: PluginKind = PluginKind {
    name: "leaver",
    priority: 8,
    phases: &[PluginPhase::Access, PluginPhase::Log],
    build: |_, _| Ok(Arc::new(Leaver)),
    ..TRAILER_MARK
};

/// Notes its phases, and replies where it is told to.
struct Witness {
    name: &'static str,
    refuses: bool,
}

impl Plugin for Witness {
    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let name = self.name;
        note(exchange, format!("{name} access"));
        exchange.request.headers.append("X-Witness", name.as_bytes()).unwrap();
        let refused = || Flow::reply(exchange::plugin::BufferedReply::status(429));
        if self.refuses { refused() } else { Flow::Continue }
    }

    fn response_head<'a>(&'a self, exchange: &'a mut Exchange) -> ResponseStep<'a> {
        note(exchange, format!("{} head", self.name));
        ResponseStep::Done
    }

    fn log(&self, exchange: &Exchange) {
        note(exchange, format!("{} log", self.name));
    }
}

pub(super) const EARLY: PluginKind = PluginKind {
    name: "early-witness",
    priority: 9,
    phases: &[PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::Log],
    build: |_, _| Ok(Arc::new(Witness { name: "early", refuses: false })),
    ..TRAILER_MARK
};

pub(super) const LATE: PluginKind = PluginKind {
    name: "late-witness",
    priority: 7,
    phases: &[PluginPhase::Access, PluginPhase::ResponseHead, PluginPhase::Log],
    build: |_, config| Ok(Arc::new(Witness { name: "late", refuses: config["refuses"] == true })),
    ..TRAILER_MARK
};

/// Serves `count` requests, then waits until the last plugins have seen `words` words.
fn detach(origin: &Origin, late: Value, method_and_path: &str, count: usize, words: usize) -> Vec<String> {
    let query = method_and_path.split_once('?').unwrap().1;
    on_loop(async {
        let plugins = json!({"early-witness": {}, "leaver": {}, "late-witness": late});
        let context = context(&[origin.address()], &plugins);
        inner::install(&context);
        for _ in 0..count {
            let deadline = Deadline::new(&context.local);
            let mut exchange = context.exchanges.checkout();
            request_head(&mut exchange, method_and_path);
            let mut downstream = scripted(&[], BodyLength::None);
            let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
            log(&context, &mut exchange, served.log);
            assert_eq!(downstream.answer, b"stored", "the client does not wait");
        }
        while seen(query).len() < words {
            env::sleep_ms(1).await;
        }
    });
    seen(query)
}

/// The words of a request that was answered by the plugin.
const ANSWERED: [&str; 4] = ["early access", "early head", "late head", "early log"];

#[test]
fn later_plugins_run_for_detached_request() {
    let origin = Origin::answering("whole");
    let words = detach(&origin, json!({}), "GET /here?passes", 1, 8);
    assert_eq!(words[..4], ANSWERED);
    assert_eq!(words[4..], ["late log", "late access", "ended 200 None", "late log"]);
    let request = origin.last_request();
    let witnesses: Vec<_> = request.headers.iter().filter(|(name, _)| name == "X-Witness").collect();
    assert_eq!(witnesses.len(), 2, "{witnesses:?}");
    assert_eq!(request.header("X-Detached"), Some("1"));
}

#[test]
fn later_plugin_may_refuse_detached_request() {
    let origin = Origin::answering("whole");
    let words = detach(&origin, json!({"refuses": true}), "GET /here?refused", 1, 8);
    assert_eq!(words[5..], ["late access", "ended 429 None", "late log"]);
    assert!(origin.requests().is_empty());
}

#[test]
fn failure_of_detached_request_is_logged() {
    let origin = Origin::start(|_| Reply::new().close());
    let words = detach(&origin, json!({}), "GET /here?fails", 1, 8);
    assert!(words[6].starts_with("ended 502 Some"), "{words:?}");
}

#[test]
fn detached_requests_have_a_limit() {
    let go = Signal::new();
    let release = go.clone();
    let origin = Origin::start(move |_| Reply::steps([testkit::Step::Wait(release.clone())]));
    let words = detach(&origin, json!({}), "GET /here?many", DETACHED_MAX + 2, 0);
    go.set();
    assert_eq!(words.iter().filter(|word| *word == "Full").count(), 2);
}
