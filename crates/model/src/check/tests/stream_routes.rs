//! Table: stream routes.

use super::*;

fn stream_route(more: Value, expected: &str) {
    let whole = merged(json!({"server_port": 9100, "upstream_id": 1}), more);
    check(Kind::StreamRoute, whole, expected);
}

#[test]
fn stream_routes() {
    stream_route(json!({"protocol": {"name": "redis"}}), "");
    stream_route(json!({"plugins": {"count": {"count": 1}}}), "");
    stream_route(json!({"plugins": {"auth": {}}}), "unknown plugin [auth]: it serves HTTP only, not layer 4");
    stream_route(json!({"color": 1}), "invalid configuration: additional properties forbidden, found color");
    stream_route(json!({"upstream": {"nodes": {"a:1": 1}, "scheme": "tls"}}), "");
    stream_route(
        json!({"upstream": {"nodes": {"a:1": 1}, "scheme": "https"}}),
        "scheme https of an upstream is for routes of HTTP; the upstream of a stream route has tcp, tls or udp",
    );
}

#[test]
fn stream_routes_with_fields_of_weir() {
    stream_route(json!({"alpn": ["h2", "http/1.1"], "sniff": "tls", "sni": "*.shop.example"}), "");
    stream_route(json!({"proxy_protocol": {"version": 2}, "idle_timeout": 0.5, "session_timeout": 0}), "");
    stream_route(json!({"udp": {"responses": 0, "requests": 1}}), "");
    stream_route(
        json!({"udp": {"requests": 0}}),
        "invalid configuration: property \"udp\" validation failed: property \"requests\" validation failed: expected 0 to be \
         at least 1",
    );
    stream_route(
        json!({"alpn": ["h2"], "sniff": "ssh"}),
        "alpn is part of TLS, and sniff: ssh means first bytes of another protocol",
    );
    stream_route(
        json!({"sniff": "smtp"}),
        "invalid configuration: property \"sniff\" validation failed: matches none of the enum values; allowed are http1, \
         http2, tls, ssh, mqtt",
    );
    stream_route(
        json!({"proxy_protocol": {"version": 3}}),
        "invalid configuration: property \"proxy_protocol\" validation failed: property \"version\" validation failed: \
         matches none of the enum values; allowed are 0, 1, 2",
    );
    stream_route(
        json!({"idle_timeout": 0}),
        "invalid configuration: property \"idle_timeout\" validation failed: expected 0 to be greater than 0",
    );
    stream_route(json!({"protocol": {"name": "http"}}), "");
    stream_route(
        json!({"protocol": {"name": "http", "conf": {}}}),
        "protocol http has no conf: the routes of HTTP say the rest",
    );
    stream_route(
        json!({"protocol": {"name": "dubbo"}}),
        "unknown protocol [dubbo]: known are http and redis",
    );
    keyed(
        Kind::StreamRoute,
        "7",
        json!({"protocol": {"name": "redis", "superior_id": 7}}),
        "stream route can not set itself as superior_id",
    );
}

#[test]
fn route_of_http_has_no_upstream_of_layer_4() {
    check(
        Kind::Route,
        json!({"uri": "/", "upstream": {"nodes": {"a:1": 1}, "scheme": "tcp"}}),
        "scheme tcp of an upstream is for stream routes; the upstream of a route has http, https, grpc or grpcs",
    );
    check(Kind::Service, json!({"upstream": {"nodes": {"a:1": 1}, "scheme": "tcp"}}), "");
}

#[test]
fn stream_routes_are_refused_and_taken_by_a_switch() {
    let (catalog, route) = (catalog().without_stream_routes(), json!({"upstream_id": 1}));
    let clone = catalog.clone();
    let refusal = check::value(&clone, Kind::StreamRoute, &route).unwrap_err().to_string();
    assert!(refusal.starts_with("stream mode is disabled, can not add stream routes: "), "{refusal}");
    catalog.refuse_stream_routes(false);
    check::value(&clone, Kind::StreamRoute, &route).unwrap();
}
