//! The engine as the server of an `h2` client.

use super::driver::drive;
use super::echo::Echo;
use super::{content, run};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};
use http2::{Config, Connection};

/// Connects an `h2` client with an echo server, runs the client's part, and returns the server.
fn with_echo<F: Future<Output = ()>>(
    builder: &Builder,
    config: Config,
    mut echo: Echo,
    part: impl FnOnce(SendRequest<Bytes>) -> F,
) -> Echo {
    run(async {
        let (mut near, far) = tokio::io::duplex(10_000);
        let mut server = Connection::server(config);
        let client = async {
            let (sender, connection) = builder.handshake::<_, Bytes>(far).await.unwrap();
            let running = tokio::spawn(connection);
            part(sender).await;
            // All senders are gone, so that the connection ends by itself.
            running.await.unwrap().unwrap();
        };
        tokio::join!(client, drive(&mut server, &mut near, &mut echo));
        echo
    })
}

/// Sends a request with content in pieces and trailers, and checks that all of it comes back.
async fn exchange(sender: SendRequest<Bytes>, seed: usize, length: usize, piece: usize) {
    let mut sender = sender.ready().await.unwrap();
    let request = Request::post(format!("https://h.example/echo/{seed}"))
        .header("x-seed", seed)
        .header("x-constant", "the same in every request")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(())
        .unwrap();
    let (response, mut body) = sender.send_request(request, false).unwrap();
    let sent = content(seed, length);
    let upload = async {
        for part in sent.chunks(piece) {
            let mut part = Bytes::copy_from_slice(part);
            while !part.is_empty() {
                body.reserve_capacity(part.len());
                let capacity = std::future::poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap();
                body.send_data(part.split_to(capacity.min(part.len())), false).unwrap();
            }
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", (seed + length).into());
        body.send_trailers(trailers).unwrap();
    };
    let download = async {
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-seed"], seed.to_string());
        assert_eq!(response.headers()["x-path"], format!("/echo/{seed}"));
        assert_eq!(response.headers()["cookie"], "a=1; b=2");
        let mut stream = response.into_body();
        let mut received = Vec::new();
        while let Some(part) = stream.data().await {
            let part = part.unwrap();
            stream.flow_control().release_capacity(part.len()).unwrap();
            received.extend_from_slice(&part);
        }
        assert!(received == sent, "{} of {length} bytes", received.len());
        let trailers = stream.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["x-sum"], (seed + length).to_string());
    };
    tokio::join!(upload, download);
}

/// Many exchanges at the same time.
async fn exchanges(sender: SendRequest<Bytes>, count: usize, length: usize, piece: usize) {
    let tasks: Vec<_> =
        (0..count).map(|seed| tokio::spawn(exchange(sender.clone(), seed, length, piece))).collect();
    drop(sender);
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn many_streams_echo_their_bodies() {
    let echo = with_echo(&Builder::new(), Config::default(), Echo::default(), |sender| {
        exchanges(sender, 300, 5_000, 3_000)
    });
    assert_eq!((echo.requests, echo.resets), (300, 0));
}

#[test]
fn bodies_are_larger_than_windows() {
    let mut builder = Builder::new();
    builder.initial_window_size(2_000).initial_connection_window_size(65_535);
    let config = Config { stream_window_bytes: 3_000, connection_window_bytes: 65_535, ..Config::default() };
    let echo = with_echo(&builder, config, Echo::default(), |sender| exchanges(sender, 8, 200_000, 7_000));
    assert_eq!(echo.requests, 8);
}

#[test]
fn client_without_header_table_is_obeyed() {
    let mut builder = Builder::new();
    builder.header_table_size(0);
    let config = Config { header_table_bytes: 0, ..Config::default() };
    let echo = with_echo(&builder, config, Echo::default(), |sender| exchanges(sender, 50, 10, 10));
    assert_eq!(echo.requests, 50);
}

#[test]
fn resets_cross_in_both_directions() {
    let echo = with_echo(&Builder::new(), Config::default(), Echo::default(), |sender| async move {
        let mut sender = sender.ready().await.unwrap();
        let request = |path: &str| Request::post(format!("https://h{path}")).body(()).unwrap();
        let (response, _body) = sender.send_request(request("/reset"), false).unwrap();
        assert_eq!(response.await.unwrap_err().reason(), Some(h2::Reason::HTTP_1_1_REQUIRED));
        let (response, mut body) = sender.send_request(request("/echo"), false).unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
        body.send_reset(h2::Reason::CANCEL);
        // The rest of a request is declined by NO_ERROR.
        let (response, mut body) = sender.send_request(request("/early"), false).unwrap();
        assert_eq!(response.await.unwrap().status(), 413);
        let reason = std::future::poll_fn(|cx| body.poll_reset(cx)).await.unwrap();
        assert_eq!(reason, h2::Reason::NO_ERROR);
        exchange(sender.clone(), 7, 100_000, 9_000).await;
    });
    assert_eq!((echo.requests, echo.resets), (4, 1));
}

#[test]
fn graceful_shutdown_loses_no_request() {
    let echo = Echo::with_shutdown_at(20);
    let echo = with_echo(&Builder::new(), Config::default(), echo, |sender| async move {
        exchanges(sender, 20, 50_000, 5_000).await;
    });
    assert_eq!((echo.requests, echo.resets, echo.is_drained), (20, 0, true));
}

#[test]
fn large_heads_arrive_whole() {
    let mut builder = Builder::new();
    builder.max_header_list_size(1 << 20);
    with_echo(&builder, Config::default(), Echo::default(), |sender| async move {
        let mut sender = sender.ready().await.unwrap();
        let value = "v".repeat(40_000);
        let request = Request::get("https://h/echo").header("x-large", &value).body(()).unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        assert_eq!(response.await.unwrap().headers()["x-large"], value);
    });
}
