//! Requests that the origin did not process are sent again, and others are not.

use serde_json::json;
use testkit::{Signal, wait_until};

use super::origin::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, H2Origin, HEADERS, INTERNAL_ERROR, Peer, REFUSED_STREAM,
    STATUS_200,
};
use super::{gateway, set};

/// Answers all requests.
fn serve(peer: &mut Peer) {
    while let Some((stream, _)) = peer.request() {
        peer.answer(stream, b"ok");
    }
}

#[test]
fn unprocessed_requests_are_sent_again() {
    // The first connection does not process its second request; the script ends there or goes on.
    type Refuse = fn(&mut Peer, u32);
    let rows: [(&str, Refuse); 4] = [
        ("GOAWAY", |peer, stream| {
            peer.goaway(stream - 2);
            peer.drain();
        }),
        ("GOAWAY and close", |peer, stream| {
            peer.goaway(stream - 2);
            peer.close();
        }),
        ("REFUSED_STREAM", |peer, stream| {
            peer.reset(stream, REFUSED_STREAM);
            while let Some((stream, _)) = peer.request() {
                peer.reset(stream, REFUSED_STREAM);
            }
        }),
        ("REFUSED_STREAM after GOAWAY", |peer, stream| {
            peer.goaway(stream);
            peer.reset(stream, REFUSED_STREAM);
            peer.drain();
        }),
    ];
    for (name, refuse) in rows {
        let origin = H2Origin::start(move |peer| {
            peer.settings(&[]);
            if peer.number > 0 {
                return serve(peer);
            }
            let (first, _) = peer.request().unwrap();
            peer.answer(first, b"ok");
            let (second, _) = peer.request().unwrap();
            refuse(peer, second);
        });
        let weir = gateway(&[]);
        set(&weir, &origin.node(), json!({}));
        for number in 0..3 {
            let response = weir.client().request("POST", "/r", &[], b"body");
            assert_eq!((response.status, response.text().as_str()), (200, "ok"), "{name}, request {number}");
        }
        assert_eq!(origin.accepted(), 2, "{name}");
    }
}

#[test]
fn request_refused_on_every_connection_fails() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        while let Some((stream, _)) = peer.request() {
            peer.reset(stream, REFUSED_STREAM);
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let response = weir.client().request("POST", "/r", &[], b"body");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("origin_closed"), "{}", response.text());
    assert_eq!(origin.accepted(), 2);
}

#[test]
fn processed_requests_are_not_doubled() {
    // Method, and how often the origin sees the request.
    for (method, seen) in [("POST", 1), ("GET", 2)] {
        let origin = H2Origin::start(|peer| {
            peer.settings(&[]);
            let (first, _) = peer.request().unwrap();
            if peer.number == 0 {
                peer.answer(first, b"ok");
                // The connection ends behind the request.
                peer.request();
            } else {
                peer.answer(first, b"again");
                peer.drain();
            }
        });
        let weir = gateway(&[]);
        set(&weir, &origin.node(), json!({}));
        assert_eq!(weir.get("/r").status, 200);
        let response = weir.client().request(method, "/r", &[], b"");
        assert_eq!(response.status, if seen == 1 { 502 } else { 200 }, "{method}");
        assert_eq!(origin.accepted(), seen, "{method}");
    }
}

#[test]
fn connection_with_goaway_finishes_its_streams() {
    let signal = Signal::new();
    let other_is_used = signal.clone();
    let origin = H2Origin::start(move |peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        if peer.number > 0 {
            peer.answer(stream, b"new");
            return peer.drain();
        }
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
        peer.goaway(stream);
        // The request beside it comes over another connection.
        peer.send(DATA, 0, stream, b"o");
        other_is_used.wait();
        peer.send(DATA, END_STREAM, stream, b"ld");
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut slow = weir.client();
    slow.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the first request is there", || origin.has_seen(|frame| frame.kind == HEADERS));
    wait_until("another connection is used", || weir.get("/r").text() == "new");
    signal.set();
    assert_eq!(slow.read_response(false).unwrap().text(), "old");
    assert_eq!(origin.accepted(), 2);
    wait_until("the gateway says GOAWAY", || origin.has_seen(|frame| frame.kind == GOAWAY));
}

#[test]
fn broken_responses_are_seen_as_such() {
    type Answer = fn(&mut Peer, u32);
    // The script, and the status that the client gets; 0 is a response that is cut.
    let rows: [(&str, Answer, u16, &str); 6] = [
        ("closed at once", |_, _| {}, 502, "origin_closed"),
        ("reset", |peer, stream| peer.reset(stream, INTERNAL_ERROR), 502, "origin_closed"),
        (
            "cut body",
            |peer, stream| {
                peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
                peer.send(DATA, 0, stream, b"part");
            },
            0,
            "",
        ),
        (
            "reset body",
            |peer, stream| {
                peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
                peer.send(DATA, 0, stream, b"part");
                peer.reset(stream, INTERNAL_ERROR);
                peer.drain();
            },
            0,
            "",
        ),
        (
            "DATA before the head",
            |peer, stream| {
                peer.send(DATA, 0, stream, b"part");
                peer.drain();
            },
            502,
            "origin_bad_response",
        ),
        (
            "broken frame",
            |peer, _| {
                peer.send(DATA, 0, 0, b"part");
                peer.drain();
            },
            502,
            "origin_bad_response",
        ),
    ];
    for (name, answer, status, cause) in rows {
        let origin = H2Origin::start(move |peer| {
            peer.settings(&[]);
            if let Some((stream, _)) = peer.request() {
                answer(peer, stream);
            }
        });
        let weir = gateway(&[]);
        set(&weir, &origin.node(), json!({"retries": 0}));
        let mut client = weir.client();
        let result = client.try_request("POST", "/r", &[], b"body");
        match (result, status) {
            (Err(_), 0) => {}
            // Head and reset may arrive in one piece.
            (Ok(response), 0) if response.status == 502 => {}
            (Ok(response), expected) => {
                assert_eq!(response.status, expected, "{name}");
                assert!(response.text().contains(cause), "{name}: {}", response.text());
            }
            (Err(_), _) => panic!("{name}: no response"),
        }
        wait_until("the log names the failure", || {
            name == "reset body"
                || name == "cut body"
                || weir.stderr().iter().any(|line| line.contains(cause))
        });
    }
}

#[test]
fn origin_of_http1_is_a_bad_response() {
    let origin = testkit::Origin::on_accept(|_| {
        testkit::Reply::raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").close()
    });
    let weir = gateway(&[]);
    set(&weir, &origin.address().to_string(), json!({}));
    let response = weir.get("/r");
    assert_eq!(response.status, 502);
    wait_until("the log says what it speaks", || {
        weir.stderr().iter().any(|line| line.contains("it answers with HTTP/1 on a connection for HTTP/2"))
    });
}
