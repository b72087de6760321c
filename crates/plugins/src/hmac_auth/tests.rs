//! Configurations of `hmac-auth`, signatures that it accepts, and bodies that it compares.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use exchange::plugin::BufferedReply;
use exchange::testing::{Scene, check_configuration, consumer, decide, lines};
use model::catalog::SchemaType;

use super::*;

#[test]
fn configurations() {
    let check = |schema_type, config: Value, fault: Option<&str>| {
        check_configuration(&KIND, schema_type, &config, fault);
    };
    let route = SchemaType::Plugin;
    check(route, json!({}), None);
    check(route, json!({"signed_headers": [], "allowed_algorithms": ["hmac-sha1"], "clock_skew": 1}), None);
    check(route, json!({"allowed_algorithms": []}), Some("allowed_algorithms"));
    check(route, json!({"allowed_algorithms": ["hmac-md5"]}), Some("allowed_algorithms"));
    check(route, json!({"clock_skew": 0}), Some("clock_skew"));
    check(route, json!({"max_req_body_size": 0}), Some("max_req_body_size"));
    check(route, json!({"signed_headers": [""]}), Some("signed_headers"));
    check(route, json!({"signed_headers": ["x".repeat(51)]}), Some("signed_headers"));
    check(route, json!({"realm": "a\"b"}), Some("realm"));
    let credential = SchemaType::Consumer;
    check(credential, json!({"key_id": "k", "secret_key": "s"}), None);
    check(credential, json!({"key_id": "k"}), Some("property \"secret_key\" is required"));
    check(credential, json!({"secret_key": "s"}), Some("property \"key_id\" is required"));
    check(credential, json!({"key_id": "k".repeat(257), "secret_key": "s"}), Some("key_id"));
    check(credential, json!({"key_id": "k", "secret_key": "s".repeat(257)}), Some("secret_key"));
}

const SECRET: &str = "a-secret-of-jack";
const DATE: &str = "Wed, 25 Nov 2026 12:00:00 GMT";
/// Far enough for the fixed date of the vectors.
const LONG: u64 = 10_000_000_000;

fn scene() -> Scene {
    let mut jack = consumer("jack");
    jack.auth_conf = json!({"key_id": "jacks-key", "secret_key": SECRET});
    Scene::new().with_consumer(NAME, "jacks-key", jack).with_named_consumer(consumer("guest"))
}

/// A request and the answer of a plugin with `config` to it.
fn run(config: &Value, request: &str) -> (Box<Exchange>, Option<BufferedReply>) {
    let mut scene = scene();
    let plugin = scene.build(&KIND, config);
    let mut exchange = scene.exchange(request.as_bytes());
    let before = lines(&exchange.request.headers);
    let reply = decide(plugin.rewrite(&mut exchange));
    if reply.is_some() {
        assert_eq!(lines(&exchange.request.headers), before, "a refusal changes nothing");
        assert!(exchange.consumer().is_none());
    }
    (exchange, reply)
}

fn check(config: Value, fields: &str, expected: Result<&str, &str>) {
    let request = format!("GET /a%2fb/?x=1 HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let (exchange, reply) = run(&config, &request);
    let got = match &reply {
        None => Ok(&*exchange.consumer().unwrap().username),
        Some(reply) => Err(String::from_utf8(reply.body.to_vec()).unwrap()),
    };
    let message = |text| format!("{{\"message\":\"client request can't be validated{text}\"}}\n");
    assert_eq!(got, expected.map_err(message), "{config} {fields:?}");
    if let Some(reply) = reply {
        assert_eq!(reply.status, 401);
        assert!(reply.headers.contains(&("WWW-Authenticate".into(), "hmac realm=\"hmac\"".to_owned())));
    }
}

fn authorization(algorithm: &str, headers: &str, signature: &str) -> String {
    format!(
        "Authorization: Signature keyId=\"jacks-key\", algorithm=\"{algorithm}\",headers=\"{headers}\",signature=\"{signature}\"\r\n"
    )
}

fn sign(lines: &[&str]) -> String {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    BASE64.encode(hmac::sign(&key, text.as_bytes()).as_ref())
}

/// Signatures that Python's `hmac` module made.
#[test]
fn signatures_of_another_library_pass() {
    for (algorithm, signature) in [
        ("hmac-sha1", "rOfiMranqzi2355ozJijW9jPFyk="),
        ("hmac-sha256", "wnsymH115Ll/gPYhjWCOgQgn6h4wvC/PJZ3mXfyPhVI="),
        (
            "hmac-sha512",
            "rvLpZ2rQe9nnY+xvZYdP64PH+r6gn8WY8KTG5rmKE3NWrBHh0fbYUx2oVlqpfRIwiVo8dVRHuJ2z+zfrZL6V3Q==",
        ),
    ] {
        let signed = authorization(algorithm, "@request-target date x-none x-a", signature);
        let fields = |date: &str, value: &str| format!("Date: {date}\r\nX-A: {value}\r\n{signed}");
        let long = json!({"clock_skew": LONG});
        check(long.clone(), &fields(DATE, "b c"), Ok("jack"));
        check(long.clone(), &fields(DATE, "b"), Err(""));
        check(long.clone(), &fields("Wed, 25 Nov 2026 12:00:01 GMT", "b c"), Err(""));
        check(long.clone(), &fields(DATE, "b c").replace(signature, &signature.to_lowercase()), Err(""));
        check(long.clone(), &format!("X-A: b c\r\n{}", fields(DATE, "b c")), Err(""));
        check(json!({"clock_skew": 1}), &fields(DATE, "b c"), Err(""));
        let others: Vec<&str> =
            ["hmac-sha1", "hmac-sha256", "hmac-sha512"].into_iter().filter(|a| *a != algorithm).collect();
        check(json!({"clock_skew": LONG, "allowed_algorithms": others}), &fields(DATE, "b c"), Err(""));
        check(json!({"clock_skew": LONG, "signed_headers": ["x-b"]}), &fields(DATE, "b c"), Err(""));
        check(
            json!({"clock_skew": LONG, "signed_headers": ["x-a", "@request-target"]}),
            &fields(DATE, "b c"),
            Ok("jack"),
        );
    }
}

#[test]
fn malformed_fields_are_refused() {
    let now = httpdate::fmt_http_date(SystemTime::now());
    let signature = sign(&["jacks-key", &format!("date: {now}")]);
    let good = format!("Date: {now}\r\n{}", authorization("hmac-sha256", "date", &signature));
    check(json!({}), &good, Ok("jack"));
    check(json!({}), "", Err(": missing Authorization header"));
    check(
        json!({}),
        "Authorization: Basic YTpi\r\n",
        Err(": Authorization header does not start with 'Signature'"),
    );
    check(json!({}), "Authorization: Signature\r\n", Err(""));
    for (part, other) in [
        ("keyId=\"jacks-key\",", ""),
        ("keyId=\"jacks-key\",", "keyId=\"jacks-key\",keyId=\"jacks-key\","),
        ("jacks-key", "joes-key"),
        (" algorithm=\"hmac-sha256\",", ""),
        ("hmac-sha256", "hmac-md5"),
        ("headers=\"date\",", ""),
        ("headers=\"date\"", "headers=\"\""),
        (&*signature, ""),
        (&*signature, "*"),
        (&*format!("Date: {now}\r\n"), ""),
        (&*format!("Date: {now}\r\n"), "Date: today\r\n"),
        ("Date: ", "Date: Wed, 25 Nov 2026 12:00:00 GMT\r\nDate: "),
    ] {
        let bad = good.replacen(part, other, 1);
        assert_ne!(bad, good);
        check(json!({}), &bad, Err(""));
    }
    // Without fields that have to be signed, the key id alone is.
    let bare = sign(&["jacks-key"]);
    let fields = format!("Date: {now}\r\n{}", authorization("hmac-sha256", "", &bare));
    check(json!({"signed_headers": []}), &fields, Ok("jack"));
}

#[test]
fn doubled_fields_are_refused_and_others_anonymous() {
    let anonymous = json!({"anonymous_consumer": "guest", "hide_credentials": true});
    check(anonymous.clone(), "Authorization: Signature x\r\n", Ok("guest"));
    check(anonymous.clone(), "", Ok("guest"));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Signature x\r\nAuthorization: b\r\n\r\n";
    let (_, reply) = run(&anonymous, request);
    assert_eq!(*reply.unwrap().body, *b"{\"message\":\"More than one Authorization header in request\"}\n");
    let (exchange, reply) = run(&anonymous, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\n\r\n");
    assert!(reply.is_none() && !exchange.request.headers.contains("Authorization"));
}

/// The status of the access phase for a signed request with this body and digest.
fn body_status(body: &[u8], digest: Option<&str>) -> u16 {
    let now = httpdate::fmt_http_date(SystemTime::now());
    let signature = sign(&["jacks-key", &format!("date: {now}")]);
    let mut scene = scene();
    let plugin = scene.build(&KIND, &json!({"validate_request_body": true, "max_req_body_size": 5_000_000}));
    let digest = digest.map(|digest| format!("Digest: {digest}\r\n")).unwrap_or_default();
    let authorization = authorization("hmac-sha256", "date", &signature);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nDate: {now}\r\n{digest}{authorization}\r\n");
    let mut exchange = scene.exchange(&[head.as_bytes(), body].concat());
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::None);
    if let Some(reply) = decide(plugin.rewrite(&mut exchange)) {
        return reply.status;
    }
    assert_eq!(plugin.wants_request_body(&exchange), BodyNeed::Buffer { limit_bytes: 5_000_000 });
    let flow = plugin.access(&mut exchange);
    let Flow::Wait(future) = flow else { return decide(flow).map_or(200, |reply| reply.status) };
    let mut future = pin!(future);
    let mut turns = 0;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => turns += 1,
            Poll::Ready(decision) => {
                assert!(turns >= body.len() / digest::CHUNK_BYTES, "it gives way to other tasks");
                return if let PhaseDecision::Reply(reply) = decision { reply.status } else { 200 };
            }
        }
    }
}

#[test]
fn body_must_have_the_named_digest() {
    let empty = "SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let abc = "SHA-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    assert_eq!(body_status(b"", Some(empty)), 200);
    assert_eq!(body_status(b"abc", Some(abc)), 200);
    assert_eq!(body_status(b"abd", Some(abc)), 401);
    assert_eq!(body_status(b"abc", None), 401);
    assert_eq!(body_status(b"abc", Some("")), 401);
    let long = vec![b'a'; 1_000_000];
    assert_eq!(body_status(&long, Some(abc)), 401);
    assert_eq!(body_status(&long, Some(LONG_DIGEST)), 200);
}

/// The digest of a million times the letter a, by Python's `hashlib`.
const LONG_DIGEST: &str = "SHA-256=zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA=";
