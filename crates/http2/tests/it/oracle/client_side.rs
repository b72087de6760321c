//! The engine as the client of an `h2` server.

use super::asker::{Asker, Outcome};
use super::driver::drive;
use super::run;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{Request, Response};
use http2::{Config, Connection};

/// Answers a request with its body and trailers.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if request.uri().path() == "/reset" {
        return respond.send_reset(h2::Reason::INADEQUATE_SECURITY);
    }
    assert_eq!(request.uri().query(), Some("a=b"));
    assert_eq!(request.headers()["x-constant"], "the same in every request");
    let response = Response::builder().header("x-seed", &request.headers()["x-seed"]).body(()).unwrap();
    let mut out = respond.send_response(response, false).unwrap();
    let mut body = request.into_body();
    while let Some(part) = body.data().await {
        let mut part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        while !part.is_empty() {
            out.reserve_capacity(part.len());
            let capacity = std::future::poll_fn(|cx| out.poll_capacity(cx)).await.unwrap().unwrap();
            out.send_data(part.split_to(capacity.min(part.len())), false).unwrap();
        }
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    out.send_trailers(trailers).unwrap();
}

/// Runs the exchanges against an echo server of the crate, which shuts down after `last` requests if there is
/// one.
fn ask(builder: &Builder, config: Config, mut asker: Asker, last: Option<usize>) -> Asker {
    run(async {
        let (mut near, far) = tokio::io::duplex(10_000);
        let mut client = Connection::client(config);
        let server = async {
            let mut connection = builder.handshake::<_, Bytes>(far).await.unwrap();
            let mut count = 0;
            while let Some(request) = connection.accept().await {
                let Ok((request, respond)) = request else { break };
                tokio::spawn(echo(request, respond));
                count += 1;
                if last == Some(count) {
                    connection.graceful_shutdown();
                }
            }
        };
        let asking = async {
            drive(&mut client, &mut near, &mut asker).await;
            drop(near);
        };
        tokio::join!(server, asking);
        asker
    })
}

fn all_good(asker: &Asker, count: usize) {
    assert_eq!(asker.outcomes.len(), count);
    assert!(asker.outcomes.iter().all(|outcome| *outcome == Outcome::Good), "{:?}", asker.outcomes);
}

#[test]
fn many_streams_come_back() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(50);
    all_good(&ask(&builder, Config::default(), Asker::new(300, 5_000, "/echo"), None), 300);
}

#[test]
fn bodies_are_larger_than_windows() {
    let mut builder = Builder::new();
    builder.initial_window_size(2_000).initial_connection_window_size(65_535).max_frame_size(20_000);
    let config = Config { stream_window_bytes: 3_000, connection_window_bytes: 65_535, ..Config::default() };
    all_good(&ask(&builder, config, Asker::new(8, 200_000, "/echo"), None), 8);
}

#[test]
fn server_without_header_table_is_obeyed() {
    let mut builder = Builder::new();
    builder.header_table_size(0);
    let config = Config { header_table_bytes: 0, ..Config::default() };
    all_good(&ask(&builder, config, Asker::new(150, 10, "/echo"), None), 150);
}

#[test]
fn resets_of_the_server_arrive() {
    let asker = ask(&Builder::new(), Config::default(), Asker::new(10, 100, "/reset"), None);
    assert_eq!(asker.outcomes.len(), 10);
    assert!(asker.outcomes.iter().all(|outcome| *outcome == Outcome::Reset(0xc)), "{:?}", asker.outcomes);
}

#[test]
fn goaway_completes_or_returns_each_exchange() {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(10);
    let asker = ask(&builder, Config::default(), Asker::new(40, 30_000, "/echo"), Some(15));
    let good = asker.outcomes.iter().filter(|outcome| **outcome == Outcome::Good).count();
    assert!(good >= 15, "{:?}", asker.outcomes);
    assert!(
        asker.outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Reset(_))),
        "{:?}",
        asker.outcomes
    );
}
