//! Single exchanges over HTTP/2: heads, windows, uploads that end early, clients that go away.

use serde_json::json;
use testkit::wait_until;

use super::origin::{
    ALTSVC, CANCEL, DATA, END_HEADERS, END_STREAM, H2Origin, HEADERS, NO_ERROR, PING, Peer, RESET, SETTINGS,
    STATUS_200, WINDOW_UPDATE, frame,
};
use super::{gateway, set};

const HEADER_TABLE_SIZE: u16 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;

#[test]
fn request_head_has_the_form_of_http2() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        while let Some((stream, fields)) = peer.request() {
            let text: String = fields.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            peer.answer(stream, text.as_bytes());
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let fields = [
        ("Host", "a.example:81"),
        ("TE", "trailers, deflate"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Cookie", "a=1"),
        ("X-Kept", "Value"),
    ];
    let response = weir.client().request("GET", "/r/x?q=1", &fields, b"");
    let text = response.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        &lines[..4],
        [":method=GET", ":scheme=http", ":authority=a.example:81", ":path=/r/x?q=1"],
        "{text}"
    );
    for expected in ["te=trailers", "cookie=a=1", "x-kept=Value", "x-forwarded-host=a.example:81"] {
        assert!(lines.contains(&expected), "{expected} is missing: {text}");
    }
    for name in ["connection", "x-hop", "host", "content-length", "transfer-encoding", "keep-alive"] {
        assert!(!lines.iter().any(|line| line.starts_with(&format!("{name}="))), "{name}: {text}");
    }
    let posted = weir.client().request("POST", "/r", &[], b"body");
    assert!(posted.text().contains("content-length=4\n"), "{}", posted.text());
}

#[test]
fn table_size_zero_of_the_origin_is_obeyed() {
    // nginx answers 502 to a field that is in the table of its peer only.
    let origin = H2Origin::with_table(0, |peer| {
        peer.settings(&[(HEADER_TABLE_SIZE, 0)]);
        while let Some((stream, _)) = peer.request() {
            peer.answer(stream, b"ok");
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    // The first request may be written before the setting arrives, with a table of 4096 bytes.
    let _ = weir.get("/r");
    for _ in 0..5 {
        assert_eq!(weir.client().request("GET", "/r", &[("X-Same", "value")], b"").status, 200);
    }
}

#[test]
fn small_windows_are_obeyed_both_ways() {
    let body: Vec<u8> = (0..5000_u32).map(|number| b'a' + (number % 26) as u8).collect();
    let expected = body.clone();
    let origin = H2Origin::start(move |peer| {
        peer.settings(&[(INITIAL_WINDOW_SIZE, 7)]);
        let (stream, _) = peer.request().unwrap();
        let mut received = Vec::new();
        while received.len() < expected.len() {
            let data = peer.wait_for(DATA).unwrap();
            // 65,535 bytes are allowed until the gateway has read the setting.
            received.extend_from_slice(&data.payload);
            peer.send(WINDOW_UPDATE, 0, stream, &1000_u32.to_be_bytes());
        }
        assert_eq!(received, expected);
        peer.answer(stream, &received);
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let response = weir.client().request("POST", "/r", &[], &body);
    assert_eq!((response.status, response.body == body), (200, true));
}

#[test]
fn early_response_ends_the_upload_in_order() {
    let origin = H2Origin::start(|peer: &mut Peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        peer.wait_for(DATA);
        peer.answer(stream, b"enough");
        peer.reset(stream, NO_ERROR);
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    client.send(b"POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    client.send(&[b'x'; 5000]);
    let response = client.read_response(false).unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "enough"));
}

#[test]
fn interim_responses_and_trailers_pass() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        // :status: 103, as a literal with the name of index 8.
        let interim = frame(HEADERS, END_HEADERS, stream, b"\x08\x03103\x00\x04link\x03</>");
        let response = [
            frame(HEADERS, END_HEADERS, stream, STATUS_200),
            frame(DATA, 0, stream, b"body"),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x05x-sum\x01\x37"),
        ];
        if peer.number == 0 {
            peer.write(&[interim.clone(), interim, response.concat()].concat());
        } else {
            // The gateway answers the PING once it has read the interim head.
            peer.write(&[interim, frame(PING, 0, 0, b"12345678")].concat());
            peer.wait_for(PING);
            peer.write(&response.concat());
        }
        peer.close();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for interim in [2, 1] {
        let mut client = weir.client();
        client.send(b"GET /r HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
        let text = String::from_utf8(client.read_to_end()).unwrap();
        assert!(text.starts_with("HTTP/1.1 103 "), "{text}");
        assert_eq!(text.matches("HTTP/1.1 103 ").count(), interim, "{text}");
        assert!(text.contains("HTTP/1.1 200 ") && text.contains("body"), "{text}");
        assert!(text.to_ascii_lowercase().contains("x-sum: 7"), "{text}");
    }
}

#[test]
fn cheap_frames_of_one_stream_spare_the_others() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        let (costly, _) = peer.request().unwrap();
        let (beside, _) = peer.request().unwrap();
        let message = [frame(DATA, 0, costly, b"x"), frame(DATA, 0, costly, &[])].concat();
        peer.write(&[frame(HEADERS, END_HEADERS, costly, STATUS_200), message.repeat(205)].concat());
        peer.write(&frame(ALTSVC, 0, costly, b"\0\0clear").repeat(250));
        peer.write(&frame(SETTINGS, 0, 0, &[]).repeat(60));
        peer.write(&frame(PING, 0, 0, &[0; 8]).repeat(600));
        peer.send(DATA, END_STREAM, costly, b"y");
        peer.answer(beside, b"ok");
        // Too many empty frames in a row end their stream.
        let (faulty, _) = peer.request().unwrap();
        let (beside, _) = peer.request().unwrap();
        peer.send(HEADERS, END_HEADERS, faulty, STATUS_200);
        peer.write(&frame(DATA, 0, faulty, &[]).repeat(2_000));
        peer.wait_for(RESET);
        peer.answer(beside, b"ok");
        peer.drain();
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for is_faulty in [false, true] {
        let mut clients = [weir.client(), weir.client()];
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(b"GET /r HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let sent = 2 * usize::from(is_faulty) + number + 1;
            wait_until("the request is there", || origin.count(|frame| frame.kind == HEADERS) == sent);
        }
        let [mut costly, mut beside] = clients;
        assert_eq!(beside.read_response(false).unwrap().text(), "ok");
        if !is_faulty {
            assert_eq!(costly.read_response(false).unwrap().text(), "x".repeat(205) + "y");
        }
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn responses_without_body_have_their_form() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        while let Some((stream, fields)) = peer.request() {
            let path = &fields.iter().find(|(name, _)| name == ":path").unwrap().1;
            // :status 204 and 304 by index, 200 with a length for HEAD.
            let (head, end): (&[u8], u8) = match path.as_str() {
                "/r204" => (&[0x89], END_STREAM),
                "/r304" => (&[0x8b], END_STREAM),
                "/rhead" => (b"\x88\x0f\x0d\x03123", END_STREAM),
                _ => (STATUS_200, END_STREAM),
            };
            peer.send(HEADERS, END_HEADERS | end, stream, head);
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    for (method, path, status, length) in [
        ("GET", "/r204", 204, None),
        ("GET", "/r304", 304, None),
        ("HEAD", "/rhead", 200, Some("123")),
        ("GET", "/rempty", 200, Some("0")),
    ] {
        let mut client = weir.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let response = client.read_response(method == "HEAD").unwrap();
        assert_eq!((response.status, response.header("content-length")), (status, length), "{path}");
        assert!(client.surplus().is_empty(), "{path}");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn client_that_goes_away_cancels_its_stream() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
        peer.send(DATA, 0, stream, b"first");
        while let Some((stream, _)) = peer.request() {
            peer.answer(stream, b"ok");
        }
    });
    let weir = gateway(&[]);
    set(&weir, &origin.node(), json!({}));
    let mut client = weir.client();
    client.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_bytes(10);
    drop(client);
    wait_until("the stream is cancelled", || {
        origin.has_seen(|frame| frame.kind == RESET && frame.payload == CANCEL.to_be_bytes())
    });
    assert_eq!(weir.get("/r").text(), "ok");
    assert_eq!(origin.accepted(), 1, "the connection goes on");
}

#[test]
fn client_that_does_not_read_bounds_what_is_held() {
    let origin = H2Origin::start(|peer| {
        peer.settings(&[]);
        let (stream, _) = peer.request().unwrap();
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200);
        if peer.number == 0 {
            // As much as the window of the stream allows, and no more.
            for _ in 0..16 {
                peer.send(DATA, 0, stream, &[b'x'; 4096]);
            }
        }
        while let Some((stream, _)) = peer.request() {
            peer.answer(stream, b"ok");
        }
    });
    let weir = gateway(&["--upstream-http2-stream-window-bytes", "65536"]);
    set(&weir, &origin.node(), json!({}));
    let mut lazy = weir.client();
    lazy.send(b"GET /r HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the response has begun", || origin.has_seen(|frame| frame.kind == HEADERS));
    for _ in 0..3 {
        assert_eq!(weir.get("/r").text(), "ok", "others share the connection meanwhile");
    }
    assert_eq!(origin.accepted(), 1);
}
