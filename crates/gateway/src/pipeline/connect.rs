//! Opens a connection to an endpoint for one attempt. The client is watched meanwhile, because a client that
//! has gone away must not hold a descriptor until the connect timeout.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use stdx::pooled::PooledBox;

use super::client_watch::{ClientWatch, GivenUp};
use super::run::PipelineRun;
use super::wait::client_gone_failure;
use crate::body::DownstreamStream;
use crate::upstream::connect_failure::connect_timeout_failure;
use crate::upstream::opening::WantedConnection;
use crate::upstream::stream::PooledStream;
use exchange::failure::ExchangeFailure;

/// Opens a connection, with its TLS handshake, within `timeout_ms`. A client that closes its sending side is
/// waited for as long as it would be for the head of a response (docs/decisions/0007-half-closed-clients.md).
pub(super) async fn open_connection<S: DownstreamStream>(
    run: &PipelineRun<'_>,
    opening: WantedConnection,
    timeout_ms: u64,
    downstream: &mut S,
) -> Result<PooledStream, ExchangeFailure> {
    let in_handshake = Cell::new(false);
    // Boxed, because the future is large and would enlarge every exchange's state.
    let mut connecting = PooledBox::pin(run.context.upstreams.connect(opening, timeout_ms, &in_handshake));
    let mut watch = ClientWatch::new(run, timeout_ms);
    poll_fn(|cx| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
            return Poll::Ready(connected);
        }
        watch.poll(run, cx, downstream).map(|given_up| {
            Err(match given_up {
                GivenUp::Late => connect_timeout_failure(in_handshake.get()),
                GivenUp::ClientGone => client_gone_failure(),
            })
        })
    })
    .await
}
