//! Forwards the response from the endpoint to the client: unchanged if no plugin edits the body, otherwise piece by
//! piece or buffered whole. An upload in flight continues beside it.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use message::Headers;
use stdx::pooled::PooledBox;

use super::encode;
use super::grpc;
use super::min_rate::MinRateGuard;
use super::phases::{self, Chains};
use super::respond;
use super::run::{Run, refuse_undecided};
use super::target::Forward;
use super::turn::Turn;
use super::upload::Upload;
use super::wait::{HALF_CLOSE_GRACE_MS, Wait, WaitsFor};
use crate::body::{BodyEvent, BodyLength, Capacity, DownstreamStream, UpstreamStream};
use crate::context::WorkerContext;
use crate::forward;
use exchange::Exchange;
use exchange::deadline::Expired;
use exchange::failure::{Blame, Cause, Failure};
use exchange::options::Timeouts;
use exchange::plugin::{BodyNeed, Phase, Portion};

/// Context for forwarding a response, besides the two streams.
pub(super) struct Download<'r, 'w> {
    run: &'r Run<'w>,
    chains: &'r Chains<'r>,
    timeouts: Timeouts,
    wait: Wait<'r, 'w>,
}

impl<'r, 'w> Download<'r, 'w> {
    pub(super) fn new(forward: &Forward<'r, 'w>) -> Self {
        let Forward { run, chains, timeouts, .. } = *forward;
        let guard = MinRateGuard::for_response(&run.local().options.limits);
        Download { run, chains, timeouts, wait: Wait::new(run, guard) }
    }

    /// Waits because neither side can continue; fails when the side that `waits_for` names is late.
    fn wait<S: DownstreamStream>(
        &mut self,
        cx: &Context<'_>,
        waits_for: WaitsFor,
        moved: bool,
        downstream: &S,
    ) -> Poll<Result<(), Failure>> {
        let timeout_ms = match waits_for {
            WaitsFor::Client => {
                let waited = self.wait.for_client(cx, moved, || downstream.delivered_bytes());
                return waited.map_or_else(|lost| Poll::Ready(Err(respond::slow(lost))), |()| Poll::Pending);
            }
            WaitsFor::AnswerHalfClosed => HALF_CLOSE_GRACE_MS,
            WaitsFor::Answer | WaitsFor::Send => self.timeouts.read_ms,
        };
        match self.wait.for_endpoint(cx, waits_for, timeout_ms, moved) {
            Ok(()) => Poll::Pending,
            Err(expired) => Poll::Ready(Err(late(expired, waits_for))),
        }
    }
}

/// Forwards a response to the client; its head is in the exchange.
// A block, because the future of an `async fn` holds its arguments twice, and each exchange in flight holds this one.
#[allow(clippy::manual_async_fn)]
pub(super) fn pass_on<'a, S: DownstreamStream, O: UpstreamStream>(
    download: &'a mut Download<'_, '_>,
    exchange: &'a mut Exchange,
    downstream: &'a mut S,
    upstream_stream: &'a mut O,
    upload: &'a mut Upload<'_, '_>,
) -> impl Future<Output = Result<(), Failure>> {
    async move {
        let chains = download.chains;
        forward::keep_accel_fields(exchange);
        if exchange.response.status >= 500 || exchange.local().options.forward.show_upstream_status {
            respond::name_tried_statuses(exchange);
        }
        respond::respond_head(download.run, exchange, downstream, chains).await?;
        refuse_undecided(exchange)?;
        // A plugin may have changed the status to or from one without a body (RFC 9110 section 6.4.1).
        let may_have_body =
            exchange.request.method != message::Method::Head && !has_no_body(exchange.response.status);
        let length = match upstream_stream.body_length() {
            BodyLength::None if may_have_body => BodyLength::Known(0),
            BodyLength::Known(_) | BodyLength::Unknown if has_no_body(exchange.response.status) => {
                downstream.start_response(exchange, BodyLength::None);
                upstream_stream.pause()?;
                PooledBox::pin(respond::send(download.run, exchange, downstream, &[])).await;
                return Ok(());
            }
            length => length,
        };
        if let Some(fault) = upstream_stream.fault_at_body_start() {
            return Err(fault);
        }
        let need = if may_have_body { body_need(download.run, exchange, chains) } else { BodyNeed::None };
        match need {
            BodyNeed::None | BodyNeed::Copy { .. } if exchange.encoder.is_some() => {
                downstream.start_response(exchange, BodyLength::Unknown);
                let result =
                    stream(download, exchange, downstream, upstream_stream, upload, Passing::Coded).await;
                ended(exchange, downstream, result)
            }
            BodyNeed::None | BodyNeed::Copy { .. } => {
                downstream.start_response(exchange, length);
                let result =
                    stream(download, exchange, downstream, upstream_stream, upload, Passing::Untouched).await;
                ended(exchange, downstream, result)
            }
            BodyNeed::Stream => {
                downstream.start_response(exchange, BodyLength::Unknown);
                let result =
                    stream(download, exchange, downstream, upstream_stream, upload, Passing::Edited).await;
                ended(exchange, downstream, result)
            }
            // In a pooled box, because few responses are buffered.
            BodyNeed::Buffer { limit_bytes } => {
                PooledBox::pin(hold_back(
                    download,
                    exchange,
                    downstream,
                    upstream_stream,
                    upload,
                    limit_bytes,
                ))
                .await
            }
        }
    }
}

/// Ends the forwarding of a response. One that broke before any byte of it was sent is taken back, so that
/// the client gets an error response; bytes of any other one are sent before the cut.
#[inline]
fn ended<S: DownstreamStream>(
    exchange: &mut Exchange,
    downstream: &mut S,
    result: Result<(), Failure>,
) -> Result<(), Failure> {
    if let Err(failure) = &result
        && failure.cause.blame() == Blame::Upstream
    {
        break_off(exchange, downstream);
    }
    exchange.stats.response_bytes = downstream.progress().sent_bytes;
    result
}

#[cold]
fn break_off<S: DownstreamStream>(exchange: &mut Exchange, downstream: &mut S) {
    if downstream.take_back_response() {
        exchange.stats.response_body_bytes = 0;
        return;
    }
    // As much as the client takes at once: the cut must not wait for it.
    let mut cx = Context::from_waker(Waker::noop());
    let _ = downstream.poll_flush(&mut cx);
}

/// Buffers the body, gives it to the plugins whole, and sends the result.
async fn hold_back<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    upstream_stream: &mut O,
    upload: &mut Upload<'_, '_>,
    limit_bytes: usize,
) -> Result<(), Failure> {
    let Collected { mut body, trailers } =
        collect(download, exchange, downstream, upstream_stream, upload, limit_bytes).await?;
    upstream_stream.pause()?;
    // The edited body exists beside this one for a moment.
    download.run.local().shared.check_room(body.len())?;
    if trailers.is_some() {
        grpc::note_status(exchange, trailers.as_ref());
    }
    let mut trailers = trailers.unwrap_or_default();
    phases::whole_response_body(
        download.run,
        exchange,
        downstream,
        download.chains,
        &mut body,
        &mut trailers,
    )
    .await?;
    if exchange.gave_up.get().is_some() {
        return Err(Failure::new(Cause::BufferLimit, "a plugin takes too long to edit the body"));
    }
    exchange.note_response(&body);
    if let Some(coded) = encode::whole(download.run, exchange, &body).await? {
        body = coded;
    }
    downstream.start_response(exchange, phases::length_before(&trailers, &body));
    respond::send_with_trailers(download.run, exchange, downstream, &body, &trailers).await;
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

pub(super) fn body_need(run: &Run<'_>, exchange: &mut Exchange, chains: &Chains<'_>) -> BodyNeed {
    let mut need = BodyNeed::None;
    if chains.has(Phase::ResponseBody) {
        phases::each(run.context, chains, Phase::ResponseBody, exchange, |instance, exchange| {
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

/// Gives the trailers that the endpoint sent, if it did, to the plugins of the body phase; returns those that they leave.
#[cold]
fn edit_trailers(
    context: &WorkerContext,
    exchange: &mut Exchange,
    chains: &Chains<'_>,
    trailers: Option<&Headers>,
) -> Box<Headers> {
    if trailers.is_some() {
        grpc::note_status(exchange, trailers);
    }
    let mut left = Box::new(trailers.cloned().unwrap_or_default());
    phases::response_trailers(context, exchange, chains, &mut left);
    left
}

/// The treatment of the body on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Untouched,
    /// The encoder codes it.
    Coded,
    /// Plugins edit it; then the encoder codes it, if there is one.
    Edited,
}

/// Streams the body; an edited or coded body passes through its plugins.
async fn stream<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    upstream_stream: &mut O,
    upload: &mut Upload<'_, '_>,
    passing: Passing,
) -> Result<(), Failure> {
    let chains = download.chains;
    let editors = (passing == Passing::Edited).then_some(chains);
    let is_changed = passing != Passing::Untouched;
    let mut edited: Vec<u8> = Vec::new();
    let mut edited_sent = 0;
    let mut ended = false;
    // The trailers as the plugins leave them, once the body has ended. In a box, because few responses have any.
    let mut trailers_left: Option<Box<Headers>> = None;
    let mut finished = false;
    let mut half_closed = false;
    let mut has_moved = false;
    poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = Turn::default();
        // An upload that the client breaks off shows soon as a closed client; the response matters more now.
        let upload_failed = upload.poll(cx, exchange, downstream, upstream_stream, &mut moved).is_err();
        if upload_failed {
            downstream.close_afterwards();
            upload.give_up();
        }
        loop {
            // Edited bytes are sent before more are read.
            if edited_sent < edited.len() {
                match downstream.poll_write(cx, &edited[edited_sent..]) {
                    Poll::Ready(Ok(count)) => {
                        edited_sent += count;
                        exchange.stats.response_body_bytes += count as u64;
                        moved = true;
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                    Poll::Pending => {
                        upstream_stream.pause()?;
                        return download.wait(cx, WaitsFor::Client, moved, downstream);
                    }
                }
            }
            if finished {
                return match downstream.poll_flush(cx) {
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(gone(&error))),
                    Poll::Pending => {
                        upstream_stream.pause()?;
                        download.wait(cx, WaitsFor::Client, moved, downstream)
                    }
                };
            }
            // Nothing is read while the client takes nothing.
            let mut takes_nothing = false;
            let mut capacity = |cx: &mut Context<'_>| {
                let capacity = downstream.poll_capacity(cx).map_err(|error| gone(&error));
                takes_nothing = capacity.is_pending();
                capacity
            };
            match upstream_stream.poll_body(cx, &mut capacity) {
                Poll::Ready(BodyEvent::Data(data)) => {
                    let count = match is_changed {
                        true => {
                            exchange.note_upstream_body(data);
                            edited_sent = 0;
                            let portion = Portion::Piece;
                            encode::piece(download.run, exchange, editors, data, portion, &mut edited)?;
                            data.len()
                        }
                        false => match downstream.poll_write(cx, data) {
                            Poll::Ready(Ok(count)) => {
                                exchange.stats.response_body_bytes += count as u64;
                                exchange.note_upstream_body(&data[..count]);
                                exchange.note_response(&data[..count]);
                                count
                            }
                            Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                            Poll::Pending => {
                                upstream_stream.pause()?;
                                return download.wait(cx, WaitsFor::Client, moved, downstream);
                            }
                        },
                    };
                    upstream_stream.consume(count);
                    moved = true;
                    if turn.is_over(cx, count) {
                        if download.run.deadline.is_overdue() {
                            return Poll::Ready(Err(overdue()));
                        }
                        has_moved = true;
                        return Poll::Pending;
                    }
                }
                Poll::Ready(BodyEvent::End(trailers)) => {
                    if is_changed && !ended {
                        ended = true;
                        if let Some(chains) = editors {
                            let context = download.run.context;
                            trailers_left = Some(edit_trailers(context, exchange, chains, trailers));
                        }
                        edited_sent = 0;
                        encode::piece(download.run, exchange, editors, &[], Portion::Last, &mut edited)?;
                        continue;
                    }
                    exchange.note_upstream_end();
                    if trailers.is_some() && trailers_left.is_none() {
                        if chains.has(Phase::ResponseBody) {
                            let context = download.run.context;
                            trailers_left = Some(edit_trailers(context, exchange, chains, trailers));
                        } else {
                            grpc::note_status(exchange, trailers);
                        }
                    }
                    downstream.finish(trailers_left.as_deref().or(trailers).filter(|list| !list.is_empty()));
                    finished = true;
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending if takes_nothing => {
                    return download.wait(cx, WaitsFor::Client, moved, downstream);
                }
                Poll::Pending => {
                    // Bytes that have arrived must not wait for later ones, because server-sent events depend on it.
                    if is_changed && encode::flush(exchange, &mut edited)? {
                        edited_sent = 0;
                        continue;
                    }
                    match downstream.poll_flush(cx) {
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                        Poll::Pending => return download.wait(cx, WaitsFor::Client, moved, downstream),
                        Poll::Ready(Ok(())) => {}
                    }
                    if downstream.poll_closed(cx).is_ready() {
                        // A client that has closed its sending side may still read; a write to a client that has gone
                        // fails soon.
                        downstream.close_afterwards();
                        half_closed = true;
                    }
                    let waits = if half_closed { WaitsFor::AnswerHalfClosed } else { WaitsFor::Answer };
                    return download.wait(cx, waits, moved, downstream);
                }
            }
        }
    })
    .await
}

async fn collect<S: DownstreamStream, O: UpstreamStream>(
    download: &mut Download<'_, '_>,
    exchange: &mut Exchange,
    downstream: &mut S,
    upstream_stream: &mut O,
    upload: &mut Upload<'_, '_>,
    limit_bytes: usize,
) -> Result<Collected, Failure> {
    let mut body = Vec::new();
    let mut trailers = None;
    let mut has_moved = false;
    poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = Turn::default();
        upload.poll(cx, exchange, downstream, upstream_stream, &mut moved)?;
        loop {
            // Without a capacity limit, because the body's own limit bounds it.
            let count = match upstream_stream.poll_body(cx, &mut |_| Poll::Ready(Ok(Capacity::WHOLE))) {
                Poll::Ready(BodyEvent::Data(data)) => {
                    if body.len() + data.len() > limit_bytes {
                        let detail = format!("a plugin reads the body whole, up to {limit_bytes} bytes");
                        return Poll::Ready(Err(Failure::new(Cause::BufferLimit, detail)));
                    }
                    download.run.local().shared.append_limited(&mut body, data, limit_bytes)?;
                    exchange.note_upstream_body(data);
                    data.len()
                }
                Poll::Ready(BodyEvent::End(found)) => {
                    trailers = found.cloned();
                    exchange.note_upstream_end();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return download.wait(cx, WaitsFor::Answer, moved, downstream),
            };
            moved = true;
            upstream_stream.consume(count);
            if turn.is_over(cx, count) {
                if download.run.deadline.is_overdue() {
                    return Poll::Ready(Err(overdue()));
                }
                has_moved = true;
                return Poll::Pending;
            }
        }
    })
    .await?;
    Ok(Collected { body, trailers })
}

/// The failure of a response that stalls.
#[cold]
fn late(expired: Expired, waits_for: WaitsFor) -> Failure {
    match (expired, waits_for) {
        (Expired::Cap, _) => overdue(),
        (Expired::Step, WaitsFor::AnswerHalfClosed) => {
            Failure::new(Cause::ClientGone, "it closed inside the response")
        }
        (Expired::Step, _) => Failure::new(Cause::BodyStalled, "the response body stopped arriving"),
    }
}

/// The failure of a request that exceeds its total time while its response arrives.
#[cold]
fn overdue() -> Failure {
    Failure::new(Cause::RequestTimeout, "the response body was still arriving")
}

fn gone(error: &std::io::Error) -> Failure {
    Failure::new(Cause::ClientGone, error.to_string())
}
