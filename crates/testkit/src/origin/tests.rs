//! Tests of the scripted origin with the client of this crate.

use super::*;
use crate::client::{Client, raw_exchange};
use crate::signal::Signal;

#[test]
fn connection_is_kept_and_requests_are_recorded() {
    let origin = Origin::answering("hello");
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/one").text(), "hello");
    let response = client.request("POST", "/two?x=1", &[("X-Test", "1")], b"body");
    assert_eq!((response.status, response.text()), (200, "hello".to_owned()));
    let seen = origin.requests();
    assert_eq!(origin.connections(), 1);
    assert_eq!(
        (seen[1].method.as_str(), seen[1].path(), seen[1].text()),
        ("POST", "/two", "body".to_owned())
    );
    assert_eq!(seen[1].header("x-test"), Some("1"));
}

#[test]
fn trailers_are_read_and_written() {
    let origin = Origin::start(|_| Reply::chunked(&["hel", "lo"], &[("X-Sum", "5")]));
    let mut client = Client::connect(origin.address());
    client.send(b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;ext=1\r\nab\r\n1\r\nc\r\n0\r\nX-End: y\r\n\r\n");
    let response = client.read_response(false).unwrap();
    assert_eq!(
        (response.text(), response.trailers),
        ("hello".to_owned(), vec![("X-Sum".into(), "5".into())])
    );
    let request = origin.last_request();
    assert_eq!((request.text(), request.trailers), ("abc".to_owned(), vec![("X-End".into(), "y".into())]));
}

#[test]
fn client_sees_cut_and_reset_responses() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    for (reply, kind) in [
        (Reply::raw(cut).close(), std::io::ErrorKind::UnexpectedEof),
        (Reply::raw(cut).reset(), std::io::ErrorKind::ConnectionReset),
        (Reply::new().close(), std::io::ErrorKind::UnexpectedEof),
        (Reply::raw(b"garbage\r\n\r\n"), std::io::ErrorKind::InvalidData),
    ] {
        let origin = Origin::start(move |_| reply.clone());
        let broken = Client::connect(origin.address()).try_request("GET", "/", &[], b"").unwrap_err();
        assert_eq!(broken.cause.kind(), kind, "{broken}");
        origin.wait_for_closed(1);
    }
}

#[test]
fn on_head_script_answers_before_the_body() {
    let (asked, go) = (Signal::new(), Signal::new());
    let script = {
        let (asked, go) = (asked.clone(), go.clone());
        move |_: &Request| {
            let body = [Step::Send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()), Step::ReadBody];
            Reply::steps([Step::Set(asked.clone()), Step::Wait(go.clone())].into_iter().chain(body))
                .send("HTTP/1.1 204 No Content\r\n\r\n")
        }
    };
    let origin = Origin::on_head(script);
    let mut client = Client::connect(origin.address());
    client.send(b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    assert!(asked.wait());
    go.set();
    client.send(b"abc");
    let response = client.read_response(false).unwrap();
    assert_eq!((response.interim[0].status, response.status), (100, 204));
    assert_eq!(origin.wait_for_requests(1)[0].text(), "abc");
}

#[test]
fn on_accept_script_sends_first() {
    let origin = Origin::on_accept(|number| Reply::raw(format!("hello {number}").as_bytes()).close());
    assert_eq!(raw_exchange(origin.address(), b""), b"hello 0");
    assert_eq!(raw_exchange(origin.address(), b""), b"hello 1");
}

#[test]
fn echo_sends_bytes_back() {
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    let origin = Origin::start(move |_| Reply::raw(upgrade).then(Step::Echo).close());
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/").status, 101);
    client.send(b"ping");
    assert_eq!(client.read_bytes(4), b"ping");
    client.finish_sending();
    assert!(client.closes_cleanly());
}

#[test]
fn dropped_connection_leaves_the_listener_open() {
    let origin = Origin::answering("x");
    let mut client = Client::connect(origin.address());
    client.get("/");
    origin.drop_connections();
    assert!(client.closes_cleanly());
    assert_eq!(Client::connect(origin.address()).get("/").status, 200);
}
