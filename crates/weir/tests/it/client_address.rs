//! The client address behind a proxy: which peers may name the client, and that all parts of the gateway use
//! the same address.

use std::fs;

use testkit::{Origin, Request, Weir, wait_for};

use crate::support::builder;

/// A gateway with a route for one network, one that refuses a network, and one for every client.
fn gateway(origin: &Origin, arguments: &[&str]) -> Weir {
    let upstream = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let seen = "proxy-rewrite: {headers: {set: {X-Remote: '$remote_addr $remote_port', X-Peer: '$realip_remote_addr'}}}";
    let text = format!(
        "routes:
  - {{id: inside, uri: /*, remote_addrs: [10.0.0.0/8], plugins: {{{seen}}}, upstream: {upstream}}}
  - {{id: refusing, uri: /refusing, priority: 1, plugins: {{ip-restriction: {{blacklist: [10.0.0.0/8]}}}}, upstream: {upstream}}}
  - {{id: outside, uri: /*, priority: -1, plugins: {{{seen}}}, upstream: {upstream}}}
"
    );
    builder(&text).arguments(arguments).start()
}

/// The request that the node gets for a request with these fields.
fn forwarded(weir: &Weir, origin: &Origin, fields: &[(&str, &str)]) -> Request {
    assert_eq!(weir.client().request("GET", "/x", fields, b"").status, 200);
    origin.last_request()
}

fn check(weir: &Weir, origin: &Origin, fields: &[(&str, &str)], expected: &[(&str, Option<&str>)]) {
    let seen = forwarded(weir, origin, fields);
    for (name, value) in expected {
        assert_eq!(seen.header(name), *value, "{name} of {fields:?}");
    }
}

#[test]
fn client_fields_are_ignored_by_default() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, &[]);
    let claims = [("X-Real-IP", "10.1.1.1"), ("X-Forwarded-For", "10.1.1.1"), ("Forwarded", "for=10.1.1.1")];
    let seen = forwarded(&weir, &origin, &claims);
    assert!(seen.header("x-remote").unwrap().starts_with("127.0.0.1 "), "{seen:?}");
    assert_eq!(seen.header("x-real-ip"), Some("127.0.0.1"));
    assert_eq!(seen.header("x-forwarded-for"), Some("10.1.1.1, 127.0.0.1"));
    assert_eq!(seen.header("forwarded"), None, "APISIX drops it of everybody who is not trusted");
    assert_eq!(weir.client().request("GET", "/refusing", &claims, b"").status, 200);
}

#[test]
fn trusted_peer_names_the_client_everywhere() {
    let origin = Origin::answering("ok");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let format = "$remote_addr $realip_remote_addr $route_id";
    let weir = gateway(
        &origin,
        &[
            "--real-ip-from",
            "127.0.0.1",
            "--access-log",
            log.to_str().unwrap(),
            "--access-log-format",
            format,
        ],
    );
    let inside = [("X-Real-IP", "10.1.1.1:77")];
    check(
        &weir,
        &origin,
        &inside,
        &[
            ("x-remote", Some("10.1.1.1 77")),
            ("x-peer", Some("127.0.0.1")),
            ("x-real-ip", Some("10.1.1.1")),
            ("x-forwarded-for", Some("10.1.1.1")),
        ],
    );
    assert_eq!(weir.client().request("GET", "/refusing", &inside, b"").status, 403);
    assert_eq!(weir.client().request("GET", "/refusing", &[("X-Real-IP", "nonsense")], b"").status, 200);
    check(&weir, &origin, &[("X-Real-IP", "192.0.2.7")], &[("x-remote", Some("192.0.2.7"))]);
    // Ignored, because `real_ip_header` does not name this field.
    let other = forwarded(&weir, &origin, &[("X-Forwarded-For", "10.1.1.1")]);
    assert!(other.header("x-remote").unwrap().starts_with("127.0.0.1 "), "{other:?}");
    let lines = wait_for("five lines", || {
        let text = fs::read_to_string(&log).ok()?;
        (text.lines().count() >= 5).then_some(text)
    });
    assert!(lines.starts_with("10.1.1.1 127.0.0.1 inside\n10.1.1.1 127.0.0.1 refusing\n"), "{lines}");
}

#[test]
fn a_list_is_read_from_its_end() {
    let origin = Origin::answering("ok");
    let from = ["--real-ip-from", "127.0.0.1,10.0.0.0/8", "--real-ip-header", "X-Forwarded-For"];
    let last = gateway(&origin, &from);
    let recursive = gateway(&origin, &[&from[..], &["--real-ip-recursive"]].concat());
    // The proxy in front appended 192.0.2.7; the entries before it are the client's own.
    let spoofed = [("X-Forwarded-For", "10.6.6.6, 192.0.2.7, 10.2.2.2")];
    check(&last, &origin, &spoofed, &[("x-remote", Some("10.2.2.2"))]);
    check(
        &recursive,
        &origin,
        &spoofed,
        &[
            ("x-remote", Some("192.0.2.7")),
            ("x-real-ip", Some("192.0.2.7")),
            ("x-forwarded-for", Some("10.6.6.6, 192.0.2.7, 10.2.2.2, 127.0.0.1")),
        ],
    );
}

#[test]
fn untrusted_peer_cannot_name_the_client() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, &["--real-ip-from", "192.0.2.0/24", "--trusted-addresses", "192.0.2.0/24"]);
    let claims = [
        ("X-Real-IP", "10.1.1.1"),
        ("X-Forwarded-For", "10.1.1.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil"),
        ("Forwarded", "for=10.1.1.1"),
    ];
    check(
        &weir,
        &origin,
        &claims,
        &[
            ("x-peer", Some("127.0.0.1")),
            ("x-real-ip", Some("127.0.0.1")),
            // Dropped rather than continued, because `trusted_addresses` is set and does not have this peer.
            ("x-forwarded-for", Some("127.0.0.1")),
            ("forwarded", None),
            ("x-forwarded-proto", Some("http")),
        ],
    );
    assert_ne!(origin.last_request().header("x-forwarded-host"), Some("evil"));
    assert_eq!(weir.client().request("GET", "/refusing", &claims, b"").status, 200);
}

#[test]
fn conditions_ignore_fields_of_untrusted_peers() {
    let origin = Origin::answering("ok");
    let upstream = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let text = format!(
        "routes:\n  - {{id: '1', uri: /*, vars: [[http_x_forwarded_proto, '==', https]], upstream: {upstream}}}\n"
    );
    let claim = [("X-Forwarded-Proto", "https")];
    let ask = |weir: &Weir| weir.client().request("GET", "/", &claim, b"").status;
    assert_eq!(ask(&builder(&text).start()), 404);
    assert_eq!(ask(&builder(&text).arguments(&["--trusted-addresses", "127.0.0.1"]).start()), 200);
    let plain = text.replace("https]", "http]");
    assert_eq!(builder(&plain).start().get("/").status, 200, "without the field it is what the gateway sees");
}

#[test]
fn forwarded_host_and_port_are_those_of_host() {
    let origin = Origin::answering("ok");
    let upstream = format!("{{nodes: {{'{}': 1}}}}", origin.address());
    let seen = "proxy-rewrite: {headers: {set: {X-Seen: '$http_x_forwarded_host $http_x_forwarded_port'}}}";
    let text = format!("routes:\n  - {{id: '1', uri: /*, plugins: {{{seen}}}, upstream: {upstream}}}\n");
    let weir = builder(&text).start();
    let own = weir.proxy().port().to_string();
    for (host, port) in [
        ("Shop.Example:8443", "8443"),
        ("shop.example", &*own),
        ("[::1]:81", "81"),
        ("[2001:db8::1]", &*own),
        ("10.0.0.1:65535", "65535"),
    ] {
        assert_eq!(weir.client().request("GET", "/", &[("Host", host)], b"").status, 200);
        let request = origin.last_request();
        assert_eq!(request.header("x-forwarded-host"), Some(host));
        assert_eq!(request.header("x-forwarded-port"), Some(port), "{host}");
        assert_eq!(request.header("x-forwarded-proto"), Some("http"), "{host}");
        assert_eq!(request.header("x-seen"), Some(&*format!("{host} {port}")));
    }
}

#[test]
fn empty_fields_of_a_trusted_peer_are_replaced() {
    let origin = Origin::answering("ok");
    let weir = gateway(&origin, &["--trusted-addresses", "127.0.0.1"]);
    let host = ("Host", "shop.example:81");
    let sent = [
        host,
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "outer.test"),
        ("X-Forwarded-Port", "443"),
        ("Forwarded", "for=10.1.1.1"),
    ];
    let kept = [
        ("x-forwarded-proto", Some("https")),
        ("x-forwarded-host", Some("outer.test")),
        ("x-forwarded-port", Some("443")),
        ("forwarded", Some("for=10.1.1.1")),
    ];
    check(&weir, &origin, &sent, &kept);
    let empty = [
        host,
        ("X-Forwarded-Proto", ""),
        ("X-Forwarded-Host", ""),
        ("X-Forwarded-Port", ""),
        ("Forwarded", ""),
    ];
    let observed = [
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-host", Some("shop.example:81")),
        ("x-forwarded-port", Some("81")),
        ("forwarded", None),
    ];
    check(&weir, &origin, &empty, &observed);
}

#[test]
fn refused_request_is_logged_with_its_own_client() {
    let origin = Origin::answering("ok");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let format = "$remote_addr $status";
    let weir = gateway(
        &origin,
        &[
            "--workers",
            "1",
            "--real-ip-from",
            "127.0.0.1",
            "--access-log",
            log.to_str().unwrap(),
            "--access-log-format",
            format,
        ],
    );
    // The worker reuses the exchange of the first request for the second, which is refused before it is
    // matched.
    forwarded(&weir, &origin, &[("X-Real-IP", "10.1.1.1")]);
    let refused = weir.client().request("TRACE", "/x", &[], b"");
    assert_eq!(refused.status, 405);
    forwarded(&weir, &origin, &[("X-Real-IP", "10.1.1.1")]);
    assert_eq!(weir.client().request("TRACE", "/x", &[("X-Real-IP", "10.2.2.2")], b"").status, 405);
    let lines = wait_for("four lines", || {
        let text = fs::read_to_string(&log).ok()?;
        (text.lines().count() >= 4).then_some(text)
    });
    assert_eq!(lines, "10.1.1.1 200\n127.0.0.1 405\n10.1.1.1 200\n10.2.2.2 405\n");
}
