//! Configurations of `grpc-transcode`, the messages that it makes of requests, and the JSON and statuses that
//! it makes of replies.

use data_encoding::{BASE64, BASE64_NOPAD};
use exchange::testing::{Scene, check_configuration, decide, finish, lines, put_proto, respond};
use model::catalog::SchemaType;
use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message;

use super::*;

const DEFINITION: &str = "syntax = \"proto3\"; package t;
    import \"google/protobuf/struct.proto\";
    import \"google/protobuf/timestamp.proto\";
    enum Color { RED = 0; GREEN = 2; }
    message Inner { repeated string tags = 1; sint32 number = 2; }
    message All {
        string text = 1; int64 wide = 2; double real = 3; bool flag = 4; bytes data = 5; Color color = 6;
        repeated int32 list = 7; map<string, Inner> members = 8; Inner inner = 9; repeated Inner inners = 10;
        oneof choice { string name = 11; uint64 key = 12; }
        optional int32 maybe = 13; google.protobuf.Struct data_map = 14; google.protobuf.Timestamp at = 15;
        All next = 16; map<int32, bool> bits = 17; repeated Color colors = 18; fixed64 wider = 19; float small = 20;
    }
    message Two { int32 number = 1; }
    service Echo {
        rpc Do(All) returns (All); rpc Watch(All) returns (stream All); rpc Send(stream All) returns (All);
        rpc Small(Two) returns (Two);
    }";

const DEFINITION_2: &str = "syntax = \"proto2\"; package t;
    message Old { optional string text = 1 [default = \"x\"]; optional int32 number = 2; repeated int32 list = 3; }
    service Echo { rpc Do(Old) returns (Old); }";

fn plugin(scene: &Scene, config: Value) -> Arc<dyn Plugin> {
    put_proto("t", DEFINITION);
    let mut all = json!({"proto_id": "t", "service": "t.Echo", "method": "Do"});
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    scene.build(&KIND, &all)
}

#[test]
fn configurations() {
    put_proto("a-b", exchange::testing::PROTO);
    let check = |fields: Value, fault: Option<&str>| {
        let mut config = json!({"proto_id": 1, "service": "shop.Orders", "method": "Get"});
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        check_configuration(&KIND, SchemaType::Plugin, &config, fault);
    };
    check(json!({}), None);
    check(
        json!({"proto_id": "a-b", "deadline": 0.5, "pb_option": OPTIONS, "status_detail_type": "a.B"}),
        None,
    );
    check(json!({"pb_option": []}), Some("pb_option"));
    check(json!({"pb_option": ["int64"]}), Some("pb_option"));
    check(json!({"max_resp_body_size": 0}), Some("max_resp_body_size"));
    check(json!({"deadline": "1s"}), Some("deadline"));
    let missing = json!({"proto_id": 1, "service": "a.B"});
    check_configuration(&KIND, SchemaType::Plugin, &missing, Some("method"));
}

#[test]
fn call_that_cannot_be_made_is_no_instance() {
    put_proto("t", DEFINITION);
    put_proto("broken", "hello;");
    let states = exchange::plugin::state::StateRegistry::default();
    let services = exchange::testing::services();
    let check = |id: &str, service: &str, method: &str, expected: &str| {
        let config = json!({"proto_id": id, "service": service, "method": method});
        let fault = build(&exchange::testing::build("routes/1", None, &states, &services), &config).err();
        assert!(fault.as_ref().is_some_and(|fault| fault.contains(expected)), "{config}: {fault:?}");
    };
    check("none", "t.Echo", "Do", "failed to find proto by id: none");
    check("broken", "t.Echo", "Do", "proto broken: line 1: ");
    check("t", "t.Echos", "Do", "Undefined service method: t.Echos/Do");
    check("t", "t.Echo", "Dos", "Undefined service method: t.Echo/Dos");
    check("t", "t.Echo", "Send", "it takes a stream of messages");
}

/// The time between the heads of requests and their calls, as if their bodies arrived slowly.
const UPLOAD_NS: u64 = 60_000_000_000;

/// Sends a request through the plugin: the message of the call, or the status and the body of the refusal.
fn ask(config: Value, head: &str, body: &[u8]) -> Result<(Box<Exchange>, DynamicMessage), (u16, String)> {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, config);
    let mut exchange = scene.exchange(format!("{head}\r\nHost: h\r\n\r\n").as_bytes());
    exchange.body.keep_whole(body.to_vec(), None);
    exchange.times.started_ns = exchange.local().clock_ns().saturating_sub(UPLOAD_NS).max(1);
    let reply = match plugin.access(&mut exchange) {
        Flow::Wait(future) => match net::env::block_on(future).unwrap() {
            PhaseDecision::Reply(reply) => Some(*reply),
            _ => None,
        },
        flow => decide(flow),
    };
    if let Some(reply) = reply {
        return Err((reply.status, String::from_utf8_lossy(&reply.body).into_owned()));
    }
    let frame = exchange.request_body().unwrap().to_vec();
    let (message, rest) = frames::split_message_frame(&frame, usize::MAX).unwrap().unwrap();
    assert!(rest.is_empty());
    let pool = definition::compile_definition(DEFINITION).unwrap();
    let message = DynamicMessage::decode(pool.get_message_by_name("t.All").unwrap(), message).unwrap();
    Ok((exchange, message))
}

const JSON_POST: &str = "POST /x?text=unread HTTP/1.1\r\nContent-Type: application/json; charset=utf-8";

/// The JSON of a message that was made from this JSON, with these options.
fn through(body: &str, options: &[&str]) -> String {
    let (_, message) =
        ask(json!({}), JSON_POST, body.as_bytes()).unwrap_or_else(|refusal| panic!("{body}: {refusal:?}"));
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let mut out = Vec::new();
    response::write_message_json(&mut out, &message, JsonOptions::of(&options)).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn request_becomes_a_call() {
    let head = "GET /x?text=a%20b+c&wide=%230x10&list=1&flag&unknown=1 HTTP/1.1\r\nX-Trace: 7\r\nAccept-Encoding: gzip\r\ngrpc-accept-encoding: gzip";
    let (exchange, message) = ask(json!({"deadline": 500}), head, b"").unwrap();
    assert_eq!(exchange.request.method, Method::Post);
    assert_eq!((exchange.forward_path(), exchange.forward_query()), (&b"/t.Echo/Do"[..], None));
    let sent = lines(&exchange.request.headers);
    for line in ["Content-Type: application/grpc", "grpc-timeout: 500000u", "X-Trace: 7"] {
        assert!(sent.iter().any(|sent| sent.eq_ignore_ascii_case(line)), "{line} in {sent:?}");
    }
    assert!(!sent.iter().any(|line| line.starts_with("grpc-accept-encoding")), "{sent:?}");
    assert!(exchange.grpc.is_some_and(|call| call.is_translated && call.deadline_ns > 0));
    let mut out = Vec::new();
    response::write_message_json(
        &mut out,
        &message,
        JsonOptions { defaults: response::Defaults::Nothing, ..JsonOptions::default() },
    )
    .unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"text":"a b c","wide":16,"flag":true,"list":[1]}"#);
    // A form is read for POST alone, as in the contract; other methods have the query.
    let form = "POST /x?text=unread HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
    let (_, message) = ask(json!({}), form, b"text=form").unwrap();
    assert_eq!(message.get_field_by_name("text").unwrap().as_str(), Some("form"));
    let (_, message) = ask(json!({}), "PUT /x?text=query HTTP/1.1", b"text=form").unwrap();
    assert_eq!(message.get_field_by_name("text").unwrap().as_str(), Some("query"));
}

#[test]
fn deadline_counts_from_the_call() {
    let left_ns = |config: Value, head: &str| {
        let (exchange, _) = ask(config, head, b"").unwrap();
        let began_ns = exchange.times.started_ns + UPLOAD_NS;
        exchange.grpc.unwrap().deadline_ns.saturating_sub(began_ns)
    };
    assert!(left_ns(json!({"deadline": 500}), "GET /x HTTP/1.1") >= 500_000_000);
    let of_client = "GET /x HTTP/1.1\r\ngrpc-timeout: 500m";
    assert_eq!(left_ns(json!({}), of_client), 0, "a time of the client began with its request");
    assert!(left_ns(json!({"deadline": 500}), of_client) >= 500_000_000);
}

#[test]
fn json_of_every_type_passes_both_ways() {
    let sparse = &["no_default_values"][..];
    let check = |given: &str, expected: &str| assert_eq!(through(given, sparse), expected, "{given}");
    let same = |given: &str| check(given, given);
    same(r#"{"text":"ü\n","wide":-5,"real":1.5,"flag":true,"data":"\u0001a","color":"GREEN","list":[1,-2]}"#);
    same(r#"{"members":{"a":{"tags":["x"]},"b":{}},"inner":{"number":-3},"inners":[{},{"number":1}]}"#);
    same(r#"{"maybe":0,"bits":{"-1":true,"7":false},"colors":["GREEN","RED"],"small":0.5}"#);
    same(
        r#"{"data_map":{"fields":{"n":{"kind":"number_value","number_value":666},"s":{"kind":"string_value","string_value":"x"}}}}"#,
    );
    same(r#"{"at":{"seconds":1,"nanos":2},"next":{"next":{"text":"deep"}}}"#);
    check(r#"{"name":"n"}"#, r#"{"choice":"name","name":"n"}"#);
    check(
        r#"{"color":2,"wide":"12","real":"2.5","flag":"false","maybe":null}"#,
        r#"{"wide":12,"real":2.5,"color":"GREEN"}"#,
    );
    check(r#"{"color":9}"#, r#"{"color":9}"#);
    check(r#"{"unknown":{"a":[1]}}"#, "{}");
    check(r#"{"small":3.14}"#, r#"{"small":3.1400001049042}"#);
}

#[test]
fn options_choose_the_form_of_values() {
    let big = r#"{"wide":2251799813685261,"wider":3,"color":"GREEN"}"#;
    let check = |options: &[&str], expected: &str| {
        let options = [&["no_default_values"], options].concat();
        assert_eq!(through(big, &options), expected, "{options:?}");
    };
    check(&[], r#"{"wide":2.2517998136853e+15,"color":"GREEN","wider":3}"#);
    check(&["int64_as_string"], r##"{"wide":"#2251799813685261","color":"GREEN","wider":3}"##);
    let hex = r##"{"wide":"#0x800000000000D","color":2,"wider":3}"##;
    check(&["int64_as_hexstring", "enum_as_value"], hex);
}

#[test]
fn defaults_are_written_as_options_say() {
    let all = concat!(
        r#"{"text":"","wide":0,"real":0,"flag":false,"data":"","color":"RED","list":[],"members":{},"inners":[],"#,
        r#""bits":{},"colors":[],"wider":0,"small":0}"#
    );
    assert_eq!(through("{}", &[]), all);
    assert_eq!(through("{}", &["auto_default_values"]), all);
    assert_eq!(through("{}", &["use_default_values"]), all);
    assert_eq!(through("{}", &["no_default_values"]), "{}");
    let lists = r#"{"list":[],"members":{},"inners":[],"bits":{},"colors":[]}"#;
    assert_eq!(through("{}", &["use_default_metatable"]), lists);
    let nested = through(r#"{"members":{"a":{}},"inner":{},"inners":[{}]}"#, &["use_default_metatable"]);
    assert_eq!(nested.matches(r#"{"tags":[]}"#).count(), 3, "{nested}");
    let pool = definition::compile_definition(DEFINITION_2).unwrap();
    let old = DynamicMessage::new(pool.get_message_by_name("t.Old").unwrap());
    for (option, expected) in [("auto_default_values", "{}"), ("use_default_values", r#"{"text":"x"}"#)] {
        let mut out = Vec::new();
        response::write_message_json(&mut out, &old, JsonOptions::of(&[option.to_owned()])).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{option}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let check = |body: &str, expected: &str| {
        let (status, reason) = ask(json!({}), JSON_POST, body.as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(status, 400, "{body}");
        assert!(reason.contains(expected), "{body}: {reason}");
    };
    check("{", "the body is no JSON object");
    check("[1]", "the body is no JSON object");
    check(r#"{"text":{}}"#, "field t.All.text: an object does not fit");
    check(r#"{"text":5}"#, "field t.All.text: this number does not fit");
    check(r#"{"text":true}"#, "field t.All.text: a boolean does not fit");
    check(r#"{"wide":1.5}"#, "field t.All.wide: this number does not fit");
    check(r#"{"wide":"1x"}"#, "field t.All.wide: this text does not fit");
    check(r#"{"list":[2147483648]}"#, "field t.All.list: this number does not fit");
    check(r#"{"list":1}"#, "field t.All.list: this number does not fit");
    check(r#"{"list":[null]}"#, "field t.All.list: null does not fit");
    check(r#"{"color":"BLUE"}"#, "field t.All.color: this text does not fit");
    check(r#"{"inner":"a"}"#, "field t.All.inner: this text does not fit");
    check(r#"{"members":[]}"#, "field t.All.members: a list does not fit");
    check(r#"{"bits":{"x":true}}"#, "field t.All.bits: an object does not fit");
    check(r#"{"flag":"maybe"}"#, "field t.All.flag: this text does not fit");
    // The definition has a cycle, so that only the depth of the text ends it.
    let deep = format!("{}{{}}{}", r#"{"next":"#.repeat(200), "}".repeat(200));
    check(&deep, "inside each other");
    let shallow = format!("{}{{}}{}", r#"{"next":"#.repeat(90), "}".repeat(90));
    assert!(ask(json!({}), JSON_POST, shallow.as_bytes()).is_ok());
    let head = ask(json!({}), "HEAD /x HTTP/1.1", b"").map(|_| ()).unwrap_err();
    assert_eq!(head.0, 405);
}

#[test]
fn long_bodies_are_converted_beside_the_worker() {
    let text = "x".repeat(AT_ONCE_BYTES);
    let (_, message) = ask(json!({}), JSON_POST, json!({ "text": text }).to_string().as_bytes()).unwrap();
    assert_eq!(message.get_field_by_name("text").unwrap().as_str(), Some(&*text));
    let (status, head, body, _) = answer(json!({}), &ok(), &[&framed(&message.encode_to_vec())], STATUS_0);
    assert_eq!((status, body.len() > AT_ONCE_BYTES), (200, true), "{head:?}");
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

fn ok() -> Vec<(&'static str, &'static str)> {
    vec![("Content-Type", "application/grpc")]
}

const STATUS_0: &[(&str, &str)] = &[("grpc-status", "0"), ("x", "y")];

/// Passes a response to a call through the plugin: its status, its fields, its body, and its trailers.
fn answer(
    config: Value,
    fields: &[(&str, &str)],
    pieces: &[&[u8]],
    trailers: &[(&str, &str)],
) -> (u16, Vec<String>, String, Vec<String>) {
    let mut scene = Scene::new();
    let plugin = plugin(&scene, config);
    let mut exchange = scene.exchange(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    exchange.body.keep_whole(Vec::new(), None);
    assert!(decide(plugin.access(&mut exchange)).is_none());
    respond(&mut exchange, 200, fields);
    finish(plugin.response_head(&mut exchange));
    let mut list = Headers::new();
    for (name, value) in trailers {
        list.append(name, value.as_bytes()).unwrap();
    }
    let mut sent = Vec::new();
    let run = |exchange: &mut Exchange, mut piece: Vec<u8>, portion: Portion| {
        if let ResponseStep::Wait(future) = plugin.response_body(exchange, &mut piece, portion) {
            net::env::block_on(future).unwrap();
        }
        piece
    };
    if plugin.wants_response_body(&exchange) == BodyNeed::Stream {
        for piece in pieces {
            sent.extend(run(&mut exchange, piece.to_vec(), Portion::Piece));
        }
        plugin.response_trailers(&mut exchange, &mut list);
        sent.extend(run(&mut exchange, Vec::new(), Portion::Last));
    } else {
        plugin.response_trailers(&mut exchange, &mut list);
        sent = run(&mut exchange, pieces.concat(), Portion::Last);
    }
    let body = String::from_utf8(sent).unwrap();
    (exchange.response.status, lines(&exchange.response.headers), body, lines(&list))
}

#[test]
fn message_becomes_json_and_keeps_its_trailers() {
    let two = json!({"method": "Small"});
    let message = framed(&[8, 5]);
    let (status, head, body, trailers) =
        answer(two.clone(), &ok(), &[&message[..3], &message[3..]], STATUS_0);
    assert_eq!((status, &*body), (200, r#"{"number":5}"#));
    assert_eq!(head, ["Content-Type: application/json", "Trailer: grpc-status, grpc-message"]);
    assert_eq!(trailers, ["grpc-status: 0", "x: y"]);
    // No message at all is the one with its defaults, as in the contract.
    assert_eq!(answer(two, &ok(), &[], STATUS_0).2, r#"{"number":0}"#);
}

#[test]
fn statuses_become_those_of_http() {
    let expected = [
        (1, 499),
        (2, 500),
        (3, 400),
        (4, 504),
        (5, 404),
        (6, 409),
        (7, 403),
        (8, 429),
        (9, 400),
        (10, 409),
        (11, 400),
        (12, 501),
        (13, 500),
        (14, 503),
        (15, 500),
        (16, 401),
        (17, 599),
    ];
    for (code, status) in expected {
        let code = code.to_string();
        let head = [ok()[0], ("grpc-status", &*code), ("grpc-message", "why")];
        let (at_head, fields, body, _) = answer(json!({}), &head, &[], &[]);
        assert_eq!((at_head, &*body), (status, ""), "{code}: {fields:?}");
        // A status behind a message is moved into the head.
        let trailers = [("grpc-status", &*code), ("grpc-message", "why")];
        let (at_end, fields, body, left) = answer(json!({}), &ok(), &[&framed(&[8, 5])], &trailers);
        assert_eq!((at_end, &*body, left.len()), (status, "", 0), "{code}");
        assert!(fields.contains(&format!("grpc-status: {code}")), "{fields:?}");
        assert!(!fields.iter().any(|line| line.starts_with("Trailer")), "{fields:?}");
    }
}

#[test]
fn details_of_a_failure_are_shown_on_demand() {
    let details = "CA4SDk91dCBvZiBzZXJ2aWNlGlcKKnR5cGUuZ29vZ2xlYXBpcy5jb20vaGVsbG93b3JsZC5FcnJvckRldGFpbBIpCAESHFRoZSBzZXJ2ZXIgaXMgb3V0IG9mIHNlcnZpY2UaB3NlcnZpY2U";
    let bytes = BASE64_NOPAD.decode(details.as_bytes()).unwrap();
    let padded = BASE64.encode(&bytes);
    put_proto(
        "detail",
        &format!(
            "{DEFINITION} message ErrorDetail {{ int64 code = 1; string message = 2; string type = 3; }}"
        ),
    );
    let check = |config: Value, details: &str, expected: &str| {
        let mut all = json!({"proto_id": "detail", "show_status_in_body": true});
        all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        let head = [ok()[0], ("grpc-status", "14"), (status::DETAILS, details)];
        let (status, _, body, _) = answer(all, &head, &[], &[]);
        assert_eq!((status, &*body), (503, expected));
    };
    let plain = r#"{"error":{"code":14,"message":"Out of service","details":[{"type_url":"type.googleapis.com/helloworld.ErrorDetail","value":"\b\u0001\u0012\u001cThe server is out of service\u001a\u0007service"}]}}"#;
    check(json!({}), details, plain);
    check(json!({}), &padded, plain);
    let decoded = r#"{"error":{"code":14,"message":"Out of service","details":[{"code":1,"message":"The server is out of service","type":"service"}]}}"#;
    check(json!({"status_detail_type": "t.ErrorDetail"}), details, decoded);
    let failed = "failed to call pb.decode to decode details in grpc-status-details-bin";
    check(json!({"status_detail_type": "t.Unknown"}), details, failed);
    check(json!({}), "!", "grpc-status-details-bin is not base64 format");
    check(json!({}), "/w", "failed to call pb.decode to decode grpc-status-details-bin");
    check(json!({"show_status_in_body": false}), details, "");
}

#[test]
fn responses_that_are_no_message_become_502() {
    let two = json!({"method": "Small", "max_resp_body_size": 9});
    let check = |fields: &[(&str, &str)], body: &[u8], trailers: &[(&str, &str)]| {
        let (status, _, text, _) = answer(two.clone(), fields, &[body], trailers);
        assert_eq!((status, &*text), (502, "failed to decode response data by protobuf"), "{body:?}");
    };
    let good = framed(&[8, 5]);
    check(&[("Content-Type", "text/html")], b"<html>", &[]);
    check(&ok(), &good, &[]);
    check(&ok(), &good[..6], STATUS_0);
    check(&ok(), &[good.clone(), good.clone()].concat(), STATUS_0);
    check(&ok(), &[&[1][..], &good[1..]].concat(), STATUS_0);
    check(&ok(), &framed(&[8]), STATUS_0);
    check(&ok(), &framed(&[0; 10]), STATUS_0);
    let infinite = framed(&[25, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f]);
    assert_eq!(answer(json!({}), &ok(), &[&infinite], STATUS_0).0, 502);
    // The definition has a cycle, so that only the depth of the message ends it.
    let nested = |depth: usize| {
        (0..depth).fold(Vec::new(), |inner, _| {
            let mut outer = vec![0x82, 1];
            let mut length = inner.len();
            while length > 127 {
                outer.push(length as u8 | 128);
                length >>= 7;
            }
            outer.push(length as u8);
            [outer, inner].concat()
        })
    };
    assert_eq!(answer(json!({}), &ok(), &[&framed(&nested(90))], STATUS_0).0, 200);
    assert_eq!(answer(json!({}), &ok(), &[&framed(&nested(10_000))], STATUS_0).0, 502);
}

#[test]
fn stream_becomes_a_line_for_each_message() {
    put_proto("t", DEFINITION);
    let config = json!({"method": "Watch", "pb_option": ["no_default_values"]});
    let body = [framed(&[16, 1]), framed(&[16, 2]), framed(&[])].concat();
    let expected = "{\"wide\":1}\n{\"wide\":2}\n{}\n";
    for size in 1..=body.len() {
        let pieces: Vec<&[u8]> = body.chunks(size).collect();
        let (status, head, text, trailers) = answer(config.clone(), &ok(), &pieces, STATUS_0);
        assert_eq!((status, &*text, trailers.len()), (200, expected, 2), "pieces of {size}");
        assert!(head.contains(&"Content-Type: application/x-ndjson".to_owned()), "{head:?}");
    }
    let failed = [("grpc-status", "15"), ("grpc-message", "broke%20here")];
    let (_, _, text, _) = answer(config.clone(), &ok(), &[&body], &failed);
    assert_eq!(text, format!("{expected}{{\"error\":{{\"code\":15,\"message\":\"broke here\"}}}}\n"));
    let broken = "{\"error\":{\"code\":13,\"message\":\"failed to decode response data by protobuf\"}}\n";
    for end in [&framed(&[16])[..], &[1, 0, 0, 0, 0], &[0, 0, 0], &[0, 0xff, 0xff, 0xff, 0xff]] {
        let (_, _, text, _) = answer(config.clone(), &ok(), &[&body, end, &body], STATUS_0);
        // A frame that is cut takes bytes of the next one; nothing is sent behind the line of the failure.
        assert!(text.starts_with(expected) && text.ends_with(broken), "{end:?}: {text}");
        assert_eq!(text.matches("error").count(), 1, "{end:?}: {text}");
    }
    let head = [ok()[0], ("grpc-status", "5")];
    assert_eq!(answer(config, &head, &[], &[]).0, 404);
}
