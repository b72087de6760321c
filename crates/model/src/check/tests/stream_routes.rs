//! Table: stream routes.

use super::*;
use crate::catalog::{ProtocolInfo, StreamPorts};

fn stream_route(more: Value, expected: &str) {
    let whole = merged(json!({"server_port": 9100, "upstream_id": 1}), more);
    check(ObjectKind::StreamRoute, whole, expected);
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
    let logger = |filter: Value| json!([{"name": "count", "conf": {"count": 1}, "filter": filter}]);
    let logged = |filter: Value| json!({"protocol": {"name": "redis", "logger": logger(filter)}});
    stream_route(logged(json!([["a", "==", "b"]])), "");
    stream_route(
        logged(json!([["a", "no", "b"]])),
        "failed to validate the 'filter' expression: invalid operator 'no'",
    );
    keyed(
        ObjectKind::StreamRoute,
        "7",
        json!({"protocol": {"name": "redis", "superior_id": 7}}),
        "stream route can not set itself as superior_id",
    );
}

#[test]
fn route_of_http_has_no_upstream_of_layer_4() {
    check(
        ObjectKind::Route,
        json!({"uri": "/", "upstream": {"nodes": {"a:1": 1}, "scheme": "tcp"}}),
        "scheme tcp of an upstream is for stream routes; the upstream of a route has http, https, grpc or grpcs",
    );
    check(ObjectKind::Service, json!({"upstream": {"nodes": {"a:1": 1}, "scheme": "tcp"}}), "");
}

#[test]
fn stream_routes_are_refused_and_taken_by_a_switch() {
    let (catalog, route) = (catalog().without_stream_routes(), json!({"upstream_id": 1}));
    let clone = catalog.clone();
    let refusal = check::value(&clone, ObjectKind::StreamRoute, &route).unwrap_err().to_string();
    assert!(refusal.starts_with("stream mode is disabled, can not add stream routes: "), "{refusal}");
    catalog.refuse_stream_routes(false);
    check::value(&clone, ObjectKind::StreamRoute, &route).unwrap();
}

#[test]
fn protocol_checks_its_configuration() {
    let odd = |conf: Option<&Value>| match conf {
        Some(conf) if conf.get("odd").is_some() => Err("odd: not today".to_owned()),
        _ => Ok(()),
    };
    let catalog = catalog().with_protocols([ProtocolInfo { name: "redis", check: odd }]);
    let route = |conf: Value| json!({"upstream_id": 1, "protocol": {"name": "redis", "conf": conf}});
    check::value(&catalog, ObjectKind::StreamRoute, &route(json!({}))).unwrap();
    let refusal = check::value(&catalog, ObjectKind::StreamRoute, &route(json!({"odd": 1}))).unwrap_err();
    assert_eq!(refusal.contract_message(), "protocol.conf: odd: not today");
    assert_eq!(refusal.faults()[0].pointer, "/protocol/conf");
}

#[test]
fn port_without_a_fitting_listener_is_warned_about() {
    let catalog = catalog();
    catalog.set_stream_ports(Some(StreamPorts {
        connections: [9100, 9200].into(),
        datagrams: [9200, 53].into(),
    }));
    let warned = |port: u16, scheme: &str| {
        let route = json!({"server_port": port, "upstream": {"scheme": scheme, "nodes": {"a:1": 1}}});
        let key = crate::ObjectKey::new(ObjectKind::StreamRoute, "1").unwrap();
        let warnings = check::check_object(&catalog, &key, &route).unwrap().warnings;
        warnings.iter().map(|warning| warning.reason.clone()).collect::<String>()
    };
    for (port, scheme, expected) in [
        (53, "tls", "the listeners of port 53 are for datagrams"),
        (53, "tcp", "the listeners of port 53 are for datagrams"),
        (53, "udp", ""),
        (53, "http", ""),
        (9100, "udp", "the listeners of port 9100 are for connections"),
        (9200, "udp", ""),
        (9200, "tls", ""),
        // A port without a listener may get one later.
        (9300, "tls", ""),
    ] {
        let found = warned(port, scheme);
        assert!(
            found.ends_with(expected) && found.is_empty() == expected.is_empty(),
            "{port} {scheme}: {found}"
        );
    }
}

#[test]
fn subordinate_route_is_taken_with_a_warning() {
    let (catalog, key) = (catalog(), crate::ObjectKey::new(ObjectKind::StreamRoute, "2").unwrap());
    let route = json!({"upstream_id": 1, "protocol": {"name": "redis", "superior_id": "1"}});
    let warnings = check::check_object(&catalog, &key, &route).unwrap().warnings;
    assert_eq!(&*warnings[0].pointer, "/protocol/superior_id");
    assert!(warnings[0].reason.contains("no session gets this route"), "{:?}", warnings[0]);
}
