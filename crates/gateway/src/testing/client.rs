//! A client in memory: its request body is complete, and its response is collected.

use std::io;
use std::task::{Context, Poll};

use message::{Headers, ResponseHead};

use crate::body::{BodyEvent, BodyLength, Capacity, RequestBody, ResponseProgress, ResponseSink};
use exchange::Exchange;
use exchange::failure::Blame;

/// The client of one exchange.
#[derive(Default)]
pub(super) struct Client {
    pub(super) request: Vec<u8>,
    pub(super) sent: usize,
    /// The response's head, once it was started.
    pub(super) head: Option<ResponseHead>,
    pub(super) response: Vec<u8>,
    pub(super) trailers: Vec<(String, String)>,
    pub(super) is_cut: bool,
}

impl RequestBody for Client {
    fn poll_body<'a>(&'a mut self, _: &mut Context<'_>) -> Poll<BodyEvent<'a>> {
        let rest = &self.request[self.sent..];
        Poll::Ready(if rest.is_empty() { BodyEvent::End(None) } else { BodyEvent::Data(rest) })
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }

    fn body_length(&self) -> BodyLength {
        match self.request.len() {
            0 => BodyLength::None,
            length => BodyLength::Known(length as u64),
        }
    }

    fn rewind(&mut self) -> bool {
        self.sent = 0;
        true
    }
}

impl ResponseSink for Client {
    fn send_informational(&mut self, _: &ResponseHead) {}

    fn start_response(&mut self, exchange: &Exchange, _: BodyLength) {
        self.head = Some(exchange.response.clone());
    }

    fn poll_capacity(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Capacity>> {
        Poll::Ready(Ok(Capacity::WHOLE))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.response.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn finish(&mut self, trailers: Option<&Headers>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = trailers.into_iter().flat_map(Headers::iter);
        self.trailers = fields.map(|field| (text(field.name), text(field.value))).collect();
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn abort(&mut self, _: Blame) {
        self.is_cut = true;
    }

    fn progress(&self) -> ResponseProgress {
        ResponseProgress { has_started: self.head.is_some(), sent_bytes: self.response.len() as u64 }
    }
}
