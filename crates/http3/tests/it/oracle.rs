//! The engine against the `h3` crate, in both roles over QUIC connections on 127.0.0.1: many streams, bodies
//! in both directions, trailers, resets, heads beyond limits, graceful shutdown, and every entry of the
//! static table.
#![allow(clippy::unwrap_used)]

mod client_side;
mod driver;
mod echo;
mod quic;
mod server_side;

/// Content of a body: `length` bytes that differ from stream to stream.
fn content(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ seed ^ (at >> 8)) as u8).collect()
}

/// Runs a future on a runtime of its own, with a bound on the time, so that a deadlock is a failure.
fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(limit, future).await.expect("the peers wait for each other")
    })
}
