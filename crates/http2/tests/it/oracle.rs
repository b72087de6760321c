//! The engine against the `h2` crate, in both roles over a pipe in memory: many streams, bodies larger than
//! windows, trailers, resets, graceful shutdown, and a header table of size zero.
#![allow(clippy::unwrap_used)]

mod asker;
mod client_side;
mod driver;
mod echo;
mod server_side;

/// Content of a body: `length` bytes that differ from stream to stream.
fn content(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ seed ^ (at >> 8)) as u8).collect()
}

/// Runs a future on a runtime of its own, with a bound on the time, so that a deadlock is a failure.
fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    runtime
        .block_on(async { tokio::time::timeout(limit, future).await.expect("the peers wait for each other") })
}
