//! Requests and responses through the proxy as client and origin see them: persistence, versions, fields,
//! interim responses. Bodies, framing attacks and broken connections have modules of their own.

mod fields;

use testkit::{Origin, Reply, Request, raw_exchange};

use crate::support::{in_front_of, in_front_of_with};

#[test]
fn a_client_keeps_or_closes_its_connection() {
    let origin = Origin::answering("hello");
    let weir = in_front_of(&origin);
    let check = |request: &str, connection: Option<&str>, kept: bool| {
        let mut client = weir.client();
        client.send(request.as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!((response.status, response.text()), (200, "hello".to_owned()), "{request:?}");
        assert_eq!(response.header("connection"), connection, "{request:?}");
        assert_eq!(response.header("content-length"), Some("5"), "{request:?}");
        if kept {
            client.send(request.as_bytes());
            assert_eq!(client.read_response(false).unwrap().status, 200, "{request:?}, again");
        } else {
            assert!(client.closes_cleanly(), "{request:?}");
        }
    };
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", None, true);
    check("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", None, true);
    check("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", Some("close"), false);
    check("GET / HTTP/1.1\r\nHost: h\r\nConnection: Keep-Alive, CLOSE\r\n\r\n", Some("close"), false);
    // The requests of `ab` and `ab -k`.
    check("GET / HTTP/1.0\r\nHost: h\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n", None, false);
    check("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: h\r\n\r\n", Some("keep-alive"), true);
    check("GET / HTTP/1.0\r\n\r\n", None, false);
}

#[test]
fn an_origin_keeps_or_closes_its_connection() {
    let check = |reply: &'static str, origin_connections: usize| {
        let origin = Origin::start(move |_| Reply::raw(reply.as_bytes()));
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        for _ in 0..3 {
            let response = client.get("/");
            assert_eq!((response.status, response.text()), (200, "ok".to_owned()), "{reply:?}");
            assert_eq!(response.header("connection"), None, "{reply:?}");
            assert_eq!(response.version, "HTTP/1.1", "{reply:?}");
        }
        assert_eq!(origin.connections(), origin_connections, "{reply:?}");
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1);
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 3);
    check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 3);
    check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok", 1);
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        1,
    );
}

#[test]
fn a_connection_ends_after_its_requests() {
    let origin = Origin::answering("x");
    let weir = in_front_of_with(&origin, &["--max-requests-per-connection", "2"]);
    let mut client = weir.client();
    assert_eq!(client.get("/").header("connection"), None);
    assert_eq!(client.get("/").header("connection"), Some("close"));
    assert!(client.closes_cleanly());
}

#[test]
fn bodiless_responses_keep_the_connection_in_step() {
    let check = |method: &str, reply: &'static str, status: u16, length: Option<&str>| {
        let origin = Origin::start(move |_| Reply::raw(reply.as_bytes()));
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        for _ in 0..2 {
            let response = client.request(method, "/", &[], b"");
            assert_eq!(response.status, status, "{method} {reply:?}");
            assert_eq!(response.header("content-length"), length, "{method} {reply:?}");
            assert_eq!(response.header("transfer-encoding"), None, "{method} {reply:?}");
            assert_eq!(client.surplus(), b"", "{method} {reply:?}");
        }
        assert_eq!(origin.connections(), 1, "{method} {reply:?}");
    };
    check("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 26650\r\n\r\n", 200, Some("26650"));
    check("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, None);
    check("HEAD", "HTTP/1.1 200 OK\r\n\r\n", 200, None);
    check("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, None);
    check("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, None);
    check(
        "GET",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 26650\r\nETag: \"a\"\r\n\r\n",
        304,
        Some("26650"),
    );
    check("GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304, None);
    check("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, Some("0"));
    check("OPTIONS", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, Some("0"));
}

#[test]
fn a_local_answer_to_head_has_no_body() {
    let weir = crate::support::gateway("routes: []");
    let mut client = weir.client();
    for _ in 0..2 {
        let response = client.request("HEAD", "/", &[], b"");
        assert_eq!((response.status, response.header("content-length")), (404, Some("36")));
    }
    assert_eq!(client.get("/").text(), "{\"error_msg\":\"404 Route Not Found\"}\n");
}

#[test]
fn interim_answers_are_for_clients_that_know_them() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let script =
        move |_: &Request| Reply::raw(b"HTTP/1.1 100 Continue\r\n\r\n").send(hints).send(hints).send(OK);
    let origin = Origin::start(script);
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    for _ in 0..2 {
        let response = client.get("/");
        let interim: Vec<u16> = response.interim.iter().map(|interim| interim.status).collect();
        assert_eq!((interim, response.text()), (vec![103, 103], "ok".to_owned()));
        assert_eq!(response.interim[0].header("link"), Some("</a.css>; rel=preload"));
        assert_eq!(response.interim[0].headers.len(), 1, "{:?}", response.interim[0]);
    }
    let old = raw_exchange(weir.proxy(), b"GET / HTTP/1.0\r\n\r\n");
    assert!(old.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&old));
}

#[test]
fn flood_of_interim_responses_is_a_502() {
    for one in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
        let origin = Origin::start(|_| Reply::raw(one.repeat(20_000).as_bytes()).send(OK));
        let weir = in_front_of(&origin);
        let response = weir.get("/");
        assert_eq!(response.status, 502, "{one}");
        assert!(response.interim.len() <= 32, "{} of {one}", response.interim.len());
    }
}

#[test]
fn an_expectation_is_answered_when_the_body_is_wanted() {
    let origin =
        Origin::start(|request| Reply::ok(&format!("{} {:?}", request.text(), request.header("expect"))));
    let weir = in_front_of(&origin);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n";
    for (framing, body) in [
        ("Content-Length: 4\r\n\r\n", "data"),
        ("Transfer-Encoding: chunked\r\n\r\n", "4\r\ndata\r\n0\r\n\r\n"),
    ] {
        let mut client = weir.client();
        client.send(format!("{head}{framing}").as_bytes());
        // 100 (Continue) comes before any byte of the body is sent.
        assert_eq!(client.read_bytes(25), b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send(body.as_bytes());
        assert_eq!(client.read_response(false).unwrap().text(), "data None", "{framing:?}");
        assert_eq!(client.get("/").status, 200, "the connection goes on");

        // A client that does not wait gets no 100.
        let mut client = weir.client();
        client.send(format!("{head}{framing}{body}").as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!(response.text(), "data None", "{framing:?} at once");
        assert_eq!(client.get("/").status, 200);
    }
    let old = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\ndata";
    assert!(raw_exchange(weir.proxy(), old).starts_with(b"HTTP/1.1 200 OK\r\n"), "no 100 to HTTP/1.0");
    let none = "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n";
    let mut client = weir.client();
    client.send(none.as_bytes());
    assert!(client.read_response(false).unwrap().interim.is_empty(), "there is no body to invite");
}

#[test]
fn refused_expectation_never_reads_body_as_request() {
    let origin = Origin::answering("ok");
    let weir = in_front_of(&origin);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let check = |expect: &str, status: &str| {
        let length = smuggled.len();
        let head = format!("POST /outer HTTP/1.1\r\nHost: h\r\n{expect}Content-Length: {length}\r\n\r\n");
        let answer = raw_exchange(weir.proxy(), format!("{head}{smuggled}").as_bytes());
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(status), "{expect:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{expect:?}: {answer}");
    };
    for expect in [
        "Expect: 200-ok\r\n",
        "Expect: 100-continue, x\r\n",
        "Expect: 100-continue\r\nExpect: y\r\n",
        "Expect:\r\n",
    ] {
        check(expect, "HTTP/1.1 417 ");
    }
    assert!(origin.requests().is_empty(), "{:?}", origin.requests());
}

#[test]
fn a_final_answer_instead_of_100_closes() {
    let weir = crate::support::gateway("routes: []");
    let mut client = weir.client();
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let response = client.read_response(false).unwrap();
    assert_eq!((response.status, response.header("connection")), (404, Some("close")));
    assert!(response.interim.is_empty());
    assert!(client.closes_cleanly());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|request| Reply::ok(&format!("{}{}", request.target, request.text())));
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    let mut requests = String::new();
    for number in 0..50 {
        requests += &match number % 3 {
            0 => format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"),
            1 => format!("POST /{number} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"),
            _ => format!(
                "POST /{number} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n"
            ),
        };
    }
    client.send(requests.as_bytes());
    for number in 0..50 {
        let body = ["", "abc", "xyz"][number % 3];
        assert_eq!(client.read_response(false).unwrap().text(), format!("/{number}{body}"));
    }
    assert_eq!(client.surplus(), b"");
}

#[test]
fn long_heads_do_not_get_in_the_way_of_what_follows() {
    let origin = Origin::start(|request| Reply::ok(&request.target));
    let weir = in_front_of(&origin);
    let field = format!("A: {}\r\n", "a".repeat(4000));
    let mut requests = format!("GET /0 HTTP/1.1\r\nHost: h\r\n{}\r\n", field.repeat(15));
    for number in 1..100 {
        requests += &format!("GET /{number} HTTP/1.1\r\nHost: h\r\n{field}\r\n");
    }
    let mut client = weir.client();
    client.send(requests.as_bytes());
    for number in 0..100 {
        assert_eq!(client.read_response(false).unwrap().text(), format!("/{number}"));
    }
}

#[test]
fn long_heads_of_an_origin_arrive() {
    let field = format!("A: {}\r\n", "a".repeat(4000));
    let interim = format!("HTTP/1.1 103 Early Hints\r\n{field}\r\n").repeat(20);
    let last = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 100000\r\n\r\n", field.repeat(15));
    let origin =
        Origin::start(move |_| Reply::raw(format!("{interim}{last}{}", "b".repeat(100_000)).as_bytes()));
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.interim.len(), response.header_all("a").len()), (20, 15));
        assert_eq!(response.body.len(), 100_000);
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let origin = Origin::start(|request| Reply::ok(&request.text()));
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    let request = b"\r\nPOST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n";
    for byte in request {
        client.send(&[*byte]);
    }
    assert_eq!(client.read_response(false).unwrap().text(), "abcd");
}

/// The response at the end of scripts.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
