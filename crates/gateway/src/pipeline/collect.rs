//! Reading the request body before a node is chosen: for a plugin that must see it whole, because a variable that decides
//! something lies in it, or its beginning, for which no node is kept waiting. What was read stands in the client's place
//! afterwards. It looks into no body.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use message::Headers;
use stdx::pooled::PooledBox;

use super::Run;
use super::min_rate::MinRateGuard;
use super::turn::Turn;
use super::upload::{self, too_large};
use crate::body::{BodyEvent, BodyLength, Capacity, DownstreamStream};
use exchange::Exchange;
use exchange::exchange::Times;
use exchange::exchange::body::{BodyPrefix, ReadBody};

use exchange::failure::{Blame, Cause, Failure};

/// Reads the whole body, for a plugin; one that is longer than `limit_bytes` is refused.
pub(super) async fn whole<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    limit_bytes: usize,
) -> Result<(), Failure> {
    if exchange.body.whole().is_some() {
        return Ok(());
    }
    // The beginning may have been read for variables; the rest comes behind it.
    let mut bytes = exchange.body.prefix().map_or_else(Vec::new, |prefix| prefix.bytes.to_vec());
    let mut guard = MinRateGuard::for_body(&run.local().options.limits);
    match read(run, &mut exchange.times, server, &mut guard, &mut bytes, limit_bytes).await? {
        Read::Whole(trailers) => exchange.body.keep_whole(bytes, trailers),
        Read::TooLong => return Err(too_large(limit_bytes)),
    }
    Ok(())
}

/// Reads the body so that variables can look into it, if it is short enough for that. A longer one passes on as it
/// comes, and its variables are unset. Says whether anything was read.
pub(super) async fn for_variables<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
) -> Result<bool, Failure> {
    let limit_bytes = run.local().options.limits.max_matched_body_bytes;
    let is_readable = match server.body_length() {
        BodyLength::None => false,
        BodyLength::Known(bytes) => bytes <= limit_bytes as u64,
        BodyLength::Unknown => limit_bytes > 0,
    };
    if !is_readable || !exchange.body.is_unread() {
        return Ok(false);
    }
    let (mut bytes, mut guard) = (Vec::new(), MinRateGuard::for_body(&run.local().options.limits));
    match read(run, &mut exchange.times, server, &mut guard, &mut bytes, limit_bytes).await? {
        Read::Whole(trailers) => exchange.body.keep_whole(bytes, trailers),
        Read::TooLong => exchange.body.keep_prefix(bytes),
    }
    Ok(true)
}

/// Waits for the beginning of a body whose length is declared: no connection to a node, and no permit of an upstream, is
/// held for a client that sends slowly. Reads nothing of a beginning that comes in one piece.
#[inline]
pub(super) async fn wait_for_prefix<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
) -> Result<(), Failure> {
    let BodyLength::Known(length) = server.body_length() else { return Ok(()) };
    let wanted_bytes =
        usize::try_from(length).unwrap_or(usize::MAX).min(run.local().options.limits.wait_for_body_bytes);
    if wanted_bytes == 0 || !exchange.body.is_unread() {
        return Ok(());
    }
    let is_here = poll_fn(|cx| {
        Poll::Ready(match server.poll_body(cx) {
            Poll::Ready(BodyEvent::Data(data)) => Ok(data.len() >= wanted_bytes),
            Poll::Ready(BodyEvent::Reset(failure)) => Err(failure),
            Poll::Ready(BodyEvent::End(_)) | Poll::Pending => Ok(false),
        })
    });
    if is_here.await? {
        return Ok(());
    }
    PooledBox::pin(piece_by_piece(run, exchange, server, wanted_bytes)).await
}

async fn piece_by_piece<S: DownstreamStream>(
    run: &Run<'_>,
    exchange: &mut Exchange,
    server: &mut S,
    wanted_bytes: usize,
) -> Result<(), Failure> {
    let (mut bytes, mut guard) = (Vec::new(), MinRateGuard::for_body(&run.local().options.limits));
    // The piece with which there is enough is left where it is.
    let limit_bytes = wanted_bytes - 1;
    match read(run, &mut exchange.times, server, &mut guard, &mut bytes, limit_bytes).await {
        Ok(Read::Whole(trailers)) => {
            exchange.body.keep_whole(bytes, trailers);
            return Ok(());
        }
        Ok(Read::TooLong) => {}
        // Nobody asked for it to be held: whose request is still served is served with less.
        Err(failure) if failure.cause == Cause::MemoryLimit => {}
        Err(failure) => {
            // Whoever logs bodies logs what there was of this one.
            if let Some(copy) = &exchange.copies.request {
                copy.add(&bytes);
            }
            return Err(failure);
        }
    }
    if !bytes.is_empty() {
        exchange.body.keep_prefix(bytes);
    }
    // Its time goes on: a node is chosen meanwhile, and the client owes what it owed.
    run.body_guard.set(Some(Box::new(guard.handed_on())));
    Ok(())
}

enum Read {
    /// To its end, with the trailers it had.
    Whole(Option<Headers>),
    /// Up to the limit; the rest was left with the client's connection.
    TooLong,
}

async fn read<S: DownstreamStream>(
    run: &Run<'_>,
    times: &mut Times,
    server: &mut S,
    guard: &mut MinRateGuard,
    bytes: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<Read, Failure> {
    let began_ns = run.local().recent_ns();
    let mut has_moved = false;
    let read = poll_fn(|cx| {
        let mut moved = std::mem::take(&mut has_moved);
        let mut turn = Turn::default();
        loop {
            let count = match server.poll_body(cx) {
                Poll::Ready(BodyEvent::Data(data)) if bytes.len() + data.len() > limit_bytes => {
                    return Poll::Ready(Ok(Read::TooLong));
                }
                Poll::Ready(BodyEvent::Data(data)) => {
                    // Whatever the priority: the route may not be known yet.
                    run.local().shared.append_limited(bytes, data, limit_bytes)?;
                    data.len()
                }
                Poll::Ready(BodyEvent::End(trailers)) => {
                    return Poll::Ready(Ok(Read::Whole(trailers.cloned())));
                }
                Poll::Ready(BodyEvent::Reset(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    return match guard.wait(run, cx, moved, || bytes.len() as u64) {
                        Ok(()) => Poll::Pending,
                        Err(lost) => Poll::Ready(Err(upload::lost(lost))),
                    };
                }
            };
            moved = true;
            server.consume(count);
            if turn.is_over(cx, count) {
                if run.deadline.is_overdue() {
                    return Poll::Ready(Err(upload::overdue()));
                }
                has_moved = true;
                return Poll::Pending;
            }
        }
    })
    .await;
    // Tries are timed from the last reading of the clock, which would be as old as the head.
    times.body_waited_ns += run.local().clock_ns().saturating_sub(began_ns);
    read
}

/// A body that was read, in the place of the client's: what is sent on is what was seen, and then what was not.
pub(super) struct TryBody<'a, S> {
    server: &'a mut S,
    prefix: BodyPrefix,
    cursor: usize,
    /// Some of what follows was passed on; it cannot be sent again.
    rest_taken: bool,
}

impl<'a, S: DownstreamStream> TryBody<'a, S> {
    /// What was read of the body, in front of `server`; the other way round if nobody has prefix to read it.
    pub(super) fn new(body: &mut ReadBody, server: &'a mut S) -> Result<TryBody<'a, S>, &'a mut S> {
        match body.pass_on() {
            None => Err(server),
            Some(prefix) => Ok(TryBody { server, prefix, cursor: 0, rest_taken: false }),
        }
    }
}

impl<S: DownstreamStream> DownstreamStream for TryBody<'_, S> {
    fn poll_body<'b>(&'b mut self, cx: &mut Context<'_>) -> Poll<BodyEvent<'b>> {
        let rest = &self.prefix.bytes[self.cursor..];
        if !rest.is_empty() {
            return Poll::Ready(BodyEvent::Data(rest));
        }
        if self.prefix.goes_on {
            return self.server.poll_body(cx);
        }
        Poll::Ready(BodyEvent::End(self.prefix.trailers.as_deref()))
    }

    fn consume(&mut self, count: usize) {
        if self.cursor < self.prefix.bytes.len() {
            self.cursor += count;
        } else {
            if !self.rest_taken {
                // Nobody can be sent the whole of it any more.
                self.rest_taken = true;
                self.prefix.bytes = Rc::from([]);
                self.cursor = 0;
            }
            self.server.consume(count);
        }
    }

    fn body_length(&self) -> BodyLength {
        match (self.server.body_length(), self.prefix.bytes.len()) {
            // Only a chunked body can have trailers.
            (length, _) if self.prefix.goes_on || self.prefix.trailers.is_some() => length,
            // A request that had no body and got none stays without one.
            (BodyLength::None, 0) => BodyLength::None,
            (_, length) => BodyLength::Known(length as u64),
        }
    }

    fn rewind(&mut self) -> bool {
        self.cursor = 0;
        !self.rest_taken
    }

    fn send_informational(&mut self, head: &message::ResponseHead) {
        self.server.send_informational(head);
    }

    fn start_response(&mut self, exchange: &mut Exchange, length: BodyLength) {
        self.server.start_response(exchange, length);
    }

    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<Capacity>> {
        self.server.poll_capacity(cx)
    }

    fn head_capacity(&self) -> Capacity {
        self.server.head_capacity()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<std::io::Result<usize>> {
        self.server.poll_data(cx, data)
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        self.server.finish(trailers);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.server.poll_flush(cx)
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.server.poll_closed(cx)
    }

    fn has_closed_after_request(&mut self) -> bool {
        self.server.has_closed_after_request()
    }

    fn has_sent_early_bytes(&mut self, cx: &mut Context<'_>) -> bool {
        self.server.has_sent_early_bytes(cx)
    }

    fn response_started(&self) -> bool {
        self.server.response_started()
    }

    fn close_afterwards(&mut self) {
        self.server.close_afterwards();
    }

    fn abort(&mut self, blame: Blame) {
        self.server.abort(blame);
    }

    fn sent_bytes(&self) -> u64 {
        self.server.sent_bytes()
    }

    fn delivered_bytes(&self) -> u64 {
        self.server.delivered_bytes()
    }
}
