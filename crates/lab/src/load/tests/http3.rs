//! The load generator over HTTP/3, against a server of the `h3` crate.

use bytes::Bytes;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig};
use tokio::runtime::Builder;

use super::secure::settings;
use super::*;
use crate::result::Handshakes;

type Stream = h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// The server's reaction to a request.
#[derive(Clone)]
enum Answer {
    /// Status 200 and this body.
    Body(String),
    Status(u16),
    /// The stream is reset.
    Reset,
    /// Nothing comes.
    Silence,
    /// The connection is closed.
    Close,
}

/// Serves HTTP/3 in a thread that runs as long as the test's process.
fn quic(answer: impl Fn(u64) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let mut tls = rustls::ServerConfig::clone(&settings(true));
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
            sender.send(endpoint.local_addr().unwrap()).unwrap();
            let (answer, count) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
            while let Some(incoming) = endpoint.accept().await {
                let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
                tokio::spawn(async move {
                    let quic = incoming.await.unwrap();
                    let mut connection =
                        h3::server::Connection::new(h3_quinn::Connection::new(quic.clone())).await.unwrap();
                    while let Ok(Some(resolver)) = connection.accept().await {
                        let answer = answer(count.fetch_add(1, Ordering::SeqCst));
                        let quic = quic.clone();
                        tokio::spawn(async move {
                            let Ok((request, stream)) = resolver.resolve_request().await else { return };
                            assert_eq!(request.uri().path_and_query().unwrap().as_str(), "/x?a=b");
                            give(answer, stream, &quic).await;
                        });
                    }
                });
            }
        });
    });
    receiver.recv().unwrap()
}

async fn give(answer: Answer, mut stream: Stream, quic: &quinn::Connection) {
    let (status, body) = match answer {
        Answer::Body(body) => (200, body),
        Answer::Status(status) => (status, String::new()),
        Answer::Reset => return stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR),
        Answer::Silence => return std::future::pending().await,
        Answer::Close => return quic.close(0x100_u32.into(), b"enough"),
    };
    let head = http::Response::builder().status(status).body(()).unwrap();
    // A client that has ended takes no answer.
    let sent = stream.send_response(head).await.is_ok() && stream.send_data(body.into()).await.is_ok();
    if sent {
        let _ = stream.finish().await;
    }
}

fn quic_plan(address: SocketAddr, streams: u16) -> LoadPlan {
    let usual = plan(address);
    let target = LoadTarget { is_tls: true, path: "/x?a=b".to_owned(), ..usual.target.clone() };
    LoadPlan { target, manner: LoadMode::Http3 { streams }, ..usual }
}

fn hello() -> Answer {
    Answer::Body("hello".to_owned())
}

#[test]
fn http3_requests_are_answered_and_compared() {
    let check = |streams, body: usize| {
        let body = "x".repeat(body);
        let plan = quic_plan(quic(move |_| Answer::Body(body.clone())), streams);
        let outcome = go(&LoadPlan { threads: 2, ..plan });
        assert_eq!((outcome.requests, outcome.failures.all()), (60, 0), "{streams} {:?}", outcome.notes);
        assert_eq!(outcome.handshakes, Some(Handshakes { full: 3, resumed: 0 }));
        assert!(outcome.bytes_per_second > 0.0 && outcome.latency.p50_ms.is_some(), "{outcome:?}");
    };
    check(1, 5);
    check(10, 5);
    // Longer than the windows of streams that QUIC begins with.
    check(2, 2_000_000);
}

#[test]
fn http3_failures_count_under_their_kind() {
    let check = |bad: Answer, kind: fn(&Failures) -> u64, note: &str| {
        let answer = move |number| if number % 10 == 9 { bad.clone() } else { hello() };
        let outcome = go(&LoadPlan { connections: 1, ..quic_plan(quic(answer), 1) });
        let failures = outcome.failures;
        assert_eq!((kind(&failures), failures.all()), (6, 6), "{failures:?} {:?}", outcome.notes);
        assert!(outcome.notes.iter().any(|said| said.contains(note)), "{:?}", outcome.notes);
    };
    check(Answer::Status(502), |failures| failures.status, "status 502");
    check(Answer::Body("hell".to_owned()), |failures| failures.content, "4 bytes instead of 5");
    check(Answer::Body("hallo".to_owned()), |failures| failures.content, "other bytes");
    check(Answer::Reset, |failures| failures.broken, "reset a stream with code 0x102");
    // The client connects again after each of these.
    check(Answer::Close, |failures| failures.broken, "a connection broke");
}

#[test]
fn silent_http3_server_is_a_timeout() {
    let address = quic(|number| if number < 3 { hello() } else { Answer::Silence });
    let timeout = Duration::from_millis(300);
    let outcome = go(&LoadPlan { connections: 1, requests: Some(5), timeout, ..quic_plan(address, 1) });
    assert_eq!(outcome.requests, 3);
    assert_eq!(outcome.failures, Failures { timeout: 2, ..Failures::default() }, "{outcome:?}");
}

#[test]
fn http3_without_server_fails_to_connect() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (timeout, seconds) = (Duration::from_millis(200), Some(0.5));
    let plan = quic_plan(socket.local_addr().unwrap(), 1);
    let outcome = go(&LoadPlan { connections: 2, requests: None, seconds, timeout, ..plan });
    assert_eq!(outcome.requests, 0);
    assert!(
        outcome.failures.connect >= 2 && outcome.failures.all() == outcome.failures.connect,
        "{outcome:?}"
    );
}

#[test]
fn impossible_http3_plan_is_refused() {
    let usual = quic_plan("127.0.0.1:9".parse().unwrap(), 1);
    let check = |plan: LoadPlan, reason: &str| {
        let error = format!("{:#}", generate_load(&plan, &AtomicBool::new(true), || {}).unwrap_err());
        assert!(error.contains(reason), "{error}");
    };
    check(LoadPlan { manner: LoadMode::Http3 { streams: 0 }, ..usual.clone() }, "at least one request");
    let target = LoadTarget { is_tls: false, ..usual.target.clone() };
    check(LoadPlan { target, ..usual.clone() }, "write https://");
    check(LoadPlan { rate: Some(5.0), ..usual.clone() }, "leave out rates");
    check(LoadPlan { per_connection: Some(1), ..usual }, "leave out rates");
}
