//! Tests of `batch-requests`. The data plane serves no inner request here; `crates/weir/tests/it` has that
//! part.

use exchange::testing::{Scene, accepts, check_configuration, decide, lines};
use model::catalog::SchemaType;

use super::*;

#[test]
fn configurations() {
    check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
    let rows = [
        (json!({}), None),
        (json!({"max_body_size": 1, "max_pipeline_items": 1}), None),
        (json!({"max_body_size": 0}), Some("expected 0 to be greater than 0")),
        (json!({"max_pipeline_items": 0}), Some("expected 0 to be greater than 0")),
    ];
    for (metadata, fault) in rows {
        let got = accepts(&KIND, SchemaType::Metadata, &metadata);
        let is_expected = got
            .as_ref()
            .err()
            .map_or(fault.is_none(), |reason| fault.is_some_and(|fault| reason.contains(fault)));
        assert!(is_expected, "{metadata}: {got:?}");
    }
}

#[test]
fn faulty_batch_is_refused_with_reason() {
    let mut scene = Scene::new();
    let metadata = json!({"max_pipeline_items": 2});
    let plugin = scene.build_with(&KIND, &json!({}), Some(&metadata));
    let mut refusal = |body: &str| {
        let request = format!("POST /apisix/batch-requests HTTP/1.1\r\nHost: a\r\n\r\n{body}");
        let mut exchange = scene.exchange(request.as_bytes());
        let reply = decide(plugin.api(&mut exchange)).unwrap();
        (reply.status, String::from_utf8(reply.body.into_owned()).unwrap())
    };
    let rows = [
        ("", "no request body, you should give at least one pipeline setting"),
        ("nonsense", "invalid request body: nonsense, err: "),
        ("{}", r#"bad request body: object matches none of the required: [\"pipeline\"]"#),
        (
            r#"{"pipeline":[{"path":"/a"}],"timeout":"200"}"#,
            r#"property \"timeout\" validation failed: wrong type: expected integer, got string"#,
        ),
        (r#"{"pipeline":[{"path":"/a"}],"timeout":0}"#, r#"property \"timeout\" validation failed: "#),
        (
            r#"{"pipeline":[{"path":""}]}"#,
            r#"failed to validate item 1: property \"path\" validation failed: string too short, expected at least 1, got 0"#,
        ),
        (
            r#"{"pipeline":[{"path":"/a","method":"put"}]}"#,
            r#"item 1: property \"method\" validation failed: matches none of the enum values"#,
        ),
        (r#"{"pipeline":[{"path":"/a","version":1.2}]}"#, "matches none of the enum values"),
        (r#"{"pipeline":[{"path":"/a","ssl_verify":1}]}"#, "wrong type: expected boolean, got number"),
        (r#"{"pipeline":[]}"#, "expect array to have at least 1 items"),
        (r#"{"pipeline":[{"path":"/a","more":1}]}"#, "additional properties forbidden, found more"),
        (r#"{"pipeline":[{"method":"GET"}]}"#, r#"property \"path\" is required"#),
        (
            r#"{"pipeline":[{"path":"/a"},{"path":"/a"},{"path":"/a"}]}"#,
            "too many pipeline requests, 3 exceeds the maximum of 2",
        ),
        (r#"{"pipeline":[{"path":"/a b"}]}"#, "request failed: pipeline 1: "),
        (r#"{"pipeline":[{"path":"/a","headers":{"a":"b\r\nc"}}]}"#, "request failed: pipeline 1: "),
        // A later fault refuses the batch before the first request is sent.
        (r#"{"pipeline":[{"path":"/a"},{"path":"/a b"}]}"#, "request failed: pipeline 2: "),
    ];
    for (body, part) in rows {
        let (status, text) = refusal(body);
        assert!(
            status == 400 && text.starts_with("{\"error_msg\":\"") && text.contains(part),
            "{body}: {text}"
        );
    }
}

#[test]
fn request_has_fields_and_query_by_precedence() {
    let mut scene = Scene::new();
    let outer = scene.exchange(
        b"POST / HTTP/1.1\r\nHost: outer\r\nAuthorization: secret\r\nX-Forwarded-For: 9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n\
          Content-Type: application/json\r\nX-Both: outer\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\
          Range: bytes=0-1\r\nIf-None-Match: \"a\"\r\n\r\n",
    );
    let batch = json!({
        "query": {"lang": "en", "a": "common"},
        "headers": {"X-Both": "common", "X-Forwarded-For": "1.1.1.1", "x-real-ip": "1.1.1.1", "FORWARDED": "for=1.1.1.1"},
        "timeout": 100,
        "pipeline": [
            {"path": "/a?x=1", "query": {"a": ["1 2", "&"], "flag": true, "off": false}, "headers": {"Host": "inner", "x-both": "own"}},
            {"path": "/b", "method": "POST", "version": 1.0, "body": "text", "headers": {"Transfer-Encoding": "chunked"}}
        ]
    });
    let batch = RequestBatch::read(batch.to_string().as_bytes(), 9).unwrap();
    let first = batch.request(0, &outer, 50, 7).unwrap();
    assert_eq!(first.head.target_text(), b"/a?x=1&a=1%202&a=%26&flag&lang=en");
    assert_eq!((first.head.authority(), first.timeout_ms, first.max_body_bytes), (&b"inner"[..], 50, 7));
    let expected = [
        "host: inner",
        "x-both: own",
        "authorization: secret",
        "x-forwarded-for: 9.9.9.9",
        "x-real-ip: 127.0.0.1",
    ];
    assert_eq!(lines(&first.head.headers), expected);
    let second = batch.request(1, &outer, 500, 7).unwrap();
    assert_eq!(
        (second.head.target_text(), second.head.method_text()),
        (&b"/b?lang=en&a=common"[..], &b"POST"[..])
    );
    assert_eq!((&*second.body, second.timeout_ms), (&b"text"[..], 100));
    let fields = lines(&second.head.headers);
    assert!(fields.contains(&"x-both: common".to_owned()), "{fields:?}");
    assert!(fields.contains(&"Content-Length: 4".to_owned()), "{fields:?}");
    assert!(
        !fields.iter().any(|field| field.starts_with("transfer") || field.contains("1.1.1.1")),
        "{fields:?}"
    );
}

#[test]
fn request_on_thread_without_gateway_is_cut() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &json!({}));
    let mut exchange = scene
        .exchange(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n{\"pipeline\":[{\"path\":\"/a\"},{\"path\":\"/b\"}]}");
    let reply = decide(plugin.api(&mut exchange)).unwrap();
    let list: Value = serde_json::from_slice(&reply.body).unwrap();
    let cut = json!({"status": 502, "reason": "response cut"});
    assert_eq!((reply.status, list), (200, json!([cut, cut])));
    let long = plugin.refuse_long_body(&exchange).unwrap();
    let text = "{\"error_msg\":\"request size is greater than the maximum size 1048576 allowed\"}\n";
    assert_eq!((long.status, &*long.body), (413, text.as_bytes()));
}
