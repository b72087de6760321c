//! Exchanges that break off: each side learns that the other has closed, and no cut message is taken for a
//! whole one.

use std::io::ErrorKind;

use testkit::{Origin, Reply, Request, Signal, Step};

use crate::support::{everything_to, gateway, in_front_of, in_front_of_with};

#[test]
fn a_cut_response_is_never_a_whole_one() {
    let long = "x".repeat(100_000);
    let starts: [String; 4] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_owned() + &long,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n".to_owned() + &long,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n".to_owned() + &long + "\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n".to_owned()
            + &long
            + "\r\n0\r\nX-A: b\r\n",
    ];
    let requests: [&[u8]; 2] = [b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"];
    for start in &starts {
        for (reset, request) in [(false, requests[0]), (true, requests[0]), (false, requests[1])] {
            let bytes = start.clone();
            let origin = Origin::start(move |_| {
                let reply = Reply::raw(bytes.as_bytes());
                if reset { reply.reset() } else { reply.close() }
            });
            let weir = in_front_of(&origin);
            let mut client = weir.client();
            client.send(request);
            let shown = (&start[..60], reset, String::from_utf8_lossy(request));
            let broken = match client.read_response(false) {
                Ok(response) => panic!("{shown:?}: whole, {} bytes", response.body.len()),
                Err(broken) => broken,
            };
            let kind = broken.cause.kind();
            assert!(
                matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset),
                "{shown:?}: {kind}"
            );
        }
    }
}

#[test]
fn a_small_cut_response_is_never_a_whole_one() {
    for (reply, old) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", false),
    ] {
        let origin = Origin::start(move |_| Reply::raw(reply.as_bytes()).close());
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        client.send(if old { b"GET / HTTP/1.0\r\n\r\n" } else { b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" });
        if let Ok(response) = client.read_response(false) {
            assert_eq!(response.status, 502, "{reply:?}");
        }
    }
}

#[test]
fn a_client_that_goes_away_stops_the_upstream_work() {
    let answers: [Option<&str>; 2] = [None, Some("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")];
    for answer in answers {
        let asked = Signal::new();
        let origin = Origin::start({
            let asked = asked.clone();
            move |_| {
                let reply = answer.map_or_else(Reply::new, |answer| Reply::raw(answer.as_bytes()));
                reply.then(Step::Set(asked.clone())).then(Step::AwaitClose)
            }
        });
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(asked.wait());
        if answer.is_some() {
            // Reading the response's beginning here shows that the gateway is in the middle of it.
            client.read_bytes(20);
        }
        drop(client);
        origin.wait_for_closed(1);
        assert_eq!(origin.closed_connections(), 1, "{answer:?}");
    }
}

#[test]
fn aborted_upload_never_looks_whole() {
    let length = "Content-Length: 10000\r\n\r\n".to_owned() + &"a".repeat(2_048);
    for framing in [&length, "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"] {
        let asked = Signal::new();
        let origin = Origin::on_head({
            let asked = asked.clone();
            move |_| Reply::new().then(Step::Set(asked.clone())).then(Step::ReadBody)
        });
        let weir = in_front_of(&origin);
        let mut client = weir.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}").as_bytes());
        assert!(asked.wait());
        drop(client);
        let request = origin.wait_for_requests(1).pop().unwrap();
        assert!(request.body_error.is_some(), "{framing:?}: {request:?}");
    }
}

#[test]
fn a_client_that_only_stops_sending_gets_its_answer() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = Origin::start({
        let (asked, go) = (asked.clone(), go.clone());
        move |_: &Request| {
            Reply::new()
                .then(Step::Set(asked.clone()))
                .wait(&go)
                .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
    });
    let weir = in_front_of(&origin);
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    client.finish_sending();
    assert!(asked.wait());
    go.set();
    assert_eq!(client.read_response(false).unwrap().text(), "ok");
    assert!(client.closes_cleanly());
}

#[test]
fn a_body_that_stops_arriving_is_given_up() {
    let origin = Origin::answering("");
    let weir = in_front_of_with(&origin, &["--client-body-timeout-ms", "100"]);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\n";
    for (beginning, requests) in [("abc", 0), (&"a".repeat(2_048)[..], 1)] {
        let mut client = weir.client();
        client.send((head.to_owned() + beginning).as_bytes());
        let response = client.read_response(false).unwrap();
        assert_eq!((response.status, response.header("connection")), (408, Some("close")));
        assert!(client.closes_cleanly());
        let seen = origin.wait_for_requests(requests);
        assert!(
            seen.len() == requests && seen.iter().all(|request| request.body_error.is_some()),
            "{seen:?}"
        );
    }
}

#[test]
fn a_response_that_stops_arriving_is_cut() {
    let origin = Origin::start(|_| {
        Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").then(Step::AwaitClose)
    });
    let weir = gateway(&everything_to(origin.address(), "timeout: {connect: 5, send: 5, read: 0.1}"));
    let broken = weir.client().try_request("GET", "/", &[], b"").unwrap_err();
    assert!(matches!(broken.cause.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{broken}");
    origin.wait_for_closed(1);
}
