//! Bodies in both directions: framings, trailers, backpressure, and the result for one side when the other
//! one closes.

mod cuts;

use testkit::{Origin, Reply, Signal, Step, raw_exchange};

use crate::support::{builder, everything_to, in_front_of, in_front_of_with, memory_of};

#[test]
fn every_framing_of_a_request_arrives() {
    let origin = Origin::start(|request| {
        let framing = ["content-length", "transfer-encoding"]
            .map(|name| request.header(name).unwrap_or("-").to_owned());
        Reply::ok(&format!("{} {}", framing.join(" "), request.text()))
    });
    let weir = in_front_of(&origin);
    let check = |request: &str, want: &str| {
        let mut client = weir.client();
        for _ in 0..2 {
            client.send(request.as_bytes());
            assert_eq!(client.read_response(false).unwrap().text(), want, "{request:?}");
        }
    };
    check("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "5 - hello");
    check("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "5 - hello");
    check("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "0 - ");
    check("POST / HTTP/1.1\r\nHost: h\r\n\r\n", "0 - ");
    check("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "- - ");
    check("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", "- - ");
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n";
    check(&format!("{chunked}2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n"), "- chunked hello");
    check(&format!("{chunked}0\r\n\r\n"), "- chunked ");
    check("POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", "5 - hello");
}

#[test]
fn every_framing_of_a_response_arrives() {
    let check = |reply: &'static [u8], closes: bool, framing: (&str, &str), origin_connections: usize| {
        let origin =
            Origin::start(move |_| if closes { Reply::raw(reply).close() } else { Reply::raw(reply) });
        let weir = in_front_of(&origin);
        let shown = String::from_utf8_lossy(reply);
        let mut client = weir.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!(response.text(), "hello", "{shown:?}");
            assert_eq!(response.header(framing.0), Some(framing.1), "{shown:?}");
        }
        assert_eq!(origin.connections(), origin_connections, "{shown:?}");
        // An HTTP/1.0 client knows no chunks, so that the end of the connection ends the body.
        let old = String::from_utf8(raw_exchange(weir.proxy(), b"GET / HTTP/1.0\r\n\r\n")).unwrap();
        assert!(old.ends_with("\r\n\r\nhello") && !old.contains("chunked"), "{shown:?}: {old}");
    };
    let chunked = ("transfer-encoding", "chunked");
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, ("content-length", "5"), 1);
    check(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        false,
        chunked,
        1,
    );
    check(b"HTTP/1.1 200 OK\r\n\r\nhello", true, chunked, 2);
    check(b"HTTP/1.0 200 OK\r\n\r\nhello", true, chunked, 2);
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|request| {
        let sum = request.trailers.iter().map(|(name, value)| format!("{name}={value}")).collect::<String>();
        Reply::chunked(&[&sum], &[("X-Sum", "9"), ("Content-Length", "3")])
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    for _ in 0..2 {
        client.send(
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n1\r\na\r\n0\r\nX-Check: 7\r\n\r\n",
        );
        let response = client.read_response(false).unwrap();
        assert_eq!(response.text(), "X-Check=7");
        assert_eq!(response.trailers, [("X-Sum".to_owned(), "9".to_owned())]);
    }
}

#[test]
fn a_large_response_waits_for_its_reader() {
    let piece = vec![b'x'; 64 * 1024];
    let origin = Origin::start(move |_| {
        Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BYTES}\r\n\r\n").as_bytes())
            .then(Step::Repeat(piece.clone(), LARGE_BYTES / piece.len()))
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let held = settled(|| origin.bytes_written());
    assert!(held < LARGE_BYTES as u64, "the origin wrote {held} bytes that nobody reads");
    let before = memory_of(weir.pid());
    assert_eq!(client.read_response(false).unwrap().body.len(), LARGE_BYTES);
    let grown = memory_of(weir.pid()).saturating_sub(before);
    assert!(grown < 4 * 1024 * 1024, "{grown} bytes more for a body that is passed on");
    assert_eq!(client.get("/").body.len(), LARGE_BYTES, "the connection goes on");
}

#[test]
fn a_large_request_waits_for_its_reader() {
    let go = Signal::new();
    let origin = Origin::on_head({
        let go = go.clone();
        move |_| {
            Reply::new().wait(&go).then(Step::ReadBody).send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
    });
    for framing in ["Content-Length", "Transfer-Encoding"] {
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        let before = memory_of(weir.pid());
        let mut stream = client.stream().try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            use std::io::Write;
            let piece = vec![b'x'; 64 * 1024];
            let chunked = framing == "Transfer-Encoding";
            let value = if chunked { "chunked".to_owned() } else { LARGE_BYTES.to_string() };
            write!(stream, "POST / HTTP/1.1\r\nHost: h\r\n{framing}: {value}\r\n\r\n").unwrap();
            for _ in 0..LARGE_BYTES / piece.len() {
                if chunked {
                    stream.write_all(b"10000\r\n").unwrap();
                }
                stream.write_all(&piece).unwrap();
                if chunked {
                    stream.write_all(b"\r\n").unwrap();
                }
            }
            if chunked {
                stream.write_all(b"0\r\n\r\n").unwrap();
            }
        });
        let grown = settled(|| memory_of(weir.pid())).saturating_sub(before);
        assert!(grown < 4 * 1024 * 1024, "{framing}: {grown} bytes more while nobody reads");
        go.set();
        assert_eq!(client.read_response(false).unwrap().status, 200, "{framing}");
        sender.join().unwrap();
    }
    for request in origin.wait_for_requests(2) {
        assert_eq!((request.body_length, request.body_error), (LARGE_BYTES as u64, None));
    }
}

#[test]
fn an_early_answer_ends_the_upload() {
    let refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntoo";
    let origin = Origin::on_head(|_| Reply::raw(refusal).close());
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    let beginning = "some".repeat(1_024);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n";
    client.send((head.to_owned() + &beginning).as_bytes());
    let response = client.read_response(false).unwrap();
    assert_eq!((response.status, response.text()), (413, "too".to_owned()));
    assert!(client.closes_cleanly());
}

#[test]
fn a_body_beyond_the_limit_is_refused() {
    let origin = Origin::answering("");
    let weir = in_front_of_with(&origin, &["--max-body-bytes", "10"]);
    let check = |framing: &str, status: u16| {
        let mut client = weir.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}").as_bytes());
        assert_eq!(client.read_response(false).unwrap().status, status, "{framing:?}");
        if status == 413 {
            assert!(client.closes_cleanly(), "{framing:?}");
        }
    };
    check("Content-Length: 10\r\n\r\n0123456789", 200);
    check("Content-Length: 11\r\n\r\n", 413);
    check("Content-Length: 11\r\nExpect: 100-continue\r\n\r\n", 413);
    check("Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n", 200);
    check("Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", 413);
    let whole: Vec<_> =
        origin.requests().into_iter().filter(|request| request.body_error.is_none()).collect();
    assert_eq!(whole.len(), 2, "{whole:?}");
}

#[test]
fn client_that_does_not_read_is_cut_off() {
    let piece = vec![b'x'; 64 * 1024];
    let origin = Origin::start(move |_| {
        Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BYTES}\r\n\r\n").as_bytes())
            .then(Step::Repeat(piece.clone(), LARGE_BYTES / piece.len()))
    });
    let weir =
        builder(&everything_to(origin.address(), "")).arguments(&["--client-send-timeout-ms", "100"]).start();
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    origin.wait_for_closed(1);
    assert!(origin.bytes_written() < LARGE_BYTES as u64);
}

#[test]
fn pieces_are_passed_on_as_they_come() {
    let go = Signal::new();
    let events = |head: &'static str, one: &'static str, two: &'static str| {
        let go = go.clone();
        Origin::start(move |_| Reply::raw(head.as_bytes()).send(one).wait(&go).send(two).close())
    };
    let chunked = events(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        "9\r\ndata: 1\n\n\r\n",
        "9\r\ndata: 2\n\n\r\n0\r\n\r\n",
    );
    let closing =
        events("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: 1\n\n", "data: 2\n\n");
    let mut clients = Vec::new();
    for origin in [&chunked, &closing] {
        let weir = in_front_of(origin);
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut seen = Vec::new();
        while !seen.ends_with(b"data: 1\n\n\r\n") {
            seen.extend(client.read_bytes(1));
        }
        clients.push((weir, client));
    }
    go.set();
    for (_, client) in &mut clients {
        let rest = client.read_bytes(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n".len());
        assert_eq!(String::from_utf8(rest).unwrap(), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
    }
}

#[test]
fn an_upload_is_passed_on_as_it_comes() {
    let asked = Signal::new();
    let origin = Origin::on_head({
        let asked = asked.clone();
        move |_| {
            Reply::new()
                .then(Step::ReadBytes(BEGINNING.len()))
                .then(Step::Set(asked.clone()))
                .then(Step::ReadBytes(2))
                .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .close()
        }
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2050\r\n\r\n");
    client.send(BEGINNING);
    assert!(asked.wait(), "the first piece waits for the second");
    client.send(b"de");
    assert_eq!(client.read_response(false).unwrap().status, 200);
}

#[test]
fn chunked_body_is_passed_on_at_once() {
    let origin = Origin::on_head(|_| {
        Reply::raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwho?\r\n")
            .then(Step::ReadBody)
            .send("0\r\n\r\n")
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut seen = Vec::new();
    while !seen.ends_with(b"who?\r\n") {
        seen.extend(client.read_bytes(1));
    }
    client.send(b"2\r\nme\r\n0\r\n\r\n");
    assert_eq!(client.read_bytes(5), b"0\r\n\r\n");
    assert_eq!(origin.wait_for_requests(1)[0].text(), "me");
}

/// Waits until `value` stays the same over [`STEADY_LOOKS`] reads, and returns it.
fn settled(value: impl Fn() -> u64) -> u64 {
    let (mut last, mut same) = (value(), 0);
    testkit::wait_until("the value has settled", || {
        let now = value();
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same == STEADY_LOOKS
    });
    last
}

/// The part of a body that has to arrive before a node is asked (`wait_for_body_bytes`).
const BEGINNING: &[u8] = &[b'a'; 2_048];
/// More than the socket buffers between two peers hold, and small enough for a test.
const LARGE_BYTES: usize = 20 * 1024 * 1024;
/// Reads without a change, about 10 ms apart, after which the value counts as settled.
const STEADY_LOOKS: u32 = 15;
