//! The request body on its way to the node.

use std::task::{Context, Poll};

use super::Run;
use super::min_rate::TooSlow;
use super::turn::Turn;
use crate::body::{BodyEvent, BodyLength, DownstreamStream, UpstreamStream};
use exchange::exchange::SharedCopy;
use exchange::failure::{Cause, Failure};

/// How far the upload of one try has come.
pub(super) struct Upload {
    stage: Stage,
    limit_bytes: u64,
    taken_bytes: u64,
    copy: Option<SharedCopy>,
    /// The last poll passed something on and ended with its turn.
    has_moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Body bytes are still to be passed on.
    Sending,
    /// The last bytes wait to be taken by the kernel.
    Flushing,
    /// All was sent.
    Done,
    /// The node takes no more; it may still answer.
    Broken,
}

/// Whom an upload that cannot go on waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The client has to send.
    Client,
    /// The node has to take.
    Node,
    /// Nobody: there is nothing more to send.
    Nobody,
    /// Its next turn, for which it will be woken: there is more to pass on.
    Turn,
}

impl Upload {
    /// An upload of a body of `length`, already started on `origin`; its beginning goes into `copy` as well.
    pub(super) fn new<O: UpstreamStream>(
        run: &Run<'_>,
        origin: &mut O,
        length: BodyLength,
        copy: Option<SharedCopy>,
    ) -> Upload {
        if let Some(copy) = &copy {
            copy.restart();
        }
        let stage = match length {
            BodyLength::None | BodyLength::Known(0) => {
                origin.finish(None);
                Stage::Flushing
            }
            _ => Stage::Sending,
        };
        Upload {
            stage,
            limit_bytes: run.local().options.limits.max_body_bytes,
            taken_bytes: 0,
            copy,
            has_moved: false,
        }
    }

    /// Passes nothing more on: the client's side of it has failed.
    pub(super) fn give_up(&mut self) {
        self.stage = Stage::Broken;
    }

    /// Bytes of the body passed on so far.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Whether the whole request reached the kernel.
    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether the node stopped taking the request.
    pub(super) fn is_broken(&self) -> bool {
        self.stage == Stage::Broken
    }

    /// Passes on what can be passed on in one turn. `moved` is set when anything was, now or in a turn before. An error is the client's: the node's refusal
    /// to take more only shows in [`Upload::is_broken`], since an answer may be there already.
    #[inline]
    pub(super) fn poll<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        server: &mut S,
        origin: &mut O,
        moved: &mut bool,
    ) -> Result<WaitsFor, Failure> {
        *moved |= std::mem::take(&mut self.has_moved);
        let mut turn = Turn::default();
        loop {
            match self.stage {
                Stage::Done | Stage::Broken => return Ok(WaitsFor::Nobody),
                Stage::Flushing => match origin.poll_flush(cx) {
                    Poll::Ready(Ok(())) => {
                        *moved = true;
                        self.stage = Stage::Done;
                    }
                    Poll::Ready(Err(_)) => self.stage = Stage::Broken,
                    Poll::Pending => return Ok(WaitsFor::Node),
                },
                Stage::Sending => {
                    if let Some(waits) = self.poll_piece(cx, server, origin, moved, &mut turn)? {
                        return Ok(waits);
                    }
                }
            }
        }
    }

    fn poll_piece<S: DownstreamStream, O: UpstreamStream>(
        &mut self,
        cx: &mut Context<'_>,
        server: &mut S,
        origin: &mut O,
        moved: &mut bool,
        turn: &mut Turn,
    ) -> Result<Option<WaitsFor>, Failure> {
        match server.poll_body(cx) {
            Poll::Ready(BodyEvent::Data(data)) => match origin.poll_data(cx, data) {
                Poll::Ready(Ok(count)) => {
                    if let Some(copy) = &self.copy {
                        copy.add(&data[..count]);
                    }
                    server.consume(count);
                    *moved = true;
                    self.taken_bytes += count as u64;
                    if self.limit_bytes != 0 && self.taken_bytes > self.limit_bytes {
                        return Err(too_large(self.limit_bytes));
                    }
                    if turn.is_over(cx, count) {
                        self.has_moved = true;
                        return Ok(Some(WaitsFor::Turn));
                    }
                }
                Poll::Ready(Err(_)) => self.stage = Stage::Broken,
                Poll::Pending => return Ok(Some(WaitsFor::Node)),
            },
            Poll::Ready(BodyEvent::End(trailers)) => {
                origin.finish(trailers);
                self.stage = Stage::Flushing;
            }
            Poll::Ready(BodyEvent::Reset(failure)) => return Err(failure),
            Poll::Pending => {
                // What was sent so far must not wait for the client's next piece.
                if let Poll::Ready(Err(_)) = origin.poll_flush(cx) {
                    self.stage = Stage::Broken;
                    return Ok(None);
                }
                return Ok(Some(WaitsFor::Client));
            }
        }
        Ok(None)
    }
}

/// The failure of a body over a limit.
pub(super) fn too_large(limit_bytes: impl std::fmt::Display) -> Failure {
    Failure::new(Cause::BodyTooLarge, format!("the limit for a body is {limit_bytes} bytes"))
}

/// The failure of a request whose time is over while its body still arrives.
#[cold]
pub(super) fn overdue() -> Failure {
    Failure::new(Cause::RequestTimeout, "the request body was still arriving")
}

/// The failure of a client that was waited for in vain.
pub(super) fn lost(lost: TooSlow) -> Failure {
    match lost {
        TooSlow::Idle => Failure::new(Cause::BodyTimeout, "the request body stopped arriving"),
        TooSlow::BelowMinRate => Failure::new(Cause::BodySlow, "the request body arrives too slowly"),
    }
}
