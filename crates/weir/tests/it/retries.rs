//! Retry policies and deadlines of upstreams, which APISIX does not have, through the real gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testkit::{Client, Origin, Reply, Request, Signal, Weir, wait_for, wait_until};

use crate::support::{builder, gateway, route, upstream};

/// An origin that answers its first `count` requests with `bad`, and `ok` afterwards.
fn recovers(count: usize, bad: impl Fn() -> Reply + Send + Sync + 'static) -> Origin {
    let asked = AtomicUsize::new(0);
    Origin::start(
        move |_: &Request| {
            if asked.fetch_add(1, Ordering::SeqCst) < count { bad() } else { Reply::ok("ok") }
        },
    )
}

/// A gateway in front of one node with this retry policy, as YAML flow.
fn with_retry(origin: &Origin, policy: &str) -> Weir {
    gateway(&route("uri: /*", &upstream(&[origin.address()], &format!("retry: {policy}"))))
}

/// The value of a line of the metrics without labels, or with those in `name`.
pub(crate) fn metric(weir: &Weir, name: &str) -> u64 {
    let text = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
    line.trim().parse().unwrap()
}

#[test]
fn listed_status_is_retried_and_others_are_not() {
    let check = |status: u16, policy: &str, method: &str, expected: (u16, usize)| {
        let origin = recovers(1, move || Reply::status(status, "down"));
        let weir = with_retry(&origin, policy);
        let response = weir.client().request(method, "/", &[], b"");
        let seen = (response.status, origin.requests().len());
        assert_eq!(seen, expected, "{status} {method} {policy}");
    };
    check(503, "{statuses: [502, 503]}", "GET", (200, 2));
    check(503, "{statuses: [502, 503]}", "PUT", (200, 2));
    check(503, "{statuses: [502, 503]}", "POST", (503, 1));
    check(503, "{statuses: [502, 503], methods: [POST], unsafe_methods: true}", "POST", (200, 2));
    check(503, "{statuses: [502, 503], methods: [GET]}", "PUT", (503, 1));
    check(500, "{statuses: [502, 503]}", "GET", (500, 1));
}

#[test]
fn last_response_is_passed_on_with_its_body() {
    // In one piece, so that the body has arrived with the head.
    let origin = Origin::start(|_| Reply::raw(b"HTTP/1.1 503 Down\r\nContent-Length: 10\r\n\r\nstill down"));
    let weir = with_retry(&origin, "{attempts: 3, statuses: [503]}");
    let response = weir.get("/");
    assert_eq!((response.status, response.text().as_str()), (503, "still down"));
    assert_eq!(response.header("x-apisix-upstream-status"), Some("503, 503, 503"));
    assert_eq!(origin.requests().len(), 3);
    // The discarded bodies had arrived, so that their connection was used again.
    assert_eq!(origin.connections(), 1);
    wait_for("both retries are counted", || {
        (metric(&weir, "weir_upstream_retries_total{reason=\"status\"}") == 2).then_some(())
    });
}

#[test]
fn retry_goes_to_the_other_node_first() {
    let bad = Origin::start(|_| Reply::status(503, "bad"));
    let good = Origin::answering("good");
    let nodes = upstream(&[bad.address(), good.address()], "retry: {attempts: 2, statuses: [503]}");
    let weir = gateway(&route("uri: /*", &nodes));
    let mut client = weir.client();
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), "good");
    }
}

#[test]
fn field_of_the_response_asks_for_a_retry() {
    let origin = recovers(1, || Reply::with(200, &[("X-Again", "yes")], b"later"));
    let weir = with_retry(&origin, "{response_header: {name: x-again, value: 'yes'}}");
    assert_eq!(weir.get("/").text(), "ok");
    let other = recovers(1, || Reply::with(200, &[("X-Again", "no")], b"later"));
    let weir = with_retry(&other, "{response_header: {name: x-again, value: 'yes'}}");
    assert_eq!(weir.get("/").text(), "later");
}

#[test]
fn broken_connection_is_retried_by_its_condition() {
    let check = |policy: &str, method: &str, headers: &[(&str, &str)], expected: (u16, usize)| {
        let origin = recovers(1, || Reply::new().close());
        let weir = with_retry(&origin, policy);
        let response = weir.client().request(method, "/", headers, b"body");
        assert_eq!((response.status, origin.requests().len()), expected, "{method} {policy} {headers:?}");
    };
    let key = "{idempotency_key_header: idempotency-key}";
    check("{}", "GET", &[], (200, 2));
    check("{conditions: [timeout]}", "GET", &[], (502, 1));
    check("{}", "POST", &[], (502, 1));
    check(key, "POST", &[], (502, 1));
    check(key, "POST", &[("Idempotency-Key", "k1")], (200, 2));
    check("{methods: [POST], unsafe_methods: true}", "POST", &[], (200, 2));
}

#[test]
fn malformed_head_is_retried_if_listed() {
    let check = |policy: &str, expected: (u16, usize)| {
        let origin = recovers(1, || Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").close());
        let weir = with_retry(&origin, policy);
        assert_eq!((weir.get("/").status, origin.requests().len()), expected, "{policy}");
    };
    check("{conditions: [invalid_response]}", (200, 2));
    check("{}", (502, 1));
}

#[test]
fn slow_attempt_ends_at_its_timeout() {
    let go = Signal::new();
    let wait = go.clone();
    let origin =
        recovers(1, move || Reply::new().wait(&wait).send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let weir = with_retry(&origin, "{attempt_timeout: 0.1}");
    assert_eq!(weir.get("/").text(), "ok");
    go.set();
}

#[test]
fn body_is_sent_again_up_to_the_limit() {
    let body = vec![b'b'; 200_000];
    let check = |policy: &str, expected: u16| {
        let origin = recovers(1, || Reply::status(503, "down"));
        let weir = with_retry(&origin, policy);
        let response = weir.client().request("PUT", "/", &[], &body);
        assert_eq!(response.status, expected, "{policy}");
        if expected == 200 {
            let requests = origin.requests();
            assert_eq!(requests.len(), 2, "{policy}");
            assert!(requests.iter().all(|request| request.body == body), "{policy}");
        }
    };
    check("{statuses: [503], max_body: 300000}", 200);
    check("{statuses: [503], max_body: 100000}", 503);
}

#[test]
fn chunked_body_is_sent_again() {
    let origin = recovers(1, || Reply::status(503, "down"));
    let weir = with_retry(&origin, "{statuses: [503]}");
    let mut client = weir.client();
    client.send(
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n",
    );
    assert_eq!(client.read_response(false).unwrap().status, 200);
    let bodies: Vec<_> = origin.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies, [b"onetwo".to_vec(), b"onetwo".to_vec()]);
}

#[test]
fn retry_after_is_waited_for_up_to_max() {
    let check = |seconds: &'static str, expected: (u16, usize)| {
        let origin = recovers(1, move || Reply::with(503, &[("Retry-After", seconds)], b"down"));
        let policy = "{statuses: [503], backoff: {base: 0.01, max: 1}, honor_retry_after: true}";
        let weir = with_retry(&origin, policy);
        let began = Instant::now();
        assert_eq!((weir.get("/").status, origin.requests().len()), expected, "{seconds}");
        if expected.0 == 200 {
            assert!(began.elapsed().as_millis() >= 990, "the gateway waited {:?}", began.elapsed());
        }
    };
    check("1", (200, 2));
    check("2", (503, 1));
}

#[test]
fn budget_is_shared_by_the_workers() {
    let origin = Origin::start(|_| Reply::status(503, "down"));
    let policy = "{statuses: [503], budget: {percent: 10, min_per_second: 0, window: 600}}";
    let resources = route("uri: /*", &upstream(&[origin.address()], &format!("retry: {policy}")));
    let weir = builder(&resources).arguments(&["--workers", "4"]).start();
    // Connections are spread over the workers.
    let mut clients: Vec<_> = (0..20).map(|_| weir.client()).collect();
    for client in &mut clients {
        (0..10).for_each(|_| assert_eq!(client.get("/").status, 503));
    }
    assert_eq!(origin.requests().len(), 220, "200 requests and a tenth of them as retries");
    let refused = wait_for("the refusals are counted", || {
        let refused = metric(&weir, "weir_upstream_retries_refused_total");
        (refused == 180).then_some(refused)
    });
    assert_eq!(refused, 180);
}

#[test]
fn deadline_is_passed_on_and_reduced() {
    let origin = recovers(1, || Reply::status(503, "down"));
    let more = "retry: {statuses: [503], backoff: {base: 0.2}, attempts: 4}, \
                deadline: {total: 20, header: x-request-timeout-ms}";
    let weir = gateway(&route("uri: /*", &upstream(&[origin.address()], more)));
    let response = weir.client().request("GET", "/", &[("X-Request-Timeout-Ms", "9000")], b"");
    assert_eq!(response.status, 200);
    let left: Vec<u64> = origin
        .requests()
        .iter()
        .map(|request| request.header("x-request-timeout-ms").unwrap().parse().unwrap())
        .collect();
    assert!(left[0] <= 9_000 && left[0] > 1_000 && left[1] <= left[0], "{left:?}");
    // Without the client's field the total counts.
    weir.get("/");
    let total: u64 = origin.last_request().header("x-request-timeout-ms").unwrap().parse().unwrap();
    assert!(total <= 20_000 && total > 10_000, "{total}");
}

#[test]
fn deadline_ends_all_attempts() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).close()
    });
    let more = "retry: {attempts: 16, attempt_timeout: 0.1, budget: {min_per_second: 100}}, \
                deadline: {total: 0.35, header: x-timeout}";
    let weir = gateway(&route("uri: /*", &upstream(&[origin.address()], more)));
    let response = weir.get("/");
    assert_eq!(response.status, 504);
    assert!(response.text().contains("deadline_exceeded"), "{}", response.text());
    assert!(origin.connections() >= 2, "attempts were made until the deadline");
    let ask = |value: &str| weir.client().request("GET", "/", &[("X-Timeout", value)], b"").status;
    assert_eq!(ask("0"), 504);
    assert_eq!(ask("soon"), 400);
    wait_for("both are counted", || {
        let name = "weir_failures_total{cause=\"deadline_exceeded\",blame=\"gateway\"}";
        (metric(&weir, name) == 2).then_some(())
    });
    go.set();
}

#[test]
fn deadline_bounds_one_request_of_a_connection() {
    let origin = Origin::answering("ok");
    let weir = gateway(&route("uri: /*", &upstream(&[origin.address()], "deadline: {total: 0.3}")));
    let (mut client, began) = (weir.client(), Instant::now());
    assert_eq!(client.get("/").status, 200);
    wait_until("the first deadline has passed", || began.elapsed() > Duration::from_millis(400));
    assert_eq!(client.get("/").status, 200, "the second request has a time of its own");
}

#[test]
fn client_that_leaves_ends_the_wait() {
    let origin = Origin::start(|_| Reply::status(503, "down"));
    let policy = "{attempts: 16, statuses: [503], backoff: {base: 60, max: 600, factor: 10}}";
    let weir = with_retry(&origin, policy);
    // The wait is random; a client in a hundred may find one that is over before it has left.
    let clients: Vec<_> = (0..10).map(|_| weir.client()).collect();
    for mut client in clients {
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    wait_for("the requests have ended", || {
        let name = "weir_failures_total{cause=\"client_gone\",blame=\"client\"}";
        (metric(&weir, name) >= 9).then_some(())
    });
}

#[test]
fn policy_holds_after_a_change_of_the_upstream() {
    let origin = Arc::new(recovers(1, || Reply::status(503, "down")));
    let weir = Weir::start(crate::support::BINARY);
    let node = origin.address().to_string();
    let put = |statuses: serde_json::Value| {
        let upstream = serde_json::json!({"nodes": {node.as_str(): 1}, "retry": {"statuses": statuses}});
        weir.put("routes/1", serde_json::json!({"uri": "/*", "upstream": upstream}));
    };
    put(serde_json::json!([500]));
    assert_eq!(weir.get("/").status, 503);
    put(serde_json::json!([503]));
    assert_eq!(weir.get("/").status, 200);
    let (status, body) = weir.admin(
        "PUT",
        "upstreams/1",
        serde_json::json!({"nodes": {"a:80": 1}, "retry": {"methods": ["POST"]}}),
    );
    assert_eq!(status, 400, "{body}");
    assert!(body.to_string().contains("unsafe_methods"), "{body}");
}
