//! forward-auth through the real gateway with a real authorization server: the request that the server gets,
//! the effect of its response, and a server that is slow, broken or not running.

use serde_json::{Value, json};
use testkit::{Origin, Reply, Request, Response, Signal, Step, Weir, wait_until};

use crate::support::BINARY;

/// A gateway, an origin that echoes the request head, and no authorization server yet.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage { weir: Weir::start(BINARY), origin: Origin::echoing() }
    }

    /// Puts a route for every path that asks `server` about its requests.
    fn ask(&self, server: &str, more: Value) {
        let mut auth = json!({"uri": server});
        auth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let nodes = json!({self.origin.address().to_string(): 1});
        self.weir.put(
            "routes/1",
            json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"forward-auth": auth}}),
        );
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.weir.client().request("GET", path, headers, b"")
    }
}

fn uri(server: &Origin) -> String {
    format!("http://{}/auth?from=weir", server.address())
}

/// Admits the user `jack`; answers 401 with the address of a login to all others.
fn jack_passes(request: &Request) -> Reply {
    match request.header("authorization") {
        Some("jack") => Reply::with(200, &[("X-User-ID", "jack"), ("X-Other", "no")], b""),
        _ => Reply::with(401, &[("Location", "/login"), ("X-Other", "no")], b"who are you?"),
    }
}

#[test]
fn auth_answer_admits_or_refuses() {
    let (stage, server) = (Stage::new(), Origin::start(jack_passes));
    stage.ask(
        &uri(&server),
        json!({"request_headers": ["Authorization"], "upstream_headers": ["X-User-ID"], "client_headers": ["Location"]}),
    );
    let forged = ("X-User-ID", "root");
    let passed = stage.get("/a//b/c%2fd?x=1", &[("Authorization", "jack"), forged, ("Cookie", "secret")]);
    let seen = passed.text();
    assert!(passed.status == 200 && seen.contains("X-User-ID: jack\r\n"), "{seen}");
    assert!(!seen.contains("root") && !seen.contains("X-Other"), "{seen}");
    let asked = server.last_request();
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/auth?from=weir"));
    for (name, value) in [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-uri", "/a/b/c/d?x=1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("authorization", "jack"),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
    assert_eq!(asked.header("cookie"), None, "only what is listed is passed on");
    assert!(
        seen.starts_with("GET /a/b/c%2Fd?x=1 "),
        "the server was shown the path that was matched: {seen}"
    );

    let refused = stage.get("/", &[("Authorization", "jill")]);
    assert_eq!((refused.status, refused.text().as_str()), (401, "who are you?"));
    assert_eq!((refused.header("location"), refused.header("x-other")), (Some("/login"), None));
    assert_eq!(stage.origin.requests().len(), 1, "a refused request goes no further");
    assert_eq!(server.connections(), 1, "the connection to the server is kept");
}

#[test]
fn post_body_reaches_auth_server_and_origin() {
    let stage = Stage::new();
    let server = Origin::start(|request| match request.text().as_str() {
        "open" => Reply::ok(""),
        _ => Reply::status(403, "no"),
    });
    stage.ask(&uri(&server), json!({"request_method": "POST", "max_req_body_size": 65536}));
    let post = |body: &[u8]| stage.weir.client().request("POST", "/", &[], body);
    assert_eq!((post(b"open").status, post(b"shut").status), (200, 403));
    assert_eq!(
        (server.requests()[0].method.as_str(), stage.origin.last_request().text().as_str()),
        ("POST", "open")
    );
    assert_eq!(post(&vec![b'x'; 65_536]).status, 403);
    assert_eq!(post(&vec![b'x'; 65_537]).status, 413, "what would have to be held is bounded");
    assert_eq!(stage.origin.requests().len(), 1);
}

#[test]
fn failed_auth_server_follows_the_settings() {
    let stage = Stage::new();
    let never = Signal::new();
    let waiting = never.clone();
    let slow = Origin::start(move |_| Reply::new().wait(&waiting).then(Step::Close));
    let broken = Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").close());
    let endless = Origin::start(|_| Reply::ok(&"x".repeat(2 * 1024 * 1024)));
    let gone = format!("http://{}/", Origin::nowhere());
    // Servers other than the slow one get a long timeout, because they fail by themselves however slow the
    // machine is.
    let check = |server: &str, timeout: u64| {
        stage.ask(server, json!({"timeout": timeout}));
        let refused = stage.get("/", &[]);
        assert_eq!((refused.status, refused.text().as_str()), (403, ""), "{server}");
        stage.ask(server, json!({"timeout": timeout, "status_on_error": 503}));
        assert_eq!(stage.get("/", &[]).status, 503, "{server}");
        stage.ask(server, json!({"timeout": timeout, "allow_degradation": true}));
        assert_eq!(stage.get("/", &[]).status, 200, "{server}");
    };
    check(&uri(&slow), 100);
    for server in [uri(&broken), uri(&endless), gone, "http://169.254.169.254/".to_owned()] {
        check(&server, 60_000);
    }
    never.set();
    wait_until("the error log says what failed, where and on whose side", || {
        let log = stage.weir.stderr().join("\n");
        [
            "outbound_timeout",
            "outbound_connect_failed",
            "outbound_broken",
            "outbound_body_too_large",
            "outbound_forbidden",
            "side of the peer",
        ]
        .iter()
        .all(|word| log.contains(word))
    });
}

#[test]
fn slow_auth_server_delays_no_other_request() {
    let stage = Stage::new();
    let gate = Signal::new();
    let waiting = gate.clone();
    let server = Origin::start(move |_| {
        Reply::new().wait(&waiting).send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    stage.ask(&uri(&server), json!({"timeout": 60_000}));
    let nodes = json!({stage.origin.address().to_string(): 1});
    stage.weir.put("routes/2", json!({"uri": "/open", "upstream": {"nodes": nodes}}));
    let mut asking = stage.weir.client();
    asking.send(b"GET /asked HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_requests(1);
    assert_eq!(stage.get("/open", &[]).status, 200, "the one worker serves others meanwhile");
    gate.set();
    let answer = asking.read_response(false).unwrap();
    assert!(answer.status == 200 && answer.text().starts_with("GET /asked "), "{}", answer.text());
}

#[test]
fn consumer_of_auth_answer_adds_its_plugins() {
    let stage = Stage::new();
    let server = Origin::start(|request| {
        let user = request.header("authorization").unwrap_or_default().to_owned();
        Reply::with(200, &[("X-Consumer", &user)], b"")
    });
    stage.weir.put(
        "consumers",
        json!({"username": "jack", "plugins": {"proxy-rewrite": {"headers": {"set": {"X-Plan": "small"}}}}}),
    );
    stage.ask(&uri(&server), json!({"request_headers": ["Authorization"], "consumer_header": "X-Consumer"}));
    let seen = stage.get("/", &[("Authorization", "jack")]).text();
    assert!(seen.contains("X-Consumer-Username: jack\r\n") && seen.contains("X-Plan: small\r\n"), "{seen}");
    let unknown = stage.get("/", &[("Authorization", "jill")]);
    assert_eq!((unknown.status, unknown.text().as_str()), (403, "consumer not found"));
}
