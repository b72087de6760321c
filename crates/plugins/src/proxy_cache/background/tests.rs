//! Stale entries and their background requests without a gateway: the test holds the detached requests and
//! answers them. Time passes by entries that are made older.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use exchange::failure::{Cause, ExchangeFailure};
use exchange::inner::{InnerFuture, InnerOutcome, InnerRequest, InnerService};
use exchange::plugin::{Flow, Plugin};
use exchange::testing::{Scene, respond};
use serde_json::json;

use super::*;
use crate::proxy_cache::KIND;
use crate::proxy_cache::entry::EntryTimes;
use crate::proxy_cache::zone::Zone;
use crate::proxy_cache::zones::Zones;

/// Keeps the detached requests.
struct Kept {
    requests: RefCell<Vec<Exchange>>,
    answer: Cell<Detachment>,
}

impl InnerService for Kept {
    fn serve(self: Rc<Self>, _: InnerRequest) -> InnerFuture<'static> {
        Box::pin(async { InnerOutcome::Cut })
    }

    fn detach(
        self: Rc<Self>,
        exchange: &Exchange,
        phase: PluginPhase,
        begin: &mut dyn FnMut(&mut Exchange),
    ) -> Detachment {
        assert_eq!(phase, PluginPhase::Access);
        let mut detached = Exchange::new(exchange.local().clone());
        if self.answer.get() != Detachment::Begun || !detached.continue_from(exchange) {
            return if self.answer.get() == Detachment::Begun {
                Detachment::Impossible
            } else {
                self.answer.get()
            };
        }
        begin(&mut detached);
        self.requests.borrow_mut().push(detached);
        Detachment::Begun
    }
}

/// A plugin with one entry, which is fresh for 10 seconds and stale for 30 more.
struct Cached {
    scene: Scene,
    plugin: Arc<dyn Plugin>,
    kept: Rc<Kept>,
    zone: Arc<Zone>,
    key: Arc<[u8]>,
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

impl Cached {
    fn new() -> Cached {
        let mut scene = Scene::new();
        let plugin = scene.build(
            &KIND,
            &json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_control": true}),
        );
        let mut first = scene.exchange(GET.as_bytes());
        let kept = Rc::new(Kept { requests: RefCell::default(), answer: Cell::new(Detachment::Begun) });
        let service: Weak<dyn InnerService> = Rc::downgrade(&kept) as Weak<dyn InnerService>;
        InnerRequests::of(first.local()).serve_with(service);
        assert!(matches!(plugin.access(&mut first), Flow::Continue));
        let lifetime = "max-age=10, stale-while-revalidate=30";
        let fields = [("Content-Length", "5"), ("ETag", "\"a\""), ("Cache-Control", lifetime)];
        respond(&mut first, 200, &fields);
        assert!(plugin.upstream_response(&mut first, None).is_none());
        first.note_upstream_body(b"first");
        first.note_upstream_end();
        let key = first.peek_state::<ProxyCacheState>().and_then(|visit| visit.key.clone()).unwrap();
        let zone = Zones::of(&scene.states()).open("memory_cache", false).unwrap();
        Cached { scene, plugin, kept, zone, key }
    }

    /// Makes the entry `seconds` old.
    fn age(&mut self, seconds: u64) {
        let request = self.scene.exchange(GET.as_bytes());
        let now_s = read_recent_clock_s(&request);
        let ZoneLookup::Entry(old) = self.zone.find(&self.key, &request.request.headers, now_s) else {
            panic!("there is an entry")
        };
        let entry = CacheEntry {
            status: old.status,
            headers: old.headers.clone(),
            body: old.body.clone(),
            times: EntryTimes { stored_s: now_s - seconds, ..old.times },
            held_until_s: AtomicU64::new(0),
        };
        self.zone.insert(&self.key, &[], &[], Arc::new(entry));
    }

    /// The cache status of a request; in small letters if the upstream is asked for its client.
    fn ask(&mut self, head: &str) -> String {
        let mut exchange = self.scene.exchange(head.as_bytes());
        let flow = self.plugin.access(&mut exchange);
        let is_forwarded = matches!(flow, Flow::Continue);
        drop(flow);
        let status = exchange.peek_state::<ProxyCacheState>().and_then(|visit| visit.status);
        let word = status.map_or("-", CacheStatus::word);
        if is_forwarded { word.to_lowercase() } else { word.to_owned() }
    }

    fn total(&self, outcome: Outcome) -> u64 {
        self.zone.background.total(outcome)
    }
}

#[test]
fn stale_entry_answers_within_its_window() {
    let check = |age_s: u64, head: &str, status: &str, requests: usize| {
        let mut cached = Cached::new();
        cached.age(age_s);
        assert_eq!(cached.ask(head), status, "{age_s} {head}");
        let requests_now = cached.kept.requests.borrow();
        assert_eq!(requests_now.len(), requests, "{age_s} {head}");
        for request in requests_now.iter() {
            let headers = &request.request.headers;
            assert_eq!((request.request.method, headers.contains("Range")), (Method::Get, false), "{head}");
            assert_eq!(headers.get("If-None-Match"), Some(&b"\"a\""[..]), "{head}");
            assert_eq!(request.request.method_text(), b"GET", "{head}");
        }
    };
    let with = |field: &str| format!("GET /a HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
    check(5, GET, "HIT", 0);
    check(10, GET, "UPDATING", 1);
    check(40, GET, "UPDATING", 1);
    check(41, GET, "expired", 0);
    check(11, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", "UPDATING", 1);
    check(11, &with("Range: bytes=0-1"), "UPDATING", 1);
    check(11, &with("Range: bytes=0-1\r\nIf-Range: \"a\""), "UPDATING", 1);
    check(11, &with("If-None-Match: \"b\""), "UPDATING", 1);
    check(11, &with("Cache-Control: max-age=60"), "expired", 0);
    check(11, &with("Cache-Control: min-fresh=1"), "expired", 0);
    check(15, &with("Cache-Control: max-stale=2"), "expired", 0);
    check(15, &with("Cache-Control: max-stale=20"), "STALE", 0);
    check(11, &with("Cache-Control: only-if-cached"), "EXPIRED", 0);
    check(11, &with("Content-Length: 3"), "expired", 0);
}

#[test]
fn one_background_request_is_under_way() {
    let mut cached = Cached::new();
    cached.age(11);
    let statuses: Vec<_> = (0..5).map(|_| cached.ask(GET)).collect();
    assert_eq!(statuses, ["UPDATING"; 5]);
    assert_eq!(cached.ask("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n"), "UPDATING");
    assert_eq!(cached.kept.requests.borrow().len(), 1);
}

#[test]
fn background_request_ends_with_an_outcome() {
    // The status, the fields and whether the body is whole; status 0 is a failure without a response.
    let check = |status: u16, fields: &[(&str, &str)], is_whole: bool, outcome: Outcome, next: &str| {
        let mut cached = Cached::new();
        cached.age(11);
        assert_eq!(cached.ask(GET), "UPDATING");
        let mut request = cached.kept.requests.borrow_mut().pop().unwrap();
        let failure = ExchangeFailure::new(Cause::ConnectFailed, "");
        if status == 0 {
            assert!(cached.plugin.upstream_response(&mut request, Some(&failure)).is_none());
            request.failure = Some(failure);
        } else {
            respond(&mut request, status, fields);
            let replaced = cached.plugin.upstream_response(&mut request, None);
            assert_eq!(replaced.is_some(), outcome != Outcome::Replaced && is_whole, "{status} {fields:?}");
            request.note_upstream_body(b"other");
            if is_whole {
                request.note_upstream_end();
            } else {
                request.copies.tap = None;
                request.failure = Some(failure);
            }
        }
        cached.plugin.log(&request);
        let all = Outcome::ALL.map(|outcome| cached.total(outcome));
        let expected = Outcome::ALL.map(|one| u64::from(one == outcome));
        assert_eq!(all, expected, "{status} {fields:?}");
        assert_eq!(cached.ask(GET), next, "{status} {fields:?}");
        assert!(cached.kept.requests.borrow().is_empty(), "{status}: none follows at once");
    };
    let length = ("Content-Length", "5");
    let fresh = ("Cache-Control", "max-age=60");
    check(200, &[length, fresh], true, Outcome::Replaced, "HIT");
    check(200, &[length, fresh], false, Outcome::Failed, "STALE");
    check(304, &[fresh], true, Outcome::Revalidated, "HIT");
    check(503, &[length], true, Outcome::Failed, "STALE");
    check(0, &[], false, Outcome::Failed, "STALE");
    check(403, &[length, fresh], true, Outcome::Refused, "STALE");
    check(200, &[length, ("Cache-Control", "no-store")], true, Outcome::Refused, "miss");
}

#[test]
fn request_beyond_limit_is_not_sent() {
    let mut cached = Cached::new();
    cached.age(11);
    cached.kept.answer.set(Detachment::Full);
    assert_eq!((cached.ask(GET).as_str(), cached.total(Outcome::Limited)), ("STALE", 1));
    cached.kept.answer.set(Detachment::Impossible);
    assert_eq!(cached.ask(GET), "expired");
    cached.kept.answer.set(Detachment::Begun);
    assert_eq!(cached.ask(GET), "UPDATING", "the place of the last one was given back");
}

#[test]
fn purged_entry_is_not_replaced() {
    let mut cached = Cached::new();
    cached.age(11);
    assert_eq!(cached.ask(GET), "UPDATING");
    let mut request = cached.kept.requests.borrow_mut().pop().unwrap();
    assert!(cached.zone.purge(&cached.key));
    respond(&mut request, 200, &[("Content-Length", "5"), ("Cache-Control", "max-age=60")]);
    assert!(cached.plugin.upstream_response(&mut request, None).is_none());
    request.note_upstream_body(b"other");
    request.note_upstream_end();
    cached.plugin.log(&request);
    assert_eq!(cached.ask(GET), "miss");
}
