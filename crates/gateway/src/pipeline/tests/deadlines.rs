//! Tests that a deadline which the client chose says nothing about the nodes that miss it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Waker;
use std::time::Duration;

use testkit::Signal;

use super::*;

/// Runs `future`, with the timers of `local` advanced as a worker does it.
async fn with_timers<T>(local: &WorkerLocal, future: impl Future<Output = T>) -> T {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut future = pin!(future);
    poll_fn(|cx| {
        while ticks.poll_tick(cx).is_ready() {
            let mut wakers = Vec::new();
            local.timers.borrow_mut().advance(local.clock_ns() / 1_000_000, &mut wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
        future.as_mut().poll(cx)
    })
    .await
}

/// The failures of the attempts of two gRPC calls with a short `grpc-timeout`, one after the other, at an
/// upstream of `nodes` with these further fields.
fn failures_of_calls(nodes: &[&Origin], more: Value) -> Vec<Vec<Option<Cause>>> {
    let list: Vec<Value> = (0..)
        .zip(nodes)
        .map(|(number, node)| {
            json!({"host": "127.0.0.1", "port": node.port(), "weight": 1, "priority": -number})
        })
        .collect();
    let mut upstream = more;
    upstream["nodes"] = json!(list);
    on_loop(async {
        let context = context_of(&upstream, &json!({}));
        let mut failures = Vec::new();
        for _ in 0..2 {
            let (deadline, mut exchange) = (Deadline::new(&context.local), context.exchanges.checkout());
            exchange.times.started_ns = context.local.clock_ns();
            request_head(&mut exchange, "GET /here");
            for (name, value) in [("content-type", "application/grpc"), ("grpc-timeout", "150m")] {
                exchange.request.headers.set(name, value.as_bytes()).unwrap();
            }
            let mut downstream = scripted(&[], BodyLength::None);
            let running = run_pipeline(&context, &mut exchange, &mut downstream, &deadline);
            let served = with_timers(&context.local, running).await;
            log(&context, &mut exchange, served.log);
            failures.push(exchange.attempts.iter().map(|attempt| attempt.failed).collect());
        }
        failures
    })
}

#[test]
fn short_grpc_timeout_does_not_blame_the_node() {
    let silent = Origin::start(|_| Reply::new().wait(&Signal::new()));
    let late = Some(Cause::RequestTimeout);
    assert_eq!(failures_of_calls(&[&silent], json!({})), [[late], [late]]);
    // With an open circuit the second call would make no attempt.
    let breaker = json!({"circuit_breaker": {"consecutive_failures": 1}});
    assert_eq!(failures_of_calls(&[&silent], breaker), [[late], [late]]);
}

#[test]
fn short_grpc_timeout_blames_no_hedged_node() {
    let (first, second) = (Signal::new(), Signal::new());
    let nodes = [first, second].map(|go| Origin::start(move |_| Reply::new().wait(&go)));
    let late = Some(Cause::RequestTimeout);
    let hedged = json!({"retry": {"hedge": {"after": 0.02}}, "circuit_breaker": {"consecutive_failures": 1}});
    for failures in failures_of_calls(&[&nodes[0], &nodes[1]], hedged) {
        assert_eq!(failures.len(), 2, "both calls were hedged");
        assert!(failures.iter().flatten().all(|cause| Some(*cause) == late), "{failures:?}");
    }
}
