//! Plugins that divide, copy, break and limit traffic, through the real gateway and with several origins. The
//! rules of each plugin have their own tests beside its code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Signal, Step, Weir, wait_until};

use crate::hardening::pages::read;
use crate::support::BINARY;

/// Puts a route for `uri` to `origin` with these plugins.
fn route(weir: &Weir, id: &str, uri: &str, origin: &Origin, plugins: Value) {
    let nodes = json!({origin.address().to_string(): 1});
    weir.put(&format!("routes/{id}"), json!({"uri": uri, "upstream": {"nodes": nodes}, "plugins": plugins}));
}

/// An upstream with this origin as its node.
fn upstream(origin: &Origin) -> Value {
    json!({"nodes": {origin.address().to_string(): 1}})
}

/// How often each body was received in `count` requests.
fn bodies(weir: &Weir, count: usize, path: &str, headers: &[(&str, &str)], names: &[&str]) -> Vec<usize> {
    let mut client = weir.client();
    let received: Vec<String> =
        (0..count).map(|_| client.request("GET", path, headers, b"").text()).collect();
    names.iter().map(|name| received.iter().filter(|body| body == name).count()).collect()
}

#[test]
fn traffic_is_split_by_weight_and_by_header() {
    let [stable, canary, other] = ["stable", "canary", "other"].map(Origin::answering);
    let names = ["stable", "canary", "other"];
    let weir = Weir::start(BINARY);
    weir.put("upstreams/other", upstream(&other));
    let split = json!({"traffic-split": {"rules": [
        {
            "match": [{"vars": [["http_x_release", "==", "other"]]}],
            "weighted_upstreams": [{"upstream_id": "other"}],
        },
        {"weighted_upstreams": [{"upstream": upstream(&canary), "weight": 1}, {"weight": 9}]},
    ]}});
    route(&weir, "1", "/*", &stable, split);
    assert_eq!(bodies(&weir, 100, "/a", &[], &names), [90, 10, 0]);
    assert_eq!(bodies(&weir, 10, "/a", &[("X-Release", "other")], &names), [0, 0, 10]);
    let (status, answer) = weir.admin("DELETE", "upstreams/other", Value::Null);
    let reason = "can not delete this upstream, plugin in route [1] is still using it now";
    assert_eq!((status, answer["error_msg"].as_str()), (400, Some(reason)));
}

#[test]
fn split_without_its_upstream_answers_500() {
    let stable = Origin::answering("stable");
    let weir = Weir::start(BINARY);
    let split = json!({"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": "absent"}]}]}});
    route(&weir, "1", "/*", &stable, split);
    assert_eq!(weir.get("/").status, 500);
    assert_eq!(stable.requests().len(), 0);
    wait_until("the log names the upstream", || {
        weir.stderr().iter().any(|line| line.contains("/upstreams/absent"))
    });
    weir.put("upstreams/absent", upstream(&stable));
    assert_eq!(weir.get("/").status, 200);
}

#[test]
fn labels_choose_the_upstream_of_a_canary() {
    let [stable, canary] = ["stable", "canary"].map(Origin::answering);
    let weir = Weir::start(BINARY);
    let label = json!({"rules": [{
        "match": [["arg_user", "~~", "^staff-"]],
        "actions": [{"set_headers": {"X-Release": "canary"}, "weight": 1}, {"weight": 1}],
    }]});
    let split = json!({"rules": [{
        "match": [{"vars": [["http_x_release", "==", "canary"]]}],
        "weighted_upstreams": [{"upstream": upstream(&canary)}],
    }]});
    route(&weir, "1", "/*", &stable, json!({"traffic-label": label, "traffic-split": split}));
    assert_eq!(bodies(&weir, 20, "/?user=staff-1", &[], &["stable", "canary"]), [10, 10]);
    assert_eq!(bodies(&weir, 4, "/?user=jack", &[], &["stable", "canary"]), [4, 0]);
    assert!(canary.requests().iter().all(|request| request.header("x-release") == Some("canary")));
}

#[test]
fn faults_are_injected_and_block_no_other_request() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).arguments(&["--workers", "1"]).start();
    let abort =
        json!({"http_status": 418, "body": "fault for $arg_name", "vars": [[["arg_name", "==", "jack"]]]});
    route(&weir, "1", "/abort", &origin, json!({"fault-injection": {"abort": abort}}));
    let aborted = weir.get("/abort?name=jack");
    assert_eq!((aborted.status, aborted.text().as_str()), (418, "fault for jack"));
    assert_eq!(weir.get("/abort?name=joe").text(), "served");

    let delayed = json!({"delay": {"duration": 0.5}, "abort": {"http_status": 503}});
    route(&weir, "2", "/delay", &origin, json!({"fault-injection": delayed}));
    let mut waiting = weir.client();
    waiting.send(b"GET /delay HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(weir.get("/abort").text(), "served", "one worker serves others meanwhile");
    assert_eq!(waiting.read_response(false).unwrap().status, 503);
    assert!(origin.requests().iter().all(|request| request.path() == "/abort"));
}

#[test]
fn upstream_is_told_the_real_client() {
    let origin = Origin::echoing();
    let weir = Weir::start(BINARY);
    let real_ip = |trusted: &str| {
        json!({
            "real-ip": {"source": "http_x_forwarded_for", "trusted_addresses": [trusted], "recursive": true},
            "ip-restriction": {"blacklist": ["6.6.6.6"]},
        })
    };
    route(&weir, "1", "/near", &origin, real_ip("127.0.0.0/8"));
    route(&weir, "2", "/far", &origin, real_ip("10.0.0.0/8"));
    let ask = |path: &str, list: &str| weir.client().request("GET", path, &[("X-Forwarded-For", list)], b"");
    let seen = ask("/near", "1.1.1.1, 127.0.0.2").text();
    assert!(seen.contains("X-Real-IP: 1.1.1.1\r\n"), "{seen}");
    assert_eq!(ask("/near", "1.1.1.1, 6.6.6.6").status, 403, "later plugins see the address");
    let seen = ask("/far", "6.6.6.6").text();
    assert!(seen.contains("X-Real-IP: 127.0.0.1\r\n"), "{seen}");
}

#[test]
fn breaker_opens_lets_through_and_closes() {
    let status = Arc::new(AtomicU16::new(500));
    let own = status.clone();
    let origin = Origin::start(move |_| Reply::status(own.load(Ordering::SeqCst), "of the origin"));
    let weir = Weir::start(BINARY);
    let breaker = |more: Value| {
        let mut plugins = json!({"api-breaker": {
            "break_response_code": 599, "break_response_body": "broken",
            "unhealthy": {"http_statuses": [500], "failures": 2}, "healthy": {"successes": 2},
        }});
        plugins.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        plugins
    };
    route(&weir, "1", "/*", &origin, breaker(json!({})));
    assert_eq!([weir.get("/a").status, weir.get("/a").status], [500, 500]);
    let broken = weir.get("/a");
    assert_eq!((broken.status, broken.text().as_str()), (599, "broken"));
    assert_eq!(weir.get("/b").status, 500, "another path is asked");
    assert_eq!(origin.requests().len(), 3);

    route(&weir, "1", "/*", &origin, breaker(json!({"cors": {}})));
    assert_eq!(weir.get("/a").status, 599, "a change of the route keeps the state");

    status.store(200, Ordering::SeqCst);
    wait_until("the break of two seconds is over", || weir.get("/a").status == 200);
    assert_eq!(weir.get("/a").status, 200);
    status.store(500, Ordering::SeqCst);
    let after = [weir.get("/a").status, weir.get("/a").status, weir.get("/a").status];
    assert_eq!(after, [500, 500, 599], "two successes have forgotten the failures before them");
}

#[test]
fn workflow_refuses_and_limits_by_condition() {
    let origin = Origin::answering("served");
    let weir = Weir::start(BINARY);
    let limit = json!({"count": 1, "time_window": 3600, "rejected_code": 429});
    let workflow = json!({"workflow": {"rules": [
        {"case": [["uri", "==", "/internal"]], "actions": [["return", {"code": 403}]]},
        {"case": ["OR", ["arg_plan", "==", "free"], ["http_x_plan", "==", "free"]], "actions": [["limit-count", limit]]},
    ]}});
    route(&weir, "1", "/*", &origin, workflow);
    let refused = weir.get("/internal");
    assert_eq!((refused.status, refused.json()), (403, json!({"error_msg": "rejected by workflow"})));
    let limited = [weir.get("/?plan=free"), weir.get("/?plan=free")];
    assert_eq!([limited[0].status, limited[1].status], [200, 429]);
    assert_eq!(limited[0].header("x-ratelimit-remaining"), Some("0"));
    assert_eq!((weir.get("/").status, weir.get("/").status), (200, 200));
    let bad = json!({"uri": "/", "plugins": {"workflow": {"rules": [{"actions": [["fake", {}]]}]}}});
    let (status, answer) = weir.admin("PUT", "routes/2", bad);
    let message = answer["error_msg"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("unsupported action: fake"), "{answer}");
}

/// Waits until the mirror has seen `count` requests, and gives the last one as `METHOD target body`.
fn last_copy(mirror: &Origin, count: usize) -> String {
    let request = mirror.wait_for_requests(count).remove(count - 1);
    format!("{} {} {}", request.method, request.target, request.text())
}

#[test]
fn mirror_receives_copies_of_requests() {
    let origin = Origin::answering("of the origin");
    let mirror = Origin::start(|_| Reply::status(500, "of the mirror"));
    let weir = Weir::start(BINARY);
    let host = format!("http://{}", mirror.address());
    route(&weir, "1", "/*", &origin, json!({"proxy-mirror": {"host": host}}));
    let mut client = weir.client();
    let served = client.request("GET", "/a%20b?c=d", &[("X-Field", "kept")], b"");
    assert_eq!((served.status, served.text().as_str()), (200, "of the origin"));
    assert_eq!(last_copy(&mirror, 1), "GET /a%20b?c=d ");
    let (copy, request) = (mirror.last_request(), origin.last_request());
    assert_eq!(copy.header("x-field"), Some("kept"));
    assert_eq!(copy.header("host"), request.header("host"));

    client.request("POST", "/post", &[], b"a body");
    assert_eq!(last_copy(&mirror, 2), "POST /post a body");
    client.send(b"PUT /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.read_response(false).unwrap().status, 200);
    assert_eq!(last_copy(&mirror, 3), "PUT /chunked abcde");

    let long = vec![b'x'; 1024 * 1024 + 1];
    assert_eq!(client.request("POST", "/long", &[], &long).status, 200);
    let plugins = json!({"proxy-mirror": {"host": host, "path": "/m", "path_concat_mode": "prefix"}});
    route(&weir, "1", "/*", &origin, plugins);
    client.request("PROPFIND", "/a?b=c", &[], b"");
    assert_eq!(last_copy(&mirror, 4), "PROPFIND /m/a?b=c ", "the long body was not copied");
    wait_until("the log tells of the lost copy", || {
        weir.stderr().iter().any(|line| line.contains("lost copies") && line.contains("longer than"))
    });
}

#[test]
fn mirror_receives_requests_as_before_the_mask() {
    let origin = Origin::answering("of the origin");
    let mirror = Origin::answering("of the mirror");
    let weir = Weir::start(BINARY);
    let mask = json!({"request": [
        {"type": "header", "name": "X-Key", "action": "remove"},
        {"type": "body", "body_format": "json", "name": "$.password", "action": "remove"},
    ]});
    let host = format!("http://{}", mirror.address());
    route(&weir, "1", "/*", &origin, json!({"proxy-mirror": {"host": host}, "data-mask": mask}));
    for (count, body) in [(1, r#"{"password":"secret"}"#), (2, "no JSON")] {
        weir.client().request("POST", "/a", &[("X-Key", "secret")], body.as_bytes());
        assert_eq!(last_copy(&mirror, count), format!("POST /a {body}"));
        assert_eq!(mirror.last_request().header("x-key"), Some("secret"));
    }
}

#[test]
fn dead_mirror_neither_delays_nor_fails_requests() {
    let origin = Origin::answering("served");
    let done = Signal::new();
    let hold = done.clone();
    let silent = Origin::start(move |_| Reply::new().wait(&hold));
    let weir = Weir::builder(BINARY).arguments(&["--workers", "1"]).start();
    let mirror = |host: String| json!({"proxy-mirror": {"host": host}});
    route(&weir, "1", "/silent", &origin, mirror(format!("http://{}", silent.address())));
    route(&weir, "2", "/dead", &origin, mirror(format!("http://{}", Origin::nowhere())));
    let mut client = weir.client();
    // More than one worker may have under way.
    for _ in 0..300 {
        assert_eq!(client.get("/silent").text(), "served");
    }
    for _ in 0..3 {
        assert_eq!(client.request("POST", "/dead", &[], b"body").text(), "served");
    }
    let has_line = |reason: &str| {
        weir.stderr().iter().any(|line| line.contains("proxy-mirror lost copies") && line.contains(reason))
    };
    wait_until("the log tells of copies over the limit", || has_line("too many copies are under way"));
    wait_until("the log tells of the dead mirror", || has_line("outbound_connect_failed"));
    // 300 requests less the 256 that may be under way, and three to the dead one.
    wait_until("the metrics count 47 lost copies", || {
        let page = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        page.contains("weir_plugin_events_total{plugin=\"proxy-mirror\",event=\"lost\"} 47\n")
    });
    assert!(silent.connections() <= 256, "{}", silent.connections());
    done.set();
}

#[test]
fn body_over_the_limit_of_its_route_is_413() {
    let origin = Origin::answering("served");
    let weir = Weir::start(BINARY);
    route(&weir, "1", "/limited", &origin, json!({"client-control": {"max_body_size": 5}}));
    route(&weir, "2", "/free", &origin, json!({"client-control": {"max_body_size": 0}}));
    let post = |path: &str, body: &[u8]| weir.client().request("POST", path, &[], body).status;
    assert_eq!([post("/limited", b"12345"), post("/free", b"123456")], [200, 200]);
    let before = origin.requests().len();
    assert_eq!(post("/limited", b"123456"), 413);
    assert_eq!(origin.requests().len(), before, "a declared length is refused before it is forwarded");
    let chunked = |chunks: &str| {
        let mut client = weir.client();
        let head = "POST /limited HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{chunks}0\r\n\r\n").as_bytes());
        client.read_response(false).unwrap().status
    };
    assert_eq!([chunked("3\r\n123\r\n2\r\n45\r\n"), chunked("3\r\n123\r\n3\r\n456\r\n")], [200, 413]);
}

/// Sends the head of a chunked request and its first piece.
fn begin_upload(weir: &Weir, path: &str) -> Client {
    let mut client = weir.client();
    let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send(head.as_bytes());
    client
}

#[test]
fn request_is_buffered_or_streamed_as_configured() {
    let asked = Signal::new();
    let seen = asked.clone();
    let origin = Origin::on_head(move |request| {
        if request.path() == "/streamed" {
            seen.set();
        }
        Reply::steps([Step::ReadBody]).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let weir = Weir::start(BINARY);
    route(&weir, "1", "/whole", &origin, json!({"proxy-control": {}}));
    route(&weir, "2", "/streamed", &origin, json!({"proxy-control": {"request_buffering": false}}));
    let mut whole = begin_upload(&weir, "/whole");
    let mut streamed = begin_upload(&weir, "/streamed");
    assert!(asked.wait(), "the head is forwarded before the body has ended");
    assert_eq!(origin.connections(), 1, "the other request waits for its body");
    for client in [&mut streamed, &mut whole] {
        client.send(b"2\r\nde\r\n0\r\n\r\n");
        assert_eq!(client.read_response(false).unwrap().status, 200);
    }
    let requests = origin.wait_for_requests(2);
    let lengths: Vec<_> =
        requests.iter().map(|request| (request.path(), request.header("content-length"))).collect();
    assert_eq!(lengths, [("/streamed", None), ("/whole", Some("5"))]);
    assert!(requests.iter().all(|request| request.body == b"abcde"));
}

#[test]
fn response_is_sent_as_it_arrives() {
    for disabled in [false, true] {
        let go = Signal::new();
        let hold = go.clone();
        let origin = Origin::start(move |_| {
            Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst").wait(&hold).send("after")
        });
        let weir = Weir::start(BINARY);
        let plugins = json!({"proxy-buffering": {"disable_proxy_buffering": disabled}});
        route(&weir, "1", "/", &origin, plugins);
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = client.read_response(true).unwrap();
        assert_eq!(head.status, 200);
        assert_eq!(client.read_bytes(5), b"first");
        go.set();
        assert_eq!(client.read_bytes(5), b"after");
    }
}

#[test]
fn commands_of_the_guide_are_accepted() {
    let page = read("docs/guide/canaries.md");
    let weir = Weir::start(BINARY);
    let mut objects = 0;
    for command in page.split("$ put ").skip(1) {
        let (path, rest) = command.split_once(" '").unwrap();
        let object = rest.split('\'').next().unwrap();
        weir.put(path, serde_json::from_str(object).unwrap_or_else(|error| panic!("{object}: {error}")));
        objects += 1;
    }
    assert_eq!(objects, 6);
    let plugins = page.split("```json plugins\n").nth(1).unwrap().split("```").next().unwrap();
    let plugins: Value = serde_json::from_str(plugins).unwrap();
    weir.put("routes/labels", json!({"uri": "/labels", "upstream_id": "stable", "plugins": plugins}));
}
