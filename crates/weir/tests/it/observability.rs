//! Output of an instance about itself: access log, error log, metrics, status and the control API, through
//! the real binary.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Signal, Weir, WeirBuilder, wait_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// A gateway with a route `/a` to an origin.
fn start(origin: &Origin, adjust: impl FnOnce(WeirBuilder) -> WeirBuilder) -> Weir {
    let weir = adjust(Weir::builder(BINARY)).start();
    weir.put(
        "routes/a",
        json!({"uri": "/a", "name": "first", "upstream": {"nodes": {origin.address().to_string(): 1}}}),
    );
    weir
}

/// The lines of a file, once it has `count` lines.
fn lines(path: &Path, count: usize) -> Vec<String> {
    wait_for(&format!("{count} lines in {}", path.display()), || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
}

fn ask(weir: &Weir, listener: &str, method: &str, path: &str, body: &str) -> Response {
    Client::connect(weir.address(listener)).request(method, path, &[], body.as_bytes())
}

#[test]
fn access_log_is_template_and_reopens_on_signal() {
    let origin = Origin::answering("hello");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let format = "$remote_addr \"$request\" $status $body_bytes_sent $route_id $upstream_addr $upstream_status \"$http_x_evil\"";
    let weir = start(&origin, |builder| {
        builder.arguments(&["--access-log", path.to_str().unwrap(), "--access-log-format", format])
    });
    let evil = [("X-Evil", "a\"b\\c\u{fc}")];
    assert_eq!(weir.client().request("GET", "/a?q=1", &evil, b"").status, 200);
    assert_eq!(weir.get("/none").status, 404);
    let node = origin.address();
    let written = lines(&path, 2);
    assert_eq!(
        written[0],
        format!("127.0.0.1 \"GET /a?q=1 HTTP/1.1\" 200 5 a {node} 200 \"a\\x22b\\x5Cc\\xC3\\xBC\"")
    );
    assert!(
        written[1].starts_with("127.0.0.1 \"GET /none HTTP/1.1\" 404 ")
            && written[1].ends_with(" - - - \"-\""),
        "{}",
        written[1]
    );

    let moved = folder.path().join("access.log.1");
    fs::rename(&path, &moved).unwrap();
    weir.reopen_logs();
    wait_until("the log is opened anew", || {
        weir.get("/a");
        path.exists()
    });
    lines(&path, 1);
    assert!(lines(&moved, 2).len() >= 2, "nothing of the old file is lost");
}

#[test]
fn refused_requests_are_logged_as_asked() {
    let origin = Origin::answering("hello");
    let format = "logged $request|$host|$http_user_agent|$uri|$status|$weir_cause";
    let weir = start(&origin, |builder| {
        builder.arguments(&["--access-log", "stdout", "--access-log-format", format])
    });
    let long = "a".repeat(70_000);
    let fields = "Host: H.example:80\r\nUser-Agent: curl/8\r\n";
    let cases: [(String, String); 8] = [
        (
            format!("GET /two HTTP/1.1\r\n{fields}Host: b\r\n\r\n"),
            "GET /two HTTP/1.1|h.example|curl/8|/two|400|client_bad_request".into(),
        ),
        ("GET /none HTTP/1.1\r\n\r\n".into(), "GET /none HTTP/1.1||-|/none|400|client_bad_request".into()),
        (
            format!("POST /l?q HTTP/1.0\r\n{fields}Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            "POST /l?q HTTP/1.0|h.example|curl/8|/l|400|client_bad_request".into(),
        ),
        (
            format!("GET /caf\u{e9} HTTP/1.1\r\n{fields}\r\n"),
            "GET /caf\\xC3\\xA9 HTTP/1.1|h.example|curl/8|/caf\\xC3\\xA9|400|client_bad_request".into(),
        ),
        (
            format!("GET /large HTTP/1.1\r\n{fields}X: {long}\r\n\r\n"),
            "GET /large HTTP/1.1|h.example|curl/8|/large|431|client_head_too_large".into(),
        ),
        (
            format!("GET /{} HTTP/1.1\r\n\r\n", &long[..9_000]),
            format!("GET /{0} HTTP/1.1||-|/{0}|414|client_line_too_long", &long[..2_047]),
        ),
        (
            format!("GET /evil HTTP/1.1\r\n{fields}X: a\u{7}\r\n\r\n"),
            "GET /evil HTTP/1.1|h.example|curl/8|/evil|400|client_bad_request".into(),
        ),
        (
            format!("GET /%zz HTTP/1.1\r\n{fields}\r\n"),
            "GET /%zz HTTP/1.1|h.example|curl/8|/%zz|400|client_bad_request".into(),
        ),
    ];
    for (request, expected) in cases {
        let mut client = weir.client();
        // The gateway may have answered and closed before all of a large head is sent.
        let _ = client.try_send(request.as_bytes());
        let line = format!("logged {expected}");
        wait_until(&line, || weir.stdout().contains(&line));
    }
}

#[test]
fn the_access_log_is_json_or_on_standard_output() {
    let origin = Origin::answering("hello");
    let weir = start(&origin, |builder| {
        builder.arguments(&["--access-log", "stdout", "--access-log-format", "json"])
    });
    let agent = [("User-Agent", "quote\" and \u{1F600}")];
    assert_eq!(weir.client().request("GET", "/a", &agent, b"").status, 200);
    let line = wait_for("a line of JSON", || weir.stdout().into_iter().find(|line| line.starts_with('{')));
    let entry: Value = serde_json::from_str(&line).unwrap();
    let expected = [
        ("request_method", "GET"),
        ("request_uri", "/a"),
        ("route_id", "a"),
        ("http_user_agent", "quote\" and \u{1F600}"),
        ("weir_cause", ""),
    ];
    for (name, value) in expected {
        assert_eq!(entry[name], value, "{line}");
    }
    assert_eq!((&entry["status"], &entry["upstream_status"]), (&json!(200), &json!(200)), "{line}");
    for name in ["request_length", "bytes_sent", "request_time", "upstream_response_time"] {
        assert!(entry[name].is_number(), "{name} in {line}");
    }

    let settings = weir.directory().join("weir.yaml");
    fs::write(
        &settings,
        "access_log: stdout\naccess_log_format:\n  verb: $request_method\n  where: $host$uri\n  \
         length: $content_length\n  port: $balancer_port\n  text: '$status '\n",
    )
    .unwrap();
    let weir = start(&origin, |builder| builder.arguments(&["--config", settings.to_str().unwrap()]));
    weir.client().request("GET", "/a", &[("Host", "h.example")], b"");
    let port = origin.address().port();
    let expected =
        format!(r#"{{"verb":"GET","where":"h.example/a","length":null,"port":{port},"text":"200 "}}"#);
    wait_for("a line of JSON", || weir.stdout().into_iter().find(|line| *line == expected));
}

#[test]
fn metrics_count_what_happened() {
    let origin =
        Origin::start(
            |request| if request.path() == "/a" { Reply::ok("hello") } else { Reply::status(500, "") },
        );
    let weir = start(&origin, |builder| builder.arguments(&["--workers", "2"]));
    weir.put("global_rules/1", json!({"plugins": {"prometheus": {}}}));
    for _ in 0..5 {
        assert_eq!(weir.get("/a").status, 200);
    }
    assert_eq!(weir.get("/none").status, 404);
    let node = origin.address().ip();
    // A request is counted when it ends, which may be after its client has read the response.
    let counted = [
        format!(
            "apisix_http_status{{code=\"200\",route=\"a\",matched_uri=\"/a\",matched_host=\"\",service=\"\",consumer=\"\",node=\"{node}\",request_type=\"traditional_http\",request_llm_model=\"\",llm_model=\"\",response_source=\"upstream\"}} 5"
        ),
        "apisix_http_status{code=\"404\",route=\"\",".to_owned(),
        "apisix_http_requests_total 6".to_owned(),
    ];
    let has = |text: &str, line: &String| text.lines().any(|found| found.starts_with(line.as_str()));
    let text = wait_for("all requests are counted", || {
        let text = ask(&weir, "metrics", "GET", "/apisix/prometheus/metrics", "").text();
        counted.iter().all(|line| has(&text, line)).then_some(text)
    });
    let expected = [
        "apisix_http_latency_bucket{type=\"request\",route=\"a\",".to_owned(),
        "apisix_http_latency_count{type=\"upstream\",route=\"a\",".to_owned(),
        "apisix_http_latency_sum{type=\"apisix\",route=\"a\",".to_owned(),
        "apisix_bandwidth{type=\"ingress\",route=\"a\",".to_owned(),
        "apisix_bandwidth{type=\"egress\",route=\"a\",".to_owned(),
        "apisix_nginx_http_current_connections{state=\"active\"} ".to_owned(),
        "apisix_nginx_http_current_connections{state=\"accepted\"} ".to_owned(),
        "apisix_node_info{hostname=\"".to_owned(),
        format!("weir_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "weir_config_revision{worker=\"1\"} ".to_owned(),
        "weir_access_log_dropped_lines_total 0".to_owned(),
        "weir_error_log_dropped_lines_total 0".to_owned(),
    ];
    for line in &expected {
        assert!(has(&text, line), "{line} is not in\n{text}");
    }
    assert_eq!(text.matches("apisix_etcd_").count(), 0, "there is no etcd to tell of");
    check_exposition(&text);
    let response = ask(&weir, "metrics", "GET", "/apisix/prometheus/metrics", "");
    assert!(
        response.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"),
        "{response:?}"
    );
    assert_eq!(ask(&weir, "metrics", "GET", "/other", "").status, 404);
}

#[test]
fn connections_are_counted_by_state() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |request| match request.header("x-wait") {
            Some(_) => Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            None => Reply::ok("hello"),
        }
    });
    let weir = start(&origin, |builder| builder.arguments(&["--workers", "2"]));
    let mut metrics = Client::connect(weir.address("metrics"));
    let mut expect = |what: &str, states: [(&str, usize); 6]| {
        wait_until(what, || {
            let text = metrics.get("/metrics").text();
            states.iter().all(|(state, count)| {
                let line = format!("apisix_nginx_http_current_connections{{state=\"{state}\"}} {count}");
                text.lines().any(|found| found == line)
            })
        });
    };
    let state = |accepted, reading, writing, waiting| {
        let active = reading + writing + waiting;
        [
            ("accepted", accepted),
            ("handled", accepted),
            ("active", active),
            ("reading", reading),
            ("writing", writing),
            ("waiting", waiting),
        ]
    };
    expect("nothing is there", state(0, 0, 0, 0));
    let _silent = [weir.client(), weir.client()];
    expect("two have said nothing", state(2, 0, 0, 2));
    let mut idle = weir.client();
    assert_eq!(idle.get("/a").status, 200);
    expect("one is idle", state(3, 0, 0, 3));
    let mut head = weir.client();
    head.send(b"GET /a HTTP/1.1\r\nHost");
    expect("a part of a head has come", state(4, 1, 0, 3));
    let mut busy = weir.client();
    busy.send(b"GET /a HTTP/1.1\r\nHost: h\r\nX-Wait: 1\r\n\r\n");
    origin.wait_for_requests(2);
    expect("one waits for its answer", state(5, 1, 1, 3));
    go.set();
    assert_eq!(busy.read_response(false).unwrap().text(), "ok");
    head.send(b": h\r\n\r\n");
    assert_eq!(head.read_response(false).unwrap().text(), "hello");
    expect("both are idle", state(5, 0, 0, 5));
    drop((idle, head, busy));
    expect("three have closed", state(5, 0, 0, 2));
}

/// Checks that every sample has a type before it, and that every value is a number.
fn check_exposition(text: &str) {
    let mut typed: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(!typed.contains(&name), "{name} is told twice");
            typed.push(name);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(typed.contains(&name) || family.is_some_and(|family| typed.contains(&family)), "{line}");
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn the_log_level_changes_while_it_runs() {
    let origin = Origin::answering("hello");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("error.log");
    let weir = start(&origin, |builder| {
        builder.arguments(&["--error-log", path.to_str().unwrap(), "--log-level", "warn"])
    });
    let level = |method: &str, body: &str| {
        let response = ask(&weir, "control", method, "/v1/weir/log_level", body);
        (response.status, response.json())
    };
    // A change is logged at `info`, if the new level allows it.
    let changes = |count: usize| {
        wait_until(&format!("{count} changes are logged"), || {
            fs::read_to_string(&path).unwrap().matches("the log level was changed").count() == count
        });
    };
    assert_eq!(level("GET", ""), (200, json!({"level": "warn"})));
    assert_eq!(level("PUT", r#"{"level": "error"}"#), (200, json!({"level": "error"})));
    assert_eq!(level("PUT", r#"{"level": "info"}"#), (200, json!({"level": "info"})));
    changes(1);
    let (status, answer) = level("PUT", r#"{"level": "loud"}"#);
    assert!(
        status == 400 && answer["error_msg"].as_str().unwrap().contains("`loud` is not a level"),
        "{answer}"
    );
    assert_eq!(level("PUT", r#"{"level": "error,gateway=info"}"#).0, 200);
    assert_eq!(level("PUT", r#"{"level": "error,control=info"}"#).0, 200);
    assert_eq!(level("PUT", r#"{"level": "off"}"#).0, 200);
    assert_eq!(level("PUT", r#"{"level": "info"}"#).0, 200);
    changes(3);

    fs::rename(&path, folder.path().join("error.log.1")).unwrap();
    weir.reopen_logs();
    wait_until("the error log is opened anew", || path.exists());
    assert_eq!(level("PUT", r#"{"level": "info"}"#).0, 200);
    changes(1);
}

#[test]
fn a_client_cannot_forge_lines_of_the_error_log() {
    let weir = Weir::start(BINARY);
    weir.admin_raw("GET", "routes?api_key=a%0A2026-01-01%20ERROR%20forged", &[], b"");
    weir.admin_raw("PUT", "routes/a%0AERROR%20forged", &[("X-API-KEY", testkit::ADMIN_KEY)], b"{");
    wait_until("the log has come", || {
        weir.stderr().iter().any(|line| line.contains("failed to check token"))
    });
    assert!(weir.stderr().iter().all(|line| !line.starts_with("2026-01-01") && !line.starts_with("ERROR")));
}

#[test]
fn access_log_tells_each_attempt_of_a_request() {
    let (dead, origin) = (Origin::nowhere(), Origin::answering("hello"));
    let format = ["--access-log", "stdout", "--access-log-format", "$status <$weir_attempts>"];
    let weir = Weir::builder(BINARY).arguments(&format).start();
    let nodes = json!([
        {"host": "127.0.0.1", "port": dead.port(), "weight": 1, "priority": 1},
        {"host": "127.0.0.1", "port": origin.port(), "weight": 1, "priority": 0},
    ]);
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes, "retries": 1}}));
    assert_eq!(weir.get("/").text(), "hello");
    let line =
        wait_for("the line of the request", || weir.stdout().into_iter().find(|line| line.contains('<')));
    let attempts = line.strip_prefix("200 <").and_then(|rest| rest.strip_suffix('>')).unwrap();
    let attempts: Vec<Vec<&str>> = attempts.split(", ").map(|one| one.split(' ').collect()).collect();
    let (first, second) = (dead.to_string(), origin.address().to_string());
    assert_eq!(
        attempts.iter().map(|one| one[..2].to_vec()).collect::<Vec<_>>(),
        [[first.as_str(), "connect_failed"], [second.as_str(), "200"]]
    );
    assert!(attempts.iter().all(|one| one[2].parse::<f64>().is_ok()), "{line}");
}

#[test]
fn status_and_control_tell_how_the_node_is() {
    let origin = Origin::answering("hello");
    let weir = start(&origin, |builder| builder);
    for path in ["/status", "/status/ready"] {
        let response = ask(&weir, "status", "GET", path, "");
        assert_eq!((response.status, response.json()), (200, json!({"status": "ok"})), "{path}");
    }
    assert_eq!(ask(&weir, "status", "GET", "/other", "").status, 404);
    let control = |path: &str| {
        let response = ask(&weir, "control", "GET", path, "");
        (response.status, response.json())
    };
    let (status, routes) = control("/v1/routes");
    assert_eq!(
        (status, &routes[0]["key"], &routes[0]["has_domain"]),
        (200, &json!("/apisix/routes/a"), &json!(false))
    );
    assert_eq!(control("/v1/route/a").1["value"]["name"], "first");
    assert_eq!(control("/v1/route/b"), (404, json!({"error_msg": "route[b] not found"})));
    assert_eq!(control("/v1/healthcheck"), (200, json!([])));
    assert!(control("/v1/schema").1["plugins"]["key-auth"]["schema"].is_object());
    let (_, status) = weir.admin("GET", "weir/status", Value::Null);
    assert_eq!((&status["objects"]["routes"], &status["faults"]), (&json!(1), &json!([])));
}
