//! Origins that break the protocol: their responses are never passed on, and no other client reads them.

use testkit::{Origin, Reply};

use crate::support::in_front_of;

#[test]
fn a_malformed_answer_is_a_502() {
    let mut answers: Vec<Vec<u8>> = Vec::new();
    let mut add = |answer: &str| answers.push(answer.as_bytes().to_vec());
    for head in [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2, 3",
        "Content-Length: +2",
        "Transfer-Encoding: gzip, chunked",
        "A: a\u{0}b",
        "A: a\rb",
        "Content-Length: 99999999999999999999",
    ] {
        add(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nok"));
    }
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 abc OK",
        "HTTP/1.1 099 OK",
        "HTTP/1.1",
        "ICY 200 OK",
        " HTTP/1.1 200 OK",
        "HTTP/1.1 200 O\u{0}K",
        "hello",
        "<html>hello</html>",
        "HTTP/1.1 200 OK\rX",
    ] {
        add(&format!("{line}\r\nContent-Length: 2\r\n\r\nok"));
    }
    add("hello");
    add("\r\n\r\n\r\n");
    add(&format!("HTTP/1.1 200 OK\r\n{}\r\n", format!("A: {}\r\n", "a".repeat(4000)).repeat(500)));
    add(&format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(2 * 1024 * 1024)));
    for answer in answers {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(80)]).into_owned();
        let origin = Origin::start(move |request| {
            if request.path() == "/lie" { Reply::raw(&answer).close() } else { Reply::ok("fine") }
        });
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        let response = client.get("/lie");
        assert_eq!(response.status, 502, "{shown:?}");
        assert_eq!(
            response.json()["error_msg"].as_str().map(|text| &text[..15]),
            Some("502 Bad Gateway"),
            "{shown:?}"
        );
        assert_eq!(client.get("/").text(), "fine", "{shown:?}: the client's connection goes on");
    }
}

#[test]
fn switch_without_an_upgrade_request_is_a_502() {
    let origin = Origin::start(|request| match request.path() {
        "/switch" => Reply::with(101, &[("Connection", "Upgrade"), ("Upgrade", "websocket")], b""),
        _ => Reply::ok("fine"),
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    assert_eq!(client.get("/switch").status, 502);
    assert_eq!(client.get("/").text(), "fine");
    assert_eq!(origin.connections(), 2, "the switched connection is not used again");
}

#[test]
fn body_of_a_bodiless_response_is_dropped() {
    let origin = Origin::start(|request| match request.path() {
        "/first" => Reply::raw(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nstray"),
        _ => Reply::ok("mine"),
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    assert_eq!(client.get("/first").status, 304);
    assert_eq!(client.get("/second").text(), "mine");
}

#[test]
fn response_before_the_request_is_not_reused() {
    let origin = Origin::on_accept(|_| {
        Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearlyHTTP/1.1 200 OK\r\n\r\n")
    });
    let weir = in_front_of(&origin);
    // A response sent before the request may be taken for the response to it; but only that one, and the
    // connection is not kept.
    let mut client = weir.client();
    client.get("/");
    client.get("/");
    assert!(client.surplus().is_empty());
    assert_eq!(origin.connections(), 2);
}
