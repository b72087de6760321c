//! Forwards the response from the endpoint to the client: unchanged if no plugin edits the body, otherwise
//! piece by piece or buffered whole. An upload in flight continues beside it.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use message::Headers;
use stdx::pooled::PooledBox;

use super::download_wait::{DownloadWait, overdue_response};
use super::encode;
use super::grpc;
use super::journey::Journey;
use super::phases::{self, Chains};
use super::respond;
use super::response_body::{ChangedBody, PassedThrough, pass_body};
use super::run::{PipelineRun, refuse_undecided};
use super::turn::TaskTurn;
use super::upload::Upload;
use super::wait::WaitsFor;
use crate::body::{BodyEvent, BodyLength, Capacity, DownstreamStream, UpstreamStream};
use crate::forward;
use exchange::Exchange;
use exchange::failure::{Blame, Cause, ExchangeFailure};
use exchange::plugin::{BodyNeed, PluginPhase};

/// Forwards a response to the client; its head is in the exchange.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds
// this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn pass_on_response<'a, 'j: 'a, S: DownstreamStream, O: UpstreamStream>(
    download: &'a mut DownloadWait<'j>,
    journey: &'a mut Journey<'j, S>,
    upstream_stream: &'a mut O,
    upload: &'a mut Upload,
) -> impl Future<Output = Result<(), ExchangeFailure>> {
    async move {
        forward::keep_accel_fields(journey.exchange);
        if journey.exchange.response.status >= 500
            || journey.exchange.local().options.forward.show_upstream_status
        {
            respond::name_tried_statuses(journey.exchange);
        }
        respond::respond_head(journey).await?;
        refuse_undecided(journey.exchange)?;
        let status = journey.exchange.response.status;
        // A plugin may have changed the status to or from one without a body (RFC 9110 section 6.4.1).
        let may_have_body = journey.exchange.request.method != message::Method::Head && !has_no_body(status);
        let length = match upstream_stream.body_length() {
            BodyLength::None if may_have_body => BodyLength::Known(0),
            BodyLength::Known(_) | BodyLength::Unknown if has_no_body(status) => {
                journey.downstream.start_response(journey.exchange, BodyLength::None);
                upstream_stream.pause()?;
                PooledBox::pin(respond::send_whole_body(journey, &[])).await;
                return Ok(());
            }
            length => length,
        };
        if let Some(fault) = upstream_stream.fault_at_body_start() {
            return Err(fault);
        }
        let need = match may_have_body {
            true => body_need(journey.run, journey.exchange, &journey.chains),
            false => BodyNeed::None,
        };
        let edits = match need {
            // In a pooled box, because few responses are buffered.
            BodyNeed::Buffer { limit_bytes } => {
                return PooledBox::pin(hold_back(download, journey, upstream_stream, upload, limit_bytes))
                    .await;
            }
            BodyNeed::Stream => true,
            BodyNeed::None | BodyNeed::Copy { .. } => false,
        };
        let result = if edits || journey.exchange.encoder.is_some() {
            journey.downstream.start_response(journey.exchange, BodyLength::Unknown);
            let changed = ChangedBody::new(edits);
            pass_body(download, journey, upstream_stream, upload, changed).await
        } else {
            journey.downstream.start_response(journey.exchange, length);
            pass_body(download, journey, upstream_stream, upload, PassedThrough::default()).await
        };
        ended(journey, result)
    }
}

/// Ends the forwarding of a response. One that broke before any byte of it was sent is taken back, so that
/// the client gets an error response; bytes of any other one are sent before the cut.
#[inline]
fn ended<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    result: Result<(), ExchangeFailure>,
) -> Result<(), ExchangeFailure> {
    if let Err(failure) = &result
        && failure.cause.blame() == Blame::Upstream
    {
        break_off(journey);
    }
    journey.exchange.stats.response_bytes = journey.downstream.progress().sent_bytes;
    result
}

#[cold]
fn break_off<S: DownstreamStream>(journey: &mut Journey<'_, S>) {
    if journey.downstream.take_back_response() {
        journey.exchange.stats.response_body_bytes = 0;
        return;
    }
    // As much as the client takes at once: the cut must not wait for it.
    let mut cx = Context::from_waker(Waker::noop());
    let _ = journey.downstream.poll_flush(&mut cx);
}

/// Buffers the body, gives it to the plugins whole, and sends the result.
async fn hold_back<S: DownstreamStream, O: UpstreamStream>(
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    upstream_stream: &mut O,
    upload: &mut Upload,
    limit_bytes: usize,
) -> Result<(), ExchangeFailure> {
    let Collected { mut body, trailers } =
        collect(download, journey, upstream_stream, upload, limit_bytes).await?;
    upstream_stream.pause()?;
    // The edited body exists beside this one for a moment.
    journey.run.local().shared.check_room(body.len())?;
    if trailers.is_some() {
        grpc::note_status(journey.exchange, trailers.as_ref());
    }
    let mut trailers = trailers.unwrap_or_default();
    phases::whole_response_body(journey, &mut body, &mut trailers).await?;
    if journey.exchange.gave_up.get().is_some() {
        return Err(ExchangeFailure::new(Cause::BufferLimit, "a plugin takes too long to edit the body"));
    }
    journey.exchange.note_response(&body);
    if let Some(coded) = encode::encode_whole_body(journey.run, journey.exchange, &body).await? {
        body = coded;
    }
    journey.downstream.start_response(journey.exchange, phases::length_before(&trailers, &body));
    respond::send_with_trailers(journey, &body, &trailers).await;
    Ok(())
}

/// A response body that was read whole.
struct Collected {
    body: Vec<u8>,
    trailers: Option<Headers>,
}

pub(super) fn has_no_body(status: u16) -> bool {
    matches!(status, 100..200 | 204 | 304)
}

pub(super) fn body_need(run: &PipelineRun<'_>, exchange: &mut Exchange, chains: &Chains<'_>) -> BodyNeed {
    let mut need = BodyNeed::None;
    if chains.has(PluginPhase::ResponseBody) {
        phases::each(run.context, chains, PluginPhase::ResponseBody, exchange, |instance, exchange| {
            let wanted = instance.plugin.wants_response_body(exchange);
            if let BodyNeed::Copy { limit_bytes } = wanted {
                return exchange.copy_response(limit_bytes);
            }
            need = match (need, wanted) {
                (BodyNeed::Buffer { limit_bytes: a }, BodyNeed::Buffer { limit_bytes: b }) => {
                    BodyNeed::Buffer { limit_bytes: a.min(b) }
                }
                (buffer @ BodyNeed::Buffer { .. }, _) | (_, buffer @ BodyNeed::Buffer { .. }) => buffer,
                (BodyNeed::Stream, _) | (_, BodyNeed::Stream) => BodyNeed::Stream,
                (need, _) => need,
            };
        });
    }
    need
}

async fn collect<S: DownstreamStream, O: UpstreamStream>(
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    upstream_stream: &mut O,
    upload: &mut Upload,
    limit_bytes: usize,
) -> Result<Collected, ExchangeFailure> {
    let mut body = Vec::new();
    let mut trailers = None;
    let mut has_moved = false;
    poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = TaskTurn::default();
        upload.poll(cx, journey, upstream_stream, &mut moved)?;
        loop {
            // Without a capacity limit, because the body's own limit bounds it.
            let count = match upstream_stream.poll_body(cx, &mut |_| Poll::Ready(Ok(Capacity::WHOLE))) {
                Poll::Ready(BodyEvent::Data(data)) => {
                    if body.len() + data.len() > limit_bytes {
                        let detail = format!("a plugin reads the body whole, up to {limit_bytes} bytes");
                        return Poll::Ready(Err(ExchangeFailure::new(Cause::BufferLimit, detail)));
                    }
                    journey.run.local().shared.append_limited(&mut body, data, limit_bytes)?;
                    journey.exchange.note_upstream_body(data);
                    data.len()
                }
                Poll::Ready(BodyEvent::End(found)) => {
                    trailers = found.cloned();
                    journey.exchange.note_upstream_end();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return download.wait(cx, WaitsFor::Answer, moved, journey.downstream),
            };
            moved = true;
            upstream_stream.consume(count);
            if turn.is_over(cx, count) {
                if journey.run.deadline.is_overdue() {
                    return Poll::Ready(Err(overdue_response()));
                }
                has_moved = true;
                return Poll::Pending;
            }
        }
    })
    .await?;
    Ok(Collected { body, trailers })
}
