//! Each variable of the list has a value, or is named here with the reason that it has none.

use std::sync::Arc;

use super::*;
use crate::exchange::{Attempt, RouteInfo, ServiceName};
use crate::testing::{NODE_HOST, Scene, consumer, route};

/// Variables of other states than those of the test: TLS, a PROXY protocol header, traces, failures.
const OTHER_STATES: [&str; 5] = ["ssl_", "proxy_protocol_", "opentelemetry_", "zipkin_", "weir_"];

/// Variables without a value here.
const UNSET: [Builtin; 8] = [
    // Known to formats of nginx, and not measured.
    Builtin::ConnectionTime,
    Builtin::UpstreamBytesReceived,
    Builtin::UpstreamBytesSent,
    Builtin::UpstreamResponseLength,
    // Of sessions of layer 4.
    Builtin::MqttClientId,
    // Only of calls, and where a plugin keeps the body or changes the target.
    Builtin::GrpcStatus,
    Builtin::RespBody,
    Builtin::UpstreamUri,
];

#[test]
fn every_variable_of_the_list_is_filled() {
    let service = ServiceName { id: "s".into(), name: Some("service".into()), written: "{}".into() };
    let route = RouteInfo { name: Some("name".into()), service: Some(Arc::new(service)), ..route("r") };
    let mut scene = Scene::new().with_route(route);
    let mut exchange = scene.exchange(
        b"POST /a?b=1 HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
    );
    let mut user = consumer("jack");
    user.group_id = Some("group".into());
    exchange.authenticate(Arc::new(user));
    exchange.client.port = Some(1);
    exchange.decision.cache_status = Some("HIT");
    exchange.attempts.push(Attempt {
        address: "127.0.0.1:80".parse().unwrap(),
        endpoint_id: 1,
        scheme: "http",
        upstream: 0,
        status: 200,
        failed: None,
        started_ns: 0,
        connect_us: 0,
        head_us: 0,
        total_us: 0,
    });
    for &builtin in Builtin::ALL {
        let is_other = OTHER_STATES.iter().any(|prefix| builtin.name().starts_with(prefix));
        let is_filled = exchange.variable(&Variable::Builtin(builtin)).is_some();
        assert!(is_filled != UNSET.contains(&builtin) || is_other, "{}", builtin.name());
    }
    let host = exchange.variable(&Variable::Builtin(Builtin::UpstreamUnresolvedHost));
    assert_eq!(host.map(|host| host.text().into_owned()), Some(NODE_HOST.as_bytes().to_vec()));
}
