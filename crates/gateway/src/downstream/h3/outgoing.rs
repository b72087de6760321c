//! The gateway's direction of a request stream: output that waits for the transport, the end of the response,
//! and its delivery. It knows no head and no frame.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http3::ErrorCode;
use quinn::{SendStream, WriteError};
use stdx::pooled::PooledBox;
use stdx::segment::ByteSegment;

use super::link::{H3Link, number};
use exchange::deadline::Deadline;
use net::quic::Guarded;

/// A client that sends nothing for so long, while a response waits for its acknowledgement, has vanished; the
/// transport has sent parts of the response again by then.
const VANISHED_MS: u64 = 3_000;

/// How the client has taken a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// All of it was acknowledged.
    Complete,
    /// The client wants no more of it.
    Stopped,
    Lost,
}

/// The wait for a delivery.
type Delivering = Guarded<Pin<PooledBox<dyn Future<Output = Delivery>>>>;

/// The client wants no more of a response, or the connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopped;

/// See the module.
pub(super) struct H3Outgoing {
    link: Rc<H3Link>,
    send: Guarded<SendStream>,
    /// Output that the transport did not take yet, in its order; the first piece has frames, the second is a
    /// segment.
    left: [Bytes; 2],
    /// Output behind it.
    output: Vec<u8>,
    /// The response is complete behind the output.
    ends: bool,
    /// The end of the response was passed to the transport.
    is_ended: bool,
    is_stopped: bool,
    delivering: Option<Delivering>,
    /// Bytes that were appended so far.
    appended_bytes: u64,
}

impl H3Outgoing {
    pub(super) fn new(link: Rc<H3Link>, send: Guarded<SendStream>) -> H3Outgoing {
        H3Outgoing {
            link,
            send,
            left: [Bytes::new(), Bytes::new()],
            output: Vec::new(),
            ends: false,
            is_ended: false,
            is_stopped: false,
            delivering: None,
            appended_bytes: 0,
        }
    }

    /// Sends this stream before others with a smaller number.
    pub(super) fn set_priority(&mut self, priority: i32) {
        self.send.call(|send| send.set_priority(priority));
    }

    /// Lets `append` append output; how many bytes wait then.
    pub(super) fn append(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = self.output.len();
        append(&mut self.output);
        self.appended_bytes += (self.output.len() - before) as u64;
        self.output.len()
    }

    /// Appends a segment, which the transport holds without a copy until the client has acknowledged it. No
    /// older output may wait for the transport ([`H3Outgoing::is_blocked`]).
    pub(super) fn append_segment(&mut self, segment: ByteSegment) {
        debug_assert!(!self.is_blocked(), "output that waits would be lost");
        self.appended_bytes += segment.len() as u64;
        self.left = [Bytes::from(std::mem::take(&mut self.output)), Bytes::from_owner(segment)];
    }

    /// Bytes that were not passed to the transport.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.left.iter().map(Bytes::len).sum::<usize>() + self.output.len()
    }

    /// Ends the response behind the output.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Whether the end was appended.
    pub(super) fn ends(&self) -> bool {
        self.ends
    }

    /// Whether the end was passed to the transport.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the client takes no more.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether older output still waits for the transport.
    pub(super) fn is_blocked(&self) -> bool {
        self.left.iter().any(|piece| !piece.is_empty())
    }

    /// Bytes that were appended, and those of them that the transport has taken.
    pub(super) fn counts(&self) -> (u64, u64) {
        let waiting = self.waiting_bytes() as u64;
        (self.appended_bytes, self.appended_bytes.saturating_sub(waiting))
    }

    /// Passes the output to the transport; ready when none is left.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        loop {
            if !self.is_ended && (self.is_stopped || self.link.is_lost()) {
                return Poll::Ready(Err(Stopped));
            }
            if !self.is_blocked() {
                self.left[0] = Bytes::from(std::mem::take(&mut self.output));
            }
            if !self.is_blocked() {
                if self.ends && !self.is_ended {
                    self.send.call(|send| send.finish());
                    self.is_ended = true;
                }
                return Poll::Ready(Ok(()));
            }
            let left = &mut self.left;
            let written = self.send.call(|send| pin!(send.write_chunks(left)).poll(cx));
            match ready!(written.unwrap_or(Poll::Ready(Err(WriteError::ClosedStream)))) {
                Ok(_) => {}
                Err(error) => self.note_stopped(matches!(error, WriteError::Stopped(_))),
            }
        }
    }

    /// Looks whether the client wants no more, if [`H3Outgoing::poll_stopped`] was asked before.
    pub(super) fn look_if_asked(&mut self, cx: &mut Context<'_>) {
        if self.delivering.is_some() && !self.is_ended {
            let _ = self.poll_delivery(cx);
        }
    }

    /// Ready when the client wants no more of the response, or is gone.
    pub(super) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.poll_delivery(cx) {
            Poll::Ready(Delivery::Stopped | Delivery::Lost) => Poll::Ready(()),
            Poll::Ready(Delivery::Complete) | Poll::Pending => Poll::Pending,
        }
    }

    /// Ready when the client has acknowledged the response, wants none of it any more, or has vanished. The
    /// exchange lasts until then, so that a connection is not closed while a response is on its way.
    pub(super) async fn delivered(&mut self, deadline: &Deadline) {
        let mut received = None;
        poll_fn(|cx| {
            if self.poll_delivery(cx).is_ready() {
                return Poll::Ready(());
            }
            if received.is_none() || deadline.expired() {
                // A client that is there acknowledges at least what is sent again.
                let now = self.link.quic.call_ref(|quic| quic.stats().udp_rx.datagrams);
                if now.is_none() || received == Some(now) {
                    return Poll::Ready(());
                }
                received = Some(now);
                deadline.set(cx, VANISHED_MS);
            }
            Poll::Pending
        })
        .await;
    }

    fn poll_delivery(&mut self, cx: &mut Context<'_>) -> Poll<Delivery> {
        if self.delivering.is_none() {
            let Some(stopped) = self.send.call_ref(|send| send.stopped()) else {
                return Poll::Ready(Delivery::Lost);
            };
            let delivering = PooledBox::new(async move {
                match stopped.await {
                    Ok(None) => Delivery::Complete,
                    Ok(Some(_)) => Delivery::Stopped,
                    Err(_) => Delivery::Lost,
                }
            });
            self.delivering = Some(self.send.another(delivering.into_dyn_future()));
        }
        let delivering = self.delivering.as_mut().expect("it was just made");
        let polled = delivering.call(|delivering| delivering.as_mut().poll(cx));
        let delivery = ready!(polled.unwrap_or(Poll::Ready(Delivery::Lost)));
        // It must not be polled again.
        self.delivering = None;
        if delivery != Delivery::Complete {
            self.note_stopped(delivery == Delivery::Stopped);
        }
        Poll::Ready(delivery)
    }

    fn note_stopped(&mut self, by_client: bool) {
        if !std::mem::replace(&mut self.is_stopped, true) && by_client && !self.is_ended {
            self.link.note_reset();
        }
    }

    /// Ends the stream so that the client can tell that the response is cut.
    pub(super) fn reset(&mut self, code: ErrorCode) {
        self.send.call(|send| send.reset(number(code)));
    }
}
