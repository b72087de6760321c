//! A protocol without a client, for requests that go on after their client was answered: it sends no body but
//! one that was read before, and reads responses only for the plugin that stores them.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};

use crate::body::{BodyEvent, BodyLength, Capacity, RequestBody, ResponseProgress, ResponseSink};
use crate::context::WorkerContext;
use crate::pipeline::detached::{RemainingRequest, run_detached};
use exchange::Exchange;
use exchange::deadline::Deadline;
use exchange::exchange::reuse::PooledExchange;
use exchange::failure::Blame;
use exchange::inner::{DETACHED_MAX, DETACHED_MS, Detachment};
use exchange::plugin::PluginPhase;
use net::env;

/// How much of a response body is asked for at once.
const PIECE_BYTES: usize = 64 * 1024;
/// The longest body that is read although it is not stored, in bytes: as much as usually costs less than
/// another connection to the upstream.
const DISCARDED_MAX_BYTES: u64 = 64 * 1024;

/// The detached requests of one worker.
#[derive(Default)]
struct DetachedCount(Cell<usize>);

/// The place of a detached request; a panic gives it back too.
struct DetachedPlace(Rc<DetachedCount>);

impl Drop for DetachedPlace {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// See [`exchange::inner::InnerRequests::detach`].
pub(super) fn detach(
    context: &Rc<WorkerContext>,
    exchange: &Exchange,
    phase: PluginPhase,
    begin: &mut dyn FnMut(&mut Exchange),
) -> Detachment {
    let running = context.local.resource(DetachedCount::default);
    if running.0.get() >= DETACHED_MAX {
        return Detachment::Full;
    }
    let Some(rest) = RemainingRequest::of(context, exchange, phase) else { return Detachment::Impossible };
    let mut detached = context.exchanges.checkout();
    if !detached.continue_from(exchange) {
        return Detachment::Impossible;
    }
    begin(&mut detached);
    running.0.set(running.0.get() + 1);
    env::spawn(serve(context.clone(), detached, rest, DetachedPlace(running)));
    Detachment::Begun
}

async fn serve(
    context: Rc<WorkerContext>,
    mut detached: PooledExchange,
    rest: RemainingRequest,
    _place: DetachedPlace,
) {
    let local = context.local.clone();
    let deadline = Deadline::new(&local);
    let limit_ms = match local.options.limits.request_timeout_ms {
        0 => DETACHED_MS,
        limit_ms => limit_ms.min(DETACHED_MS),
    };
    deadline.set_cap((detached.times.started_ns / 1_000_000).saturating_add(limit_ms));
    let refusal = Rc::<Cell<bool>>::default();
    detached.copies.tap_refusal = Some(refusal.clone());
    let mut stream = NoClient { refusal, is_stored: false, has_started: false, taken_bytes: 0 };
    Box::pin(run_detached(&context, &mut detached, &mut stream, &deadline, rest)).await;
}

/// The place of the client.
struct NoClient {
    /// Set once the plugin takes no more of the body.
    refusal: Rc<Cell<bool>>,
    /// A plugin takes the body.
    is_stored: bool,
    has_started: bool,
    taken_bytes: u64,
}

impl RequestBody for NoClient {
    fn poll_body<'a>(&'a mut self, _: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        Poll::Ready(BodyEvent::End(None))
    }

    fn consume(&mut self, _: usize) {}

    fn body_length(&self) -> BodyLength {
        BodyLength::None
    }

    fn rewind(&mut self) -> bool {
        true
    }
}

impl ResponseSink for NoClient {
    fn send_informational(&mut self, _: &ResponseHead) {}

    fn start_response(&mut self, exchange: &Exchange, _: BodyLength) {
        self.has_started = true;
        self.is_stored = exchange.copies.tap.is_some();
    }

    fn poll_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        Poll::Ready(Ok(Capacity::Firm(PIECE_BYTES)))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let is_wanted = self.is_stored && !self.refusal.get();
        self.taken_bytes += data.len() as u64;
        if !is_wanted && self.taken_bytes > DISCARDED_MAX_BYTES {
            return Poll::Ready(Err(io::Error::other("the response of a background request is not stored")));
        }
        Poll::Ready(Ok(data.len()))
    }

    fn finish(&mut self, _: Option<&Headers>) {}

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn abort(&mut self, _: Blame) {}

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.has_started, sent_bytes: self.taken_bytes }
    }
}
