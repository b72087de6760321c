//! The engine as the client of an `h3` server.

use bytes::{Buf, Bytes};
use h3::server::RequestStream;
use http::{Request, Response};
use http3::{Config, Connection, FieldSink, RequestTarget, writer};
use message::{Headers, ResponseHead};

use super::driver::{Incoming, Link, Part};
use super::{content, quic, run};

type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Sends a request back with its body and trailers.
async fn echo(request: Request<()>, mut stream: Stream) {
    if request.uri().path() == "/reset" {
        stream.stop_sending(h3::error::Code::H3_REQUEST_REJECTED);
        return stream.stop_stream(h3::error::Code::H3_REQUEST_REJECTED);
    }
    assert_eq!((request.uri().query(), request.method().as_str()), (Some("a=b"), "POST"));
    let response = Response::builder()
        .header("x-seed", &request.headers()["x-seed"])
        .header("vary", "accept-encoding")
        .body(())
        .unwrap();
    stream.send_response(response).await.unwrap();
    while let Some(mut part) = stream.recv_data().await.unwrap() {
        stream.send_data(part.copy_to_bytes(part.remaining())).await.unwrap();
    }
    let trailers = stream.recv_trailers().await.unwrap().unwrap();
    stream.send_trailers(trailers).await.unwrap();
    stream.finish().await.unwrap();
}

/// The end of an exchange.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    Reset(u64),
}

/// Runs exchanges at the same time against an echo server of the crate.
fn ask(count: usize, length: usize, path: &'static str) -> Vec<Outcome> {
    run(async {
        let pair = quic::connect().await;
        let quic = h3_quinn::Connection::new(pair.server.clone());
        let server = tokio::spawn(async move {
            let mut connection = h3::server::builder().send_grease(true).build(quic).await.unwrap();
            while let Ok(Some(resolver)) = connection.accept().await {
                tokio::spawn(async move {
                    let (request, stream) = resolver.resolve_request().await.unwrap();
                    echo(request, stream).await;
                });
            }
        });
        let link = Link::start(Connection::client(Config::default()), pair.client.clone()).await;
        let tasks: Vec<_> = (0..count)
            .map(|seed| tokio::task::spawn_local(exchange(link.clone(), seed, length, path)))
            .collect();
        let mut outcomes = Vec::new();
        for task in tasks {
            outcomes.push(task.await.unwrap());
        }
        assert_eq!(link.engine.borrow().failure(), None);
        pair.close();
        server.await.unwrap();
        outcomes
    })
}

async fn exchange(link: Link, seed: usize, length: usize, path: &'static str) -> Outcome {
    let target = RequestTarget {
        method: b"POST",
        scheme: "https",
        authority: b"localhost",
        path: path.as_bytes(),
        query: Some(b"a=b"),
        protocol: None,
    };
    let (mut out, stream) = link.quic.open_bi().await.unwrap();
    let reader = link.engine.borrow_mut().start_request(stream.id().into(), &target).unwrap();
    let upload = content(seed, length);
    let sending = async {
        let mut buffer = Vec::new();
        let mut head = writer::request(&mut buffer, &target);
        head.field("X-Seed", seed.to_string().as_bytes());
        head.finish();
        for part in upload.chunks(7_000) {
            writer::data(&mut buffer, part);
            if out.write_all(&std::mem::take(&mut buffer)).await.is_err() {
                return;
            }
        }
        let mut trailers = Headers::new();
        trailers.append("X-Sum", seed.to_string().as_bytes()).unwrap();
        writer::trailers(&mut buffer, &trailers);
        if out.write_all(&buffer).await.is_ok() {
            out.finish().unwrap();
        }
    };
    let receiving = async {
        let mut incoming = Incoming::new(link.clone(), reader, stream);
        let mut body = Vec::new();
        loop {
            match incoming.next().await {
                Part::Head => {
                    let mut head = ResponseHead::new();
                    incoming.reader.take_response(&mut head).unwrap();
                    assert_eq!((head.status, head.headers.get("vary")), (200, Some(&b"accept-encoding"[..])));
                    assert_eq!(head.headers.get("x-seed"), Some(seed.to_string().as_bytes()));
                }
                Part::Data(bytes) => body.extend_from_slice(&bytes),
                Part::End => {
                    assert!(body == upload, "the body of {seed} differs");
                    let sum = incoming.reader.trailers().unwrap().get("x-sum").unwrap();
                    assert_eq!(sum, seed.to_string().as_bytes());
                    return Outcome::Good;
                }
                Part::Reset(code) => return Outcome::Reset(code),
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::join!(sending, receiving).1
}

#[test]
fn many_streams_come_back() {
    let outcomes = ask(150, 3_000, "/echo");
    assert!(
        outcomes.len() == 150 && outcomes.iter().all(|outcome| *outcome == Outcome::Good),
        "{outcomes:?}"
    );
}

#[test]
fn large_bodies_come_back_under_backpressure() {
    assert_eq!(ask(2, 2_000_000, "/echo"), [Outcome::Good, Outcome::Good]);
}

#[test]
fn resets_of_the_server_arrive() {
    let outcomes = ask(10, 100, "/reset");
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Reset(0x10b)), "{outcomes:?}");
}
