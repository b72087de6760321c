//! The engine as the server of an `h3` client.

use std::rc::Rc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use http::{HeaderMap, Request, Response};
use http3::{Config, Connection, ErrorCode};

use super::echo::{Counts, serve};
use super::{content, quic, run};

type Sender = SendRequest<h3_quinn::OpenStreams, Bytes>;
type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Runs a client of the crate against the echo server of the engine.
fn with_echo<F: Future>(
    config: Config,
    shutdown_at: Option<usize>,
    client: impl FnOnce(Sender, quinn::Connection) -> F,
) -> Rc<Counts> {
    run(async {
        let pair = quic::connect().await;
        let counts = Rc::new(Counts::default());
        let server = serve(Connection::server(config), pair.server.clone(), counts.clone(), shutdown_at);
        let server = tokio::task::spawn_local(server);
        let quic = h3_quinn::Connection::new(pair.client.clone());
        let (mut driver, sender) = h3::client::new(quic).await.unwrap();
        let driver = tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        client(sender, pair.client.clone()).await;
        pair.close();
        server.await.unwrap();
        driver.await.unwrap();
        counts
    })
}

fn request(path: &str) -> Request<()> {
    Request::post(format!("https://localhost{path}")).header("x-constant", "the same").body(()).unwrap()
}

/// The whole body and the trailers of a response.
async fn receive(stream: &mut Stream) -> (Response<()>, Vec<u8>, Option<HeaderMap>) {
    let response = stream.recv_response().await.unwrap();
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await.unwrap() {
        body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
    }
    let trailers = stream.recv_trailers().await.unwrap();
    (response, body, trailers)
}

/// Sends a body in parts while it comes back, then trailers.
async fn exchange(mut sender: Sender, seed: usize, length: usize, part: usize) {
    let path = format!("/echo/{seed}?a=b");
    let stream = sender.send_request(request(&path)).await.unwrap();
    let upload = content(seed, length);
    let (mut out, mut back) = stream.split();
    let sending = async {
        for bytes in upload.chunks(part) {
            out.send_data(Bytes::copy_from_slice(bytes)).await.unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", seed.into());
        out.send_trailers(trailers).await.unwrap();
        out.finish().await.unwrap();
    };
    let receiving = async {
        let response = back.recv_response().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-target"], path);
        assert_eq!(response.headers()["x-constant"], "the same");
        let mut body = Vec::new();
        while let Some(mut part) = back.recv_data().await.unwrap() {
            body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        assert!(body == upload, "the body of {seed} differs");
        let trailers = back.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["x-sum"], seed.to_string());
    };
    tokio::join!(sending, receiving);
}

#[test]
fn many_streams_come_back() {
    let counts = with_echo(Config { grease: Some(77), ..Config::default() }, None, |sender, _| async move {
        let exchanges = (0..200).map(|seed| tokio::spawn(exchange(sender.clone(), seed, 3_000, 1_000)));
        for exchange in exchanges.collect::<Vec<_>>() {
            exchange.await.unwrap();
        }
    });
    assert_eq!((counts.requests.get(), counts.resets.get()), (200, 0));
}

#[test]
fn large_bodies_come_back_under_backpressure() {
    with_echo(Config::default(), None, |sender, _| async move {
        tokio::join!(exchange(sender.clone(), 1, 3_000_000, 50_000), exchange(sender, 2, 400_000, 977));
    });
}

#[test]
fn resets_travel_both_ways() {
    let counts = with_echo(Config::default(), None, |mut sender, _| async move {
        let mut stream = sender.send_request(request("/reset")).await.unwrap();
        let error = stream.recv_response().await.unwrap_err();
        let h3::error::StreamError::RemoteTerminate { code, .. } = error else { panic!("{error:?}") };
        assert_eq!(code.value(), ErrorCode::VERSION_FALLBACK.0);
        let mut stream = sender.send_request(request("/echo")).await.unwrap();
        stream.send_data(Bytes::from_static(b"abc")).await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED);
        let error = loop {
            match stream.recv_data().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a reset request has no complete response"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, h3::error::StreamError::RemoteTerminate { .. }), "{error:?}");
        exchange(sender, 3, 10_000, 1_000).await;
    });
    assert_eq!((counts.requests.get(), counts.resets.get()), (3, 1));
}

#[test]
fn fields_of_every_static_entry_come_back() {
    with_echo(Config::default(), None, |mut sender, _| async move {
        let table = [
            ("accept", "*/*"),
            ("accept-encoding", "gzip, deflate, br"),
            ("accept-ranges", "bytes"),
            ("access-control-allow-headers", "*"),
            ("access-control-allow-methods", "get, post, options"),
            ("alt-svc", "clear"),
            ("authorization", "Basic eDp5"),
            ("cache-control", "no-cache"),
            ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
            ("content-type", "text/html; charset=utf-8"),
            ("early-data", "1"),
            ("purpose", "prefetch"),
            ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
            ("timing-allow-origin", "*"),
            ("upgrade-insecure-requests", "1"),
            ("vary", "origin"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "sameorigin"),
            ("x-xss-protection", "1; mode=block"),
            ("x-unknown", "\u{e9}\u{e8} with spaces"),
            ("x-empty", ""),
        ];
        let mut request = request("/");
        for (name, value) in table {
            request.headers_mut().append(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let mut stream = sender.send_request(request).await.unwrap();
        stream.finish().await.unwrap();
        let (response, body, trailers) = receive(&mut stream).await;
        for (name, value) in table {
            assert_eq!(response.headers()[name].as_bytes(), value.as_bytes(), "{name}");
        }
        assert!(body.is_empty() && trailers.is_none());
    });
}

#[test]
fn large_heads_arrive_or_are_answered_431() {
    let head = message::HeadLimits { max_fields: 20, ..message::HeadLimits::default() };
    with_echo(Config { head, ..Config::default() }, None, |mut sender, _| async move {
        let value = "v".repeat(60_000);
        let mut large = request("/");
        large.headers_mut().insert("x-large", value.parse().unwrap());
        let mut stream = sender.send_request(large).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(receive(&mut stream).await.0.headers()["x-large"], value);
        let mut many = request("/");
        for at in 0..30 {
            many.headers_mut().append("x-many", at.into());
        }
        let mut stream = sender.send_request(many).await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 431);
        let mut beyond = request("/");
        beyond.headers_mut().insert("x-large", "v".repeat(70_000).parse().unwrap());
        let error = sender.send_request(beyond).await.err().unwrap();
        assert!(
            matches!(error, h3::error::StreamError::HeaderTooBig { .. }),
            "our limit is known: {error:?}"
        );
    });
}

#[test]
fn graceful_shutdown_completes_what_was_accepted() {
    let counts = with_echo(Config::default(), Some(3), |mut sender, _| async move {
        for seed in 0..2 {
            exchange(sender.clone(), seed, 1_000, 100).await;
        }
        exchange(sender.clone(), 2, 100_000, 10_000).await;
        let refused = match sender.send_request(request("/")).await {
            Ok(mut stream) => stream.recv_response().await.err(),
            Err(error) => Some(error),
        };
        assert!(refused.is_some());
    });
    assert_eq!((counts.requests.get(), counts.resets.get()), (3, 0));
}

#[test]
fn faults_close_the_connection_with_their_code() {
    for (bytes, code) in [
        (&[0, 4, 2, 4, 1][..], ErrorCode::SETTINGS_ERROR),
        (&[1, 0], ErrorCode::STREAM_CREATION_ERROR),
        (&[2, 0x3f], ErrorCode::QPACK_ENCODER_STREAM_ERROR),
    ] {
        run(async {
            let pair = quic::connect().await;
            let counts = Rc::new(Counts::default());
            let server = serve(Connection::server(Config::default()), pair.server.clone(), counts, None);
            let server = tokio::task::spawn_local(server);
            let mut stream = pair.client.open_uni().await.unwrap();
            stream.write_all(bytes).await.unwrap();
            match pair.client.closed().await {
                quinn::ConnectionError::ApplicationClosed(close) => {
                    assert_eq!(close.error_code.into_inner(), code.0);
                }
                other => panic!("{other}"),
            }
            server.await.unwrap();
        });
    }
}
