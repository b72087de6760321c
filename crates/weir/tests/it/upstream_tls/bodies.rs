//! Bodies, ends and tunnels over TLS to upstreams.

use serde_json::json;
use testkit::{Authority, Origin, Reply, Step, TlsBehaviour, TlsFront, Weir};

use super::{gateway, https, node};

/// The route `/r` with WebSocket to an origin behind TLS with this behaviour.
fn stage(origin: &Origin, behaviour: TlsBehaviour) -> (Weir, TlsFront) {
    let authority = Authority::new("trusted");
    let front = TlsFront::with(origin.address(), &authority.pair(&["a.example"]), behaviour);
    let weir = gateway(&authority, &[]);
    let upstream = https(&node(&front), json!({"tls": {"verify": true}}));
    weir.put("routes/r", json!({"uri": "/*", "enable_websocket": true, "upstream": upstream}));
    (weir, front)
}

const HOST: (&str, &str) = ("Host", "a.example");

#[test]
fn bodies_pass_both_ways_unchanged() {
    let origin = Origin::start(|request| Reply::with(200, &[], &request.body));
    for tls12_only in [false, true] {
        let (weir, _front) = stage(&origin, TlsBehaviour { tls12_only, ..TlsBehaviour::default() });
        let mut client = weir.client();
        for length in [0_usize, 1, 100, 4_096, 16_384, 16_385, 100_000, 1_048_576] {
            let body: Vec<u8> = (0..length).map(|number| (number * 7 % 251) as u8).collect();
            let response = client.request("POST", "/", &[HOST], &body);
            assert_eq!(response.status, 200, "{length}");
            assert!(response.body == body, "{length} bytes came back changed");
        }
    }
}

#[test]
fn chunked_response_comes_with_its_trailers() {
    let origin = Origin::start(|_| Reply::chunked(&["one ", "two"], &[("X-Sum", "7")]));
    let (weir, _front) = stage(&origin, TlsBehaviour::default());
    let response = weir.client().request("GET", "/", &[HOST], b"");
    assert_eq!((response.status, response.text().as_str()), (200, "one two"));
}

#[test]
fn body_until_close_needs_the_end_of_tls() {
    let origin = Origin::start(|_| Reply::raw(b"HTTP/1.0 200 OK\r\n\r\nall of it").close());
    let ask = |cuts: bool| {
        let (weir, _front) = stage(&origin, TlsBehaviour { cuts, ..TlsBehaviour::default() });
        let mut client = weir.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let response = client.read_response(false);
        drop(weir);
        response.map_or(None, |response| (response.status == 200).then(|| response.text()))
    };
    assert_eq!(ask(false).as_deref(), Some("all of it"));
    assert_eq!(ask(true), None, "a body that may have been cut does not look complete");
}

#[test]
fn known_length_is_whole_without_the_end_of_tls() {
    let origin = Origin::start(|_| Reply::ok("all of it").close());
    let (weir, _front) = stage(&origin, TlsBehaviour { cuts: true, ..TlsBehaviour::default() });
    for _ in 0..3 {
        assert_eq!(weir.client().request("GET", "/", &[HOST], b"").text(), "all of it");
    }
}

#[test]
fn cut_body_is_cut_for_the_client() {
    let origin = Origin::start(|_| Reply::raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart").close());
    let (weir, _front) = stage(&origin, TlsBehaviour::default());
    let mut client = weir.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    // A 502 if nothing was sent on when the cut was read.
    assert!(client.read_response(false).map_or(true, |response| response.status == 502));
}

#[test]
fn websocket_passes_over_tls() {
    let consent = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let origin = Origin::start(move |_| Reply::raw(consent.as_bytes()).send("hi").then(Step::Echo).close());
    let (weir, _front) = stage(&origin, TlsBehaviour::default());
    let mut client = weir.client();
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
    client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n\r\n").as_bytes());
    assert_eq!(client.read_response(false).unwrap().status, 101);
    assert_eq!(client.read_bytes(2), b"hi");
    for length in [1, 10, 100_000, 1_048_576] {
        let frame: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        // A large frame has to be read while it is sent, since the origin echoes it.
        let mut sending = client.stream().try_clone().unwrap();
        let sent = frame.clone();
        let sender = std::thread::spawn(move || std::io::Write::write_all(&mut sending, &sent).unwrap());
        assert!(client.read_bytes(length) == frame, "{length} bytes came back changed");
        sender.join().unwrap();
    }
    client.finish_sending();
    assert!(client.closes_cleanly(), "the end of the client reached the origin, and came back");
}
