//! Errors as clients and operators see them: pages by `Accept`, the id of the request, and the reason of each
//! 5xx in a response field, the access log and the metrics.

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Response, Weir, wait_for};

use crate::support::BINARY;

/// The `Accept` of browsers.
const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

/// A gateway with routes that each end in one way: `/dead` (no connection), `/broken` (500 of the upstream),
/// `/missing` (404 of the upstream), `/aborted` (503 of a plugin), `/locked` (401 of a plugin).
fn gateway(arguments: &[&str]) -> (Weir, Origin) {
    let origin = Origin::start(|request| match request.path() {
        "/broken" => Reply::status(500, "own words"),
        _ => Reply::status(404, "not here"),
    });
    let weir = Weir::builder(BINARY).arguments(arguments).start();
    let dead = json!({"nodes": {Origin::nowhere().to_string(): 1}, "retries": 0});
    let live = json!({"nodes": {origin.address().to_string(): 1}});
    let routes = [
        ("dead", json!({"upstream": dead})),
        ("broken", json!({"upstream": live})),
        ("missing", json!({"upstream": live})),
        (
            "aborted",
            json!({"upstream": live, "plugins": {"fault-injection": {"abort": {"http_status": 503}}}}),
        ),
        ("locked", json!({"upstream": live, "plugins": {"key-auth": {}}})),
    ];
    for (name, mut route) in routes {
        route["uri"] = format!("/{name}").into();
        weir.put(&format!("routes/{name}"), route);
    }
    (weir, origin)
}

fn browse(weir: &Weir, method: &str, path: &str) -> Response {
    weir.client().request(method, path, &[BROWSER], b"")
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn error_is_html_for_browsers_and_json_for_others() {
    let (weir, _origin) = gateway(&[]);
    for (path, status, title) in [("/none", 404, "404 Not Found"), ("/dead", 502, "502 Bad Gateway")] {
        let page = browse(&weir, "GET", path);
        assert_eq!((page.status, page.header("content-type")), (status, Some("text/html; charset=utf-8")));
        let (text, id) = (page.text(), page.header("x-request-id").unwrap().to_owned());
        assert!(is_id(&id) && text.contains(&format!("<code>{id}</code>")), "{id}: {text}");
        assert!(text.contains(&format!("<title>{title}</title>")) && !text.contains("<script"), "{text}");
        assert!(text.contains("prefers-color-scheme:dark") && text.len() < 2_048, "{}", text.len());
        // A cache must keep both forms of a 404 apart; it keeps no 502 by itself.
        assert_eq!(page.header("vary"), (status == 404).then_some("Accept"));

        let head = browse(&weir, "HEAD", path);
        let length = text.len().to_string();
        assert_eq!((head.status, head.header("content-length")), (status, Some(&*length)));
        assert_eq!(head.header("content-type"), page.header("content-type"));
    }
    let missing = weir.get("/none");
    assert_eq!(missing.text(), "{\"error_msg\":\"404 Route Not Found\"}\n", "the contract fixes it");
    assert_eq!(missing.header("content-type"), Some("application/json"));
    assert!(is_id(missing.header("x-request-id").unwrap()));
    assert_eq!(missing.header("vary"), Some("Accept"));
    let failed = weir.client().request("GET", "/dead", &[("Accept", "*/*")], b"");
    let id = failed.header("x-request-id").unwrap();
    assert_eq!(failed.json(), json!({"error_msg": "502 Bad Gateway: connect_failed", "request_id": id}));

    // Responses of upstreams and replies of plugins are theirs.
    for (path, status, body) in [("/broken", 500, "own words"), ("/missing", 404, "not here")] {
        let answer = browse(&weir, "GET", path);
        assert_eq!((answer.status, &*answer.text()), (status, body));
        assert_eq!(answer.header("x-request-id"), None);
    }
    let locked = browse(&weir, "GET", "/locked");
    assert_eq!((locked.status, locked.json()), (401, json!({"message": "Missing API key in request"})));
}

#[test]
fn html_is_switched_off_by_setting() {
    let (weir, _origin) = gateway(&["--html-errors=false"]);
    let answer = browse(&weir, "GET", "/none");
    assert_eq!(answer.text(), "{\"error_msg\":\"404 Route Not Found\"}\n");
    assert_eq!(answer.header("vary"), None);
}

#[test]
fn bad_request_of_browser_is_explained_as_text() {
    let (weir, _origin) = gateway(&[]);
    let mut client = weir.client();
    client.send(b"GET /a%5cb HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n");
    let answer = client.read_response(false).unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("text/html; charset=utf-8")));
    assert!(answer.text().contains("the path holds a backslash"), "{}", answer.text());
}

#[test]
fn plugins_decide_about_ids_and_pages() {
    let (weir, _origin) = gateway(&[]);
    let id = json!({"request-id": {"header_name": "X-Own", "include_in_response": true}});
    weir.put("global_rules/id", json!({"plugins": id}));
    let page = wait_for("the rule is in force", || {
        let page = weir.client().request("GET", "/dead", &[BROWSER, ("X-Own", "<mine>")], b"");
        (page.header("x-own") == Some("<mine>")).then_some(page)
    });
    assert_eq!(page.header("x-request-id"), None, "the plugin names the field");
    assert!(page.text().contains("<code>&lt;mine&gt;</code>"), "{}", page.text());

    weir.put("plugin_metadata/error-page", json!({"enable": true, "error_502": {"body": "<b>own page</b>"}}));
    weir.put("global_rules/page", json!({"plugins": {"error-page": {}}}));
    let page = wait_for("the page is in force", || {
        let page = browse(&weir, "GET", "/dead");
        (page.text() == "<b>own page</b>").then_some(page)
    });
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/html")));
}

#[test]
fn error_header_names_cause_phase_and_endpoint() {
    let (weir, origin) = gateway(&["--error-header=true"]);
    let header = |path: &str| weir.get(path).header("x-weir-error").map(str::to_owned);
    let dead = header("/dead").unwrap();
    assert!(dead.starts_with("cause=connect_failed; phase=connect; endpoint=127.0.0.1:"), "{dead}");
    assert!(dead.ends_with("; attempts=1"), "{dead}");
    let node = origin.address();
    let broken = format!("cause=upstream_status; phase=wait; endpoint={node}; attempts=1");
    assert_eq!(header("/broken"), Some(broken));
    assert_eq!(header("/aborted").as_deref(), Some("cause=fault-injection; phase=rewrite; attempts=0"));
    for path in ["/missing", "/locked", "/none"] {
        assert_eq!(header(path), None, "{path}");
    }
    let (weir, _origin) = gateway(&[]);
    for path in ["/dead", "/broken", "/aborted"] {
        assert_eq!(weir.get(path).header("x-weir-error"), None, "{path}: addresses stay inside");
    }
}

#[test]
fn access_log_has_reason_of_each_error() {
    let format = r#"{"uri":"$uri","status":"$status","cause":"$weir_cause","blame":"$weir_blame","phase":"$weir_phase","node":"$weir_node","plugin":"$weir_plugin","id":"$request_id"}"#;
    let (weir, origin) = gateway(&["--access-log", "stdout", "--access-log-format", format]);
    let node = origin.address().to_string();
    for (path, status, cause, blame, phase, at, plugin) in [
        ("/broken", 500, "upstream_status", "origin", "wait", &*node, ""),
        ("/aborted", 503, "fault-injection", "gateway", "rewrite", "", "fault-injection"),
        ("/locked", 401, "key-auth", "client", "rewrite", "", "key-auth"),
        ("/none", 404, "route_not_found", "client", "route", "", ""),
        ("/missing", 404, "", "", "", "", ""),
    ] {
        let answer = weir.get(path);
        let line: Value = wait_for("the line of the log", || {
            let lines = weir.stdout();
            let line = lines.iter().find(|line| line.contains(&format!("\"uri\":\"{path}\"")))?;
            serde_json::from_str(line).ok()
        });
        let field = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(line["status"], status, "{line}");
        assert_eq!(
            ["cause", "blame", "phase", "node", "plugin"].map(field),
            [cause, blame, phase, at, plugin]
        );
        if path == "/none" {
            assert_eq!(answer.header("x-request-id"), line["id"].as_str());
        }
    }
}

#[test]
fn metrics_count_server_errors_by_cause() {
    let (weir, origin) = gateway(&["--workers", "2"]);
    for path in ["/dead", "/broken", "/broken", "/aborted", "/locked", "/missing", "/none"] {
        weir.get(path);
    }
    let node = origin.address();
    let broken = format!(
        "weir_server_errors_total{{code=\"500\",cause=\"upstream_status\",blame=\"origin\",phase=\"wait\",endpoint=\"{node}\"}} 2"
    );
    let aborted = "weir_server_errors_total{code=\"503\",cause=\"fault-injection\",blame=\"gateway\",phase=\"rewrite\",endpoint=\"\"} 1";
    let dead = "weir_server_errors_total{code=\"502\",cause=\"connect_failed\",blame=\"origin\",phase=\"connect\",endpoint=\"127.0.0.1:";
    // A request is counted when it ends, which may be after its client has read the response.
    for path in ["/metrics", "/apisix/prometheus/metrics"] {
        wait_for("all errors are counted", || {
            let text = Client::connect(weir.address("metrics")).get(path).text();
            let lines: Vec<&str> =
                text.lines().filter(|line| line.starts_with("weir_server_errors_total{")).collect();
            let has = |line: &str| lines.iter().any(|found| found.starts_with(line));
            (lines.len() == 3 && has(&broken) && has(aborted) && has(dead)).then_some(())
        });
    }
}
