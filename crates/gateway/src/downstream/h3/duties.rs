//! The streams of a connection besides its requests, each served by a future of the connection's task: new
//! streams are taken, the control stream is written, and unidirectional streams of the client are read. It
//! knows no request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http3::{ErrorCode, UniState, UniStream};
use quinn::{ReadError, RecvStream, SendStream};
use stdx::pooled::PooledBox;

use super::link::{H3Link, number};
use net::quic::Guarded;

/// Most bytes of a unidirectional stream that are read at once: longer frames of the control stream come in
/// parts.
const READ_BYTES: usize = 4096;
/// Reads of a unidirectional stream before other streams have their turn.
const READS_MAX: usize = 16;

/// Takes streams that the client opens until the connection is lost.
pub(super) async fn accept_client_streams(link: Rc<H3Link>) {
    if let Some(quic) = link.quic.call_ref(quinn::Connection::clone) {
        let mut taking = link.quic.another(PooledBox::pin(take_streams(link.clone(), quic)));
        let mut failed = pin!(link.health().failed());
        poll_fn(|cx| match failed.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => taking.call(|taking| taking.as_mut().poll(cx)).unwrap_or(Poll::Ready(())),
        })
        .await;
    }
    link.lose();
}

/// The caller's guard covers this future, so that the connection needs none of its own.
async fn take_streams(link: Rc<H3Link>, quic: quinn::Connection) {
    let (mut requests, mut others) = (pin!(quic.accept_bi()), pin!(quic.accept_uni()));
    poll_fn(|cx| {
        while let Poll::Ready(accepted) = requests.as_mut().poll(cx) {
            let Ok((send, receive)) = accepted else { return Poll::Ready(()) };
            link.requests.borrow_mut().push_back((link.quic.another(send), link.quic.another(receive)));
            requests.set(quic.accept_bi());
        }
        while let Poll::Ready(accepted) = others.as_mut().poll(cx) {
            let Ok(stream) = accepted else { return Poll::Ready(()) };
            link.unidirectional.borrow_mut().push_back(link.quic.another(stream));
            others.set(quic.accept_uni());
        }
        Poll::Pending
    })
    .await;
}

/// Opens the control stream and writes to it. The connection's task marks this future when there is something
/// to write.
pub(super) async fn write_control(link: Rc<H3Link>) {
    let Some(quic) = link.quic.call_ref(quinn::Connection::clone) else { return };
    let mut opening = link.quic.another(PooledBox::pin(async move { quic.open_uni().await }));
    let opened = poll_fn(|cx| {
        opening.call(|opening| opening.as_mut().poll(cx).map(Result::ok)).unwrap_or(Poll::Ready(None))
    });
    let Some(stream) = opened.await else { return };
    let mut stream = link.quic.another(stream);
    let mut left = Bytes::new();
    poll_fn(|cx| {
        loop {
            if left.is_empty() {
                let mut engine = link.engine();
                left = Bytes::copy_from_slice(engine.control_output());
                engine.advance_control(left.len());
            }
            if left.is_empty() {
                return Poll::Pending;
            }
            match poll_write(&mut stream, cx, &mut left) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    if !link.is_lost() {
                        let error = link.engine().critical_stream_closed();
                        link.fail(error);
                    }
                    return Poll::Ready(());
                }
            }
        }
    })
    .await;
}

/// Writes some of `left`; false if the stream is no longer there.
fn poll_write(stream: &mut Guarded<SendStream>, cx: &mut Context<'_>, left: &mut Bytes) -> Poll<bool> {
    let written = stream.call(|stream| pin!(stream.write_chunks(std::slice::from_mut(left))).poll(cx));
    written.map_or(Poll::Ready(false), |polled| polled.map(|written| written.is_ok()))
}

/// Reads a unidirectional stream of the client to its end.
pub(super) async fn read_unidirectional(link: Rc<H3Link>, mut stream: Guarded<RecvStream>) {
    let mut uni = UniStream::new();
    poll_fn(|cx| {
        for _ in 0..READS_MAX {
            let chunk = stream
                .call(|stream| pin!(stream.read_chunk(READ_BYTES, true)).poll(cx).map_ok(|chunk| chunk));
            let state = match chunk {
                None | Some(Poll::Ready(Err(ReadError::ConnectionLost(_)))) => return Poll::Ready(()),
                Some(Poll::Pending) => return Poll::Pending,
                Some(Poll::Ready(Ok(Some(chunk)))) => link.engine().receive_uni(&mut uni, &chunk.bytes),
                Some(Poll::Ready(Ok(None) | Err(_))) => {
                    if let Err(error) = link.engine().end_uni(&uni) {
                        link.fail(error);
                    }
                    return Poll::Ready(());
                }
            };
            match state {
                Ok(UniState::Open) => {}
                Ok(UniState::Unwanted) => {
                    stream.call(|stream| stream.stop(number(ErrorCode::STREAM_CREATION_ERROR)));
                    return Poll::Ready(());
                }
                Err(error) => {
                    link.fail(error);
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
