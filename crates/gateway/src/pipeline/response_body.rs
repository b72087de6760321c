//! The body of a response on its way to the client: passed through as it comes, or changed by plugins and an
//! encoder. An upload in flight continues beside it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use message::Headers;
use stdx::segment::{ByteSegment, SEGMENT_LEAST_BYTES};

use super::download_wait::{DownloadWait, client_gone, overdue_response};
use super::encode;
use super::grpc;
use super::journey::Journey;
use super::phases;
use super::turn::TaskTurn;
use super::upload::Upload;
use super::wait::WaitsFor;
use crate::body::{BodyEvent, DownstreamStream, UpstreamStream};
use exchange::failure::ExchangeFailure;
use exchange::plugin::{PluginPhase, Portion};

/// The treatment of a body between the two streams.
pub(super) trait BodyPassage {
    /// Sends bytes that were made of earlier pieces; false if there are none. No further piece is read before
    /// all are sent.
    fn poll_made<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
    ) -> Poll<Result<bool, ExchangeFailure>>;

    /// Takes a piece of the upstream's body; returns how many bytes of it were taken.
    fn poll_piece<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        data: &[u8],
    ) -> Poll<Result<usize, ExchangeFailure>>;

    /// Whether pieces can go on with their memory, through [`BodyPassage::pass_segment`].
    const PASSES_SEGMENTS: bool;

    /// Passes a piece on that the client's stream takes with its memory.
    fn pass_segment<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        segment: ByteSegment,
    ) -> Result<(), ExchangeFailure>;

    /// Notes that the upstream's body has ended with `trailers`; true if bytes were made that are sent before
    /// the end is noted again.
    fn end<S>(
        &mut self,
        journey: &mut Journey<'_, S>,
        trailers: Option<&Headers>,
    ) -> Result<bool, ExchangeFailure>;

    /// Makes bytes of all that is held back, because the upstream has nothing more at hand; true if there are
    /// any.
    fn flush<S>(&mut self, journey: &mut Journey<'_, S>) -> Result<bool, ExchangeFailure>;

    /// The trailers as plugins have left them, if they have seen them.
    fn edited_trailers(&self) -> Option<&Headers>;
}

/// A body that goes on as it comes.
#[derive(Default)]
pub(super) struct PassedThrough {
    /// In a box, because few responses have any.
    trailers: Option<Box<Headers>>,
}

impl BodyPassage for PassedThrough {
    #[inline]
    fn poll_made<S: DownstreamStream>(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Journey<'_, S>,
    ) -> Poll<Result<bool, ExchangeFailure>> {
        Poll::Ready(Ok(false))
    }

    #[inline]
    fn poll_piece<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        data: &[u8],
    ) -> Poll<Result<usize, ExchangeFailure>> {
        journey.downstream.poll_write(cx, data).map(|written| {
            let count = written.map_err(|error| client_gone(&error))?;
            note_passed(journey, &data[..count]);
            Ok(count)
        })
    }

    const PASSES_SEGMENTS: bool = true;

    fn pass_segment<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        segment: ByteSegment,
    ) -> Result<(), ExchangeFailure> {
        note_passed(journey, segment.bytes());
        journey.downstream.write_segment(cx, segment).map_err(|error| client_gone(&error))
    }

    fn end<S>(
        &mut self,
        journey: &mut Journey<'_, S>,
        trailers: Option<&Headers>,
    ) -> Result<bool, ExchangeFailure> {
        note_end(journey, trailers, &mut self.trailers);
        Ok(false)
    }

    #[inline]
    fn flush<S>(&mut self, _: &mut Journey<'_, S>) -> Result<bool, ExchangeFailure> {
        Ok(false)
    }

    fn edited_trailers(&self) -> Option<&Headers> {
        self.trailers.as_deref()
    }
}

/// A body that plugins edit, an encoder codes, or both in this order.
pub(super) struct ChangedBody {
    /// Whether plugins edit it.
    is_edited: bool,
    bytes: Vec<u8>,
    sent: usize,
    /// The last piece was made.
    has_ended: bool,
    trailers: Option<Box<Headers>>,
}

impl ChangedBody {
    /// A body that plugins edit if it `is_edited`, and otherwise only the encoder changes.
    pub(super) fn new(is_edited: bool) -> ChangedBody {
        ChangedBody { is_edited, bytes: Vec::new(), sent: 0, has_ended: false, trailers: None }
    }

    /// Makes the bytes to send of `data`.
    fn make<S>(
        &mut self,
        journey: &mut Journey<'_, S>,
        data: &[u8],
        portion: Portion,
    ) -> Result<(), ExchangeFailure> {
        self.sent = 0;
        let editors = self.is_edited.then_some(&journey.chains);
        encode::piece(journey.run, journey.exchange, editors, data, portion, &mut self.bytes)
    }
}

impl BodyPassage for ChangedBody {
    fn poll_made<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
    ) -> Poll<Result<bool, ExchangeFailure>> {
        if self.sent == self.bytes.len() {
            return Poll::Ready(Ok(false));
        }
        journey.downstream.poll_write(cx, &self.bytes[self.sent..]).map(|written| {
            let count = written.map_err(|error| client_gone(&error))?;
            self.sent += count;
            journey.exchange.stats.response_body_bytes += count as u64;
            Ok(true)
        })
    }

    fn poll_piece<S: DownstreamStream>(
        &mut self,
        _: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        data: &[u8],
    ) -> Poll<Result<usize, ExchangeFailure>> {
        journey.exchange.note_upstream_body(data);
        Poll::Ready(self.make(journey, data, Portion::Piece).map(|()| data.len()))
    }

    /// The bytes that are sent are others.
    const PASSES_SEGMENTS: bool = false;

    fn pass_segment<S: DownstreamStream>(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Journey<'_, S>,
        _: ByteSegment,
    ) -> Result<(), ExchangeFailure> {
        Ok(())
    }

    fn end<S>(
        &mut self,
        journey: &mut Journey<'_, S>,
        trailers: Option<&Headers>,
    ) -> Result<bool, ExchangeFailure> {
        if self.has_ended {
            note_end(journey, trailers, &mut self.trailers);
            return Ok(false);
        }
        self.has_ended = true;
        if self.is_edited {
            self.trailers = Some(edit_trailers(journey, trailers));
        }
        self.make(journey, &[], Portion::Last)?;
        Ok(true)
    }

    fn flush<S>(&mut self, journey: &mut Journey<'_, S>) -> Result<bool, ExchangeFailure> {
        let has_made = encode::flush(journey.exchange, &mut self.bytes)?;
        // The encoder clears the buffer, even if it makes no bytes: the position in it begins anew.
        if has_made || self.bytes.is_empty() {
            self.sent = 0;
        }
        Ok(has_made)
    }

    fn edited_trailers(&self) -> Option<&Headers> {
        self.trailers.as_deref()
    }
}

/// Notes bytes that go on as they came.
#[inline]
fn note_passed<S>(journey: &mut Journey<'_, S>, data: &[u8]) {
    let exchange = &mut *journey.exchange;
    exchange.stats.response_body_bytes += data.len() as u64;
    exchange.note_upstream_body(data);
    exchange.note_response(data);
}

/// Notes the end of the upstream's body, and gives trailers that no plugin has seen to the plugins of the
/// body phase.
fn note_end<S>(journey: &mut Journey<'_, S>, trailers: Option<&Headers>, edited: &mut Option<Box<Headers>>) {
    journey.exchange.note_upstream_end();
    if trailers.is_none() || edited.is_some() {
        return;
    }
    if journey.chains.has(PluginPhase::ResponseBody) {
        *edited = Some(edit_trailers(journey, trailers));
    } else {
        grpc::note_status(journey.exchange, trailers);
    }
}

/// Gives the trailers that the endpoint sent, if it did, to the plugins of the body phase; returns those that
/// they leave.
#[cold]
fn edit_trailers<S>(journey: &mut Journey<'_, S>, trailers: Option<&Headers>) -> Box<Headers> {
    if trailers.is_some() {
        grpc::note_status(journey.exchange, trailers);
    }
    let mut left = Box::new(trailers.cloned().unwrap_or_default());
    phases::response_trailers(journey.run.context, journey.exchange, &journey.chains, &mut left);
    left
}

/// How far the body has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Pieces are read and passed on.
    #[default]
    Passing,
    /// The end was given to the client's stream, which has bytes left to send.
    Flushing,
}

/// The state of a passage between two polls.
#[derive(Default)]
struct Progress {
    stage: Stage,
    /// The client has closed its sending side: it may no longer read.
    is_half_closed: bool,
    /// The last poll moved something and ended with its turn.
    has_moved: bool,
}

/// Passes the body of a response on.
///
/// # Errors
/// One of the sides fails or is too slow, or a plugin of the body fails.
pub(super) async fn pass_body<S: DownstreamStream, O: UpstreamStream, P: BodyPassage>(
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    upstream_stream: &mut O,
    upload: &mut Upload,
    mut passage: P,
) -> Result<(), ExchangeFailure> {
    let mut progress = Progress::default();
    poll_fn(|cx| poll_passage(cx, download, journey, upstream_stream, upload, &mut passage, &mut progress))
        .await
}

#[inline]
fn poll_passage<S: DownstreamStream, O: UpstreamStream, P: BodyPassage>(
    cx: &mut Context<'_>,
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    upstream_stream: &mut O,
    upload: &mut Upload,
    passage: &mut P,
    progress: &mut Progress,
) -> Poll<Result<(), ExchangeFailure>> {
    let mut moved = std::mem::take(&mut progress.has_moved);
    let mut turn = TaskTurn::default();
    // The upstream's stream has refused to hand over the piece that it shows.
    let mut copies = false;
    // An upload that the client breaks off shows soon as a closed client; the response matters more now.
    if upload.poll(cx, journey, upstream_stream, &mut moved).is_err() {
        journey.downstream.close_afterwards();
        upload.give_up();
    }
    loop {
        let has_made = match passage.poll_made(cx, journey) {
            Poll::Ready(has_made) => has_made?,
            Poll::Pending => return wait_for_client(cx, download, journey, upstream_stream, moved),
        };
        if has_made {
            moved = true;
            continue;
        }
        if progress.stage == Stage::Flushing {
            return match journey.downstream.poll_flush(cx) {
                Poll::Ready(flushed) => Poll::Ready(flushed.map_err(|error| client_gone(&error))),
                Poll::Pending => wait_for_client(cx, download, journey, upstream_stream, moved),
            };
        }
        // Nothing is read while the client takes nothing: what is read would be held in memory for each slow
        // client.
        let mut takes_nothing = false;
        let mut capacity = |cx: &mut Context<'_>| {
            let capacity = journey.downstream.poll_capacity(cx).map_err(|error| client_gone(&error));
            takes_nothing = capacity.is_pending();
            capacity
        };
        let count = match upstream_stream.poll_body(cx, &mut capacity) {
            Poll::Ready(BodyEvent::Data(data))
                if !copies && P::PASSES_SEGMENTS && takes_segment(journey, data.len()) =>
            {
                let count = data.len();
                let Some(segment) = upstream_stream.take_segment(count) else {
                    copies = true;
                    continue;
                };
                passage.pass_segment(cx, journey, segment)?;
                count
            }
            Poll::Ready(BodyEvent::Data(data)) => {
                copies = false;
                let count = match passage.poll_piece(cx, journey, data) {
                    Poll::Ready(taken) => taken?,
                    Poll::Pending => return wait_for_client(cx, download, journey, upstream_stream, moved),
                };
                upstream_stream.consume(count);
                count
            }
            Poll::Ready(BodyEvent::End(trailers)) => {
                if !passage.end(journey, trailers)? {
                    let last = passage.edited_trailers().or(trailers).filter(|list| !list.is_empty());
                    journey.downstream.finish(last);
                    progress.stage = Stage::Flushing;
                }
                continue;
            }
            Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
            Poll::Pending if takes_nothing => {
                return download.wait(cx, WaitsFor::Client, moved, journey.downstream);
            }
            // Bytes that have arrived must not wait for later ones, because server-sent events depend on it.
            Poll::Pending if passage.flush(journey)? => continue,
            Poll::Pending => return wait_for_upstream(cx, download, journey, moved, progress),
        };
        moved = true;
        if turn.is_over(cx, count) {
            // The timer of the deadline does not fire while this task always has bytes to pass on.
            if journey.run.deadline.is_overdue() {
                return Poll::Ready(Err(overdue_response()));
            }
            progress.has_moved = true;
            return Poll::Pending;
        }
    }
}

/// Whether a piece of `count` bytes is large enough to go on with its memory, and the client's stream takes
/// it so.
#[inline]
fn takes_segment<S: DownstreamStream>(journey: &mut Journey<'_, S>, count: usize) -> bool {
    count >= SEGMENT_LEAST_BYTES && journey.downstream.takes_segment(count)
}

/// Waits until the client takes more. The upstream is not read meanwhile, so that its own flow control slows
/// it down.
fn wait_for_client<S: DownstreamStream, O: UpstreamStream>(
    cx: &mut Context<'_>,
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    upstream_stream: &mut O,
    moved: bool,
) -> Poll<Result<(), ExchangeFailure>> {
    upstream_stream.pause()?;
    download.wait(cx, WaitsFor::Client, moved, journey.downstream)
}

/// Sends all that has arrived, and waits for the next piece of the upstream's body.
fn wait_for_upstream<S: DownstreamStream>(
    cx: &mut Context<'_>,
    download: &mut DownloadWait<'_>,
    journey: &mut Journey<'_, S>,
    moved: bool,
    progress: &mut Progress,
) -> Poll<Result<(), ExchangeFailure>> {
    match journey.downstream.poll_flush(cx) {
        Poll::Ready(Err(error)) => return Poll::Ready(Err(client_gone(&error))),
        Poll::Pending => return download.wait(cx, WaitsFor::Client, moved, journey.downstream),
        Poll::Ready(Ok(())) => {}
    }
    if journey.downstream.poll_closed(cx).is_ready() {
        // A client that has closed its sending side may still read (RFC 9293 section 3.6); a write to one
        // that has gone fails soon.
        journey.downstream.close_afterwards();
        progress.is_half_closed = true;
    }
    let waits_for = if progress.is_half_closed { WaitsFor::AnswerHalfClosed } else { WaitsFor::Answer };
    download.wait(cx, waits_for, moved, journey.downstream)
}
