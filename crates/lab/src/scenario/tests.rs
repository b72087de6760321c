//! Scenario files: which are read, and which are refused with which reason.

use super::*;

fn read(more: &str) -> anyhow::Result<Scenario> {
    Scenario::parse("test", &format!("title: t\nabout: a\n{more}\n"))
}

#[test]
fn protocol_needs_a_tool_that_speaks_it() {
    let check = |protocol: &str, load: &str, reason: Option<&str>| {
        let had = read(&format!("protocol: {protocol}\nload: {{{load}, connections: 2}}"));
        match (had, reason) {
            (Ok(scenario), None) => assert_eq!(scenario.protocol.name(), protocol),
            (Err(error), Some(reason)) => assert!(format!("{error:#}").contains(reason), "{load}: {error:#}"),
            (had, _) => panic!("{protocol} {load}: {had:?}"),
        }
    };
    for protocol in ["http2", "h2c", "grpc"] {
        check(protocol, "tool: h2load, streams: 3, window_bits: 16, rate: 5", None);
        check(protocol, "tool: weir", Some("needs `tool: h2load`"));
    }
    for protocol in ["http3", "websocket"] {
        check(protocol, "tool: weir", None);
        check(protocol, "tool: h2load", Some("needs `tool: weir`"));
    }
    for protocol in ["tcp", "udp", "tls-by-name"] {
        check(protocol, "tool: weir", None);
        check(protocol, "tool: wrk", Some("needs `tool: weir`"));
        check(protocol, "tool: weir, rate: 5", Some("has neither a rate"));
    }
    check("tcp", "tool: weir, bulk: true", None);
    check("tcp", "tool: weir, bulk: true, keep_alive: false", Some("`bulk` needs"));
    check("udp", "tool: weir, at_once: 2", None);
    check("tcp", "tool: weir, at_once: 2", Some("`at_once` needs"));
    check("https", "tool: weir, keep_alive: false, resume: true, tls_version: '1.2'", None);
    check("http", "tool: weir, resume: true", Some("`resume` and `tls_version` need"));
    check("https", "tool: wrk, tls_version: '1.3'", Some("`resume` and `tls_version` need"));
    check("https", "tool: wrk, rate: 5", Some("`rate` needs"));
    check("https", "tool: h2load, rate_share: 0.5", Some("`rate_share` and `body_bytes` need"));
    check("h2c", "tool: h2load, body_bytes: 5", Some("`rate_share` and `body_bytes` need"));
    check("grpc", "tool: h2load, body_bytes: 5", None);
    check("h2c", "tool: h2load, window_bits: 31", Some("from 1 to 30"));
    check("https", "tool: weir, window_bits: 16", Some("from 1 to 30"));
}

#[test]
fn certificate_needs_tls() {
    let load = "load: {tool: weir, connections: 2}";
    assert_eq!(read(&format!("protocol: https\n{load}")).unwrap().certificate, KeyKind::Ecdsa);
    assert_eq!(
        read(&format!("protocol: https\ncertificate: rsa\n{load}")).unwrap().certificate,
        KeyKind::Rsa
    );
    let error = format!("{:#}", read(&format!("certificate: rsa\n{load}")).unwrap_err());
    assert!(error.contains("`certificate` needs a protocol over TLS"), "{error}");
}

#[test]
fn new_keys_are_absent_from_stored_old_scenarios() {
    let scenario = read("load: {tool: wrk, connections: 2}").unwrap();
    let stored = serde_json::to_string(&scenario).unwrap();
    for key in ["certificate", "window_bits", "resume", "tls_version", "bulk", "at_once"] {
        assert!(!stored.contains(key), "{key}: {stored}");
    }
    assert_eq!(serde_json::from_str::<Scenario>(&stored).unwrap(), scenario);
}
