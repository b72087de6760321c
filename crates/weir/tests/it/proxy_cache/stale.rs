//! Entries that are no longer fresh: revalidated, replaced, or sent because there is nothing better. The
//! origin makes its responses old with `Age`, so that no test waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testkit::{Origin, Reply, wait_until};

use super::{ask, cached, check, status_and_body};

/// An origin with a first response that is fresh for a second only, and later ones that `later` makes.
fn short_lived(
    first: &'static [(&'static str, &'static str)],
    later: impl Fn(&testkit::Request) -> Reply + Send + Sync + 'static,
) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::with(200, first, b"first"),
        _ => later(request),
    })
}

/// Asks until the entry is stale: the time of an entry has whole seconds.
fn wait_until_stale(weir: &testkit::Weir, statuses: &[&str]) -> (String, String) {
    let mut last = (String::new(), String::new());
    wait_until("the entry is stale", || {
        last = ask(weir, "/", &[]);
        statuses.contains(&&*last.0)
    });
    last
}

#[test]
fn confirmed_entry_is_fresh_again() {
    let first = &[("Cache-Control", "max-age=2"), ("Age", "1"), ("ETag", "\"a\""), ("X-Old", "1")];
    let origin = short_lived(first, |request| match request.header("If-None-Match") {
        Some("\"a\"") => Reply::with(304, &[("Cache-Control", "max-age=60"), ("X-New", "1")], b""),
        _ => Reply::ok("asked without a validator"),
    });
    let weir = cached(&origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(wait_until_stale(&weir, &["REVALIDATED", "EXPIRED"]), "REVALIDATED", "first");
    let hit = weir.get("/");
    check(status_and_body(&hit), "HIT", "first");
    assert_eq!((hit.header("X-Old"), hit.header("X-New")), (Some("1"), Some("1")));
    assert_eq!(hit.header("Cache-Control"), Some("max-age=60"));
}

#[test]
fn replaced_entry_is_expired() {
    let origin = short_lived(&[("Cache-Control", "max-age=2"), ("Age", "1")], |_| {
        Reply::with(200, &[("Cache-Control", "max-age=60")], b"second")
    });
    let weir = cached(&origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(wait_until_stale(&weir, &["EXPIRED"]), "EXPIRED", "second");
    check(ask(&weir, "/", &[]), "HIT", "second");
}

#[test]
fn stale_entry_is_sent_where_upstream_fails() {
    let first = &[("Cache-Control", "max-age=2, stale-if-error=600"), ("Age", "1")];
    let turn = Arc::new(AtomicUsize::new(0));
    let origin = short_lived(first, move |_| match turn.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => Reply::status(503, "sorry"),
        _ => Reply::new().close(),
    });
    let weir = cached(&origin, json!({"cache_control": true}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(wait_until_stale(&weir, &["STALE", "EXPIRED"]), "STALE", "first");
    for _ in 0..3 {
        check(ask(&weir, "/", &[]), "STALE", "first");
    }
    origin.drop_connections();
    drop(origin);
    check(ask(&weir, "/", &[]), "STALE", "first");
}

#[test]
fn revalidated_entry_is_never_sent_stale() {
    let first = &[("Cache-Control", "max-age=2, must-revalidate"), ("Age", "1")];
    let origin = short_lived(first, |_| Reply::status(503, "sorry"));
    let weir = cached(&origin, json!({"cache_control": true, "stale_if_error": 600}));
    check(ask(&weir, "/", &[]), "MISS", "first");
    check(wait_until_stale(&weir, &["EXPIRED", "STALE"]), "EXPIRED", "sorry");
}

#[test]
fn directives_of_requests_count_where_asked() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |_| {
        let body = format!("response {}", count.fetch_add(1, Ordering::Relaxed));
        Reply::with(200, &[("Cache-Control", "max-age=600"), ("Age", "30")], body.as_bytes())
    });
    let weir = cached(&origin, json!({"cache_control": true}));
    let by = |directive: &str| ask(&weir, "/", &[("Cache-Control", directive)]);
    assert_eq!(weir.client().request("GET", "/", &[("Cache-Control", "only-if-cached")], b"").status, 504);
    check(by("max-age=0"), "MISS", "response 0");
    check(by("max-age=100"), "HIT", "response 0");
    check(by("no-store"), "BYPASS", "response 1");
    check(by("no-cache"), "BYPASS", "response 2");
    check(by("max-age=10"), "STALE", "response 3");
    check(by("min-fresh=590"), "STALE", "response 4");
    check(by("only-if-cached"), "HIT", "response 4");
}
