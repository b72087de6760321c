//! Serves the requests that plugins send through the data plane: a protocol without a connection, with
//! messages that are held in memory. The pipeline does the work, as for every other protocol.

use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};
use tokio::sync::oneshot;

use super::detached;
use crate::body::{BodyEvent, BodyLength, Capacity, RequestBody, ResponseProgress, ResponseSink};
use crate::context::WorkerContext;
use crate::pipeline;
use exchange::Exchange;
use exchange::deadline::Deadline;
use exchange::failure::{Blame, Cause};
use exchange::inner::{
    Detachment, InnerFuture, InnerOutcome, InnerRequest, InnerRequests, InnerResponse, InnerService,
};
use exchange::overload::OverloadState;
use exchange::plugin::PluginPhase;
use net::env;

/// How much of a response body is asked for at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Lets the worker of `context` serve inner requests.
pub(crate) fn install(context: &Rc<WorkerContext>) {
    // Weak, because the worker's store of resources, which the context owns, holds the handle.
    let service: Weak<WorkerContext> = Rc::downgrade(context);
    InnerRequests::of(&context.local).serve_with(service);
}

impl InnerService for WorkerContext {
    fn serve(self: Rc<Self>, request: InnerRequest) -> InnerFuture<'static> {
        let (asker, outcome) = oneshot::channel();
        // In a task of its own, because the plugin drops its future when its client goes away. A request that
        // was begun must nevertheless give its places back and be logged.
        env::spawn(serve(self, request, asker));
        Box::pin(async move { outcome.await.unwrap_or(InnerOutcome::Cut) })
    }

    fn detach(
        self: Rc<Self>,
        exchange: &Exchange,
        phase: PluginPhase,
        begin: &mut dyn FnMut(&mut Exchange),
    ) -> Detachment {
        detached::detach(&self, exchange, phase, begin)
    }
}

/// Serves a request to its log phase. If the plugin no longer waits, it ends like one of a client that has
/// gone away.
async fn serve(context: Rc<WorkerContext>, request: InnerRequest, asker: oneshot::Sender<InnerOutcome>) {
    let local = context.local.clone();
    let mut exchange = context.exchanges.checkout();
    let exchange = &mut *exchange;
    exchange.times.started_ns = local.clock_ns();
    exchange.connection = request.connection;
    exchange.inner_client = Some(request.client);
    exchange.stats.request_bytes = request.body.len() as u64;
    exchange.request = request.head;
    let mut stream = InnerStream::new(request.body, request.max_body_bytes, local.shared.clone(), asker);
    let deadline = Deadline::new(&local);
    let limit_ms = match local.options.limits.request_timeout_ms {
        0 => request.timeout_ms,
        limit_ms => limit_ms.min(request.timeout_ms),
    };
    deadline.set_cap((exchange.times.started_ns / 1_000_000).saturating_add(limit_ms));
    let served = Box::pin(pipeline::run_pipeline(&context, exchange, &mut stream, &deadline)).await;
    pipeline::log(&context, exchange, served.log);
    let is_late = exchange.failure.as_ref().is_some_and(|failure| failure.cause == Cause::RequestTimeout);
    stream.answer(is_late);
}

/// Both messages of an inner request.
struct InnerStream {
    request_body: Vec<u8>,
    taken_bytes: usize,
    response: Option<InnerResponse>,
    max_body_bytes: usize,
    shared: Arc<OverloadState>,
    /// The plugin that waits for the outcome; closed once it no longer does.
    asker: oneshot::Sender<InnerOutcome>,
    is_too_long: bool,
    is_finished: bool,
}

impl InnerStream {
    fn new(
        request_body: Vec<u8>,
        max_body_bytes: usize,
        shared: Arc<OverloadState>,
        asker: oneshot::Sender<InnerOutcome>,
    ) -> InnerStream {
        InnerStream {
            request_body,
            taken_bytes: 0,
            response: None,
            max_body_bytes,
            shared,
            asker,
            is_too_long: false,
            is_finished: false,
        }
    }

    /// Tells the plugin the outcome; `is_late` says that the time of the request was over.
    fn answer(self, is_late: bool) {
        let outcome = match self.response {
            _ if is_late => InnerOutcome::TimedOut,
            _ if self.is_too_long => InnerOutcome::TooLong,
            Some(response) if self.is_finished => InnerOutcome::Response(response),
            _ => InnerOutcome::Cut,
        };
        // A plugin that no longer waits needs no outcome.
        let _ = self.asker.send(outcome);
    }

    fn gone() -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "the plugin no longer waits for the response")
    }
}

impl RequestBody for InnerStream {
    fn poll_body<'a>(&'a mut self, _: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        Poll::Ready(match &self.request_body[self.taken_bytes..] {
            [] => BodyEvent::End(None),
            rest => BodyEvent::Data(rest),
        })
    }

    fn consume(&mut self, count: usize) {
        self.taken_bytes += count;
    }

    fn body_length(&self) -> BodyLength {
        match self.request_body.len() {
            0 => BodyLength::None,
            bytes => BodyLength::Known(bytes as u64),
        }
    }

    fn rewind(&mut self) -> bool {
        self.taken_bytes = 0;
        true
    }
}

impl ResponseSink for InnerStream {
    fn send_informational(&mut self, _: &ResponseHead) {}

    fn start_response(&mut self, exchange: &Exchange, length: BodyLength) {
        let mut headers = Headers::new();
        for field in exchange.response.headers.iter().filter(|field| !field.id.is_hop_by_hop()) {
            let name = String::from_utf8_lossy(field.name);
            // A received field is valid, so this fails only if the list is full.
            let _ = headers.append(&name, field.value);
        }
        let body = (length != BodyLength::None).then(Vec::new);
        self.response = Some(InnerResponse { status: exchange.response.status, headers, body });
    }

    fn poll_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        Poll::Ready(Ok(Capacity::Firm(PIECE_BYTES)))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.asker.is_closed() {
            return Poll::Ready(Err(InnerStream::gone()));
        }
        let Some(response) = &mut self.response else { return Poll::Ready(Ok(data.len())) };
        let body = response.body.get_or_insert_default();
        self.is_too_long |= body.len() + data.len() > self.max_body_bytes;
        if self.is_too_long || self.shared.append_limited(body, data, self.max_body_bytes).is_err() {
            return Poll::Ready(Err(io::Error::other("the response to an inner request is too long")));
        }
        Poll::Ready(Ok(data.len()))
    }

    fn finish(&mut self, _: Option<&Headers>) {
        self.is_finished = true;
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.asker.poll_closed(cx) {
            Poll::Ready(()) => Poll::Ready(Err(InnerStream::gone())),
            Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The plugin that waits drops its future if its own client goes away.
        self.asker.poll_closed(cx)
    }

    fn is_gone(&self) -> bool {
        self.asker.is_closed()
    }

    fn abort(&mut self, _: Blame) {
        self.is_finished = false;
        self.max_body_bytes = 0;
    }

    fn progress(&self) -> ResponseProgress {
        let body = self.response.as_ref().and_then(|response| response.body.as_ref());
        ResponseProgress {
            has_started: self.response.is_some(),
            sent_bytes: body.map_or(0, |body| body.len() as u64),
        }
    }
}
