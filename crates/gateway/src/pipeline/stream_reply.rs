//! A reply with a body that a plugin makes piece by piece, at the pace of the client. It runs the response
//! phases like any other response.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::download::{body_need, has_no_body};
use super::encode;
use super::journey::Journey;
use super::min_rate::MinRateGuard;
use super::phases;
use super::respond;
use super::run::{PipelineRun, refuse_undecided};
use super::turn::TaskTurn;
use super::wait::{HALF_CLOSE_GRACE_MS, Wait, WaitsFor};
use crate::body::{BodyLength, DownstreamStream};
use exchange::failure::{Cause, ExchangeFailure};
use exchange::plugin::{
    BodyNeed, NO_ANSWER, PHASE_WAIT_MS, PluginPhase, Portion, ReplyStream, StreamedReply,
};
use message::Headers;

/// Sends `reply`.
///
/// # Errors
/// When the plugin's stream fails or stalls, a plugin of the response fails, or the client is too slow.
pub(super) async fn send_streamed_reply<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    mut reply: StreamedReply,
) -> Result<(), ExchangeFailure> {
    journey.exchange.stats.answered_locally = true;
    respond::set_head(journey.run, journey.exchange, reply.head.status, &reply.head.headers);
    if journey.exchange.response.status == NO_ANSWER {
        journey.downstream.leave_unanswered();
        return Ok(());
    }
    respond::respond_head(journey).await?;
    refuse_undecided(journey.exchange)?;
    let status = journey.exchange.response.status;
    if has_no_body(status) || journey.exchange.request.method == message::Method::Head {
        let length = if has_no_body(status) { BodyLength::None } else { BodyLength::Unknown };
        journey.downstream.start_response(journey.exchange, length);
        respond::send_whole_body(journey, &[]).await;
        return Ok(());
    }
    let mut wait = Wait::new(journey.run, MinRateGuard::for_response(&journey.run.local().options.limits));
    if let BodyNeed::Buffer { limit_bytes } = body_need(journey.run, journey.exchange, &journey.chains) {
        return send_whole(journey, &mut wait, &mut *reply.body, limit_bytes).await;
    }
    journey.downstream.start_response(journey.exchange, BodyLength::Unknown);
    let sent = pass_on_pieces(journey, &mut wait, &mut *reply.body).await;
    journey.exchange.stats.response_bytes = journey.downstream.progress().sent_bytes;
    sent
}

/// Reads all of `stream`, lets plugins edit it whole, and sends the result.
pub(super) async fn send_whole<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    wait: &mut Wait<'_, '_>,
    stream: &mut dyn ReplyStream,
    limit_bytes: usize,
) -> Result<(), ExchangeFailure> {
    let mut body = collect(journey.run, wait, stream, limit_bytes).await?;
    let mut trailers = Headers::new();
    phases::whole_response_body(journey, &mut body, &mut trailers).await?;
    refuse_undecided(journey.exchange)?;
    journey.exchange.note_response(&body);
    if let Some(coded) = encode::encode_whole_body(journey.run, journey.exchange, &body).await? {
        body = coded;
    }
    journey.downstream.start_response(journey.exchange, phases::length_before(&trailers, &body));
    respond::send_with_trailers(journey, &body, &trailers).await;
    Ok(())
}

/// Reads all of a body that a plugin has to edit whole.
async fn collect(
    run: &PipelineRun<'_>,
    wait: &mut Wait<'_, '_>,
    stream: &mut dyn ReplyStream,
    limit_bytes: usize,
) -> Result<Vec<u8>, ExchangeFailure> {
    let mut body = Vec::new();
    poll_fn(|cx| {
        let mut moved = false;
        loop {
            match stream.poll_piece(cx) {
                Poll::Ready(Some(Ok(piece))) if body.len() + piece.len() <= limit_bytes => {
                    moved = true;
                    run.local().shared.append_limited(&mut body, &piece, limit_bytes)?;
                }
                Poll::Ready(Some(Ok(_))) => {
                    let detail = format!("a plugin reads the body whole, up to {limit_bytes} bytes");
                    return Poll::Ready(Err(ExchangeFailure::new(Cause::BufferLimit, detail)));
                }
                Poll::Ready(Some(Err(reason))) => return Poll::Ready(Err(failed(reason))),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return stalls(wait, cx, moved, false),
            }
        }
    })
    .await?;
    Ok(body)
}

/// The passage of a plugin's stream to the client, between two polls.
#[derive(Default)]
struct ReplyPassage {
    piece: Vec<u8>,
    /// How much of the piece was sent.
    sent: usize,
    stage: ReplyStage,
    trailers: Headers,
    /// The last poll moved something and ended with its turn.
    has_moved: bool,
    /// The client has closed its sending side: it may no longer read.
    is_half_closed: bool,
}

/// How far a plugin's stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplyStage {
    /// The plugin makes pieces.
    #[default]
    Making,
    /// The last piece was made; the end is noted when it is sent.
    Ending,
    /// The end was given to the client's stream, which has bytes left to send.
    Flushing,
}

/// Sends the pieces of `stream`, behind a head that was started.
pub(super) async fn pass_on_pieces<S: DownstreamStream>(
    journey: &mut Journey<'_, S>,
    wait: &mut Wait<'_, '_>,
    stream: &mut dyn ReplyStream,
) -> Result<(), ExchangeFailure> {
    let mut passage = ReplyPassage::default();
    poll_fn(|cx| passage.poll(cx, journey, wait, stream)).await
}

impl ReplyPassage {
    fn poll<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        wait: &mut Wait<'_, '_>,
        stream: &mut dyn ReplyStream,
    ) -> Poll<Result<(), ExchangeFailure>> {
        let mut moved = std::mem::take(&mut self.has_moved);
        let mut turn = TaskTurn::default();
        loop {
            let written = if self.sent < self.piece.len() {
                journey.downstream.poll_write(cx, &self.piece[self.sent..]).map_ok(|count| {
                    self.sent += count;
                    journey.exchange.stats.response_body_bytes += count as u64;
                    count
                })
            } else {
                match self.stage {
                    ReplyStage::Making => match stream.poll_piece(cx) {
                        Poll::Ready(Some(Ok(piece))) => {
                            self.edit(journey, piece, Portion::Piece)?;
                            continue;
                        }
                        Poll::Ready(Some(Err(reason))) => return Poll::Ready(Err(failed(reason))),
                        Poll::Ready(None) => {
                            self.stage = ReplyStage::Ending;
                            self.edit(journey, Vec::new(), Portion::Last)?;
                            continue;
                        }
                        Poll::Pending => {
                            // The pieces so far must not wait for the next one.
                            if encode::flush(journey.exchange, &mut self.piece)? {
                                self.sent = 0;
                                continue;
                            }
                            return self.wait_for_plugin(cx, journey, wait, moved);
                        }
                    },
                    ReplyStage::Ending => {
                        self.stage = ReplyStage::Flushing;
                        journey.downstream.finish(Some(&self.trailers).filter(|list| !list.is_empty()));
                        continue;
                    }
                    ReplyStage::Flushing => match journey.downstream.poll_flush(cx) {
                        Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                        flushed => flushed.map_ok(|()| 0),
                    },
                }
            };
            match written {
                Poll::Ready(Ok(count)) => {
                    moved = true;
                    if turn.is_over(cx, count) {
                        self.has_moved = true;
                        return Poll::Pending;
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(gone(&error))),
                Poll::Pending => {
                    let waited = wait.for_client(cx, moved, || journey.downstream.delivered_bytes());
                    return waited
                        .map_or_else(|lost| Poll::Ready(Err(respond::slow(lost))), |()| Poll::Pending);
                }
            }
        }
    }

    /// Takes the next piece, as the plugins of the body phase and the encoder make it.
    fn edit<S>(
        &mut self,
        journey: &mut Journey<'_, S>,
        piece: Vec<u8>,
        portion: Portion,
    ) -> Result<(), ExchangeFailure> {
        (self.piece, self.sent) = (piece, 0);
        let Journey { run, exchange, chains, .. } = journey;
        if portion == Portion::Last && chains.has(PluginPhase::ResponseBody) {
            phases::response_trailers(run.context, exchange, chains, &mut self.trailers);
        }
        phases::piece_of_response_body(run, exchange, chains, &mut self.piece, portion)?;
        exchange.note_response(&self.piece);
        encode::in_place(exchange, &mut self.piece, portion)
    }

    /// Sends all that was made, and waits for the plugin.
    fn wait_for_plugin<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        wait: &mut Wait<'_, '_>,
        moved: bool,
    ) -> Poll<Result<(), ExchangeFailure>> {
        if let Poll::Ready(Err(error)) = journey.downstream.poll_flush(cx) {
            return Poll::Ready(Err(gone(&error)));
        }
        self.is_half_closed |= journey.downstream.poll_closed(cx).is_ready();
        stalls(wait, cx, moved, self.is_half_closed)
    }
}

/// Waits for the plugin's next piece: [`PHASE_WAIT_MS`] at most, and no longer than the grace time for a
/// client that has closed its sending side and may be gone.
fn stalls<T>(
    wait: &mut Wait<'_, '_>,
    cx: &Context<'_>,
    moved: bool,
    half_closed: bool,
) -> Poll<Result<T, ExchangeFailure>> {
    let (waits_for, timeout_ms) = match half_closed {
        false => (WaitsFor::Answer, PHASE_WAIT_MS),
        true => (WaitsFor::AnswerHalfClosed, HALF_CLOSE_GRACE_MS),
    };
    match wait.for_endpoint(cx, waits_for, timeout_ms, moved) {
        Ok(()) => Poll::Pending,
        Err(_) if half_closed => {
            Poll::Ready(Err(ExchangeFailure::new(Cause::ClientGone, "it closed inside the reply")))
        }
        Err(_) => Poll::Ready(Err(failed("its next piece does not come".to_owned()))),
    }
}

fn failed(reason: String) -> ExchangeFailure {
    ExchangeFailure::new(Cause::PluginFailed, format!("the streamed reply of a plugin: {reason}"))
}

fn gone(error: &std::io::Error) -> ExchangeFailure {
    ExchangeFailure::new(Cause::ClientGone, error.to_string())
}
