//! One exchange on a stream of HTTP/2, from the head that arrived to its log line. The pipeline does the
//! work.

use std::rc::Rc;

use http2::StreamKey;
use message::Version;
use stdx::pooled::PooledBox;

use super::link::DownstreamH2Link;
use super::stream::DownstreamH2Stream;

use crate::downstream::extended_connect;
use crate::downstream::stream_end::DownstreamStreamEnd;
use crate::pipeline::{self, PipelineOutcome, ServedExchange};
use crate::tunnel;
use exchange::deadline::Deadline;
use exchange::exchange::ConnectionContext;
use exchange::failure::{Cause, ExchangeFailure};

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadArrival {
    /// With a head.
    Whole,
    /// With a head over the limits, of which nothing is kept.
    TooLarge,
}

/// Serves the request on `key`.
pub(super) async fn serve_h2_request(
    link: Rc<DownstreamH2Link>,
    key: StreamKey,
    connection: ConnectionContext,
    arrival: HeadArrival,
) {
    let context = link.context.clone();
    let local = &context.local;
    let mut exchange = context.exchanges.checkout();
    let exchange = &mut *exchange;
    // The connection's task read the clock when the bytes arrived.
    exchange.times.started_ns = local.recent_ns();
    exchange.connection = connection;
    let info = link.engine().take_request(key, &mut exchange.request);
    exchange.request.version = Version::Http2;
    exchange.stats.request_bytes = info.map_or(0, |info| info.block_bytes as u64);
    let mut downstream = DownstreamH2Stream::new(link, key, info, exchange);
    let refused = match arrival {
        HeadArrival::Whole => extended_connect::head_refusal(exchange),
        HeadArrival::TooLarge => {
            Some(ExchangeFailure::new(Cause::HeadTooLarge, "the fields of the request exceed the limits"))
        }
    };
    let deadline = Deadline::new(local);
    let time_ms = local.options.limits.request_timeout_ms;
    if time_ms != 0 {
        deadline.set_cap((exchange.times.started_ns / 1_000_000).saturating_add(time_ms));
    }
    let ServedExchange { outcome, log } = match refused {
        None => pipeline::run_pipeline(&context, exchange, &mut downstream, &deadline).await,
        Some(failure) => {
            PooledBox::pin(pipeline::refuse_malformed_request(
                &context,
                exchange,
                &mut downstream,
                &deadline,
                failure,
            ))
            .await
        }
    };
    match outcome {
        PipelineOutcome::Done => drop(downstream),
        PipelineOutcome::Tunnel { endpoint, idle_timeout_ms, places: _places } => {
            deadline.clear_cap();
            let client = DownstreamStreamEnd::new(downstream);
            let tunnel = tunnel::run_tunnel(&deadline, client, *endpoint, idle_timeout_ms);
            let passed = PooledBox::pin(tunnel).await;
            exchange.stats.request_bytes += passed.up_bytes;
            exchange.stats.response_body_bytes += passed.down_bytes;
            exchange.stats.response_bytes += passed.down_bytes;
            exchange.times.upstream_ended_ns = local.clock_ns();
        }
    }
    pipeline::log(&context, exchange, log);
}

/// Logs the malformed requests of a connection; their streams were reset.
#[cold]
pub(super) fn log_malformed_requests(link: &DownstreamH2Link, connection: &ConnectionContext) {
    let context = &link.context;
    loop {
        let mut exchange = context.exchanges.checkout();
        let exchange = &mut *exchange;
        let refused = link.engine().take_refused(&mut exchange.request);
        let Some(refused) = refused else { return };
        exchange.times.started_ns = context.local.recent_ns();
        exchange.connection = connection.clone();
        exchange.stats.request_bytes = refused.block_bytes as u64;
        pipeline::log_refused_request(
            context,
            exchange,
            ExchangeFailure::new(Cause::BadRequest, refused.reason),
        );
    }
}
