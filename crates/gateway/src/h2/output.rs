//! The write of an engine's output to a transport, on either side. It does not know what the bytes are.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use http2::Connection;

use net::transport::Transport;

/// Slices of one write: an output that is full of the smallest segments, in frames of their own, has fewer.
const OUTPUT_SLICES: usize = 32;

/// Writes from the output of `engine`, which is not empty; how many bytes `transport` took. The engine is not
/// told.
#[inline]
pub(crate) fn poll_write_output(
    engine: &Connection,
    cx: &mut Context<'_>,
    transport: &mut Transport,
) -> Poll<io::Result<usize>> {
    let next = engine.output();
    if next.len() == engine.output_bytes() {
        return transport.poll_write(cx, next);
    }
    let mut slices = [IoSlice::new(&[]); OUTPUT_SLICES];
    let count = engine.output_slices(&mut slices);
    transport.poll_write_vectored(cx, &slices[..count])
}
