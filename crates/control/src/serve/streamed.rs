//! Answers that are sent piece by piece while they arise, such as event streams. A handler returns the head
//! with a [`Streamed`] among its extensions and keeps the sender; the server sends each piece and ends the
//! answer when the sender is dropped or the listener stops.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

/// The pieces of an answer that has not ended, as an extension of its head.
#[derive(Debug, Clone)]
pub(crate) struct Streamed(Arc<Mutex<Option<mpsc::Receiver<Bytes>>>>);

impl Streamed {
    /// A stream with a queue of `queue` pieces. The receiver of the answer is gone when sending fails with
    /// `Closed`.
    pub(crate) fn channel(queue: usize) -> (mpsc::Sender<Bytes>, Streamed) {
        let (sender, receiver) = mpsc::channel(queue);
        (sender, Streamed(Arc::new(Mutex::new(Some(receiver)))))
    }

    /// The pieces; none if they were taken before. Tests read them without a socket.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Bytes>> {
        self.0.lock().take()
    }
}

/// The body of an answer: complete, or in pieces.
pub(super) enum AnswerBody {
    Whole(Full<Bytes>),
    Pieces { pieces: mpsc::Receiver<Bytes>, stopped: Pin<Box<dyn Future<Output = ()> + Send>> },
}

impl AnswerBody {
    /// Takes the stream of the answer, if it has one. It ends when `stop` is true, because a connection that
    /// is asked to close waits for the end of its answer.
    pub(super) fn of(mut response: Response<Bytes>, stop: &watch::Receiver<bool>) -> Response<AnswerBody> {
        let streamed = response.extensions_mut().remove::<Streamed>().and_then(|streamed| streamed.take());
        if streamed.is_some() {
            // The seat of the connection counts as being answered from here on, so that it is not kept for
            // more requests.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let mut stop = stop.clone();
        response.map(|whole| match streamed {
            None => AnswerBody::Whole(Full::new(whole)),
            Some(pieces) => {
                let stopped = Box::pin(async move { super::stopped(&mut stop).await });
                AnswerBody::Pieces { pieces, stopped }
            }
        })
    }

    /// Whether the answer arises while it is sent.
    pub(super) fn is_streamed(&self) -> bool {
        matches!(self, AnswerBody::Pieces { .. })
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            AnswerBody::Whole(whole) => Pin::new(whole).poll_frame(context),
            AnswerBody::Pieces { pieces, stopped } => {
                if stopped.as_mut().poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(whole) => whole.is_end_stream(),
            AnswerBody::Pieces { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(whole) => whole.size_hint(),
            AnswerBody::Pieces { .. } => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::testing::block_on;

    #[test]
    fn pieces_are_sent_until_the_sender_is_gone() {
        block_on(async {
            let (sender, streamed) = Streamed::channel(2);
            let mut response = Response::new(Bytes::new());
            response.extensions_mut().insert(streamed);
            let (_keep, stop) = watch::channel(false);
            let response = AnswerBody::of(response, &stop);
            assert_eq!(response.headers()["connection"], "close");
            let body = response.into_body();
            assert!(body.is_streamed());
            for piece in ["data: 1\n\n", "data: 2\n\n"] {
                sender.send(Bytes::from_static(piece.as_bytes())).await.unwrap();
            }
            drop(sender);
            assert_eq!(body.collect().await.unwrap().to_bytes(), "data: 1\n\ndata: 2\n\n");
        });
    }

    #[test]
    fn stop_of_the_listener_ends_the_answer() {
        block_on(async {
            let (sender, streamed) = Streamed::channel(2);
            let mut response = Response::new(Bytes::new());
            response.extensions_mut().insert(streamed);
            let (stopping, stop) = watch::channel(false);
            let body = AnswerBody::of(response, &stop).into_body();
            stopping.send(true).unwrap();
            assert_eq!(body.collect().await.unwrap().to_bytes(), "");
            drop(sender);
        });
    }
}
