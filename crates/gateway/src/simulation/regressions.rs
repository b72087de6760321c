//! Bugs that seeds have found, each as a play over many simulated networks: the name says what went wrong,
//! the play is the shortest way to see it.

use std::future::Future;
use std::rc::Rc;

use model::ObjectKind;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::ledger::Ledger;
use super::names::Names;
use super::plan::{Plan, client_address, node_address, proxy_address};
use super::wire::{Body, Broken, Peer};
use net::env::memory::{LinkBehavior, Random, connect_from, set_link, simulate};
use net::env::{self, Listener};

/// Number of networks that each play runs over.
const SEEDS: u64 = 60;

/// Runs `play` over many networks against a gateway of one worker with one route to one node; `answer` plays
/// that node.
fn play<P, A>(change: fn(&mut Plan), play: fn(Peer, Rc<Gateway>) -> P, answer: fn(Peer) -> A)
where
    P: Future<Output = ()> + 'static,
    A: Future<Output = ()> + 'static,
{
    for seed in 0..SEEDS {
        let ran = simulate(seed, false, 60_000, async move {
            let plan = Rc::new(plan(seed, change));
            let link = LinkBehavior {
                latency_ns: (0, 300_000),
                lag_percent: 20,
                pieces_percent: 20,
                ..LinkBehavior::default()
            };
            set_link(proxy_address(), link.clone());
            set_link(node_address(0), link);
            let listener = Listener::attach(env::bind(node_address(0), false).unwrap()).unwrap();
            env::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    env::spawn(answer(Peer::new(stream, 1_000)));
                }
            });
            let ledger = Rc::new(Ledger::new());
            let gateway = Rc::new(Gateway::new(&plan, &ledger, &Names::default(), &objects()));
            let client = connect_from(client_address(0, 0), proxy_address()).await.unwrap();
            play(Peer::new(client, 1_000), gateway).await;
        });
        match ran.result {
            Some(Ok(())) => {}
            Some(Err(panic)) => {
                eprint_seed(seed);
                std::panic::resume_unwind(panic);
            }
            None => panic!("seed {seed}: it does not end"),
        }
    }
}

#[expect(clippy::print_stderr, reason = "the panic itself does not know its seed")]
fn eprint_seed(seed: u64) {
    eprintln!("in the world of seed {seed}");
}

fn plan(seed: u64, change: fn(&mut Plan)) -> Plan {
    let mut plan = Plan::draw(&mut Random::new(seed), None);
    (plan.workers, plan.nodes, plan.nodes_up) = (1, 1, 1);
    plan.limits.max_requests_per_connection = 0;
    plan.limits.max_connections = 100;
    plan.second_listener = false;
    change(&mut plan);
    plan
}

fn objects() -> Vec<(ObjectKind, String, Value)> {
    let nodes = json!({node_address(0).to_string(): 1});
    let upstream = json!({"nodes": nodes, "type": "least_conn"});
    vec![
        (ObjectKind::GlobalRule, "1".to_owned(), json!({"id": "1", "plugins": {"stamp": {}}})),
        (
            ObjectKind::Route,
            "1".to_owned(),
            json!({"uri": "/*", "upstream": upstream, "enable_websocket": true}),
        ),
    ]
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

async fn hello(mut peer: Peer) {
    while let Ok(Some(_)) = peer.head().await {
        if peer.write(HELLO).await.is_err() {
            return;
        }
    }
}

/// As [`hello`], but answers after 40 ms.
async fn slow(mut peer: Peer) {
    while let Ok(Some(_)) = peer.head().await {
        env::sleep_ms(40).await;
        if peer.write(HELLO).await.is_err() {
            return;
        }
    }
}

fn patient(plan: &mut Plan) {
    plan.timeouts.read_ms = 10_000;
}

const GET: &[u8] = b"GET /1 HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\n\r\n";

#[test]
fn last_response_survives_a_pipelined_request() {
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        peer.write(&[GET, GET, GET].concat()).await.unwrap();
        let head = peer.head().await.unwrap().unwrap();
        assert!(head.closes(), "the limit is one request");
        assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        assert_eq!(peer.fill().await, Err(Broken::End));
    }
    play(|plan| plan.limits.max_requests_per_connection = 1, client, hello);
}

#[test]
fn last_response_survives_bytes_after_close_request() {
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        // Some clients send an extra CRLF after each request.
        peer.write(b"GET /1 HTTP/1.0\r\nHost: h\r\nX-Id: 1\r\n\r\n").await.unwrap();
        env::sleep_ms(10).await;
        peer.write(b"\r\n").await.unwrap();
        let head = peer.head().await.unwrap().expect("an answer");
        assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        assert_eq!(peer.fill().await, Err(Broken::End));
    }
    play(|_| (), client, slow);
}

#[test]
fn malformed_head_that_stops_is_bad_response() {
    async fn node(mut peer: Peer) {
        peer.head().await.unwrap();
        for piece in [&b"HTTP/1.1 200 OK\r\nA: b\r\n"[..], b"C\0: d\r\n"] {
            peer.write(piece).await.unwrap();
            env::sleep_ms(1).await;
        }
        while peer.fill().await.is_ok() {}
    }
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        peer.write(GET).await.unwrap();
        // The gateway answered 504 if the fault did not come with the first piece.
        assert_eq!(peer.head().await.unwrap().unwrap().status(), 502);
    }
    play(|_| (), client, node);
}

#[test]
fn tunnel_reset_passes_to_the_other_side() {
    async fn node(mut peer: Peer) {
        peer.head().await.unwrap();
        let answer = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello";
        peer.write(answer).await.unwrap();
        env::sleep_ms(20).await;
        peer.stream.reset_on_close();
    }
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        let request = b"GET /1 HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        peer.write(request).await.unwrap();
        assert_eq!(peer.head().await.unwrap().unwrap().status(), 101);
        while peer.fill().await.is_ok() {}
        assert_eq!(peer.fill().await, Err(Broken::Reset));
    }
    play(|_| (), client, node);
}

#[test]
fn panic_of_plugin_ends_its_attempt() {
    async fn client(mut peer: Peer, gateway: Rc<Gateway>) {
        peer.write(b"GET /1 HTTP/1.1\r\nHost: h\r\nX-Panic: head\r\n\r\n").await.unwrap();
        assert!(!matches!(peer.head().await, Ok(Some(_))), "the connection ends");
        assert_eq!(gateway.worker(0).context.upstreams.attempts_in_flight(), 0);
    }
    play(|_| (), client, hello);
}

#[test]
fn late_head_request_is_refused_without_body() {
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        peer.write(b"HEAD /1 HTTP/1.1\r\nHost").await.unwrap();
        let head = peer.head().await.unwrap().unwrap();
        assert_eq!((head.status(), head.closes()), (408, true));
        assert_eq!(peer.fill().await, Err(Broken::End), "no byte behind the head");
    }
    play(|_| (), client, hello);
}

#[test]
fn stopped_head_is_answered_with_its_fault() {
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        // Longer than one read, so that the fault is not in the bytes that are peeked first.
        let request = format!("GET /{} HTTP/2.0\r\nHost: h", "a".repeat(5_000));
        peer.write(request.as_bytes()).await.unwrap();
        peer.shut().await.unwrap();
        assert_eq!(peer.head().await.unwrap().unwrap().status(), 505);
    }
    play(|_| (), client, hello);
}

#[test]
fn pipelined_requests_before_half_close_are_served() {
    async fn client(mut peer: Peer, _: Rc<Gateway>) {
        peer.write(&[GET, GET, GET].concat()).await.unwrap();
        peer.shut().await.unwrap();
        for number in 0..3 {
            let head = peer.head().await.unwrap().unwrap_or_else(|| panic!("no answer {number}"));
            assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        }
        assert_eq!(peer.fill().await, Err(Broken::End));
    }
    play(|_| (), client, slow);
}

#[test]
fn pipelined_half_close_is_served_at_every_cut() {
    async fn client(mut peer: Peer, pieces: &[&[u8]]) {
        for piece in pieces {
            peer.write(piece).await.unwrap();
            env::sleep_ms(10).await;
        }
        peer.shut().await.unwrap();
        for number in 0..2 {
            let head = peer.head().await.unwrap().unwrap_or_else(|| panic!("no answer {number}"));
            assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        }
        assert_eq!(peer.fill().await, Err(Broken::End));
    }
    /// Answers the first request later than the gateway waits for a half-closed client that has sent nothing
    /// more.
    async fn very_slow(mut peer: Peer) {
        let mut wait_ms = 2_000;
        while let Ok(Some(_)) = peer.head().await {
            env::sleep_ms(std::mem::take(&mut wait_ms)).await;
            if peer.write(HELLO).await.is_err() {
                return;
            }
        }
    }
    play(patient, |peer, _| async { client(peer, &[&[GET, GET].concat()]).await }, very_slow);
    play(patient, |peer, _| async { client(peer, &[GET, GET]).await }, very_slow);
}

#[test]
fn half_closed_client_is_closed_soon() {
    async fn client(mut peer: Peer, request: &[u8]) {
        peer.write(request).await.unwrap();
        peer.shut().await.unwrap();
        peer.fill().await.expect_err("it is not waited for");
    }
    async fn very_slow(mut peer: Peer) {
        while let Ok(Some(_)) = peer.head().await {
            env::sleep_ms(5_000).await;
            if peer.write(HELLO).await.is_err() {
                return;
            }
        }
    }
    const POST: &[u8] = b"POST /1 HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\n";
    play(patient, |peer, _| async { client(peer, GET).await }, very_slow);
    play(
        patient,
        |peer, _| async { client(peer, &[POST, b"Content-Length: 2\r\n\r\nhi"].concat()).await },
        very_slow,
    );
    const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    play(patient, |peer, _| async { client(peer, &[POST, CHUNKED].concat()).await }, very_slow);
}

/// Sets how long a connection to the node takes; `hang_percent` of the connections are never established.
fn set_node_link(connect_ms: u64, hang_percent: u64) {
    let latency_ns = (connect_ms * 1_000_000, connect_ms * 1_000_000);
    set_link(node_address(0), LinkBehavior { latency_ns, hang_percent, ..LinkBehavior::default() });
}

fn waits_long_for_connections(plan: &mut Plan) {
    plan.timeouts.connect_ms = 20_000;
    plan.limits.body_timeout_ms = 20_000;
}

#[test]
fn client_that_leaves_during_connect_is_given_up() {
    async fn client(mut peer: Peer, request: &[u8]) {
        set_node_link(0, 100);
        peer.write(request).await.unwrap();
        peer.shut().await.unwrap();
        let began_ns = env::monotonic_ns();
        peer.fill().await.expect_err("it is not waited for");
        let waited_ms = (env::monotonic_ns() - began_ns) / 1_000_000;
        assert!((900..4_000).contains(&waited_ms), "{waited_ms} ms");
    }
    play(waits_long_for_connections, |peer, _| async { client(peer, GET).await }, hello);
    play(
        waits_long_for_connections,
        |peer, _| async {
            let post = b"POST /1 HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\nContent-Length: 30000\r\n\r\n";
            client(peer, &[&post[..], &[b'x'; 30_000]].concat()).await;
        },
        hello,
    );
}

#[test]
fn half_closed_client_is_served_after_a_slow_connect() {
    async fn client(mut peer: Peer, request: &[u8]) {
        set_node_link(400, 0);
        peer.write(request).await.unwrap();
        peer.shut().await.unwrap();
        let head = peer.head().await.unwrap().expect("an answer");
        assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        assert_eq!(peer.fill().await, Err(Broken::End));
    }
    play(waits_long_for_connections, |peer, _| async { client(peer, GET).await }, hello);
}

#[test]
fn client_that_left_is_given_up_at_next_node() {
    async fn client(mut peer: Peer, gateway: Rc<Gateway>) {
        // Neither node accepts a connection; the client leaves just before the attempt at the first node
        // times out.
        set_node_link(0, 100);
        set_link(node_address(1), LinkBehavior { hang_percent: 100, ..LinkBehavior::default() });
        gateway.publish(ObjectKind::Route, "1", Some(&route_to(&[1, 1])));
        peer.write(GET).await.unwrap();
        env::sleep_ms(1_400).await;
        peer.shut().await.unwrap();
        let began_ns = env::monotonic_ns();
        peer.fill().await.expect_err("it is not waited for");
        let waited_ms = (env::monotonic_ns() - began_ns) / 1_000_000;
        assert!(waited_ms < 1_400, "{waited_ms} ms");
    }
    play(|plan| plan.timeouts.connect_ms = 1_500, client, hello);
}

#[test]
fn response_in_flight_survives_cut_of_the_next() {
    async fn client(_: Peer, _: Rc<Gateway>) {
        // A long latency, so that the first response is in flight when the second is cut.
        let far = LinkBehavior { latency_ns: (5_000_000, 10_000_000), ..LinkBehavior::default() };
        set_link(proxy_address(), far);
        let mut peer = Peer::new(connect_from(client_address(0, 1), proxy_address()).await.unwrap(), 1_000);
        peer.write(&[GET, GET].concat()).await.unwrap();
        let head = peer.head().await.unwrap().expect("the first answer is whole");
        assert_eq!(peer.whole(Body::of_response(&head, "GET")).await.unwrap(), b"hello");
        // The cut is a response of the gateway as long as nothing of the second one was sent on.
        if let Ok(Some(head)) = peer.head().await.map(|head| head.filter(|head| head.status() != 502)) {
            peer.whole(Body::of_response(&head, "GET")).await.expect_err("the second is cut");
        }
    }
    async fn node(mut peer: Peer) {
        for answer in [HELLO, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
            peer.head().await.unwrap();
            peer.write(answer).await.unwrap();
        }
    }
    play(|_| (), client, node);
}

/// The route of these plays, to nodes with these weights.
fn route_to(weights: &[u64]) -> Value {
    let nodes: serde_json::Map<String, Value> = weights
        .iter()
        .enumerate()
        .map(|(node, weight)| (node_address(node).to_string(), json!(weight)))
        .collect();
    json!({"uri": "/*", "upstream": {"nodes": nodes, "type": "least_conn"}, "enable_websocket": true})
}

#[test]
fn failed_attempt_is_reported_without_other_endpoint() {
    async fn client(mut peer: Peer, gateway: Rc<Gateway>) {
        gateway.publish(ObjectKind::Route, "1", Some(&route_to(&[1, 1])));
        peer.write(GET).await.unwrap();
        env::sleep_ms(500).await;
        gateway.publish(ObjectKind::Route, "1", Some(&route_to(&[1])));
        assert_eq!(peer.head().await.unwrap().unwrap().status(), 504);
    }
    async fn silent(mut peer: Peer) {
        while peer.fill().await.is_ok() {}
    }
    play(|plan| plan.limits.idle_timeout_ms = 5_000, client, silent);
}

#[test]
fn changed_node_set_leaves_no_attempt_counted() {
    async fn client(mut peer: Peer, gateway: Rc<Gateway>) {
        let mut other = Peer::new(connect_from(client_address(1, 0), proxy_address()).await.unwrap(), 1_000);
        for wait_ms in [0, 100] {
            peer.write(GET).await.unwrap();
            if wait_ms > 0 {
                env::sleep_ms(wait_ms / 2).await;
                gateway.publish(ObjectKind::Route, "1", Some(&route_to(&[2])));
                other.write(GET).await.unwrap();
                assert_eq!(other.head().await.unwrap().unwrap().status(), 200);
            }
            let head = peer.head().await.unwrap().unwrap();
            assert_eq!(head.status(), 200);
            peer.whole(Body::of_response(&head, "GET")).await.unwrap();
        }
        assert_eq!(gateway.worker(0).context.upstreams.attempts_in_flight(), 0);
    }
    async fn once(mut peer: Peer) {
        for answers in [true, false] {
            let Ok(Some(_)) = peer.head().await else { return };
            if answers {
                peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await.unwrap();
            }
        }
        env::sleep_ms(100).await;
    }
    play(|_| (), client, once);
}
