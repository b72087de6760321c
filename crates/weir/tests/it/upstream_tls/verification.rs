//! Which certificates of nodes are accepted, and which server name a node sees.

use serde_json::{Value, json};
use testkit::{Authority, Nginx, Origin, Pair, TlsFront, Weir, self_signed, wait_until};

use super::{ask, front, gateway, https, node, set};

/// A certificate, the verification asked for, and the failure with a part of the log line; or none.
type Row<'a> = (&'a Pair, bool, Option<(&'a str, &'a str)>);

#[test]
fn certificates_are_verified_as_upstreams_ask() {
    let (authority, stranger) = (Authority::new("trusted"), Authority::new("stranger"));
    let good = authority.pair(&["a.example"]);
    let other_name = authority.pair(&["b.example", "c.example"]);
    let expired = authority.expired_pair(&["a.example"]);
    let alone = self_signed(&["a.example"]);
    let foreign = stranger.pair(&["a.example"]);
    let refused = "certificate_refused";
    let rows: [Row<'_>; 10] = [
        (&good, false, None),
        (&other_name, false, None),
        (&expired, false, None),
        (&alone, false, None),
        (&foreign, false, None),
        (&good, true, None),
        (&other_name, true, Some((refused, "not valid for a.example: it names b.example, c.example"))),
        (&expired, true, Some((refused, "has expired, on Mon, 01 Jan 2001"))),
        (&alone, true, Some((refused, "signed by no authority that is trusted"))),
        (&foreign, true, Some((refused, "signed by no authority that is trusted"))),
    ];
    let weir = gateway(&authority, &[]);
    for (index, (identity, verify, expected)) in rows.into_iter().enumerate() {
        let (origin, front) = front(identity);
        set(&weir, "r", https(&node(&front), json!({"tls": {"verify": verify}})));
        let response = ask(&weir, "r", "a.example");
        let Some((cause, reason)) = expected else {
            assert_eq!((response.status, response.text().as_str()), (200, "ok"), "row {index}");
            continue;
        };
        assert_eq!(response.status, 502, "row {index}");
        assert!(response.text().contains(cause), "row {index}: {}", response.text());
        wait_until(reason, || weir.stderr().iter().any(|line| line.contains(reason) && line.contains(cause)));
        assert_eq!((origin.requests().len(), front.handshakes().len()), (0, 0), "row {index}");
        assert!(!front.wait_for_failure().is_empty(), "the server is sent an alert");
    }
}

#[test]
fn setting_verifies_all_nodes() {
    let authority = Authority::new("trusted");
    let (good, bad) = (front(&authority.pair(&["a.example"])), front(&self_signed(&["a.example"])));
    let weir = gateway(&authority, &["--tls-verify-all"]);
    set(&weir, "good", https(&node(&good.1), json!({})));
    set(&weir, "bad", https(&node(&bad.1), json!({"tls": {"verify": false}})));
    assert_eq!(ask(&weir, "good", "a.example").status, 200);
    assert_eq!(ask(&weir, "bad", "a.example").status, 502);
}

#[test]
fn server_name_follows_pass_host() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["localhost", "a.example", "b.example", "127.0.0.1"]));
    let weir = gateway(&authority, &[]);
    let (by_name, by_address) = (format!("localhost:{}", front.port()), node(&front));
    let rewritten = json!({"proxy-rewrite": {"host": "b.example:8443"}});
    // The node, fields of the upstream, plugins, the client's host; the name that the node sees.
    let rows: [(&str, Value, Value, &str, &str); 9] = [
        (&by_name, json!({}), json!({}), "A.example:9080", "a.example"),
        (&by_address, json!({"pass_host": "pass"}), json!({}), "a.example", "a.example"),
        (&by_name, json!({"pass_host": "node"}), json!({}), "a.example", "localhost"),
        (&by_address, json!({"pass_host": "node"}), json!({}), "a.example", ""),
        (
            &by_name,
            json!({"pass_host": "rewrite", "upstream_host": "b.example"}),
            json!({}),
            "x",
            "b.example",
        ),
        (&by_name, json!({"pass_host": "rewrite", "upstream_host": "127.0.0.1"}), json!({}), "x", ""),
        (&by_name, json!({"pass_host": "node"}), rewritten.clone(), "a.example", "b.example"),
        (&by_name, json!({}), rewritten, "a.example", "b.example"),
        (&by_name, json!({}), json!({}), "127.0.0.1", ""),
    ];
    for (index, (node, mut fields, plugins, host, expected)) in rows.into_iter().enumerate() {
        // A connection of its own for each row, and a certificate that has to be valid for the name.
        fields["keepalive_pool"] = json!({"size": 1, "requests": 1});
        fields["tls"] = json!({"verify": true});
        let route = json!({"uri": "/r", "plugins": plugins, "upstream": https(node, fields)});
        weir.put("routes/r", route);
        let response = ask(&weir, "r", host);
        assert_eq!(response.status, 200, "row {index}: {} {:?}", response.text(), weir.stderr());
        assert_eq!(front.server_names()[index], expected, "row {index}");
        assert_eq!(front.handshakes()[index].alpn, None, "row {index}: the server agrees on no protocol");
    }
}

#[test]
fn certificate_is_checked_for_the_name_sent() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["a.example"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({"tls": {"verify": true}})));
    for (host, status) in [("a.example", 200), ("b.example", 502), ("127.0.0.1", 502), ("a.example", 200)] {
        assert_eq!(ask(&weir, "r", host).status, status, "{host}");
    }
}

#[test]
fn node_without_port_is_asked_at_443() {
    let weir = Weir::builder(crate::support::BINARY).start();
    set(&weir, "r", https("127.0.0.7", json!({"timeout": {"connect": 1, "send": 1, "read": 1}})));
    assert_eq!(ask(&weir, "r", "a.example").status / 100, 5);
    wait_until("the log names the port", || weir.stderr().iter().any(|line| line.contains("127.0.0.7:443")));
}

#[test]
fn server_that_speaks_no_tls_is_a_failed_handshake() {
    let authority = Authority::new("trusted");
    let weir = gateway(&authority, &[]);
    let plain = Origin::on_accept(|_| testkit::Reply::raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").close());
    let closing = Origin::on_accept(|_| testkit::Reply::new().close());
    for (origin, cause) in [(&plain, "tls_failed"), (&closing, "tls_closed")] {
        set(&weir, "r", https(&origin.address().to_string(), json!({})));
        let response = ask(&weir, "r", "a.example");
        assert_eq!(response.status, 502);
        assert!(response.text().contains(cause), "{}", response.text());
    }
}

#[test]
fn nginx_is_a_node_over_tls() {
    if !Nginx::is_available() {
        return;
    }
    let certificates = testkit::Certificates::make();
    let nginx =
        Nginx::start_with_tls(&certificates, "location / { return 200 \"$ssl_server_name $http_host\"; }");
    let authority = certificates.authority();
    let trusted = ["--trusted-certificates", authority.to_str().unwrap()];
    let weir = Weir::builder(crate::support::BINARY).arguments(&trusted).start();
    let node = format!("localhost:{}", nginx.address().port());
    set(&weir, "r", https(&node, json!({"pass_host": "node", "tls": {"verify": true}})));
    for _ in 0..3 {
        let response = ask(&weir, "r", "a.example");
        assert_eq!((response.status, response.text()), (200, format!("localhost {node}")));
    }
}

#[test]
fn upstreams_that_cannot_be_served_are_refused() {
    let weir = Weir::builder(crate::support::BINARY).start();
    let pair = self_signed(&["a.example"]);
    let check = |fields: Value, expected: &str| {
        let (status, answer) = weir.admin("PUT", "upstreams/1", https("127.0.0.1:1", fields));
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().contains(expected), "{answer}");
    };
    let other = self_signed(&["a.example"]);
    check(
        json!({"tls": {"client_cert": pair.certificate, "client_key": other.key}}),
        "failed to parse key: it does not belong to the certificate",
    );
    check(json!({"tls": {"client_cert": pair.certificate}}), "client_key");
    check(
        json!({"tls": {"client_cert_id": "7"}}),
        "failed to fetch ssl info by ssl id [7], response code: 404",
    );
    check(json!({"scheme": "kafka"}), "no plugin speaks to Kafka");
}

#[test]
fn stalled_handshake_ends_with_the_connect_timeout() {
    let authority = Authority::new("trusted");
    let origin = Origin::answering("ok");
    let behaviour = testkit::TlsBehaviour { stalls: true, ..Default::default() };
    let front = TlsFront::with(origin.address(), &authority.pair(&["a.example"]), behaviour);
    let weir = gateway(&authority, &[]);
    let timeout = json!({"connect": 0.2, "send": 60, "read": 60});
    set(&weir, "r", https(&node(&front), json!({"timeout": timeout})));
    let response = ask(&weir, "r", "a.example");
    assert_eq!(response.status, 504);
    assert!(response.text().contains("connect_timeout"), "{}", response.text());
    wait_until("the log says where it waited", || {
        weir.stderr().iter().any(|line| line.contains("did not complete the TLS handshake in time"))
    });
}
