//! Configurations that `response-rewrite` accepts, check_configuration, and its effect on requests and
//! responses.
use super::*;
use exchange::testing::{Scene, accepts, check_configuration, lines, respond};
use model::catalog::SchemaType;

#[test]
fn configurations() {
    let check = |config: Value, want: Result<(), &str>| {
        check_configuration(&KIND, SchemaType::Plugin, &config, want.err());
    };
    check(json!({}), Ok(()));
    check(json!({ "body": "a", "status_code": 200 }), Ok(()));
    check(json!({ "body": "YQ==", "body_base64": true }), Ok(()));
    check(json!({ "body": "YQ", "body_base64": true }), Ok(()));
    check(json!({ "headers": { "A": 1 }, "vars": [["status", "==", 200]] }), Ok(()));
    check(
        json!({ "headers": { "add": ["A: b", "Set-Cookie: c=d; Max-Age=1"], "set": { "B": 1 }, "remove": ["C"] } }),
        Ok(()),
    );
    check(
        json!({ "filters": [{ "regex": "a", "replace": "$0", "scope": "global", "options": "ijo" }] }),
        Ok(()),
    );
    check(json!({ "status_code": 199 }), Err("status_code"));
    check(json!({ "status_code": 599 }), Err("status_code"));
    check(json!({ "body": "!", "body_base64": true }), Err("invalid base64 content"));
    check(json!({ "body": "", "body_base64": true }), Err("invalid base64 content"));
    check(json!({ "body_base64": true }), Err("invalid base64 content"));
    check(json!({ "headers": { "a b": 1 } }), Err("invalid field character in header"));
    check(json!({ "headers": { "a": "1\nb" } }), Err("invalid value character in header"));
    check(json!({ "headers": { "add": ["a"] } }), Err("headers"));
    check(json!({ "vars": [["a", "unknown", 1]] }), Err("failed to validate the 'vars' expression"));
    check(json!({ "filters": [{ "regex": "(", "replace": "" }] }), Err("regex \"(\" validation failed"));
    check(json!({ "filters": [{ "regex": "a", "replace": "$x" }] }), Err("regex \"a\" validation failed"));
    check(
        json!({ "filters": [{ "regex": "a", "replace": "", "options": "q" }] }),
        Err("regex \"a\" validation failed"),
    );
    check(json!({ "filters": [{ "regex": "a" }] }), Err("filters"));
    check(json!({ "filters": [{ "regex": "a", "replace": "" }], "body": "b" }), Err(""));
    check(json!({ "unknown": 1 }), Err("unknown"));
}

/// Passes a response with `fields` and `pieces` of body through a plugin: its status, fields and body.
fn pass(config: Value, status: u16, fields: &[(&str, &str)], pieces: &[&str]) -> (u16, Vec<String>, String) {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(b"GET /a?x=%0A HTTP/1.1\r\nHost: h\r\n\r\n");
    respond(&mut exchange, status, fields);
    exchange::testing::finish(plugin.response_head(&mut exchange));
    let mut out = Vec::new();
    let portions = match plugin.wants_response_body(&exchange) {
        BodyNeed::Buffer { .. } => vec![(pieces.concat(), Portion::Last)],
        BodyNeed::Stream => {
            let piece = |piece: &&str| ((*piece).to_owned(), Portion::Piece);
            pieces.iter().map(piece).chain([(String::new(), Portion::Last)]).collect()
        }
        BodyNeed::None | BodyNeed::Copy { .. } => {
            out = pieces.concat().into_bytes();
            Vec::new()
        }
    };
    for (piece, portion) in portions {
        let mut body = piece.into_bytes();
        exchange::testing::finish(plugin.response_body(&mut exchange, &mut body, portion));
        out.extend(body);
    }
    (exchange.response.status, lines(&exchange.response.headers), String::from_utf8(out).unwrap())
}

#[test]
fn responses() {
    let fields = [("ETag", "1"), ("Last-Modified", "x"), ("Content-Encoding", "gzip"), ("A", "1")];
    let check = |config: Value, want: (u16, &[&str], &str)| {
        let got = pass(config.clone(), 200, &fields, &["abc", "abc"]);
        assert_eq!(
            (got.0, &*got.1.iter().map(String::as_str).collect::<Vec<_>>(), &*got.2),
            want,
            "{config}"
        );
    };
    let all = ["ETag: 1", "Last-Modified: x", "Content-Encoding: gzip", "A: 1"];
    check(json!({}), (200, &all, "abcabc"));
    check(json!({ "status_code": 404 }), (404, &all, "abcabc"));
    check(json!({ "body": "new" }), (200, &["A: 1"], "new"));
    check(json!({ "body": "bmV3", "body_base64": true }), (200, &["A: 1"], "new"));
    check(
        json!({ "body": "new", "vars": [["status", "==", 500]], "status_code": 201 }),
        (200, &all, "abcabc"),
    );
    check(json!({ "body": "", "vars": [["status", "==", 200]], "status_code": 201 }), (201, &["A: 1"], ""));
}

#[test]
fn filters_decode_a_compressed_body() {
    use std::io::Read;
    let mut gzip = Vec::new();
    let level = flate2::Compression::fast();
    flate2::read::GzEncoder::new(&b"abcabc"[..], level).read_to_end(&mut gzip).unwrap();
    // The fields that are left, and the body or the cause of the failure.
    let filtered = |codings: &[&str], body: &[u8], limit: usize| {
        let mut scene = Scene::new();
        let filters = json!([{ "regex": "a", "replace": "x" }]);
        let plugin = scene.build(&KIND, &json!({ "filters": filters, "max_resp_body_size": limit }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let fields: Vec<(&str, &str)> = codings.iter().map(|coding| ("Content-Encoding", *coding)).collect();
        respond(&mut exchange, 200, &fields);
        exchange::testing::finish(plugin.response_head(&mut exchange));
        let mut body = body.to_vec();
        let mut failed = None;
        if plugin.wants_response_body(&exchange) != BodyNeed::None {
            match plugin.response_body(&mut exchange, &mut body, Portion::Last) {
                ResponseStep::FailedBecause(cause, _) => failed = Some(cause.code()),
                step => exchange::testing::finish(step),
            }
        }
        let left = exchange.response.headers.get_all("Content-Encoding").count();
        (left, failed.map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned))
    };
    let check = |codings: &[&str], body: &[u8], limit: usize, left: usize, expected: &str| {
        assert_eq!(filtered(codings, body, limit), (left, expected.to_owned()), "{codings:?} {limit}");
    };
    let text = String::from_utf8_lossy(&gzip).into_owned();
    check(&["gzip"], &gzip, 100, 0, "xbcabc");
    check(&["", "gzip, identity"], &gzip, 100, 0, "xbcabc");
    check(&["identity"], b"abcabc", 100, 0, "xbcabc");
    // A limit, another coding, a cut body, and padding.
    let undecodable = "origin_body_undecodable";
    check(&["gzip"], &gzip, 5, 0, undecodable);
    check(&["br"], &gzip, 100, 0, undecodable);
    check(&["gzip"], &gzip[..gzip.len() - 3], 100, 0, undecodable);
    check(&["gzip"], &[&gzip[..], &[0; 8]].concat(), 100, 0, undecodable);
    // Compressed bytes are no text.
    check(&["compress"], b"abcabc", 100, 1, "abcabc");
    check(&["gzip", "br"], &gzip, 100, 2, &text);
    check(&["br, gzip"], &gzip, 100, 1, &text);
    // Some servers call other bodies so.
    check(&["deflate"], b"abcabc", 100, 1, "abcabc");
    let mut zlib = Vec::new();
    flate2::read::ZlibEncoder::new(&b"abcabc"[..], level).read_to_end(&mut zlib).unwrap();
    check(&["deflate"], &zlib, 100, 0, "xbcabc");
    for coding in ["gzip", "br", "zstd", "deflate", "identity"] {
        check(&[coding], b"", 100, 0, "");
    }
}

#[test]
fn event_streams_are_filtered_event_by_event() {
    let config = json!({ "filters": [{ "regex": "secret", "replace": "-" }] });
    let stream = [("Content-Type", "text/event-stream; charset=utf-8")];
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    respond(&mut exchange, 200, &stream);
    exchange::testing::finish(plugin.response_head(&mut exchange));
    assert_eq!(plugin.wants_response_body(&exchange), BodyNeed::Stream);
    let mut check = |piece: &str, portion: Portion, expected: &str| {
        let mut body = piece.as_bytes().to_vec();
        assert!(matches!(plugin.response_body(&mut exchange, &mut body, portion), ResponseStep::Done));
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{piece:?}");
    };
    check("data: sec", Portion::Piece, "");
    check("ret\n\ndata: b\n", Portion::Piece, "data: -\n\n");
    check("\ndata: secret secret", Portion::Piece, "data: b\n\n");
    check("", Portion::Last, "data: - secret");
    let long = "x".repeat(64 * 1024);
    let failed = (0..20).any(|_| {
        let mut body = long.as_bytes().to_vec();
        matches!(
            plugin.response_body(&mut exchange, &mut body, Portion::Piece),
            ResponseStep::FailedBecause(exchange::failure::Cause::BufferLimit, _)
        )
    });
    assert!(failed, "an event has a limit");
}

#[test]
fn error_bodies_of_the_gateway_are_not_filtered() {
    let config = json!({ "filters": [{ "regex": "a", "replace": "x" }] });
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let need = |exchange: &mut Exchange| {
        respond(exchange, 502, &[]);
        exchange::testing::finish(plugin.response_head(exchange));
        plugin.wants_response_body(exchange)
    };
    exchange.stats.answered_locally = true;
    assert_ne!(need(&mut exchange), BodyNeed::None, "a reply of a plugin is filtered");
    let cause = exchange::failure::Cause::ConnectFailed;
    exchange.failure = Some(exchange::failure::ExchangeFailure::new(cause, "refused"));
    assert_eq!(need(&mut exchange), BodyNeed::None);
}

#[test]
fn filters_take_bodies_up_to_their_limit() {
    let filters = json!([{ "regex": "a", "replace": "b" }]);
    let check = |limit: Value, want: Result<usize, ()>| {
        let mut config = json!({ "filters": filters });
        config["max_resp_body_size"] = limit;
        let got = accepts(&KIND, SchemaType::Plugin, &config);
        assert_eq!(got.is_ok(), want.is_ok(), "{config}: {got:?}");
        if let Ok(want) = want {
            let BodyRewrite::Filtered(filters) = compile(&config).unwrap().body else { panic!("{config}") };
            assert_eq!(filters.limit_bytes, want, "{config}");
        }
    };
    check(json!(1), Ok(1));
    check(json!(1_000), Ok(1_000));
    check(json!(0), Err(()));
    check(json!("1"), Err(()));
    let BodyRewrite::Filtered(filters) = compile(&json!({ "filters": filters })).unwrap().body else {
        panic!("filters are there");
    };
    assert_eq!(filters.limit_bytes, 64 * 1024 * 1024);
}

#[test]
fn base64_reference_is_decoded_when_resolved() {
    let config = json!({ "body": "$env://BODY", "body_base64": true });
    assert_eq!((KIND.check)(&config), Ok(()));
    assert!(compile(&config).is_err(), "the text of the reference is no Base64");
}

#[test]
fn filters_edit_the_whole_body() {
    let check = |filters: Value, want: &str| {
        let got = pass(json!({ "filters": filters }), 200, &[("ETag", "1")], &["ab", "cabc"]);
        assert_eq!((got.1.len(), &*got.2), (0, want), "{filters}");
    };
    check(json!([{ "regex": "bc", "replace": "-" }]), "a-abc");
    check(json!([{ "regex": "(B)c", "replace": "$1", "scope": "global", "options": "i" }]), "abab");
    check(json!([{ "regex": "a", "replace": "x" }, { "regex": "x", "replace": "y" }]), "ybcabc");
    check(json!([{ "regex": "none", "replace": "x" }]), "abcabc");
}

#[test]
fn fields() {
    let check = |headers: Value, want: &[&str]| {
        let got = pass(json!({ "headers": headers }), 200, &[("A", "1"), ("B", "2")], &[]);
        assert_eq!(got.1, want, "{headers}");
    };
    check(json!({ "A": "$host", "C": 3 }), &["A: h", "B: 2", "C: 3"]);
    check(json!({ "A": "" }), &["B: 2"]);
    check(json!({ "add": ["A: x", "C:y"], "set": { "B": "3" }, "remove": ["a"] }), &["B: 3", "C: y"]);
    // A line break in a variable's value never reaches the response.
    check(json!({ "set": { "A": "$arg_x" } }), &["A: 1", "B: 2"]);
    check(json!({ "set": { "A": "a${arg_x}b" } }), &["A: 1", "B: 2"]);
}
