//! Tests of the client against scripted servers on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::outbound::OutboundPolicy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Call, HttpClient, HttpSettings, TlsSettings};

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
        let reply = client.call(&Call::get("/a")).await.unwrap();
        assert_eq!((reply.ok(), reply.field("x-index")), (Ok(&b"hi"[..]), Some("7")));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn next_server_answers_for_failed_one() {
    let (bad, _) = serve("HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n").await;
    let (good, _) = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let client = HttpClient::new(settings(vec![closed, bad.clone(), good])).unwrap();
    assert_eq!(client.call(&Call::get("/")).await.unwrap().status, 200);
    let client = HttpClient::new(settings(vec![bad])).unwrap();
    assert_eq!(client.call(&Call::get("/")).await.unwrap().ok().unwrap_err(), "status 500");
}

#[tokio::test]
async fn long_answer_is_refused_with_reason() {
    let (url, _) = serve("HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n0123456789012345678901234567890123456789012345678901234567890123456789").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    let reason = client.call(&Call::get("/").within(Duration::from_secs(5))).await.unwrap_err();
    assert!(reason.contains("is longer than 64 bytes"), "{reason}");
}

#[tokio::test]
async fn lines_arrive_before_the_end() {
    let (url, _) = serve("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na\r\nb\n\r\n").await;
    let client = HttpClient::new(settings(vec![url])).unwrap();
    let mut lines = client.lines(&Call::get("/")).await.unwrap();
    assert_eq!(lines.next().await.unwrap().unwrap(), "a");
    assert_eq!(lines.next().await.unwrap().unwrap(), "b");
}

#[test]
fn unusable_server_is_refused_without_password() {
    let reason = |url: &str| HttpClient::new(settings(vec![url.to_owned()])).unwrap_err();
    assert!(reason("ftp://u:secret@h:1").contains("\"h:1\" has a scheme other than"));
    assert!(!reason("ftp://u:secret@h:1").contains("secret"));
    assert!(reason("nonsense").contains("write http://HOST:PORT"));
    assert!(HttpClient::new(settings(Vec::new())).unwrap_err().contains("no server"));
}
