//! Tests of the client against scripted servers on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use model::outbound::OutboundPolicy;
use testkit::{Authority, Origin, Reply, Signal, TlsBehaviour, TlsFront};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::connection::IDLE_LIMIT;
use super::{HttpClient, HttpSettings, RegistryRequest, TlsSettings};

fn settings(servers: Vec<String>) -> HttpSettings {
    HttpSettings {
        servers,
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(5),
        tls: TlsSettings::default(),
        policy: OutboundPolicy::default(),
        answer_bytes: 64,
    }
}

/// Answers each request on each connection with `answer`; counts the connections.
async fn serve(answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while stream.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        if stream.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (url, connections)
}

#[tokio::test]
async fn connection_is_kept_for_next_call() {
    let (url, connections) = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Index: 7\r\n\r\nhi").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    for _ in 0..3 {
        let reply = client.call(&RegistryRequest::get("/a")).await.unwrap();
        assert_eq!((reply.ok(), reply.field("x-index")), (Ok(&b"hi"[..]), Some("7")));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn connection_is_not_kept_for_long() {
    let (url, connections) = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    client.call(&RegistryRequest::get("/")).await.unwrap();
    let kept = &client.inner.servers[0].connections;
    kept.keep_usable(Instant::now());
    client.call(&RegistryRequest::get("/")).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    kept.keep_usable(Instant::now() + IDLE_LIMIT);
    client.call(&RegistryRequest::get("/")).await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn call_is_repeated_after_lost_connection() {
    let calls = AtomicUsize::new(0);
    let origin = Origin::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        // The kept connection ends with its second request.
        1 => Reply::new().close(),
        _ => Reply::ok("hi"),
    });
    let client = HttpClient::new(settings(vec![format!("http://{}", origin.address())])).unwrap();
    for _ in 0..2 {
        assert_eq!(client.call(&RegistryRequest::get("/")).await.unwrap().ok(), Ok(&b"hi"[..]));
    }
    assert_eq!((origin.requests().len(), origin.connections()), (3, 2));
}

#[tokio::test]
async fn silent_kept_connection_takes_the_others_with_it() {
    let (both, never) = (Barrier::new(2), Signal::new());
    let silent = never.clone();
    let origin = Origin::start(move |request| match request.path() {
        "/both" => {
            both.wait();
            Reply::ok("hi")
        }
        "/silent" => Reply::new().wait(&silent),
        _ => Reply::ok("hi"),
    });
    let client = HttpClient::new(settings(vec![format!("http://{}", origin.address())])).unwrap();
    let call = RegistryRequest::get("/both");
    let (one, other) = tokio::join!(client.call(&call), client.call(&call));
    assert!(one.is_ok() && other.is_ok());
    let short = RegistryRequest::get("/silent").within(Duration::from_millis(50));
    assert!(client.call(&short).await.unwrap_err().contains("no whole answer within 50 ms"));
    assert_eq!(origin.connections(), 2);
    client.call(&RegistryRequest::get("/")).await.unwrap();
    assert_eq!(origin.connections(), 3, "the other kept connection is not used");
    never.set();
}

#[tokio::test]
async fn certificates_are_verified_and_presented() {
    let (authority, folder) = (Authority::new("of a test"), tempfile::tempdir().unwrap());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let pair = authority.pair(&["localhost"]);
    let origin = Origin::start(|_| Reply::ok("hi"));
    let behaviour =
        TlsBehaviour { client_authority: Some(authority.pem().to_owned()), ..TlsBehaviour::default() };
    let front = TlsFront::with(origin.address(), &pair, behaviour);
    let trusted = TlsSettings {
        ca: write("ca.pem", authority.pem()),
        cert: write("cert.pem", &pair.certificate),
        key: write("key.pem", &pair.key),
        verify: true,
    };
    let call = async |host: &str, tls: &TlsSettings| {
        let servers = vec![format!("https://{host}:{}", front.port())];
        let client = HttpClient::new(HttpSettings { tls: tls.clone(), ..settings(servers) }).unwrap();
        client.call(&RegistryRequest::get("/")).await.map(|reply| reply.status)
    };
    assert_eq!(call("localhost", &trusted).await, Ok(200));
    assert!(front.handshakes()[0].client_certificate.is_some());
    let other = write("other.pem", Authority::new("another").pem());
    let untrusted = TlsSettings { ca: other, ..trusted.clone() };
    assert!(call("localhost", &untrusted).await.unwrap_err().contains("no TLS with it"));
    assert!(call("127.0.0.1", &trusted).await.unwrap_err().contains("no TLS with it"), "another name");
    assert_eq!(call("127.0.0.1", &TlsSettings { verify: false, ..untrusted }).await, Ok(200));
    let missing = TlsSettings { ca: Some(folder.path().join("none.pem")), ..trusted };
    assert!(call("localhost", &missing).await.unwrap_err().contains("none.pem"));
}

#[tokio::test]
async fn next_server_answers_for_failed_one() {
    let (bad, _) = serve("HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n").await;
    let (good, _) = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let closed = format!("http://{}", Origin::nowhere());
    let client = HttpClient::new(settings(vec![closed, bad.clone(), good])).unwrap();
    assert_eq!(client.call(&RegistryRequest::get("/")).await.unwrap().status, 200);
    let client = HttpClient::new(settings(vec![bad])).unwrap();
    assert_eq!(client.call(&RegistryRequest::get("/")).await.unwrap().ok().unwrap_err(), "status 500");
}

#[tokio::test]
async fn long_answer_is_refused_with_reason() {
    let (url, _) = serve("HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n0123456789012345678901234567890123456789012345678901234567890123456789").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    let reason = client.call(&RegistryRequest::get("/").within(Duration::from_secs(5))).await.unwrap_err();
    assert!(reason.contains("is longer than 64 bytes"), "{reason}");
}

#[tokio::test]
async fn lines_arrive_before_the_end() {
    let (url, _) = serve("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na\r\nb\n\r\n").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    let mut lines = client.lines(&RegistryRequest::get("/")).await.unwrap();
    assert_eq!(lines.next().await.unwrap().unwrap(), "a");
    assert_eq!(lines.next().await.unwrap().unwrap(), "b");
}

#[test]
fn unusable_server_is_refused_without_password() {
    let reason = |url: &str| HttpClient::new(settings(vec![url.to_owned()])).unwrap_err();
    assert!(reason("ftp://u:secret@h:1").contains("\"h:1\" has a scheme other than"));
    assert!(!reason("ftp://u:secret@h:1").contains("secret"));
    for port in ["99999", "0", "", "8o"] {
        let reason = reason(&format!("http://u:secret@h:{port}"));
        assert!(!reason.contains("secret") && reason.contains("write http://HOST:PORT"), "{reason}");
    }
    assert!(reason("http://h:99999/").contains("h:99999/\" has no port from 1 to 65535"));
    assert!(HttpClient::new(settings(vec!["http://[::1]:80".to_owned(), "https://h".to_owned()])).is_ok());
    assert!(reason("nonsense").contains("write http://HOST:PORT"));
    assert!(HttpClient::new(settings(Vec::new())).unwrap_err().contains("no server"));
}

#[tokio::test]
async fn each_server_is_called_at_the_same_time() {
    // Each server answers only after both were called.
    let both = Arc::new(Barrier::new(2));
    let servers: [Origin; 2] = std::array::from_fn(|_| {
        let both = Arc::clone(&both);
        Origin::start(move |_| {
            both.wait();
            Reply::ok("")
        })
    });
    let urls = servers.iter().map(|server| format!("http://{}", server.address())).collect();
    let client = HttpClient::new(settings(urls)).unwrap();
    let replies = client.call_each(&RegistryRequest::get("/")).await;
    assert_eq!(
        replies.iter().filter(|reply| reply.as_ref().is_ok_and(|reply| reply.status == 200)).count(),
        2
    );
}
