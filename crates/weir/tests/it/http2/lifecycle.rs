//! The life of a connection: idle time, drain, reload, limits of requests, and the last look before it gives
//! way.

use std::time::{Duration, Instant};

use testkit::{Authority, Origin, Reply, Signal, Step, TlsFront, Weir, wait_until};

use super::client::{Client, request, request_with, whole};
use super::raw::{ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, Raw, SETTINGS, frame, get_block};
use crate::support::{BINARY, builder, everything_to, in_front_of, in_front_of_with, route};
use crate::upstream_http2::origin::H2Origin;

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_block())
}

/// The last stream that a GOAWAY names.
fn last_stream(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// An origin that answers `/slow` once `go` is set and tells by `asked` that it was asked.
fn slow(asked: &Signal, go: &Signal) -> Origin {
    let (asked, go) = (asked.clone(), go.clone());
    Origin::start(move |request| match request.path() {
        "/slow" => Reply::new()
            .then(Step::Set(asked.clone()))
            .wait(&go)
            .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"),
        _ => Reply::ok("served"),
    })
}

#[test]
fn drain_takes_two_steps_and_finishes_requests() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = slow(&asked, &go);
    let mut weir = in_front_of(&origin);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    let block =
        [vec![0x82, 0x86], super::raw::literal(":path", "/slow"), super::raw::literal(":authority", "h")];
    peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block.concat()));
    assert!(asked.wait());
    weir.terminate();
    let first = peer.find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!((last_stream(&first.payload), first.code()), (0x7fff_ffff, Some(0)));
    let ping = peer.find(|frame| frame.kind == PING).unwrap();
    // A request that crosses the announcement is served.
    peer.send(&get(3));
    peer.send(&frame(PING, ACK, 0, &ping.payload));
    let last = peer.find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(last_stream(&last.payload), 3);
    go.set();
    let mut ended = Vec::new();
    while let Some(frame) = peer.next() {
        if frame.flags & END_STREAM != 0 && frame.kind <= HEADERS {
            ended.push(frame.stream);
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, [1, 3], "both were answered before the connection ended");
    assert!(weir.wait_for_exit().success());
}

#[test]
fn drain_goes_on_without_the_answer_to_its_ping() {
    let origin = Origin::answering("served");
    let mut weir = in_front_of(&origin);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    peer.send(&get(1));
    peer.find(|frame| frame.kind == HEADERS).unwrap();
    weir.terminate();
    let began = Instant::now();
    while peer.next().is_some() {}
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(weir.wait_for_exit().success());
}

#[test]
fn idle_connection_ends_with_goaway() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--idle-timeout-ms", "300"]);
    let client = {
        let mut client = Client::connect(weir.proxy());
        assert_eq!(client.get("/").text(), "served");
        client
    };
    // Held open by its handle; only the gateway ends it.
    let began = Instant::now();
    let Err(error) = client.ended_by_peer() else { return };
    assert!(error.is_go_away() || error.is_io(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn silent_connection_ends_at_the_head_timeout() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--head-timeout-ms", "300"]);
    // The preface alone, and a header block without its end.
    let mut only_preface = Raw::connect_bare(weir.proxy());
    only_preface.send(super::raw::PREFACE);
    let mut half_head = Raw::connect(weir.proxy(), &[]);
    half_head.send(&frame(HEADERS, END_STREAM, 1, &get_block()));
    for mut peer in [only_preface, half_head] {
        let goaway = peer.find(|frame| frame.kind == GOAWAY);
        assert!(goaway.is_some());
        assert_eq!(peer.next(), None);
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn body_that_stops_is_answered_408() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--client-body-timeout-ms", "100"]);
    let mut client = Client::connect(weir.proxy());
    let (response, mut stream) =
        client.start(request_with("POST", "/", &[("content-length", "10000")]), false);
    stream.send_data(bytes::Bytes::from_static(b"abc"), false).unwrap();
    let answer = client.run(whole(response)).unwrap();
    assert_eq!(answer.status, 408, "{}", answer.text());
    assert_eq!(client.get("/").text(), "served", "the connection goes on");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn streams_sent_in_a_drain_reach_their_nodes() {
    let authority = Authority::new("trusted");
    let (http2, http1) = (H2Origin::answering(), Origin::answering("ok"));
    let front = TlsFront::to(http1.address(), &authority.pair(&["a.example"]));
    let nodes = [
        ("HTTP/2", http2.node(), "scheme: grpc"),
        ("HTTP/2 or HTTP/1", front.address().to_string(), "scheme: https, http_version: '2'"),
        ("HTTP/1", http1.address().to_string(), "scheme: http"),
    ];
    for (name, node, more) in nodes {
        let upstream =
            format!("{{nodes: {{'{node}': 1}}, {more}, timeout: {{connect: 5, send: 5, read: 5}}}}");
        let mut weir = builder(&route("uri: /*", &upstream)).arguments(&["--workers", "1"]).start();
        let mut peer = Raw::connect(weir.proxy(), &[]);
        let is_served = |peer: &mut Raw, stream| {
            peer.send(&get(stream));
            let head = peer.find(|frame| frame.kind == HEADERS && frame.stream == stream).unwrap();
            // `:status: 200` by its index in the static table.
            assert_eq!(head.payload[0], 0x88, "{name}: stream {stream}");
        };
        is_served(&mut peer, 1);
        weir.terminate();
        // The PING behind it has no answer, so that the connection takes streams for a while.
        peer.find(|frame| frame.kind == GOAWAY).unwrap();
        is_served(&mut peer, 3);
        is_served(&mut peer, 5);
        drop(peer);
        assert!(weir.wait_for_exit().success(), "{name}");
    }
}

#[test]
fn connection_ends_after_its_requests() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--max-requests-per-connection", "3"]);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    for stream in [1, 3, 5] {
        peer.send(&get(stream));
    }
    let mut answered = 0;
    let mut goaways = 0;
    while let Some(received) = peer.next() {
        match received.kind {
            HEADERS => answered += 1,
            GOAWAY => goaways += 1,
            // The gateway may have closed by then.
            PING => drop(peer.try_send(&frame(PING, ACK, 0, &received.payload))),
            _ => {}
        }
    }
    assert_eq!((answered, goaways), (3, 2));
}

#[test]
fn removed_listener_loses_no_request() {
    let (asked, go) = (Signal::new(), Signal::new());
    let origin = slow(&asked, &go);
    let weir = Weir::builder(BINARY)
        .resources(&everything_to(origin.address(), ""))
        .settings("proxy: [127.0.0.1:0, 127.0.0.2:0]\n")
        .start();
    let mut client = Client::connect(weir.proxy());
    let (response, _) = client.start(request("GET", "/slow"), true);
    client.run(async {
        tokio::task::spawn_blocking({
            let asked = asked.clone();
            move || asked.wait()
        })
        .await
        .unwrap();
    });
    weir.rewrite_settings("proxy: [127.0.0.2:0]\n");
    weir.reload();
    wait_until("the listener is gone", || std::net::TcpStream::connect(weir.proxy()).is_err());
    go.set();
    assert_eq!(client.run(whole(response)).unwrap().text(), "done");
}

#[test]
fn change_of_routes_closes_no_connection() {
    let origin = Origin::answering("served");
    let weir = Weir::start(BINARY);
    let upstream = serde_json::json!({"nodes": {origin.address().to_string(): 1}});
    weir.put("routes/1", serde_json::json!({"uri": "/*", "upstream": upstream}));
    let mut client = Client::connect(weir.proxy());
    for number in 0..20 {
        assert_eq!(client.get("/").text(), "served");
        weir.put("routes/2", serde_json::json!({"uri": format!("/{number}"), "upstream": upstream}));
    }
    let metrics = testkit::Client::connect(weir.address("metrics")).get("/metrics").text();
    assert!(metrics.contains("\nweir_http2_connections 1\n"), "{metrics}");
}

#[test]
fn oldest_idle_connection_gives_way() {
    let origin = Origin::answering("served");
    let weir = in_front_of_with(&origin, &["--max-connections", "2"]);
    let mut first = Raw::connect(weir.proxy(), &[]);
    first.send(&get(1));
    first.find(|frame| frame.kind == HEADERS).unwrap();
    let mut second = Client::connect(weir.proxy());
    second.get("/");
    // Connections that have served a request give way after a second of silence.
    wait_until("a third client is served", || {
        second.get("/");
        let third = testkit::Client::try_connect(weir.proxy());
        third.is_ok_and(|mut third| third.try_request("GET", "/", &[], b"").is_ok())
    });
    let goaway = first.find(|frame| frame.kind == GOAWAY);
    assert!(goaway.is_some(), "the client learns which requests were taken");
    while first.next().is_some() {}
    assert_eq!(second.get("/").text(), "served");
}

#[test]
fn settings_are_acknowledged_before_any_request() {
    let origin = Origin::answering("served");
    let weir = in_front_of(&origin);
    let mut peer = Raw::connect(weir.proxy(), &[]);
    let first = peer.next().unwrap();
    assert_eq!((first.kind, first.flags), (SETTINGS, 0), "{first:?}");
    assert!(peer.find(|frame| frame.kind == SETTINGS && frame.flags == ACK).is_some());
}
