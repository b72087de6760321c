//! The messages of the protocol, with a stand-in on another library of FlatBuffers.

use serde_json::{Value, json};
use testkit::{Origin, Reply, Weir, plugin_runner};

use super::{conf, route, start};

fn gateway() -> (Origin, Weir) {
    let origin = Origin::start(|request| match request.path() {
        "/chunked" => Reply::chunked(&["ab", "cd"], &[]),
        _ => Reply::with(200, &[("X-Old", "1"), ("ETag", "\"1\"")], b"from upstream"),
    });
    (origin, start(&plugin_runner::stand_in()))
}

#[test]
fn runner_sees_request_and_asks_for_more() {
    let (origin, weir) = gateway();
    let echo = conf("echo", "host,arg_x,request_method,http_x_req,nothing");
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": echo})));
    let mut client = weir.client();
    let fields = [("Host", "shop.example"), ("X-Req", "foo")];
    let answer = client.request("PUT", "/a%20b?x=y&x=z&y=&z", &fields, b"the body");
    assert_eq!((answer.status, answer.header_all("x-seen")), (200, vec!["1", "2"]));
    let seen = answer.json();
    assert_eq!((&seen["method"], &seen["path"]), (&json!("PUT"), &json!("/a b")));
    assert_eq!(seen["args"], json!([["x", "y"], ["x", "z"], ["y", ""], ["z", null]]));
    assert_eq!(seen["client"], json!([127, 0, 0, 1]));
    let headers = seen["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["host", "shop.example"])) && headers.contains(&json!(["x-req", "foo"])));
    let variables = json!({"host": "shop.example", "arg_x": "y", "request_method": "PUT", "http_x_req": "foo", "nothing": ""});
    assert_eq!((&seen["variables"], &seen["body"]), (&variables, &json!("the body")));
    assert_eq!(seen["response"], "", "there is none yet");
    assert!(origin.requests().is_empty());
    let long = client.request("POST", "/", &[], &vec![b'x'; 3_000_000]).json();
    assert_eq!(long["body"].as_str().map(str::len), Some(3_000_000));
}

#[test]
fn runner_changes_the_whole_request() {
    let (origin, weir) = gateway();
    let changes = json!({
        "path": "/new?a=2",
        "headers": [["X-Delete", null], ["X-Change", "bar"], ["host", "node.example"], ["Content-Length", "1"]],
        "args": [["a", "foo"], ["d", null], ["c", "bar"], ["a", "bar"]],
        "response_headers": [["X-Same", "one"], ["X-Same", "two"], ["Content-Type", "text/html"]],
        "body": "another body",
    });
    for plugin in ["ext-plugin-pre-req", "ext-plugin-post-req"] {
        weir.put("routes/1", route(&origin, "/*", json!({plugin: conf("rewrite", &changes.to_string())})));
        let fields = [("X-Delete", "1"), ("X-Change", "foo"), ("X-Stay", "1")];
        let response = weir.client().request("POST", "/old?c=foo&d=bar&e", &fields, b"old");
        assert_eq!((response.status, response.header_all("x-same")), (200, vec!["one", "two"]), "{plugin}");
        assert_eq!(response.header("content-type"), None, "{plugin}: that of the upstream stays");
        let request = origin.last_request();
        assert_eq!(request.target, "/new%3Fa=2?c=bar&e&a=foo&a=bar", "{plugin}");
        let field = |name: &str| request.header(name);
        assert_eq!((field("x-delete"), field("x-change"), field("x-stay")), (None, Some("bar"), Some("1")));
        assert_eq!((field("host"), field("content-length")), (Some("node.example"), Some("12")));
        assert_eq!(request.text(), "another body");
    }
}

#[test]
fn body_is_given_to_request_without_one() {
    let (origin, weir) = gateway();
    let changes = json!({"body": "a body"});
    weir.put(
        "routes/1",
        route(&origin, "/*", json!({"ext-plugin-pre-req": conf("rewrite", &changes.to_string())})),
    );
    assert_eq!(weir.get("/").status, 200);
    assert_eq!(origin.last_request().text(), "a body");
}

#[test]
fn upload_that_no_plugin_reads_is_streamed() {
    let (origin, weir) = gateway();
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("pass", "")})));
    // Longer than a message can be, and by so little that nothing of it is left unread.
    let body = vec![b'x'; 16 * 1024 * 1024 - 10];
    assert_eq!(weir.client().request("POST", "/", &[], &body).status, 200);
    assert_eq!(origin.last_request().body_length, body.len() as u64);
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-pre-req": conf("echo", "")})));
    assert_eq!(weir.client().request("POST", "/", &[], &body).status, 503, "a plugin asks for it");
}

#[test]
fn several_questions_at_once_are_answered() {
    let (origin, weir) = gateway();
    weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-post-req": conf("several questions", "")})));
    let mut client = weir.client();
    for _ in 0..3 {
        let answer = client.request("GET", "/a", &[("Host", "h")], b"");
        assert_eq!(answer.text(), "/a h http");
    }
}

#[test]
fn runner_changes_the_response() {
    let (origin, weir) = gateway();
    let put = |name: &str| {
        weir.put("routes/1", route(&origin, "/*", json!({"ext-plugin-post-resp": conf(name, "")})));
    };
    put("look");
    let response = weir.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "from upstream"));
    assert_eq!(
        (response.header("x-old"), response.header("etag")),
        (Some("1"), Some("\"1\"")),
        "others stay"
    );
    let seen: Value = serde_json::from_str(response.header("x-seen").unwrap()).unwrap();
    assert_eq!(seen["status"], 200);
    put("replace");
    let response = weir.get("/");
    assert_eq!((response.status, response.text().as_str()), (201, "replaced"));
    assert_eq!((response.header_all("x-same"), response.header("etag")), (vec!["one", "two"], None));
    let head = weir.client().request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.text().as_str()), (201, ""));
    put("reverse");
    let response = weir.get("/");
    assert_eq!((response.text().as_str(), response.header("x-length")), ("maertspu morf", Some("13")));
    assert_eq!(weir.get("/chunked").text(), "dcba");
    let head = weir.client().request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.header("x-length")), (200, Some("0")));
    // A response of the gateway is none of the upstream.
    weir.put(
        "routes/1",
        route(&origin, "/*", json!({"ext-plugin-post-resp": conf("reverse", ""), "key-auth": {}})),
    );
    assert_eq!((weir.get("/").status, weir.get("/").header("x-length")), (401, None));
}
