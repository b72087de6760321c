//! Calls against a server made of another implementation of HTTP/2, over real sockets.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::TcpListener;

use super::*;
use crate::plugin::services::Services;
use crate::testing;

/// A server; the method says what it does.
struct Server {
    address: SocketAddr,
    connections: Rc<Cell<usize>>,
}

impl Server {
    async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { address: listener.local_addr().unwrap(), connections: Rc::default() };
        let connections = server.connections.clone();
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.set(connections.get() + 1);
                tokio::task::spawn_local(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        tokio::task::spawn_local(answer(request, respond));
                    }
                });
            }
        });
        server
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Option<()> {
    let field = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(request.method(), http::Method::POST);
    assert_eq!(field("content-type").as_deref(), Some("application/grpc"));
    assert_eq!(field("te").as_deref(), Some("trailers"));
    let token = field("x-token");
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    let mut message = Vec::new();
    while let Some(Ok(data)) = body.data().await {
        message.extend_from_slice(&data);
    }
    assert_eq!((&*message, token.as_deref()), (&b"\0\0\0\0\x02hi"[..], Some("t")));
    let head = |status: u16| http::Response::builder().status(status);
    let ok = || head(200).body(()).unwrap();
    match &*path {
        "/unavailable" => {
            let fields = head(200).header("grpc-status", "14").header("grpc-message", "busy");
            respond.send_response(fields.body(()).unwrap(), true).ok()?;
        }
        "/none" => drop(respond.send_response(ok(), true).ok()?),
        "/missing" => drop(respond.send_response(head(404).body(()).unwrap(), true).ok()?),
        "/reset" => respond.send_reset(h2::Reason::INTERNAL_ERROR),
        "/slow" => std::future::pending().await,
        _ => {
            let mut stream = respond.send_response(ok(), false).ok()?;
            let length = if path == "/long" { 200 } else { 2 };
            stream.send_data(vec![b'r'; length].into(), false).ok()?;
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            stream.send_trailers(trailers).ok()?;
        }
    }
    Some(())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap();
    runtime.block_on(future)
}

fn destination(services: &Services, address: SocketAddr) -> GrpcDestination {
    services.grpc_destination(&format!("http://{address}/v1"), &OutboundTls::default()).unwrap()
}

async fn call(
    destination: &GrpcDestination,
    method: &str,
    timeout_ms: u64,
) -> Result<GrpcAnswer, OutboundError> {
    let mut headers = Headers::new();
    headers.append("X-Token", b"t").unwrap();
    headers.append("Connection", b"close").unwrap();
    destination
        .call(&GrpcCall { method, headers: &headers, message: b"hi", timeout_ms, max_reply_bytes: 100 })
        .await
}

#[test]
fn answers_have_status_and_reply() {
    run(async {
        let (server, services) = (Server::start().await, testing::services());
        let destination = destination(&services, server.address);
        let answer = call(&destination, "/ok", 20_000).await.unwrap();
        assert_eq!((answer.status, &*answer.reply), (0, &b"rr"[..]));
        let answer = call(&destination, "/unavailable", 20_000).await.unwrap();
        assert_eq!((answer.status, &*answer.message), (14, "busy"));
        assert!(call(&destination, "/ok", 20_000).await.is_ok());
        assert_eq!(server.connections.get(), 1, "one connection serves all calls");
    });
}

#[test]
fn faulty_answers_leave_the_next_call_unharmed() {
    run(async {
        let (server, services) = (Server::start().await, testing::services());
        let destination = destination(&services, server.address);
        for (method, timeout_ms, expected) in [
            ("/none", 20_000, OutboundCause::BadResponse),
            ("/missing", 20_000, OutboundCause::BadResponse),
            ("/long", 20_000, OutboundCause::BodyTooLarge),
            ("/reset", 20_000, OutboundCause::Broken),
            ("/slow", 50, OutboundCause::Timeout),
        ] {
            let error = call(&destination, method, timeout_ms).await.unwrap_err();
            assert_eq!(error.cause, expected, "{method}: {error}");
            assert!(call(&destination, "/ok", 20_000).await.is_ok(), "after {method}");
        }
    });
}

#[test]
fn server_that_is_gone_is_a_failure_to_connect() {
    run(async {
        let (services, nowhere) = (testing::services(), testkit::Origin::nowhere());
        let error = call(&destination(&services, nowhere), "/ok", 20_000).await.unwrap_err();
        assert_eq!(error.cause, OutboundCause::Connect, "{error}");
    });
    assert!(testing::services().grpc_destination("ftp://a/", &OutboundTls::default()).is_err());
}
