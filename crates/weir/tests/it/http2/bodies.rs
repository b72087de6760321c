//! Bodies, trailers and interim responses over HTTP/2, with windows that are smaller than the bodies.

use h2::client::Builder;
use http::{HeaderMap, HeaderValue};
use testkit::{Origin, Reply, Signal, Step};

use super::client::{Client, request, request_with, rest};
use crate::support::in_front_of;

/// Text of which every part differs from the parts around it.
fn text(length: usize) -> Vec<u8> {
    (0..length).map(|index| b'a' + (index / 7 % 26) as u8).collect()
}

/// An origin that answers with the body of the request, at most one mebibyte.
fn echo() -> Origin {
    Origin::start(|request| Reply::with(200, &[], &request.body))
}

#[test]
fn bodies_larger_than_windows_pass_both_ways() {
    let origin = echo();
    let weir = in_front_of(&origin);
    let mut small = Builder::new();
    small.initial_window_size(1_000).initial_connection_window_size(65_535).max_frame_size(16_384);
    let mut large = Builder::new();
    large.initial_window_size(1 << 20).initial_connection_window_size(1 << 22);
    for (name, builder) in [("small", small), ("default", Builder::new()), ("large", large)] {
        let mut client = Client::with(weir.proxy(), &builder);
        for length in [0, 1, 999, 16_384, 65_535, 70_000, 1_000_000] {
            let body = text(length);
            let answer = client.send(request("POST", "/"), &body, None).unwrap();
            assert_eq!(answer.status, 200, "{name} {length}");
            assert!(answer.body == body, "{name}: {} of {length} bytes came back", answer.body.len());
        }
    }
}

#[test]
fn declared_length_is_passed_on() {
    let origin = Origin::echoing();
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let declared =
        client.send(request_with("POST", "/", &[("content-length", "5")]), b"12345", None).unwrap();
    assert!(declared.text().contains("\r\nContent-Length: 5\r\n"), "{}", declared.text());
    let unknown = client.send(request("POST", "/"), b"12345", None).unwrap();
    assert!(unknown.text().contains("\r\nTransfer-Encoding: chunked\r\n"), "{}", unknown.text());
    let none = client.ask(request("POST", "/")).unwrap();
    assert!(none.text().contains("\r\nContent-Length: 0\r\n"), "{}", none.text());
    assert_eq!(origin.connections(), 1, "all bodies were framed right");
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|_| Reply::chunked(&["a", "b"], &[("X-Check", "sum"), ("Host", "evil")]));
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sent", HeaderValue::from_static("1"));
    trailers.insert("content-length", HeaderValue::from_static("9"));
    let answer = client.send(request("POST", "/"), b"body", Some(trailers)).unwrap();
    assert_eq!(answer.text(), "ab");
    let received = answer.trailers.unwrap();
    assert_eq!(received.get("x-check").unwrap(), "sum");
    assert_eq!(received.len(), 1, "{received:?}");
    let seen = origin.last_request();
    assert_eq!((seen.text().as_str(), seen.trailers.len()), ("body", 1), "{seen:?}");
    assert!(seen.trailers[0].0.eq_ignore_ascii_case("x-sent"), "{seen:?}");
}

#[test]
fn streams_share_one_connection() {
    const STREAMS: usize = 100;
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |request| {
            Reply::new().wait(&go).send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
                request.path().len(),
                request.path()
            ))
        }
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let responses: Vec<_> =
        (0..STREAMS).map(|number| client.start(request("GET", &format!("/{number}")), true).0).collect();
    let _origin = client.run(async {
        let wait = move || {
            origin.wait_for_requests(STREAMS);
            go.set();
            origin
        };
        tokio::task::spawn_blocking(wait).await.unwrap()
    });
    for (number, response) in responses.into_iter().enumerate() {
        let answer = client.run(super::client::whole(response)).unwrap();
        assert_eq!((answer.status, answer.text()), (200, format!("/{number}")));
    }
}

#[test]
fn pieces_arrive_as_they_are_sent() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| {
            Reply::new()
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
                .wait(&go)
                .send("6\r\nsecond\r\n0\r\n\r\n")
        }
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let (response, _) = client.start(request("GET", "/"), true);
    let mut body = client.run(response).unwrap().into_body();
    assert_eq!(client.run(body.data()).unwrap().unwrap(), "first");
    go.set();
    assert_eq!(client.run(rest(body)).unwrap().0, b"second");
}

#[test]
fn client_gets_100_once_its_body_is_wanted() {
    let origin = echo();
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let (mut response, mut stream) =
        client.start(request_with("POST", "/", &[("expect", "100-continue")]), false);
    let interim = client.run(std::future::poll_fn(|cx| response.poll_informational(cx)));
    assert_eq!(interim.unwrap().unwrap().status(), 100);
    stream.send_data("late".into(), true).unwrap();
    assert_eq!(client.run(super::client::whole(response)).unwrap().text(), "late");
    assert_eq!(origin.last_request().header("expect"), None);
}

#[test]
fn early_hints_come_before_the_response() {
    let origin = Origin::start(|_| {
        Reply::raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\n\r\n")
            .then(Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()))
    });
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let (mut response, _) = client.start(request("GET", "/"), true);
    let interim = client.run(std::future::poll_fn(|cx| response.poll_informational(cx))).unwrap().unwrap();
    assert_eq!((interim.status().as_u16(), interim.headers().len()), (103, 1), "{interim:?}");
    assert_eq!(interim.headers().get("link").unwrap(), "</a.css>");
    assert_eq!(client.run(super::client::whole(response)).unwrap().text(), "ok");
}
