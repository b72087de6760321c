//! A connection between its accept and its first request: what is known of it, and the time that a client
//! gets for the layers below HTTP. It knows none of them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::connection_guard::ConnectionGuard;
use super::h1::timer::ConnectionTimer;
use super::listener_state::OpenListener;
use crate::observe::idle_counts::IdleState;
use exchange::exchange::{CompactAddress, ProxyContext};
use net::env::Stream;

/// The facts of a connection that do not depend on its protocols.
pub(crate) struct ConnectionIdentity {
    /// A number no other connection of this process has.
    pub(crate) id: u64,
    /// The client: the socket's peer, or the address that its PROXY protocol header names.
    pub(crate) peer: CompactAddress,
    /// The listener that it was accepted by.
    pub(crate) listener: Rc<OpenListener>,
    /// The PROXY protocol header that it began with.
    pub(crate) proxy: Option<Rc<ProxyContext>>,
}

/// A connection before its first byte of TLS or HTTP, with its place in the counts.
pub(crate) struct TcpArrival {
    pub(crate) stream: Stream,
    pub(crate) identity: ConnectionIdentity,
    pub(crate) counted: ConnectionGuard,
}

/// The outcome of reading a layer below HTTP; none if it took longer than the timeout, its connection has to
/// give way to others, or its listener is closed.
pub(super) async fn within_deadline<T>(
    layer: impl Future<Output = T>,
    timeout_ms: u64,
    id: u64,
    listener: &OpenListener,
    timer: &ConnectionTimer,
) -> Option<T> {
    let mut layer = pin!(layer);
    let local = &timer.context.local;
    let ends_ms = local.now_ms() + timeout_ms;
    let mut armed_for_ms = 0;
    poll_fn(|cx: &mut Context<'_>| {
        if let Poll::Ready(outcome) = layer.as_mut().poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        // A listener that closes waits for a layer no longer than for a first request.
        let at_ms = listener.closes_idle_at_ms(id, true).map_or(ends_ms, |closes_ms| ends_ms.min(closes_ms));
        let now_ms = local.now_ms();
        if now_ms >= at_ms || (armed_for_ms == at_ms && timer.deadline.expired()) || timer.gives_way() {
            return Poll::Ready(None);
        }
        if armed_for_ms != at_ms {
            let is_first = armed_for_ms == 0;
            armed_for_ms = at_ms;
            timer.deadline.set(cx, at_ms - now_ms);
            if is_first {
                timer.begin_idle(IdleState::Unspoken);
            }
        }
        Poll::Pending
    })
    .await
}
