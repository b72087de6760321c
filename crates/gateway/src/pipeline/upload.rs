//! Forwards the request body to the endpoint.

use std::task::{Context, Poll};

use message::Headers;
use stdx::segment::SEGMENT_LEAST_BYTES;

use super::journey::Journey;
use super::kept_body::KeptBody;
use super::phases;
use super::replay::ReplayedBody;
use super::request_failure::too_large;
use super::run::{PipelineRun, refuse_undecided};
use super::turn::TaskTurn;
use crate::body::{BodyEvent, BodyLength, DownstreamStream, UpstreamStream};
use exchange::Exchange;
use exchange::exchange::SharedCopy;
use exchange::failure::ExchangeFailure;
use exchange::plugin::Portion;

/// The upload of one exchange; each attempt begins it again.
pub(super) struct Upload {
    body: ReplayedBody,
    /// The piece that plugins have edited; `None` if no plugin edits the body.
    edited: Option<Box<EditedPiece>>,
    stage: UploadStage,
    limit_bytes: u64,
    taken_bytes: u64,
    copy: Option<SharedCopy>,
    /// The bytes that the attempt has sent, where a retry policy has them kept.
    kept: Option<KeptBody>,
    /// Whether the last poll forwarded something and ended with its turn.
    has_moved: bool,
    /// The client's stream has refused to hand over the piece that it shows.
    copies: bool,
}

/// A piece of the body after the plugins have edited it.
#[derive(Default)]
struct EditedPiece {
    bytes: Vec<u8>,
    sent: usize,
    /// The body has ended after this piece, with these trailers.
    end: Option<Option<Headers>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadStage {
    /// Body bytes remain to be forwarded.
    Sending,
    /// The last bytes wait for the kernel.
    Flushing,
    /// The whole request was sent.
    Done,
    /// The endpoint takes no more; it may still answer.
    Broken,
}

/// How an upload continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits until the client sends.
    AwaitsClient,
    /// It waits until the endpoint takes.
    AwaitsEndpoint,
    /// Nothing remains to be sent.
    Ended,
    /// The turn is over and there is more to forward; the task will be woken for its next turn.
    NextTurn,
}

impl Upload {
    /// The upload of the body of `exchange`; a prefix that was read already is sent first.
    pub(super) fn new(run: &PipelineRun<'_>, exchange: &mut Exchange) -> Upload {
        Upload {
            edited: run.edits_request_body.get().then(Box::default),
            body: ReplayedBody::new(&mut exchange.body),
            stage: UploadStage::Done,
            limit_bytes: exchange.max_request_body_bytes(),
            taken_bytes: 0,
            copy: exchange.copies.request.clone(),
            kept: None,
            has_moved: false,
            copies: false,
        }
    }

    /// Keeps up to `limit_bytes` of what attempts send, so that it can be sent again.
    pub(super) fn keep<S: DownstreamStream>(&mut self, limit_bytes: usize, downstream: &S) {
        let has_body = !matches!(self.length(downstream), BodyLength::None | BodyLength::Known(0));
        if has_body && limit_bytes > 0 && !self.body.is_whole() {
            self.kept = Some(KeptBody::new(limit_bytes));
        }
    }

    /// The length of the body.
    pub(super) fn length<S: DownstreamStream>(&self, downstream: &S) -> BodyLength {
        match self.body.length(downstream) {
            BodyLength::Known(_) if self.edited.is_some() => BodyLength::Unknown,
            length => length,
        }
    }

    /// Starts an attempt on `upstream_stream`; the head announced the body's length.
    pub(super) fn begin<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        downstream: &S,
        upstream_stream: &mut O,
    ) {
        if let Some(copy) = &self.copy {
            copy.restart();
        }
        if let Some(kept) = &mut self.kept {
            kept.restart();
        }
        if let Some(piece) = &mut self.edited {
            **piece = EditedPiece::default();
        }
        (self.taken_bytes, self.has_moved) = (0, false);
        self.stage = match self.length(downstream) {
            BodyLength::None | BodyLength::Known(0) => {
                if let Some(copy) = &self.copy {
                    copy.end();
                }
                upstream_stream.finish(None);
                UploadStage::Flushing
            }
            _ => UploadStage::Sending,
        };
    }

    /// Prepares a retry; false if parts of the body are gone, and then the attempt in flight can go on.
    pub(super) fn rewind<S: DownstreamStream>(&mut self, downstream: &mut S) -> bool {
        if self.edited.is_some() && self.taken_bytes > 0 {
            return false;
        }
        if self.body.rewind(downstream) {
            return true;
        }
        let Some(bytes) = self.kept.as_mut().and_then(KeptBody::take) else { return false };
        self.body.begin_with(bytes);
        true
    }

    /// Stops forwarding, because the client's side of the body has failed.
    pub(super) fn give_up(&mut self) {
        self.stage = UploadStage::Broken;
    }

    /// Bytes of the body forwarded so far.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Whether the whole request reached the kernel.
    pub(super) fn is_done(&self) -> bool {
        self.stage == UploadStage::Done
    }

    /// Whether the endpoint stopped taking the request.
    pub(super) fn is_broken(&self) -> bool {
        self.stage == UploadStage::Broken
    }

    /// Forwards as much as one turn allows. `moved` is set if anything was forwarded, now or in an earlier
    /// turn. An error is the client's: an endpoint that takes no more only shows in [`Upload::is_broken`],
    /// because its response may be there already.
    #[inline]
    pub(super) fn poll<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        upstream_stream: &mut O,
        moved: &mut bool,
    ) -> Result<Progress, ExchangeFailure> {
        *moved |= std::mem::take(&mut self.has_moved);
        let mut turn = TaskTurn::default();
        loop {
            match self.stage {
                UploadStage::Done | UploadStage::Broken => return Ok(Progress::Ended),
                UploadStage::Flushing => match upstream_stream.poll_flush(cx) {
                    Poll::Ready(Ok(())) => {
                        *moved = true;
                        self.stage = UploadStage::Done;
                    }
                    Poll::Ready(Err(_)) => self.stage = UploadStage::Broken,
                    Poll::Pending => return Ok(Progress::AwaitsEndpoint),
                },
                UploadStage::Sending => {
                    if self.edited.is_some() {
                        if let Some(waits) =
                            self.poll_edited(cx, journey, upstream_stream, moved, &mut turn)?
                        {
                            return Ok(waits);
                        }
                    } else if let Some(waits) =
                        self.poll_piece(cx, journey, upstream_stream, moved, &mut turn)?
                    {
                        return Ok(waits);
                    }
                }
            }
        }
    }

    /// As [`Upload::poll_piece`], through the plugins that edit the body.
    #[cold]
    fn poll_edited<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        upstream_stream: &mut O,
        moved: &mut bool,
        turn: &mut TaskTurn,
    ) -> Result<Option<Progress>, ExchangeFailure> {
        let Some(piece) = &self.edited else { return Ok(None) };
        if piece.sent < piece.bytes.len() {
            return Ok(self.send_edited(cx, upstream_stream, moved, turn));
        }
        if let Some(trailers) = &piece.end {
            upstream_stream.finish(trailers.as_ref());
            self.stage = UploadStage::Flushing;
            return Ok(None);
        }
        let Poll::Ready(taken) = self.take_piece(cx, journey.downstream) else {
            // Edited bytes must not wait for the client's next ones: the answer to them may be what it waits
            // for.
            if let Poll::Ready(Err(_)) = upstream_stream.poll_flush(cx) {
                self.stage = UploadStage::Broken;
                return Ok(None);
            }
            return Ok(Some(Progress::AwaitsClient));
        };
        self.edit(journey, taken?)?;
        Ok(None)
    }

    /// Sends bytes that plugins have left.
    fn send_edited<O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        upstream_stream: &mut O,
        moved: &mut bool,
        turn: &mut TaskTurn,
    ) -> Option<Progress> {
        let piece = self.edited.as_mut()?;
        match upstream_stream.poll_write(cx, &piece.bytes[piece.sent..]) {
            Poll::Ready(Ok(count)) => {
                piece.sent += count;
                *moved = true;
                if turn.is_over(cx, count) {
                    self.has_moved = true;
                    return Some(Progress::NextTurn);
                }
            }
            // The endpoint may have answered before it closed: its response decides.
            Poll::Ready(Err(_)) => self.stage = UploadStage::Broken,
            Poll::Pending => return Some(Progress::AwaitsEndpoint),
        }
        None
    }

    /// Takes the next piece of the client's body, within the limit.
    fn take_piece<S: DownstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut S,
    ) -> Poll<Result<Portion, ExchangeFailure>> {
        let left_bytes = self.left_bytes();
        let Some(piece) = &mut self.edited else { return Poll::Ready(Ok(Portion::Last)) };
        piece.bytes.clear();
        piece.sent = 0;
        let count = match self.body.poll(cx, downstream) {
            Poll::Ready(BodyEvent::Data(data)) => {
                piece.bytes.extend_from_slice(data);
                data.len()
            }
            Poll::Ready(BodyEvent::End(trailers)) => {
                piece.end = Some(trailers.cloned());
                return Poll::Ready(Ok(Portion::Last));
            }
            Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
            Poll::Pending => return Poll::Pending,
        };
        if count > left_bytes {
            return Poll::Ready(Err(too_large(self.limit_bytes)));
        }
        if count > 0 {
            self.body.consume(count, downstream);
        }
        self.taken_bytes += count as u64;
        Poll::Ready(Ok(Portion::Piece))
    }

    /// Gives the piece to the plugins, and a copy of what they leave to those that log the body.
    fn edit<S: DownstreamStream>(
        &mut self,
        journey: &mut Journey<'_, S>,
        portion: Portion,
    ) -> Result<(), ExchangeFailure> {
        let Some(piece) = &mut self.edited else { return Ok(()) };
        phases::piece_of_request_body(
            journey.run,
            journey.exchange,
            &journey.chains,
            &mut piece.bytes,
            portion,
        );
        refuse_undecided(journey.exchange)?;
        if let Some(failure) = journey.exchange.request_fault.take() {
            return Err(*failure);
        }
        if let Some(copy) = &self.copy {
            copy.add(&piece.bytes);
            if portion == Portion::Last {
                copy.end();
            }
        }
        Ok(())
    }

    /// How much more body is accepted, in bytes.
    fn left_bytes(&self) -> usize {
        match self.limit_bytes {
            0 => usize::MAX,
            limit => usize::try_from(limit.saturating_sub(self.taken_bytes)).unwrap_or(usize::MAX),
        }
    }

    fn poll_piece<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        journey: &mut Journey<'_, S>,
        upstream_stream: &mut O,
        moved: &mut bool,
        turn: &mut TaskTurn,
    ) -> Result<Option<Progress>, ExchangeFailure> {
        let left_bytes = self.left_bytes();
        match self.body.poll(cx, journey.downstream) {
            // Before anything of it is written, so that the endpoint never gets a body whole that is refused.
            Poll::Ready(BodyEvent::Data(data)) if data.len() > left_bytes => {
                return Err(too_large(self.limit_bytes));
            }
            Poll::Ready(BodyEvent::Data(data))
                if !self.copies && takes_segment(upstream_stream, data.len()) =>
            {
                let count = data.len();
                let Some(segment) = self.body.take_segment(count, journey.downstream) else {
                    self.copies = true;
                    return Ok(None);
                };
                note_passed(self.copy.as_ref(), self.kept.as_mut(), journey.run, segment.bytes());
                if upstream_stream.write_segment(segment).is_err() {
                    self.stage = UploadStage::Broken;
                } else if self.ends_turn(cx, count, moved, turn) {
                    return Ok(Some(Progress::NextTurn));
                }
            }
            Poll::Ready(BodyEvent::Data(data)) => match upstream_stream.poll_write(cx, data) {
                Poll::Ready(Ok(count)) => {
                    self.copies = false;
                    note_passed(self.copy.as_ref(), self.kept.as_mut(), journey.run, &data[..count]);
                    self.body.consume(count, journey.downstream);
                    if self.ends_turn(cx, count, moved, turn) {
                        return Ok(Some(Progress::NextTurn));
                    }
                }
                Poll::Ready(Err(_)) => self.stage = UploadStage::Broken,
                Poll::Pending => return Ok(Some(Progress::AwaitsEndpoint)),
            },
            Poll::Ready(BodyEvent::End(trailers)) => {
                if let Some(copy) = &self.copy {
                    copy.end();
                }
                upstream_stream.finish(trailers);
                self.stage = UploadStage::Flushing;
            }
            Poll::Ready(BodyEvent::Reset(failure)) => return Err(failure),
            Poll::Pending => {
                // Bytes sent so far must not wait for the client's next piece.
                if let Poll::Ready(Err(_)) = upstream_stream.poll_flush(cx) {
                    self.stage = UploadStage::Broken;
                    return Ok(None);
                }
                return Ok(Some(Progress::AwaitsClient));
            }
        }
        Ok(None)
    }

    /// Counts `count` bytes that were forwarded; whether the turn is over.
    fn ends_turn(
        &mut self,
        cx: &mut Context<'_>,
        count: usize,
        moved: &mut bool,
        turn: &mut TaskTurn,
    ) -> bool {
        *moved = true;
        self.taken_bytes += count as u64;
        self.has_moved = turn.is_over(cx, count);
        self.has_moved
    }
}

/// Whether a piece of `count` bytes is large enough to go on with its memory, and the endpoint's stream takes
/// it so.
#[inline]
fn takes_segment<O: UpstreamStream>(upstream_stream: &mut O, count: usize) -> bool {
    count >= SEGMENT_LEAST_BYTES && upstream_stream.takes_segment(count)
}

/// Gives bytes that go on to those that keep a copy.
#[inline]
fn note_passed(copy: Option<&SharedCopy>, kept: Option<&mut KeptBody>, run: &PipelineRun<'_>, data: &[u8]) {
    if let Some(copy) = copy {
        copy.add(data);
    }
    if let Some(kept) = kept {
        kept.add(data, &run.local().shared);
    }
}
