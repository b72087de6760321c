//! The plugin with exchanges that have no socket: configurations, and the way of a request and its response.

use exchange::plugin::StoredBody;
use exchange::testing::{Scene, check_configuration, finish, respond};
use model::catalog::SchemaType;
use serde_json::json;

use super::*;

#[test]
fn configurations() {
    let check =
        |config: Value, fault: Option<&str>| check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    check(json!({}), None);
    check(json!({"cache_strategy": "memory", "cache_zone": "memory_cache"}), None);
    check(json!({"cache_key": ["$host", "-key"], "cache_method": ["POST"]}), None);
    let strategy = "property \"cache_strategy\" validation failed: matches none of the enum values";
    check(json!({"cache_strategy": "network"}), Some(strategy));
    check(json!({"cache_key": []}), Some("cache_key"));
    check(json!({"cache_key": ["${uri}-key"]}), Some("cache_key"));
    check(json!({"cache_key": "$uri"}), Some("cache_key"));
    check(json!({"cache_key": ["$request_method"]}), Some("cache_key variable $request_method unsupported"));
    check(json!({"cache_bypass": [1]}), Some("cache_bypass"));
    check(json!({"no_cache": []}), Some("no_cache"));
    check(json!({"cache_method": ["PUT"]}), Some("cache_method"));
    check(json!({"cache_method": ["GET", "GET"]}), Some("cache_method"));
    check(json!({"cache_http_status": [199]}), Some("cache_http_status"));
    check(json!({"cache_ttl": 0}), Some("cache_ttl"));
    check(json!({"cache_zone": ""}), Some("cache_zone"));
    check(json!({"max_resp_body_size": 0}), Some("max_resp_body_size"));
    check(json!({"coalesce_timeout": 51}), Some("coalesce_timeout"));
}

fn plugin(scene: &Scene, mut more: Value) -> Arc<dyn Plugin> {
    more["cache_strategy"] = "memory".into();
    more["cache_zone"] = "memory_cache".into();
    scene.build(&KIND, &more)
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

/// The body of a hit; none if the request goes to the upstream.
fn hit(plugin: &Arc<dyn Plugin>, exchange: &mut Exchange) -> Option<Vec<u8>> {
    match plugin.access(exchange) {
        Flow::Continue => None,
        Flow::Stored(stored) => match stored.body {
            StoredBody::Whole(body) => Some(body.to_vec()),
            StoredBody::Stream(_) => panic!("it is in memory"),
        },
        _ => panic!("neither a hit nor a miss"),
    }
}

/// Gives a response of the upstream to the plugin, in pieces; it is complete if `ends`.
fn answer(plugin: &Arc<dyn Plugin>, exchange: &mut Exchange, pieces: &[&str], ends: bool) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>().to_string();
    respond(exchange, 200, &[("Content-Length", &length)]);
    assert!(plugin.upstream_response(exchange, None).is_none());
    pieces.iter().for_each(|piece| exchange.note_upstream_body(piece.as_bytes()));
    if ends {
        exchange.note_upstream_end();
    }
}

#[test]
fn complete_response_answers_the_next_request() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    answer(&plugin, &mut first, &["one ", "two"], true);
    finish(plugin.response_head(&mut first));
    assert_eq!(first.response.headers.get(STATUS_FIELD), Some(&b"MISS"[..]));
    let mut second = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut second).as_deref(), Some(&b"one two"[..]));
    finish(plugin.response_head(&mut second));
    assert_eq!(second.response.headers.get(STATUS_FIELD), Some(&b"HIT"[..]));
    assert_eq!(second.response.headers.get("Age"), Some(&b"0"[..]));
    assert!(!second.response.headers.contains("Content-Length"), "the engine writes it");
}

#[test]
fn entries_survive_changes_of_the_configuration() {
    let mut scene = Scene::new();
    let before = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&before, &mut first), None);
    answer(&before, &mut first, &["kept"], true);
    let after = plugin(&scene, json!({"cache_ttl": 5}));
    drop(before);
    assert_eq!(hit(&after, &mut scene.exchange(REQUEST)).as_deref(), Some(&b"kept"[..]));
}

#[test]
fn cut_response_is_forgotten() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    answer(&plugin, &mut first, &["half"], false);
    drop(first);
    assert_eq!(hit(&plugin, &mut scene.exchange(REQUEST)), None);
}

#[test]
fn purge_outruns_a_response_under_way() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    answer(&plugin, &mut first, &["old"], false);
    let mut purge = scene.exchange(b"PURGE /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(matches!(plugin.access(&mut purge), Flow::Reply(reply) if reply.status == 404));
    first.note_upstream_end();
    assert_eq!(hit(&plugin, &mut scene.exchange(REQUEST)), None);
}

#[test]
fn refused_status_ends_the_wait_for_each_other() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let answered = |scene: &mut Scene, status: u16| {
        let mut exchange = scene.exchange(REQUEST);
        assert_eq!(hit(&plugin, &mut exchange), None);
        respond(&mut exchange, status, &[("Content-Length", "0")]);
        assert!(plugin.upstream_response(&mut exchange, None).is_none());
    };
    let waits = |scene: &mut Scene| {
        let (mut first, mut second) = (scene.exchange(REQUEST), scene.exchange(REQUEST));
        assert!(matches!(plugin.access(&mut first), Flow::Continue));
        matches!(plugin.access(&mut second), Flow::Wait(_))
    };
    answered(&mut scene, 503);
    assert!(waits(&mut scene), "the next response may be another one");
    answered(&mut scene, 302);
    assert!(!waits(&mut scene));
}

#[test]
fn event_stream_is_not_waited_for() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    respond(
        &mut first,
        200,
        &[("Transfer-Encoding", "chunked"), ("Content-Type", "text/event-stream;charset=utf-8")],
    );
    assert!(plugin.upstream_response(&mut first, None).is_none());
    first.note_upstream_body(b"data: x\n\n");
    assert_eq!(hit(&plugin, &mut scene.exchange(REQUEST)), None, "it does not wait");
}

#[test]
fn zone_that_is_refused_is_not_waited_for() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({}));
    let (mut first, mut second) = (scene.exchange(REQUEST), scene.exchange(REQUEST));
    for exchange in [&mut first, &mut second] {
        assert!(matches!(plugin.access(exchange), Flow::Continue));
        assert!(matches!(plugin.before_proxy(exchange), Flow::Continue));
    }
}

#[test]
fn conditions_stay_where_nothing_is_stored() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let conditional = b"GET /a HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"x\"\r\n\r\n";
    let fields = [("Cache-Control", "no-store"), ("ETag", "\"x\""), ("Content-Length", "3")];
    let mut first = scene.exchange(conditional);
    assert_eq!(hit(&plugin, &mut first), None);
    respond(&mut first, 200, &fields);
    assert!(plugin.upstream_response(&mut first, None).is_some_and(|reply| reply.length == 0));
    assert_eq!(first.response.status, 304);
    let mut second = scene.exchange(conditional);
    assert_eq!(hit(&plugin, &mut second), None);
    assert!(second.request.headers.contains("If-None-Match"));
}

#[test]
fn confirmation_without_date_refreshes() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({"cache_control": true}));
    let old = [("Date", "Mon, 01 Jan 2024 00:00:00 GMT"), ("ETag", "\"x\""), ("Content-Length", "0")];
    let mut first = scene.exchange(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(hit(&plugin, &mut first), None);
    respond(&mut first, 200, &[&old[..], &[("Cache-Control", "max-age=999999999")]].concat());
    assert!(plugin.upstream_response(&mut first, None).is_none());
    first.note_upstream_end();
    let mut second = scene.exchange(b"GET /a HTTP/1.1\r\nHost: h\r\nCache-Control: max-age=60\r\n\r\n");
    assert_eq!(hit(&plugin, &mut second), None, "it is too old for this client");
    assert!(second.request.headers.contains("If-None-Match"));
    respond(&mut second, 304, &[("Cache-Control", "max-age=60")]);
    assert!(plugin.upstream_response(&mut second, None).is_some());
    assert!(hit(&plugin, &mut scene.exchange(REQUEST)).is_some(), "it is fresh again");
}

#[test]
fn variant_is_that_of_the_look_up() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    first.request.headers.set("X-Kind", b"of the gateway").unwrap();
    respond(&mut first, 200, &[("Vary", "X-Kind"), ("Content-Length", "0")]);
    assert!(plugin.upstream_response(&mut first, None).is_none());
    first.note_upstream_end();
    assert!(hit(&plugin, &mut scene.exchange(REQUEST)).is_some());
}

#[test]
fn conditions_do_not_reach_the_upstream() {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, json!({}));
    let conditional = b"GET /a HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: y\r\n\r\n";
    let mut exchange = scene.exchange(conditional);
    assert_eq!(hit(&plugin, &mut exchange), None);
    assert!(!exchange.request.headers.contains("If-None-Match"));
    assert!(!exchange.request.headers.contains("If-Modified-Since"));
}

#[test]
fn refused_response_leaves_entry_of_others() {
    let mut scene = Scene::new();
    let plugin =
        plugin(&scene, json!({"no_cache": ["$arg_no"], "cache_key": ["$uri"], "cache_method": ["GET"]}));
    let mut first = scene.exchange(REQUEST);
    assert_eq!(hit(&plugin, &mut first), None);
    answer(&plugin, &mut first, &["good"], true);
    let mut head = scene.exchange(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(hit(&plugin, &mut head), None, "HEAD is not in cache_method");
    assert_eq!(hit(&plugin, &mut scene.exchange(REQUEST)).as_deref(), Some(&b"good"[..]));
    let mut post = scene.exchange(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(hit(&plugin, &mut post), None);
    respond(&mut post, 403, &[]);
    assert!(plugin.upstream_response(&mut post, None).is_none());
    assert!(hit(&plugin, &mut scene.exchange(REQUEST)).is_some(), "the refused POST has changed nothing");
    respond(&mut post, 201, &[]);
    assert!(plugin.upstream_response(&mut post, None).is_none());
    assert_eq!(hit(&plugin, &mut scene.exchange(REQUEST)), None, "RFC 9111 section 4.4");
}

#[test]
fn cache_headers_are_hidden_where_asked() {
    let mut scene = Scene::new();
    for (hides, expected) in [(false, true), (true, false)] {
        let plugin = plugin(&scene, json!({"hide_cache_headers": hides}));
        let mut exchange = scene.exchange(REQUEST);
        assert_eq!(hit(&plugin, &mut exchange), None);
        respond(&mut exchange, 500, &[("Cache-Control", "max-age=1"), ("Expires", "0")]);
        finish(plugin.response_head(&mut exchange));
        let headers = &exchange.response.headers;
        assert_eq!((headers.contains("Cache-Control"), headers.contains("Expires")), (expected, expected));
    }
}
