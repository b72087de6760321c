//! One exchange on a stream of HTTP/3, from the first byte of its request to the client's acknowledgement of
//! the response. The pipeline does the work.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use http3::RequestReader;
use message::Version;
use stdx::pooled::PooledBox;

use super::incoming::{Incoming, RequestPart};
use super::link::{H3Link, RequestStream};
use super::stream::H3Stream;
use crate::body::ResponseSink;
use crate::context::WorkerContext;
use crate::downstream::extended_connect;
use crate::downstream::stream_end::DownstreamStreamEnd;
use crate::pipeline::{self, PipelineOutcome, ServedExchange};
use crate::tunnel;
use exchange::deadline::Deadline;
use exchange::exchange::ConnectionContext;
use exchange::failure::{Blame, Cause, ExchangeFailure};

/// Serves the request on a stream.
pub(super) async fn serve_h3_request(
    link: Rc<H3Link>,
    stream: RequestStream,
    reader: RequestReader,
    connection: ConnectionContext,
) {
    let context = link.context.clone();
    let limits = &context.local.options.limits;
    let deadline = Deadline::new(&context.local);
    let (send, receive) = stream;
    let incoming = Incoming::new(link.clone(), receive, reader);
    let mut downstream = H3Stream::new(link, incoming, send);
    let Some(is_whole) = head(&mut downstream, &deadline, limits.head_timeout_ms).await else {
        if let Some(reason) = downstream.incoming.fault_reason() {
            log_refused(&context, &mut downstream, connection, reason);
        }
        // Its drop resets the stream.
        return downstream.abort(Blame::Client);
    };
    let downstream = exchange(downstream, &deadline, connection, is_whole).await;
    if let Some(mut downstream) = downstream {
        downstream.stop_rest();
        downstream.delivered(&deadline).await;
    }
}

/// Logs a malformed request.
#[cold]
fn log_refused(
    context: &WorkerContext,
    downstream: &mut H3Stream,
    connection: ConnectionContext,
    reason: &'static str,
) {
    let mut exchange = context.exchanges.checkout();
    let exchange = &mut *exchange;
    exchange.times.started_ns = context.local.recent_ns();
    exchange.connection = connection;
    exchange.request.version = Version::Http3;
    downstream.incoming.take_request(&mut exchange.request);
    exchange.stats.request_bytes = downstream.incoming.read_bytes();
    pipeline::log_refused_request(context, exchange, ExchangeFailure::new(Cause::BadRequest, reason));
}

/// Waits for the head: whether it is whole, or too large; none if it does not come.
async fn head(downstream: &mut H3Stream, deadline: &Deadline, timeout_ms: u64) -> Option<bool> {
    let mut is_first = true;
    poll_fn(|cx| {
        match downstream.incoming.poll_part(cx) {
            Poll::Ready(RequestPart::Head) => return Poll::Ready(Some(true)),
            Poll::Ready(RequestPart::HeadTooLarge) => return Poll::Ready(Some(false)),
            Poll::Ready(RequestPart::Data(_) | RequestPart::End | RequestPart::Cut) => {
                return Poll::Ready(None);
            }
            Poll::Pending => {}
        }
        if std::mem::take(&mut is_first) {
            deadline.set(cx, timeout_ms);
        } else if deadline.expired() {
            return Poll::Ready(None);
        }
        Poll::Pending
    })
    .await
}

/// Runs the exchange of a head that is here; the stream unless a tunnel has used it up.
async fn exchange(
    mut downstream: H3Stream,
    deadline: &Deadline,
    connection: ConnectionContext,
    is_whole: bool,
) -> Option<H3Stream> {
    let context = downstream.context();
    let local = &context.local;
    let mut exchange = context.exchanges.checkout();
    let exchange = &mut *exchange;
    // The connection's task read the clock when the bytes arrived.
    exchange.times.started_ns = local.recent_ns();
    exchange.connection = connection;
    let info = downstream.take_request(exchange);
    exchange.request.version = Version::Http3;
    exchange.stats.request_bytes = downstream.incoming.read_bytes();
    if let Some(wait_ms) = downstream.begin_wait_ms(exchange, info, local.options.limits.body_timeout_ms) {
        body_begins(&mut downstream, deadline, wait_ms).await;
    }
    downstream.settle_length(info);
    let refused = if is_whole {
        extended_connect::head_refusal(exchange)
    } else {
        Some(ExchangeFailure::new(Cause::HeadTooLarge, "the fields of the request exceed the limits"))
    };
    let time_ms = local.options.limits.request_timeout_ms;
    if time_ms != 0 {
        deadline.set_cap((exchange.times.started_ns / 1_000_000).saturating_add(time_ms));
    }
    let ServedExchange { outcome, log } = match refused {
        None => pipeline::run_pipeline(&context, exchange, &mut downstream, deadline).await,
        Some(failure) => {
            PooledBox::pin(pipeline::refuse_malformed_request(
                &context,
                exchange,
                &mut downstream,
                deadline,
                failure,
            ))
            .await
        }
    };
    deadline.clear_cap();
    let downstream = match outcome {
        PipelineOutcome::Done => Some(downstream),
        PipelineOutcome::Tunnel { endpoint, idle_timeout_ms, places: _places } => {
            let client = DownstreamStreamEnd::new(downstream);
            let tunnel = tunnel::run_tunnel(deadline, client, *endpoint, idle_timeout_ms);
            let passed = PooledBox::pin(tunnel).await;
            exchange.stats.request_bytes += passed.up_bytes;
            exchange.stats.response_body_bytes += passed.down_bytes;
            exchange.stats.response_bytes += passed.down_bytes;
            exchange.times.upstream_ended_ns = local.clock_ns();
            None
        }
    };
    pipeline::log(&context, exchange, log);
    downstream
}

/// Waits for the first byte of a body, or its end; 0 only takes what is here. After the timeout the body
/// counts as one of unknown length.
async fn body_begins(downstream: &mut H3Stream, deadline: &Deadline, timeout_ms: u64) {
    let mut is_first = true;
    poll_fn(|cx| {
        if downstream.poll_begun(cx).is_ready() {
            return Poll::Ready(());
        }
        if timeout_ms == 0 {
            return Poll::Ready(());
        }
        if std::mem::take(&mut is_first) {
            deadline.set(cx, timeout_ms);
        } else if deadline.expired() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
