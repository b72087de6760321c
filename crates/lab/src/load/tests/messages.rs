//! The load generator against WebSocket servers.

use super::*;

/// Accepts a WebSocket and calls `serve` with the payload of each message; the result is the frame to send.
fn websocket(proof: fn(&str) -> String, serve: fn(u64, &[u8]) -> Vec<u8>) -> SocketAddr {
    server(move |_, stream| {
        let Some(head) = request(stream) else { return };
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            proof(key)
        );
        stream.write_all(answer.as_bytes()).unwrap();
        let (mut header, mut payload) = ([0; 6], [0; 64]);
        for number in 0.. {
            if stream.read_exact(&mut header).is_err() {
                return;
            }
            let payload = &mut payload[..usize::from(header[1] & 0x7f)];
            stream.read_exact(payload).unwrap();
            for (at, byte) in payload.iter_mut().enumerate() {
                *byte ^= header[2 + at % 4];
            }
            if header[0] == 0x82 && stream.write_all(&serve(number, payload)).is_err() {
                return;
            }
        }
    })
}

fn echoed(payload: &[u8]) -> Vec<u8> {
    [&[0x82, payload.len() as u8][..], payload].concat()
}

#[test]
fn websocket_messages_are_echoed_and_compared() {
    let check = |serve: fn(u64, &[u8]) -> Vec<u8>, wanted: (u64, Failures)| {
        let address = websocket(peer::websocket::accept, serve);
        let outcome = go(&LoadPlan {
            manner: LoadMode::Websocket,
            body_bytes: 40,
            connections: 2,
            requests: Some(8),
            ..plan(address)
        });
        assert_eq!((outcome.requests, outcome.failures), wanted, "{:?}", outcome.notes);
    };
    check(|_, payload| echoed(payload), (8, Failures::default()));
    // A ping before the echo is answered and not counted.
    check(|_, payload| [b"\x89\x01p", &echoed(payload)[..]].concat(), (8, Failures::default()));
    check(|_, payload| echoed(&payload[1..]), (8, Failures { content: 8, ..Failures::default() }));
    check(
        |_, payload| echoed(&[b"x", &payload[1..]].concat()),
        (8, Failures { content: 8, ..Failures::default() }),
    );
    // A masked frame ends the connection.
    check(|_, _| websocket::message(b"x"), (0, Failures { content: 8, ..Failures::default() }));
    check(|_, _| vec![0x88, 0], (0, Failures { broken: 8, ..Failures::default() }));
}

#[test]
fn a_handshake_without_proof_is_refused() {
    let address = websocket(|_| "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned(), |_, payload| echoed(payload));
    let short = LoadPlan { manner: LoadMode::Websocket, connections: 1, requests: Some(2), ..plan(address) };
    let outcome = go(&short);
    assert_eq!((outcome.requests, outcome.failures), (0, Failures { content: 3, ..Failures::default() }));
    let address = answering(|_| "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_owned());
    let outcome = go(&LoadPlan { target: plan(address).target, ..short });
    assert_eq!((outcome.requests, outcome.failures), (0, Failures { status: 3, ..Failures::default() }));
}
