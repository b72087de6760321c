//! Streams that end before their time, from either side.

use h2::Reason;
use testkit::{Origin, Reply, Signal, Step, wait_for, wait_until};

use super::client::{Client, request, request_with, upload, whole};
use crate::support::{builder, everything_to, in_front_of};

#[test]
fn client_reset_ends_the_exchange_at_once() {
    let asked = Signal::new();
    let origin = Origin::start({
        let asked = asked.clone();
        move |_| Reply::new().then(Step::Set(asked.clone())).then(Step::AwaitClose)
    });
    let weir = builder(&everything_to(origin.address(), ""))
        .settings("access_log: access.log\naccess_log_format: '$uri $status $weir_cause'\n")
        .start();
    let mut client = Client::connect(weir.proxy());
    let (response, mut stream) = client.start(request("GET", "/gone"), true);
    client.run(async {
        tokio::task::spawn_blocking(move || asked.wait()).await.unwrap();
    });
    stream.send_reset(Reason::CANCEL);
    drop(response);
    client.run_until("the connection to the origin is closed", || origin.closed_connections() == 1);
    wait_for("the reset is in the access log", || {
        let text = std::fs::read_to_string(weir.directory().join("access.log")).ok()?;
        text.contains("/gone 499 client_gone").then_some(())
    });
    assert!(client.send.is_extended_connect_protocol_enabled());
    wait_until("no stream is left", || {
        testkit::Client::connect(weir.address("metrics"))
            .get("/metrics")
            .text()
            .contains("\nweir_http2_streams 0\n")
    });
}

#[test]
fn cut_response_resets_its_stream() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
        let origin = Origin::start(move |request| match request.path() {
            "/cut" => Reply::new().send(&head).send("5\r\nhello\r\n").close(),
            _ => Reply::ok("served"),
        });
        let weir = in_front_of(&origin);
        let mut client = Client::connect(weir.proxy());
        let error = client.ask(request("GET", "/cut")).unwrap_err();
        assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR), "{error}");
        assert_eq!(client.get("/").text(), "served", "the connection goes on");
    }
}

#[test]
fn early_response_declines_the_rest_of_the_body() {
    let origin = Origin::on_head(|_| Reply::with(403, &[("Connection", "close")], b"no").close());
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    let (response, stream) = client.start(request("POST", "/"), false);
    let (answer, sent) = client.run(async {
        let body = vec![b'x'; 4_000_000];
        tokio::join!(whole(response), upload(stream, &body, None))
    });
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (403, "no"));
    if let Err(error) = sent {
        assert_eq!(error.reason(), Some(Reason::NO_ERROR), "{error}");
    }
}

#[test]
fn wrong_content_length_resets_the_stream() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let mut client = Client::connect(weir.proxy());
    for (length, body) in [("3", "1234"), ("5", "1234")] {
        let error =
            client.send(request_with("POST", "/", &[("content-length", length)]), body.as_bytes(), None);
        assert_eq!(error.unwrap_err().reason(), Some(Reason::PROTOCOL_ERROR), "{length}");
    }
    assert_eq!(client.get("/").text(), "served");
    let whole = origin
        .requests()
        .iter()
        .filter(|request| request.method == "POST" && request.body_error.is_none())
        .count();
    assert_eq!(whole, 0, "no POST was completed");
}

#[test]
fn refused_streams_can_be_sent_again() {
    let go = Signal::new();
    let origin = Origin::start({
        let go = go.clone();
        move |_| Reply::new().wait(&go).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let weir = crate::support::in_front_of_with(&origin, &["--http2-max-streams", "2"]);
    let mut peer = super::raw::Raw::connect(weir.proxy(), &[]);
    let get = |stream: u32| {
        super::raw::frame(
            super::raw::HEADERS,
            super::raw::END_HEADERS | super::raw::END_STREAM,
            stream,
            &super::raw::get_block(),
        )
    };
    peer.send(&[get(1), get(3), get(5)].concat());
    let refused = peer.find(|frame| frame.kind == super::raw::RST_STREAM).unwrap();
    assert_eq!((refused.stream, refused.code()), (5, Some(7)), "REFUSED_STREAM");
    go.set();
    for _ in 0..2 {
        peer.find(|frame| frame.kind == super::raw::HEADERS).unwrap();
    }
}
