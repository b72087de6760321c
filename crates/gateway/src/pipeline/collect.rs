//! Reads the request body before an endpoint is selected: all of it for a plugin that needs it whole or for a
//! variable in it, otherwise a prefix, so that no endpoint has to wait for a slow client. The bytes read
//! precede the rest of the client's stream afterwards. It does not interpret the body.

use std::future::poll_fn;
use std::task::Poll;

use message::{Headers, Version};
use stdx::pooled::PooledBox;

use super::journey::Journey;
use super::min_rate::MinRateGuard;
use super::request_failure::{self, too_large};
use super::run::PipelineRun;
use super::turn::TaskTurn;
use super::wait::Wait;
use crate::body::{BodyEvent, BodyLength, DownstreamStream};
use exchange::Exchange;
use exchange::exchange::body_demand::CollectedBody;
use exchange::exchange::{AWAITED_BODY_MAX_BYTES, BodyArrival, ExchangeTimes};
use exchange::failure::{Cause, ExchangeFailure};

/// Reads the whole body, for a plugin; one that is longer than `limit_bytes` is refused.
pub(super) async fn collect_whole_body<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    limit_bytes: usize,
) -> Result<(), ExchangeFailure> {
    let limit_bytes = accepted_bytes(journey.exchange).min(limit_bytes);
    if let Some(body) = journey.exchange.body.whole() {
        // It was read for a variable, with another limit.
        return if body.len() > limit_bytes { Err(too_large(limit_bytes)) } else { Ok(()) };
    }
    // A prefix may have been read for variables already; the rest follows it.
    let mut bytes = journey.exchange.body.prefix().map_or_else(Vec::new, |prefix| prefix.bytes.to_vec());
    let mut wait = wait_for_body(journey.run);
    match read(
        journey.run,
        &mut journey.exchange.times,
        journey.downstream,
        &mut wait,
        &mut bytes,
        limit_bytes,
    )
    .await?
    {
        BodyReadResult::Whole(trailers) => journey.exchange.body.keep_whole(bytes, trailers),
        BodyReadResult::TooLong => return Err(too_large(limit_bytes)),
    }
    Ok(())
}

/// Reads the body, or what is left of it, for a plugin that waits; of a longer one than `limit_bytes` the
/// beginning.
pub(super) async fn on_demand<S: DownstreamStream>(
    run: &PipelineRun<'_>,
    downstream: &mut S,
    limit_bytes: usize,
) -> Result<CollectedBody, ExchangeFailure> {
    let (mut bytes, mut wait, mut times) = (Vec::new(), wait_for_body(run), ExchangeTimes::default());
    let read = read(run, &mut times, downstream, &mut wait, &mut bytes, limit_bytes).await?;
    let (is_whole, trailers) = match read {
        BodyReadResult::Whole(trailers) => (true, trailers),
        BodyReadResult::TooLong => (false, None),
    };
    Ok(CollectedBody { bytes, trailers, is_whole, waited_ns: times.body_waited_ns })
}

/// The longest body that is accepted, in bytes.
fn accepted_bytes(exchange: &Exchange) -> usize {
    match exchange.max_request_body_bytes() {
        0 => usize::MAX,
        most => usize::try_from(most).unwrap_or(usize::MAX),
    }
}

/// Refuses a body of which more was read than is accepted: a plugin may have set the limit after the body was
/// read, and the upstream must not get a body whole that is refused.
pub(super) fn refuse_long(exchange: &Exchange) -> Result<(), ExchangeFailure> {
    let limit_bytes = accepted_bytes(exchange);
    match exchange.body.prefix() {
        Some(read) if read.bytes.len() > limit_bytes => Err(too_large(limit_bytes)),
        _ => Ok(()),
    }
}

/// Reads the body so that variables can be taken from it, if it is short enough. A longer body is streamed,
/// and its variables are unset. Returns whether anything was read.
pub(super) async fn for_variables<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<bool, ExchangeFailure> {
    let limit_bytes =
        journey.run.local().options.limits.max_matched_body_bytes.min(accepted_bytes(journey.exchange));
    let is_readable = match journey.downstream.body_length() {
        BodyLength::None => false,
        BodyLength::Known(bytes) => bytes <= limit_bytes as u64,
        BodyLength::Unknown => limit_bytes > 0,
    };
    if !is_readable || !journey.exchange.body.is_unread() {
        return Ok(false);
    }
    let (mut bytes, mut wait) = (Vec::new(), wait_for_body(journey.run));
    match read(
        journey.run,
        &mut journey.exchange.times,
        journey.downstream,
        &mut wait,
        &mut bytes,
        limit_bytes,
    )
    .await?
    {
        BodyReadResult::Whole(trailers) => journey.exchange.body.keep_whole(bytes, trailers),
        BodyReadResult::TooLong => journey.exchange.body.keep_prefix(bytes),
    }
    Ok(true)
}

/// Waits for the prefix of a body with a declared length: a client that sends slowly holds no connection to
/// an endpoint, and no permit of an upstream. A prefix that comes in one piece is not copied. A plugin may
/// have asked to wait for the whole body, or for nothing.
#[inline]
pub(super) async fn wait_for_prefix<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
) -> Result<(), ExchangeFailure> {
    let most = match journey.exchange.decision.body_arrival {
        BodyArrival::Prefix => journey.run.local().options.limits.wait_for_body_bytes,
        BodyArrival::Whole => AWAITED_BODY_MAX_BYTES,
        BodyArrival::Nothing => return Ok(()),
    };
    // One byte more, which tells that the body is too long.
    let most = most.min(accepted_bytes(journey.exchange).saturating_add(1));
    let wanted_bytes = match journey.downstream.body_length() {
        BodyLength::Known(length) => usize::try_from(length).unwrap_or(usize::MAX).min(most),
        BodyLength::Unknown if journey.exchange.decision.body_arrival == BodyArrival::Whole => most,
        BodyLength::Unknown | BodyLength::None => return Ok(()),
    };
    if wanted_bytes == 0 || !journey.exchange.body.is_unread() {
        return Ok(());
    }
    let is_here = poll_fn(|cx| {
        Poll::Ready(match journey.downstream.poll_body(cx) {
            Poll::Ready(BodyEvent::Data(data)) => Ok(data.len() >= wanted_bytes),
            Poll::Ready(BodyEvent::Reset(failure)) => Err(failure),
            Poll::Ready(BodyEvent::End(_)) | Poll::Pending => Ok(false),
        })
    });
    if is_here.await? {
        return Ok(());
    }
    PooledBox::pin(piece_by_piece(journey, wanted_bytes)).await
}

async fn piece_by_piece<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    wanted_bytes: usize,
) -> Result<(), ExchangeFailure> {
    let (mut bytes, mut wait) = (Vec::new(), wait_for_body(journey.run));
    // The piece that completes the prefix stays in the client's stream, so it need not be copied.
    let limit_bytes = wanted_bytes - 1;
    match read(
        journey.run,
        &mut journey.exchange.times,
        journey.downstream,
        &mut wait,
        &mut bytes,
        limit_bytes,
    )
    .await
    {
        Ok(BodyReadResult::Whole(trailers)) => {
            journey.exchange.body.keep_whole(bytes, trailers);
            return Ok(());
        }
        // `limit_bytes` is what is accepted if that is less than what is awaited.
        Ok(BodyReadResult::TooLong) if limit_bytes >= accepted_bytes(journey.exchange) => {
            return Err(too_large(limit_bytes));
        }
        Ok(BodyReadResult::TooLong) => {}
        // No plugin asked for the prefix. If memory is too short to hold it, the request is served with a
        // shorter prefix.
        Err(failure) if failure.cause == Cause::MemoryLimit => {}
        Err(failure) => {
            // Plugins that log bodies log the part that came.
            if let Some(copy) = &journey.exchange.copies.request {
                copy.add(&bytes);
            }
            return Err(failure);
        }
    }
    if !bytes.is_empty() {
        journey.exchange.body.keep_prefix(bytes);
    }
    // The wait continues after the selection, so that the client's minimum rate is measured over the whole
    // body.
    journey.run.body_guard.set(Some(Box::new(wait.into_guard())));
    Ok(())
}

/// A wait for a client that has to send its body.
pub(super) fn wait_for_body<'r, 'w>(run: &'r PipelineRun<'w>) -> Wait<'r, 'w> {
    Wait::new(run, body_guard(run, run.stream_read_ms.get()))
}

/// The guard of a client that has to send its body. A body that may be a stream is only bounded by `read_ms`.
pub(super) fn body_guard(run: &PipelineRun<'_>, read_ms: u64) -> MinRateGuard {
    let limits = &run.local().options.limits;
    match run.stream_read_ms.get() {
        0 => MinRateGuard::for_body(limits),
        _ => MinRateGuard::for_stream(read_ms, limits),
    }
}

/// Notes that the body may be a stream of messages, with a client that waits for the endpoint: one of unknown
/// length over HTTP/2 or HTTP/3, as every call of gRPC is. A client of HTTP/1 that waits for a response has
/// sent its request. Called again when the route is known, which says how long its endpoint may be silent.
#[inline]
pub(super) fn note_stream<S: DownstreamStream>(journey: &mut Journey<'_, S>) {
    let is_multiplexed = matches!(journey.exchange.request.version, Version::Http2 | Version::Http3);
    if is_multiplexed && journey.downstream.body_length() == BodyLength::Unknown {
        journey.run.stream_read_ms.set(read_timeout_ms(journey.run, journey.exchange).max(1));
    }
}

/// How long an endpoint of the request may be silent, as far as that is known.
fn read_timeout_ms(run: &PipelineRun<'_>, exchange: &Exchange) -> u64 {
    let generation = run.generation;
    let route = exchange.decision.route.and_then(|route| generation.routes.get(route));
    let of_upstream = || {
        let slot = route.and_then(|route| route.upstream);
        slot.and_then(|slot| generation.upstreams.get(slot)).map(|upstream| upstream.timeouts)
    };
    let timeouts = route.and_then(|route| route.timeouts).or_else(of_upstream);
    timeouts.unwrap_or(run.local().options.upstream_timeouts).read_ms
}

enum BodyReadResult {
    /// The whole body, with its trailers if there were any.
    Whole(Option<Headers>),
    /// The body up to the limit; the rest is still in the client's stream.
    TooLong,
}

async fn read<S: DownstreamStream>(
    run: &PipelineRun<'_>,
    times: &mut ExchangeTimes,
    downstream: &mut S,
    wait: &mut Wait<'_, '_>,
    bytes: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<BodyReadResult, ExchangeFailure> {
    let began_ns = run.local().recent_ns();
    let mut has_moved = false;
    let read = poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = TaskTurn::default();
        loop {
            let count = match downstream.poll_body(cx) {
                Poll::Ready(BodyEvent::Data(data)) if bytes.len() + data.len() > limit_bytes => {
                    return Poll::Ready(Ok(BodyReadResult::TooLong));
                }
                Poll::Ready(BodyEvent::Data(data)) => {
                    // Without the route's priority, because the route may not be known yet.
                    run.local().shared.append_limited(bytes, data, limit_bytes)?;
                    data.len()
                }
                Poll::Ready(BodyEvent::End(trailers)) => {
                    return Poll::Ready(Ok(BodyReadResult::Whole(trailers.cloned())));
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    return match wait.for_client(cx, moved, || bytes.len() as u64) {
                        Ok(()) => Poll::Pending,
                        Err(lost) => Poll::Ready(Err(request_failure::lost(lost))),
                    };
                }
            };
            moved = true;
            downstream.consume(count);
            if turn.is_over(cx, count) {
                if run.deadline.is_overdue() {
                    return Poll::Ready(Err(request_failure::overdue_request()));
                }
                has_moved = true;
                return Poll::Pending;
            }
        }
    })
    .await;
    // Attempts take the last reading of the clock for the present time, which would be the time of the head.
    times.body_waited_ns += run.local().clock_ns().saturating_sub(began_ns);
    read
}
