//! gRPC clients: error responses of the gateway, and deadlines. Calls that pass to an endpoint need HTTP/2
//! there.

use std::time::{Duration, Instant};

use testkit::{Origin, Reply, Signal, Step};

use super::client::{Answer, Client, request_with, whole};
use super::raw::literal;
use crate::support::{in_front_of, route, upstream};
use crate::upstream_http2::origin::{END_HEADERS, END_STREAM, H2Origin, HEADERS, STATUS_200};

fn call(client: &mut Client, path: &str, more: &[(&str, &str)]) -> Answer {
    let fields = [&[("content-type", "application/grpc+proto"), ("te", "trailers")], more].concat();
    client.send(request_with("POST", path, &fields), b"\0\0\0\0\0", None).unwrap()
}

#[test]
fn errors_are_responses_of_trailers_only() {
    let down = Origin::nowhere();
    let weir = crate::support::gateway(&route("uri: /known/*", &upstream(&[down], "")));
    let mut client = Client::connect(weir.proxy());
    for (path, code, message) in
        [("/unknown", "12", "404 Route Not Found"), ("/known/a", "14", "502 Bad Gateway: connect_failed")]
    {
        let answer = call(&mut client, path, &[]);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/grpc"));
        assert_eq!(
            (answer.header("grpc-status"), answer.header("grpc-message")),
            (Some(code), Some(message))
        );
        assert_eq!(answer.header("content-length"), None);
    }
    let plain = client.ask(request_with("GET", "/unknown", &[("content-type", "application/json")])).unwrap();
    assert_eq!((plain.status, plain.header("grpc-status")), (404, None));
    let web =
        client.ask(request_with("GET", "/unknown", &[("content-type", "application/grpc-web")])).unwrap();
    assert_eq!((web.status, web.header("grpc-status")), (404, None));
}

#[test]
fn deadline_of_a_call_bounds_the_exchange() {
    let never = Signal::new();
    let origin = Origin::start({
        let never = never.clone();
        move |_| Reply::new().wait(&never).then(Step::Close)
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let answer = call(&mut client, "/", &[("grpc-timeout", "300m")]);
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("4")), "{answer:?}");
    never.set();
}

#[test]
fn listed_status_of_a_call_is_retried() {
    let check = |policy: &str, expected: &str| {
        let origin = H2Origin::start(|peer| {
            peer.settings(&[]);
            let mut asked = 0;
            while let Some((stream, _)) = peer.request() {
                let status = if asked == 0 { "14" } else { "0" };
                let fields = [
                    STATUS_200.to_vec(),
                    literal("content-type", "application/grpc"),
                    literal("grpc-status", status),
                ];
                peer.send(HEADERS, END_HEADERS | END_STREAM, stream, &fields.concat());
                asked += 1;
            }
        });
        let more = format!("scheme: grpc, retry: {policy}");
        let nodes = format!("{{nodes: {{'{}': 1}}, {more}}}", origin.node());
        let weir = crate::support::builder(&route("uri: /*", &nodes)).arguments(&["--workers", "1"]).start();
        let answer = call(&mut Client::connect(weir.proxy()), "/", &[]);
        assert_eq!((answer.status, answer.header("grpc-status")), (200, Some(expected)), "{policy}");
    };
    let calls = "methods: [POST], unsafe_methods: true";
    check(&format!("{{{calls}, grpc_statuses: [unavailable]}}"), "0");
    check(&format!("{{{calls}, grpc_statuses: [aborted]}}"), "14");
    check("{idempotency_key_header: key, grpc_statuses: [unavailable]}", "14");
}

#[test]
fn time_left_is_sent_in_grpc_timeout() {
    let origin = Origin::answering("");
    let check = |deadline: &str, asked: &[(&str, &str)], expected: Option<std::ops::Range<u64>>| {
        let weir = crate::support::gateway(&route("uri: /*", &upstream(&[origin.address()], deadline)));
        call(&mut Client::connect(weir.proxy()), "/", asked);
        let request = origin.last_request();
        let sent = request.header("grpc-timeout").and_then(timeout_ms);
        match expected {
            Some(range) => assert!(sent.is_some_and(|sent| range.contains(&sent)), "{deadline}: {sent:?}"),
            None => assert_eq!(sent, None, "{deadline}"),
        }
    };
    check("deadline: {total: 20}", &[], Some(1_000..20_001));
    check("deadline: {total: 20, grpc_timeout: false}", &[], None);
    check("deadline: {total: 20}", &[("grpc-timeout", "5S")], Some(1..5_001));
}

#[test]
fn silent_streams_are_bounded_by_the_read_timeout() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        peer.drain();
    });
    let timeouts = "scheme: grpc, retries: 0, timeout: {connect: 5, send: 5, read: 1}";
    let nodes = format!("{{nodes: {{'{}': 1}}, {timeouts}}}", origin.node());
    let weir = crate::support::builder(&route("uri: /*", &nodes))
        .arguments(&["--client-body-timeout-ms", "100", "--client-rate-window-ms", "100"])
        .start();
    let mut client = Client::connect(weir.proxy());
    let call = ("content-type", "application/grpc");
    // The fields, whether the read timeout of the route bounds the client, and the status.
    type Row<'r> = (&'r [(&'r str, &'r str)], bool, (u16, Option<&'r str>));
    let table: [Row<'_>; 4] = [
        (&[call], true, (200, Some("4"))),
        (&[("content-type", "text/plain")], true, (408, None)),
        (&[("content-length", "1000")], false, (408, None)),
        (&[call, ("content-length", "1000")], false, (200, Some("4"))),
    ];
    for (fields, is_stream, expected) in table {
        let began = Instant::now();
        let (response, mut body) = client.start(request_with("POST", "/a", fields), false);
        body.send_data(bytes::Bytes::from_static(b"\0\0\0\0\x01a"), false).unwrap();
        let answer = client.run(whole(response)).unwrap();
        assert_eq!((answer.status, answer.header("grpc-status")), expected, "{fields:?}: {}", answer.text());
        assert!(began.elapsed() >= Duration::from_millis(if is_stream { 800 } else { 50 }), "{fields:?}");
    }
}

/// A timeout of gRPC in milliseconds.
fn timeout_ms(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
    let count: u64 = digits.parse().ok()?;
    match unit {
        "S" => Some(count * 1_000),
        "m" => Some(count),
        "u" => Some(count / 1_000),
        _ => None,
    }
}
