//! The answers by path, and whole exchanges with a client of the `h2` crate.

use std::net::SocketAddr;
use std::thread;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};

use super::*;

fn summary(path: &str, message: &[u8]) -> String {
    match reply(path.as_bytes(), message) {
        OriginHttp2Reply::Page(body) => format!("page of {} bytes", body.bytes),
        OriginHttp2Reply::Call(body) => format!("call of {} bytes, {} each", body.bytes, body.piece.len()),
        OriginHttp2Reply::Failed(status) => format!("status {}", String::from_utf8_lossy(status)),
        OriginHttp2Reply::NotFound => "not found".to_owned(),
    }
}

#[test]
fn path_selects_answer() {
    let check = |path: &str, wanted: &str| assert_eq!(summary(path, b"\0\0\0\0\x02hi"), wanted, "{path}");
    check("/lab.Echo/Unary", "call of 7 bytes, 7 each");
    check("/lab.Echo/Stream100", "call of 700 bytes, 7 each");
    for path in ["/lab.Echo/Stream0", "/lab.Echo/Stream1000001", "/lab.Echo/Streams", "/lab.Echo/Other"] {
        check(path, "status 12");
    }
    check("/checked-out", "page of 21 bytes");
    check("/sample.html", "page of 26650 bytes");
    check("/bytes/0", "page of 0 bytes");
    check("/bytes/1000000", "page of 1000000 bytes");
    check("/bytes/x", "not found");
    check("/", "not found");
}

#[test]
fn body_that_is_no_message_fails_call() {
    for message in [&b""[..], b"\0\0\0\0", b"\x01\0\0\0\0", b"\0\0\0\0\x01", b"\0\0\0\0\0x"] {
        assert_eq!(summary("/lab.Echo/Unary", message), "status 13", "{message:?}");
    }
    assert_eq!(summary("/lab.Echo/Unary", b"\0\0\0\0\0"), "call of 5 bytes, 5 each");
}

/// An origin that runs as long as the test's process.
fn origin() -> SocketAddr {
    let listener = super::super::listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || super::super::work(listener));
    address
}

/// A response, its trailers included.
#[derive(Debug)]
struct Heard {
    status: u16,
    fields: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

async fn ask(client: &mut SendRequest<Bytes>, path: &str, body: &[u8]) -> Heard {
    let request = Request::post(format!("http://origin{path}")).body(()).unwrap();
    let (response, mut sending) = client.send_request(request, body.is_empty()).unwrap();
    if !body.is_empty() {
        sending.send_data(body.to_vec().into(), true).unwrap();
    }
    let (head, mut receiving) = response.await.unwrap().into_parts();
    let mut all = Vec::new();
    while let Some(data) = receiving.data().await {
        let data = data.unwrap();
        receiving.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    let trailers = receiving.trailers().await.unwrap();
    Heard { status: head.status.as_u16(), fields: head.headers, body: all, trailers }
}

/// Runs requests on one connection with windows so small that long bodies wait for them.
fn with_client<F: Future>(run: impl FnOnce(SendRequest<Bytes>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(origin()).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(20_000).initial_connection_window_size(70_000);
        let (client, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        run(client.ready().await.unwrap()).await
    })
}

#[test]
fn calls_end_with_trailers() {
    with_client(|mut client| async move {
        let message = [&b"\0\0\0\x27\x10"[..], &[b'm'; 10_000]].concat();
        for (path, times) in [("/lab.Echo/Unary", 1), ("/lab.Echo/Stream50", 50)] {
            let heard = ask(&mut client, path, &message).await;
            assert_eq!((heard.status, heard.body == message.repeat(times)), (200, true), "{path}");
            assert_eq!(heard.fields["content-type"], "application/grpc");
            assert_eq!(heard.trailers.unwrap()["grpc-status"], "0", "{path}");
        }
        let heard = ask(&mut client, "/lab.Echo/Other", &message).await;
        assert_eq!((&heard.fields["grpc-status"], heard.body.len()), (&"12".parse().unwrap(), 0));
        let heard = ask(&mut client, "/lab.Echo/Unary", b"no message").await;
        assert_eq!(heard.fields["grpc-status"], "13");
    });
}

#[test]
fn calls_at_the_same_time_are_distinguished() {
    with_client(|client| async move {
        let calls = (0..50_u8).map(|number| {
            let mut client = client.clone();
            tokio::spawn(async move {
                // Long enough that the client does not count them as a flood of small frames.
                let message = [&b"\0\0\0\x03\xe8"[..], &[number; 1000]].concat();
                let heard = ask(&mut client, "/lab.Echo/Stream10", &message).await;
                assert!(heard.body == message.repeat(10) && heard.trailers.is_some(), "{number}");
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    });
}

#[test]
fn pages_are_those_of_http1() {
    with_client(|mut client| async move {
        for (path, wanted) in [("/checked-out", answer::SMALL_BODY), ("/sample.html", answer::large_body())] {
            let heard = ask(&mut client, path, b"").await;
            assert_eq!((heard.status, heard.body.as_slice(), heard.trailers.is_none()), (200, wanted, true));
            assert_eq!(heard.fields["content-length"], wanted.len().to_string());
        }
        let heard = ask(&mut client, "/bytes/1000000", b"").await;
        assert!(heard.body.len() == 1_000_000 && heard.body.iter().all(|byte| *byte == b'x'));
        assert_eq!(ask(&mut client, "/missing", b"").await.status, 404);
    });
}

#[test]
fn endless_message_is_refused() {
    with_client(|mut client| async move {
        let request = Request::post("http://origin/lab.Echo/Unary").body(()).unwrap();
        let (response, mut sending) = client.send_request(request, false).unwrap();
        sending.send_data(vec![0; MESSAGE_BYTES].into(), false).unwrap();
        let head = response.await.unwrap();
        assert_eq!(head.headers()["grpc-status"], "8");
    });
}
