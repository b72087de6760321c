//! Functions over replies, without a socket.

use exchange::testing::{Scene, configuration_check, decide};
use serde_json::json;

use super::*;

/// `reply` behind the functions.
fn changed(functions: &[&str], mut reply: BufferedReply) -> BufferedReply {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({ "functions": functions }));
    let mut exchange =
        scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n");
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    exchange::plugin::transform_reply::transform(&mut exchange, &mut reply);
    reply
}

fn function(code: &str) -> String {
    format!("return (function(code, body, header) do {code} end return code, body, header end)(...)")
}

fn text(reply: &BufferedReply) -> (u16, String, Vec<String>) {
    let fields = reply.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    (reply.status, String::from_utf8_lossy(&reply.body).into_owned(), fields)
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"functions": []}), None);
    check(json!({"functions": [function("")]}), None);
    check(json!({}), Some("functions"));
    check(json!({"functions": [1]}), Some("functions"));
    let faulty = function("if code == then return 405 end");
    check(json!({"functions": [function(""), faulty]}), Some("functions[1]: function:1: unexpected symbol"));
    check(json!({"functions": ["\u{1b}LJ"]}), Some("functions[0]"));
}

#[test]
fn functions_change_status_body_and_fields() {
    let refusal =
        || BufferedReply::message(401, "Missing API key in request").with_header("WWW-Authenticate", "key");
    let challenge = "WWW-Authenticate: key".to_owned();
    let json = "Content-Type: application/json".to_owned();
    let plain = "Content-Type: text/plain; charset=utf-8".to_owned();
    let cases = [
        ("", 401, "{\"message\":\"Missing API key in request\"}\n", vec![json.clone(), challenge.clone()]),
        (
            "if code == 401 then return 402, body, header end",
            402,
            "{\"message\":\"Missing API key in request\"}\n",
            vec![json.clone(), challenge.clone()],
        ),
        ("return 405", 405, "", vec![challenge.clone()]),
        ("return '503', 'text', header", 503, "text", vec![challenge.clone(), plain.clone()]),
        (
            "if body.message == 'Missing API key in request' then return 400, {message = 'no'}, {['content-type'] = 'application/x'} end",
            400,
            "{\"message\":\"no\"}\n",
            vec![challenge.clone(), "content-type: application/x".into()],
        ),
        (
            "header['X-Code'] = code header['www-authenticate'] = {'a', 'b'} return nil, body, header",
            401,
            "{\"message\":\"Missing API key in request\"}\n",
            Vec::new(),
        ),
        ("return 400, body.message, nil", 400, "Missing API key in request", vec![challenge.clone(), plain]),
    ];
    for (code, status, body, fields) in cases {
        let got = text(&changed(&[&function(code)], refusal()));
        assert_eq!((got.0, &*got.1), (status, body), "{code}");
        if !fields.is_empty() {
            assert_eq!(got.2, fields, "{code}");
        } else {
            let mut lines = got.2;
            lines.sort();
            let expected = [json.as_str(), "X-Code: 401", "www-authenticate: a", "www-authenticate: b"];
            assert_eq!(lines, expected, "{code}");
        }
    }
    let to_table = changed(
        &[&function("return code, {a = body}, header")],
        BufferedReply::status(500).with_body(&b"x"[..]),
    );
    assert_eq!(text(&to_table), (500, "{\"a\":\"x\"}\n".into(), vec![json]));
}

#[test]
fn each_function_gets_the_result_of_the_one_before() {
    let first = function("if code == 404 then return 410, 'gone', header end");
    let failing = function("return code()");
    let last = function("if code == 410 then return 411, body .. '!', header end");
    let reply = changed(&[&first, &failing, &last], BufferedReply::message(404, "no"));
    assert_eq!((reply.status, &*reply.body), (411, &b"gone!"[..]));
}

#[test]
fn failing_function_leaves_the_reply_as_it_is() {
    let failing = [
        "return code()",
        "while true do end",
        "return 99",
        "return {}",
        "return code, function() end, header",
        "return code, body, 'x'",
        "return code, body, {['a b'] = 1}",
        "local t = {} t.t = t return code, t, header",
        "return require('io')",
    ];
    for code in failing {
        let reply = changed(&[&function(code)], BufferedReply::message(404, "no"));
        let (status, body, fields) = text(&reply);
        if code.contains("function() end") {
            // It is no error: the body is the name of the value, as APISIX prints it.
            assert_eq!(status, 404, "{code}");
            continue;
        }
        assert_eq!((status, &*body), (404, "{\"message\":\"no\"}\n"), "{code}");
        assert_eq!(fields, ["Content-Type: application/json"], "{code}");
    }
}

#[test]
fn function_reads_the_request() {
    let code = "local core = require('apisix.core') local ct = core.request.headers()['Content-Type'] \
        core.log.warn('seen') if ct == 'application/json' and code == 404 then return 405 end";
    assert_eq!(changed(&[&function(code)], BufferedReply::message(404, "no")).status, 405);
}
