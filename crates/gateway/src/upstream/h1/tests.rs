//! Tests of an upstream connection with a response that was only peeked: no byte may be lost, repeated, or
//! read as the next response, and little memory may be held.

use std::future::poll_fn;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

use stdx::buffer::{LARGE_BYTES, SMALL_BYTES};

use super::*;
use net::env;

const LOOK: Capacity = Capacity::Estimate(LARGE_BYTES);

/// A stream of an upstream connection, and the endpoint's end of it.
fn pair() -> (UpstreamH1Stream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let node = TcpStream::connect(address).unwrap();
    node.set_nodelay(true).unwrap();
    let stream = net::transport::Transport::attach(listener.accept().unwrap().0).unwrap();
    let endpoint = Arc::new(Endpoint::cleartext(1, address));
    let connection = UpstreamConnection::new(stream, endpoint, None);
    (UpstreamH1Stream::new(connection, HeadLimits::default()), node)
}

/// Takes the whole response for a client that takes `most` bytes at once and then pauses; returns the most
/// bytes that were held meanwhile, and the body.
async fn take(origin: &mut UpstreamH1Stream, most: usize) -> (usize, Vec<u8>) {
    let mut head = ResponseHead::default();
    poll_fn(|cx| origin.poll_head(cx, &mut head, LOOK)).await.unwrap();
    let (mut held, mut body) = (0, Vec::new());
    loop {
        let count = poll_fn(|cx| match origin.poll_body(cx, &mut |_| Poll::Ready(Ok(LOOK))) {
            Poll::Ready(BodyEvent::Data(data)) => {
                let count = data.len().min(most);
                body.extend_from_slice(&data[..count]);
                Poll::Ready(count)
            }
            Poll::Ready(BodyEvent::End(_)) => Poll::Ready(0),
            Poll::Ready(BodyEvent::Reset(failure)) => panic!("{failure:?}"),
            Poll::Pending => Poll::Pending,
        })
        .await;
        if count > 0 {
            origin.consume(count);
        }
        origin.pause().unwrap();
        held = held.max(origin.input.buffer.capacity());
        if count == 0 {
            return (held, body);
        }
    }
}

#[test]
fn peeked_response_is_forwarded_exactly_once() {
    let length = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789".as_slice();
    let chunks =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n";
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".as_slice();
    for answer in [length, chunks] {
        for most in [1, 3, 10] {
            env::block_on(async {
                let (mut origin, mut node) = pair();
                node.write_all(answer).unwrap();
                assert_eq!(take(&mut origin, most).await, (0, b"0123456789".to_vec()), "{most} at once");
                let (connection, _) = origin.end(true);
                let mut connection = connection.expect("all of it was taken");
                env::yield_to_events().await;
                assert!(!connection.is_stale());
                // The event loop reports bytes that arrive now, although it was told before that there were
                // none.
                node.write_all(b"x").unwrap();
                poll_fn(|cx| connection.stream.poll_read_ready(cx)).await.unwrap();
                assert!(connection.is_stale());
            })
            .unwrap();
        }
    }
    env::block_on(async {
        let (mut origin, mut node) = pair();
        node.write_all(&[interim, length].concat()).unwrap();
        let mut head = ResponseHead::default();
        for status in [103, 200] {
            poll_fn(|cx| origin.poll_head(cx, &mut head, LOOK)).await.unwrap();
            assert_eq!(head.status, status);
        }
    })
    .unwrap();
}

#[test]
fn bytes_after_response_end_the_connection() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".as_slice();
    for stray in [&b"H"[..], answer] {
        env::block_on(async {
            let (mut origin, mut node) = pair();
            node.write_all(&[answer, stray].concat()).unwrap();
            assert_eq!(take(&mut origin, 2).await.1, b"ok");
            assert!(origin.end(true).0.is_none());
        })
        .unwrap();
    }
}

#[test]
fn partial_head_is_kept_with_few_bytes_behind() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nX-Long: ".as_slice();
    let rest = [&b"\r\n\r\n"[..], &[b'x'; 100_000]].concat();
    env::block_on(async {
        let (mut origin, mut node) = pair();
        node.write_all(head).unwrap();
        let mut parsed = ResponseHead::default();
        while origin.input.buffer.is_empty() {
            env::yield_to_events().await;
            let look = |cx: &mut Context<'_>| Poll::Ready(origin.poll_head(cx, &mut parsed, LOOK));
            assert!(poll_fn(look).await.is_pending());
        }
        node.write_all(&rest).unwrap();
        let (held, body) = take(&mut origin, 1_000).await;
        assert!((1..=SMALL_BYTES).contains(&held), "{held} bytes");
        assert_eq!(body, [b'x'; 100_000]);
        assert!(origin.end(true).0.is_some());
    })
    .unwrap();
}

#[test]
fn tunnel_continues_at_end_of_head() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    env::block_on(async {
        let (mut origin, mut node) = pair();
        node.write_all(&[&switch[..], b"behind it"].concat()).unwrap();
        let mut head = ResponseHead::default();
        poll_fn(|cx| origin.poll_head(cx, &mut head, LOOK)).await.unwrap();
        assert_eq!(head.status, 101);
        let (mut tunnel, _) = origin.into_duplex();
        assert_eq!(tunnel.buffer.capacity(), 0);
        let mut room = [0; 64];
        let count = poll_fn(|cx| tunnel.stream.poll_read(cx, &mut room)).await.unwrap();
        assert_eq!(&room[..count], b"behind it");
    })
    .unwrap();
}

#[test]
fn odd_response_ends_the_connection() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let table = [
        (format!("{ok}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"), false),
        (format!("{ok}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n"), false),
        (format!("{ok}no colon\r\nContent-Length: 2\r\n\r\nok"), false),
        (format!("{ok}Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n"), false),
        (format!("{ok}Transfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\n\r\n"), true),
        (format!("{ok}Content-Length: 2\r\n\r\nok"), true),
    ];
    for (answer, reused) in table {
        env::block_on(async {
            let (mut origin, mut node) = pair();
            node.write_all(answer.as_bytes()).unwrap();
            assert_eq!(take(&mut origin, 2).await.1, b"ok", "{answer:?}");
            assert_eq!(origin.end(true).0.is_some(), reused, "{answer:?}");
        })
        .unwrap();
    }
}

#[test]
fn sent_request_holds_no_buffer() {
    env::block_on(async {
        for (length, finished, is_held) in [
            (BodyLength::None, true, false),
            (BodyLength::Known(5), false, true),
            (BodyLength::Known(0), true, false),
        ] {
            let (mut origin, _node) = pair();
            let exchange = exchange::testing::Scene::new().exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            origin.start_request(&exchange, length);
            if finished {
                origin.finish(None);
            }
            poll_fn(|cx| origin.poll_flush(cx)).await.unwrap();
            let held = origin.writer.give_buffer().capacity() > 0;
            let returned = exchange.local().take_bytes().capacity() > 0;
            assert_eq!((held, returned), (is_held, !is_held), "{length:?}");
        }
    })
    .unwrap();
}

#[test]
fn pieces_alone_in_a_large_buffer_are_handed_over() {
    const WHOLE: Capacity = Capacity::Firm(LARGE_BYTES);
    let body = vec![b'x'; 2 * LARGE_BYTES];
    let known = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    let small = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let small_chunks = format!("64\r\n{}\r\n", "x".repeat(100)).repeat(body.len() / 100);
    env::block_on(async {
        for (head, bytes, end, is_handed_over) in [
            (&*known, &body[..], "", true),
            (&*chunked, &body[..], "\r\n0\r\n\r\n", true),
            // Other chunks are behind each piece.
            (small, small_chunks.as_bytes(), "0\r\n\r\n", false),
        ] {
            let (mut origin, mut node) = pair();
            node.write_all(&[head.as_bytes(), bytes, end.as_bytes()].concat()).unwrap();
            poll_fn(|cx| origin.poll_head(cx, &mut ResponseHead::default(), WHOLE)).await.unwrap();
            let (mut handed, mut copied) = (0, 0);
            loop {
                let count = poll_fn(|cx| match origin.poll_body(cx, &mut |_| Poll::Ready(Ok(WHOLE))) {
                    Poll::Ready(BodyEvent::Data(data)) => Poll::Ready(data.len()),
                    Poll::Ready(BodyEvent::End(_)) => Poll::Ready(0),
                    Poll::Ready(BodyEvent::Reset(failure)) => panic!("{failure:?}"),
                    Poll::Pending => Poll::Pending,
                })
                .await;
                if count == 0 {
                    break;
                }
                match origin.take_segment(count) {
                    Some(segment) => {
                        assert!(segment.bytes().iter().all(|byte| *byte == b'x'));
                        handed += segment.len();
                    }
                    None => {
                        origin.consume(count);
                        copied += count;
                    }
                }
            }
            let sent = bytes.iter().filter(|byte| **byte == b'x').count();
            assert_eq!(handed + copied, sent, "{head}");
            assert_eq!(handed > 0, is_handed_over, "{head}: {handed} of {}", handed + copied);
        }
    })
    .unwrap();
}

#[test]
fn failed_flush_leaves_the_buffer_to_its_stream() {
    env::block_on(async {
        let (mut origin, node) = pair();
        let exchange = exchange::testing::Scene::new().exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.start_request(&exchange, BodyLength::None);
        origin.finish(None);
        // Each write fails once the sending side is closed.
        poll_fn(|cx| origin.connection.stream.poll_shutdown(cx)).await.unwrap();
        poll_fn(|cx| origin.poll_flush(cx)).await.unwrap_err();
        assert!(!origin.writer.is_flushed());
        drop(node);
    })
    .unwrap();
}
