//! Tests that a task which forwards a body lets other tasks run after a bounded number of pieces.

use std::future::poll_fn;
use std::pin::pin;

use super::*;
use crate::pipeline::chains::Chains;
use crate::pipeline::journey::Journey;
use crate::pipeline::turn::PIECES_MAX;

/// Runs one exchange; returns the most pieces that passed in one poll of its task, and the body that the
/// client received.
fn most_in_a_poll(origin: &Origin, plugins: &Value, mut downstream: Scripted) -> (usize, Vec<u8>) {
    on_loop(async {
        let context = context(&[origin.address()], plugins);
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        request_head(&mut exchange, "POST /here");
        let (pieces, mut most) = (downstream.pieces.clone(), 0);
        let served = {
            let mut running = pin!(run_pipeline(&context, &mut exchange, &mut downstream, &deadline));
            poll_fn(|cx| {
                let before = pieces.get();
                let polled = running.as_mut().poll(cx);
                most = most.max(pieces.get() - before);
                polled
            })
            .await
        };
        log(&context, &mut exchange, served.log);
        (most, downstream.answer)
    })
}

#[test]
fn upload_of_small_chunks_yields() {
    let origin = Origin::start(|request| Reply::ok(&request.body.len().to_string()));
    let body = vec![Some("x"); 3 * PIECES_MAX + 7];
    let (most, answer) = most_in_a_poll(&origin, &json!({}), scripted(&body, BodyLength::Unknown));
    assert_eq!((most, answer), (PIECES_MAX, (3 * PIECES_MAX + 7).to_string().into_bytes()));
}

#[test]
fn body_that_is_collected_in_small_chunks_yields() {
    let origin = Origin::start(|request| Reply::ok(&request.body.len().to_string()));
    let body = vec![Some("x"); 2 * PIECES_MAX + 7];
    let mut downstream = scripted(&body, BodyLength::Unknown);
    let pieces = downstream.pieces.clone();
    let most = on_loop(async {
        let context = context(&[origin.address()], &json!({}));
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        request_head(&mut exchange, "POST /here");
        let generation = context.generation();
        let run = crate::pipeline::PipelineRun::new(&context, &generation, &deadline);
        let mut most = 0;
        {
            let chains = Chains::none(&generation);
            let mut journey =
                Journey { run: &run, chains, exchange: &mut exchange, downstream: &mut downstream };
            let whole = crate::pipeline::collect::collect_whole_body(&mut journey, 1_000_000);
            let mut whole = pin!(whole);
            let read = poll_fn(|cx| {
                let before = pieces.get();
                let polled = whole.as_mut().poll(cx);
                most = most.max(pieces.get() - before);
                polled
            });
            assert!(read.await.is_ok());
        }
        assert_eq!(exchange.request_body().map(<[u8]>::len), Some(2 * PIECES_MAX + 7));
        most
    });
    assert_eq!(most, PIECES_MAX);
}

#[test]
fn upload_without_a_pause_ends_in_time() {
    let origin = Origin::start(|request| Reply::ok(&request.body.len().to_string()));
    let body = vec![Some("x"); 3 * PIECES_MAX];
    let (calls, pieces) = on_loop(async {
        let context = context(&[origin.address()], &json!({}));
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        deadline.set_cap(context.local.now_ms());
        request_head(&mut exchange, "POST /here");
        let mut downstream = scripted(&body, BodyLength::Unknown);
        let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
        log(&context, &mut exchange, served.log);
        assert_eq!(exchange.failure.as_ref().map(|failure| failure.cause), Some(Cause::RequestTimeout));
        (downstream.calls.join(" "), 3 * PIECES_MAX - downstream.body.len())
    });
    assert!(calls.starts_with("start:504:"), "{calls}");
    assert_eq!(pieces, PIECES_MAX, "one turn");

    on_loop(async {
        let context = context(&[origin.address()], &json!({}));
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        deadline.set_cap(context.local.now_ms());
        request_head(&mut exchange, "POST /here");
        let generation = context.generation();
        let run = crate::pipeline::PipelineRun::new(&context, &generation, &deadline);
        let mut downstream = scripted(&body, BodyLength::Unknown);
        let chains = Chains::none(&generation);
        let mut journey = Journey { run: &run, chains, exchange: &mut exchange, downstream: &mut downstream };
        let read = crate::pipeline::collect::collect_whole_body(&mut journey, 1_000_000).await;
        assert_eq!(read.err().map(|failure| failure.cause), Some(Cause::RequestTimeout));
    });
}

#[test]
fn response_without_a_pause_ends_in_time() {
    let origin = Origin::start(|_| Reply::chunked(&["x"; 5 * PIECES_MAX], &[]));
    let calls = on_loop(async {
        let context = context(&[origin.address()], &json!({}));
        let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
        deadline.set_cap(context.local.now_ms());
        request_head(&mut exchange, "GET /here");
        let mut downstream = scripted(&[], BodyLength::None);
        let served = run_pipeline(&context, &mut exchange, &mut downstream, &deadline).await;
        log(&context, &mut exchange, served.log);
        assert_eq!(exchange.failure.as_ref().map(|failure| failure.cause), Some(Cause::RequestTimeout));
        downstream.calls.join(" ")
    });
    assert_eq!(calls, "start:200:Unknown abort");
}

#[test]
fn response_of_small_chunks_yields() {
    let origin = Origin::start(|_| Reply::chunked(&["x"; 5 * PIECES_MAX], &[]));
    for plugins in [json!({}), json!({"shouter": {}})] {
        let (most, answer) = most_in_a_poll(&origin, &plugins, scripted(&[], BodyLength::None));
        assert_eq!(answer.len(), 5 * PIECES_MAX);
        assert!((1..=PIECES_MAX).contains(&most), "{most} pieces in one poll");
    }
}
