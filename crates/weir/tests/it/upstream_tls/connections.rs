//! Connections over TLS: which requests share one, sessions that are resumed, and attempts after a failed
//! handshake.

use serde_json::{Value, json};
use testkit::{Authority, Origin, Reply, TlsFront, wait_until};

use super::{ask, front, gateway, https, node, set};

#[test]
fn connection_is_kept_for_its_identity_only() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["a.example", "b.example"]));
    let (jack, jill) = (authority.pair(&["jack"]), authority.pair(&["jill"]));
    let weir = gateway(&authority, &[]);
    let shown =
        |identity: &testkit::Pair| json!({"client_cert": identity.certificate, "client_key": identity.key});
    let routes: [(&str, Value); 5] = [
        ("plain", json!({})),
        ("verified", json!({"verify": true})),
        ("jack", shown(&jack)),
        ("jill", shown(&jill)),
        ("same", json!({"verify": true})),
    ];
    for (id, tls) in &routes {
        set(&weir, id, https(&node(&front), json!({"tls": tls})));
    }
    for _ in 0..3 {
        for (id, _) in &routes {
            for host in ["a.example", "b.example"] {
                assert_eq!(ask(&weir, id, host).status, 200, "{id} {host}");
            }
        }
    }
    // Four identities with two names each; the fifth route has the identity of another.
    assert_eq!(front.handshakes().len(), 8);
}

#[test]
fn idle_connection_for_another_name_gives_way() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["a.example", "b.example"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({"limits": {"max_connections_per_node": 1}})));
    for host in ["a.example", "b.example", "b.example", "a.example"] {
        assert_eq!(ask(&weir, "r", host).status, 200, "{host}");
    }
    assert_eq!(front.handshakes().len(), 3);
}

#[test]
fn sessions_are_resumed_within_an_identity() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["a.example", "b.example"]));
    let weir = gateway(&authority, &[]);
    let once = json!({"keepalive_pool": {"size": 1, "requests": 1}, "tls": {"verify": true}});
    set(&weir, "r", https(&node(&front), once));
    for host in ["a.example", "a.example", "b.example", "a.example"] {
        assert_eq!(ask(&weir, "r", host).status, 200);
    }
    let resumed: Vec<bool> = front.handshakes().iter().map(|one| one.is_resumed).collect();
    assert_eq!(resumed, [false, true, false, true]);
}

#[test]
fn new_connection_sees_changed_server_certificate() {
    let authority = Authority::new("trusted");
    let (_origin, front) = front(&authority.pair(&["b.example"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({"tls": {"verify": true}})));
    assert_eq!(ask(&weir, "r", "a.example").status, 502);
    front.show(&authority.pair(&["a.example"]));
    assert_eq!(ask(&weir, "r", "a.example").status, 200);
}

#[test]
fn failed_handshake_is_retried_with_any_method() {
    let authority = Authority::new("trusted");
    let (bad_origin, bad) = front(&testkit::self_signed(&["a.example"]));
    let closing = Origin::on_accept(|_| Reply::new().close());
    let (good_origin, good) = front(&authority.pair(&["a.example"]));
    let weir = gateway(&authority, &[]);
    let nodes = json!([
        {"host": "127.0.0.1", "port": bad.port(), "weight": 1, "priority": 3},
        {"host": "127.0.0.1", "port": closing.port(), "weight": 1, "priority": 2},
        {"host": "127.0.0.1", "port": good.port(), "weight": 1, "priority": 1},
    ]);
    let upstream = json!({"scheme": "https", "nodes": nodes, "tls": {"verify": true}});
    weir.put("routes/r", json!({"uri": "/r", "upstream": upstream}));
    let response = weir.client().request("POST", "/r", &[("Host", "a.example")], b"work");
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    assert_eq!((bad_origin.requests().len(), good_origin.last_request().text().as_str()), (0, "work"));
    let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
    for cause in ["certificate_refused", "tls_closed"] {
        assert!(metrics.lines().any(|line| line.contains(cause)), "{cause}: {metrics}");
    }
}

#[test]
fn connection_that_the_node_closed_is_replaced() {
    let authority = Authority::new("trusted");
    let (origin, front) = front(&authority.pair(&["a.example"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({})));
    for count in 1..4 {
        assert_eq!(ask(&weir, "r", "a.example").status, 200);
        origin.drop_connections();
        origin.wait_for_closed(count);
    }
    assert_eq!(front.handshakes().len(), 3);
}

#[test]
fn names_of_clients_do_not_fill_the_pool() {
    let authority = Authority::new("trusted");
    let (origin, front) = front(&authority.pair(&["a.example"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "r", https(&node(&front), json!({"keepalive_pool": {"size": 2}})));
    for number in 0..20 {
        assert_eq!(ask(&weir, "r", &format!("n{number}.example")).status, 200);
    }
    wait_until("all but two are closed", || origin.connections() - origin.closed_connections() <= 2);
    assert_eq!(front.handshakes().len(), 20);
    assert_eq!(ask(&weir, "r", "n19.example").status, 200, "the youngest is still there");
    assert_eq!(front.handshakes().len(), 20);
}

#[test]
fn cleartext_upstream_with_tls_fields_stays_cleartext() {
    let authority = Authority::new("trusted");
    let origin = Origin::answering("ok");
    let weir = gateway(&authority, &["--tls-verify-all"]);
    let nodes = json!({origin.address().to_string(): 1});
    set(&weir, "r", json!({"nodes": nodes, "tls": {"verify": true}}));
    assert_eq!(ask(&weir, "r", "a.example").status, 200);
}

#[test]
fn http11_is_offered_by_alpn() {
    let authority = Authority::new("trusted");
    let origin = Origin::answering("ok");
    let with = |alpn: &[&[u8]]| {
        let alpn = alpn.iter().map(|name| name.to_vec()).collect();
        let behaviour = testkit::TlsBehaviour { alpn, ..Default::default() };
        TlsFront::with(origin.address(), &authority.pair(&["a.example"]), behaviour)
    };
    let (both, h2) = (with(&[b"h2", b"http/1.1"]), with(&[b"h2"]));
    let weir = gateway(&authority, &[]);
    set(&weir, "both", https(&node(&both), json!({})));
    set(&weir, "h2", https(&node(&h2), json!({})));
    assert_eq!(ask(&weir, "both", "a.example").status, 200);
    assert_eq!(both.handshakes()[0].alpn.as_deref(), Some("http/1.1"));
    let refused = ask(&weir, "h2", "a.example");
    assert!(refused.status == 502 && refused.text().contains("tls_failed"), "{}", refused.text());
}
