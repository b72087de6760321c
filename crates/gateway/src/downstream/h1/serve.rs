//! A client's HTTP/1 connection from accept to close: waiting for a request without holding a buffer, one
//! exchange after another, and closing so that nothing in flight is lost. It sequences; each step lives
//! elsewhere.

use std::future::poll_fn;
use std::task::{Context, Poll};

use http1::{RequestWire, asks_for_head, read_refused};
use message::Method;
use stdx::pooled::PooledBox;
use stdx::prefetch::{prefetch, prefetch_at};

use super::connection::H1Connection;
use super::head::{Arrived, read_head};
use super::linger::{linger, linger_unread};
use super::stream::{After, DownstreamH1Stream};
use super::timer::ConnectionTimer;
use crate::downstream::h2;
use crate::observe::idle_counts::IdleState;
use crate::pipeline::{self, PipelineOutcome, ServedExchange};
use crate::tunnel;
use exchange::Exchange;
use net::env::{self, yield_when_spent};

/// Serves a connection until it ends.
pub(crate) async fn serve_h1_connection(mut connection: Box<H1Connection>, timer: ConnectionTimer) {
    while wait_for_request(&mut connection, &timer).await {
        timer.end_idle();
        // Pipelined requests with local replies could follow each other without an await; this lets other
        // tasks run.
        yield_when_spent().await;
        match serve_one_exchange(&mut connection, &timer).await {
            After::KeepAlive => {
                if !connection.has_input() {
                    connection.input = None;
                }
            }
            After::HeadPartial => {}
            After::Close => return PooledBox::pin(linger(&mut connection, &timer)).await,
            After::CloseUnread => return PooledBox::pin(linger_unread(&mut connection, &timer)).await,
            After::Over => return,
            After::Http2 => return env::spawn(h2::serve::serve_h2_connection(connection, timer)),
            After::Abort => return connection.stream.reset_on_close(),
        }
    }
}

/// Waits until a request begins to arrive, or a partial head continues; false when the connection is over.
/// The first request has the timeout of a head, later ones the idle timeout.
async fn wait_for_request(connection: &mut H1Connection, timer: &ConnectionTimer) -> bool {
    if connection.has_input() && connection.partial.is_none() {
        return true;
    }
    let local = &timer.context.local;
    let limits = &local.options.limits;
    let timeout_ms = if connection.requests == 0 { limits.head_timeout_ms } else { limits.idle_timeout_ms };
    let mut armed = false;
    let mut silent = false;
    let mut close_grace = CloseGrace::default();
    poll_fn(|cx| {
        let falls_silent = !std::mem::replace(&mut silent, true);
        if connection.partial.is_some() {
            let rest = connection.poll_rest_of_head(cx, timer);
            if falls_silent && rest.is_pending() {
                timer.begin_idle(IdleState::Head);
            }
            return rest;
        }
        if connection.stream.poll_arrived(cx).is_ready() {
            return Poll::Ready(true);
        }
        if falls_silent {
            timer.begin_idle(if connection.requests == 0 { IdleState::Unspoken } else { IdleState::Idle });
        } else if timer.gives_way() {
            return Poll::Ready(connection.take_arrived());
        }
        if let Some(at_ms) = connection.listener.closes_idle_at_ms(connection.id, connection.requests == 0) {
            return close_grace.poll(cx, connection, timer, at_ms, timeout_ms);
        }
        if connection.requests > 0 && local.shared.memory.sheds_idle() {
            return Poll::Ready(connection.take_arrived());
        }
        // The deadline may still be set from the last exchange; only one that was armed here counts.
        if armed && timer.deadline.expired() {
            return Poll::Ready(false);
        }
        if !armed {
            armed = true;
            timer.deadline.set(cx, timeout_ms);
        }
        Poll::Pending
    })
    .await
}

/// The last wait of a connection while its listener closes.
#[derive(Default)]
struct CloseGrace {
    /// The end that the deadline is set for; 0 while it is not set.
    armed_for_ms: u64,
}

impl CloseGrace {
    /// Ready when the time for one more request is over; true if one has arrived nevertheless.
    fn poll(
        &mut self,
        cx: &Context<'_>,
        connection: &mut H1Connection,
        timer: &ConnectionTimer,
        at_ms: u64,
        timeout_ms: u64,
    ) -> Poll<bool> {
        let left_ms = at_ms.saturating_sub(timer.context.local.now_ms());
        if left_ms == 0 || (self.armed_for_ms != 0 && timer.deadline.expired()) {
            return Poll::Ready(connection.take_arrived());
        }
        // A second close of the listener may bring the end nearer.
        if self.armed_for_ms != at_ms {
            self.armed_for_ms = at_ms;
            // A configured idle timeout of 0 means no timeout, so only the grace time limits the wait.
            timer.deadline.set(cx, if timeout_ms == 0 { left_ms } else { left_ms.min(timeout_ms) });
        }
        Poll::Pending
    }
}

/// Serves the next request. Its state is large; it lives in memory that workers reuse, not in this task.
async fn serve_one_exchange(connection: &mut H1Connection, timer: &ConnectionTimer) -> After {
    let mut exchange = timer.context.exchanges.checkout();
    let (client, state) = (place_of(connection), place_of(&*exchange));
    let mut serving = PooledBox::make(|| one_exchange(connection, timer, &mut exchange)).into_pin();
    let mut has_waited = false;
    poll_fn(|cx| {
        // With many connections none of these is in the caches any more when the task wakes.
        if std::mem::replace(&mut has_waited, true) {
            prefetch(&*serving);
            prefetch_at(state, size_of::<Exchange>());
            prefetch_at(client, size_of::<H1Connection>());
        }
        serving.as_mut().poll(cx)
    })
    .await
}

/// Where a value is, to ask for its memory while something else has it.
fn place_of<T>(value: &T) -> *const u8 {
    std::ptr::from_ref(value).cast()
}

async fn one_exchange(
    connection: &mut H1Connection,
    timer: &ConnectionTimer,
    exchange: &mut Exchange,
) -> After {
    let local = &timer.context.local;
    let mut wire = RequestWire::default();
    let refused = match read_head(timer, connection, exchange).await {
        Ok(Arrived::Head(head)) => {
            wire = head;
            None
        }
        Ok(Arrived::Part) => return After::HeadPartial,
        Ok(Arrived::Nothing) => return After::KeepAlive,
        Ok(Arrived::End) => return After::Close,
        Ok(Arrived::Http2) => return After::Http2,
        Err(failure) => {
            let input = connection.input.as_ref().map_or(&[][..], |input| input.filled());
            // For the log. Nothing else is decided by it but that a response to HEAD must have no body.
            read_refused(input, &mut exchange.request);
            exchange.request.method = if asks_for_head(input) { Method::Head } else { Method::default() };
            Some(failure)
        }
    };
    connection.requests = connection.requests.saturating_add(1);
    exchange.connection = connection.context();
    let limits = &local.options.limits;
    let keep_alive = refused.is_none()
        && wire.keep_alive
        && !connection.is_closing(local.now_ms())
        && !local.shared.memory.sheds_idle()
        && (limits.max_requests_per_connection == 0
            || u64::from(connection.requests) < limits.max_requests_per_connection);
    if limits.request_timeout_ms != 0 {
        timer.deadline.set_cap(exchange.times.started_ns / 1_000_000 + limits.request_timeout_ms);
    }
    let mut downstream = DownstreamH1Stream::new(connection, exchange, wire, keep_alive);
    let ServedExchange { outcome, log } = match refused {
        None => pipeline::run_pipeline(&timer.context, exchange, &mut downstream, &timer.deadline).await,
        Some(failure) => {
            PooledBox::pin(pipeline::refuse_malformed_request(
                &timer.context,
                exchange,
                &mut downstream,
                &timer.deadline,
                failure,
            ))
            .await
        }
    };
    // The request's time ends with its response, whether the limits, the upstream or a call bounded it:
    // neither the next request of the connection nor a tunnel is bounded by it.
    timer.deadline.clear_cap();
    let after = match outcome {
        PipelineOutcome::Done => {
            let (after, bytes) = downstream.end();
            local.give_bytes(bytes);
            after
        }
        PipelineOutcome::Tunnel { endpoint, idle_timeout_ms, places: _places } => {
            let (client, bytes) = downstream.into_duplex();
            local.give_bytes(bytes);
            let tunnel = tunnel::run_tunnel(&timer.deadline, client.into_end(), *endpoint, idle_timeout_ms);
            let passed = PooledBox::pin(tunnel).await;
            exchange.stats.request_bytes += passed.up_bytes;
            exchange.stats.response_body_bytes += passed.down_bytes;
            exchange.stats.response_bytes += passed.down_bytes;
            exchange.times.upstream_ended_ns = local.clock_ns();
            After::Over
        }
    };
    pipeline::log(&timer.context, exchange, log);
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that `make` makes.
    fn size_of_future<F: Future>(_make: impl FnOnce(Box<H1Connection>, ConnectionTimer) -> F) -> usize {
        size_of::<F>()
    }

    /// 1 KiB is the design's limit.
    #[test]
    fn idle_connection_takes_less_than_1_kib() {
        let bytes = size_of_future(serve_h1_connection) + size_of::<H1Connection>();
        assert!(bytes <= 1024, "{bytes} bytes for a connection that waits");
    }

    /// The blocks of pooled memory have sizes of powers of two: one byte more would cost 2 KiB for each
    /// request in flight.
    // The network of the simulation has streams of another size.
    #[cfg(not(feature = "simulation"))]
    #[test]
    fn request_in_flight_takes_at_most_2_kib() {
        fn size<'a, F: Future>(
            _make: impl FnOnce(&'a mut H1Connection, &'a ConnectionTimer, &'a mut Exchange) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let bytes = size(one_exchange);
        assert!(bytes <= 2048, "{bytes} bytes for a request in flight");
    }
}
