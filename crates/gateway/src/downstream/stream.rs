//! A session of layer 4 over a connection: its first bytes are looked at where a route or a plugin asks for
//! them, then it has a route, a node, and a tunnel to it, all on the worker that accepted it. It speaks no
//! protocol.

mod first_bytes;
pub(super) mod node;
pub(super) mod open;
mod opened;
mod original;
mod passing;
pub(super) mod record;
mod spoken;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use stdx::pooled::PooledBox;

use super::h1;
use super::h1::connection::H1Connection;
use net::env;

use open::SessionOpening;
pub(crate) use opened::OpenedConnection;
use passing::PassingSession;
use record::SessionRecord;

/// Serves the session until both sides have closed.
pub(crate) fn serve_stream_session(opened: OpenedConnection) -> impl Future<Output = ()> {
    // In pooled memory, because the session needs this state only at its beginning.
    SessionTask::Beginning(PooledBox::pin(begin(opened)))
}

/// The task of a session. Written by hand, because an `async fn` would keep the room of its beginning until
/// its end.
#[expect(
    clippy::large_enum_variant,
    reason = "the larger variant is the one that sessions are for most of their lives"
)]
enum SessionTask<B> {
    Beginning(Pin<PooledBox<B>>),
    Passing(PassingSession),
}

impl<B: Future<Output = Option<PassingSession>>> Future for SessionTask<B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let SessionTask::Beginning(beginning) = &mut *self {
            let Some(passing) = ready!(beginning.as_mut().poll(cx)) else { return Poll::Ready(()) };
            *self = SessionTask::Passing(passing);
        }
        match &mut *self {
            SessionTask::Passing(passing) => passing.poll(cx),
            SessionTask::Beginning(_) => Poll::Pending,
        }
    }
}

/// Finds the route and a node; none if the session has ended, or is one of HTTP from now on.
async fn begin(mut opened: OpenedConnection) -> Option<PassingSession> {
    let context = opened.timer.context.clone();
    let mut record = Box::new(SessionRecord::begin(&context, opened.session()));
    match open::open_session(&mut opened, &mut record).await {
        Ok(SessionOpening::Connected(node)) => Some(PassingSession::new(opened, *node, record)),
        Ok(SessionOpening::Http(first_bytes)) => {
            record.become_http();
            let OpenedConnection { stream, identity, place, timer, tls } = opened;
            let mut connection = H1Connection::new(stream, identity, place.into_guard(), tls);
            connection.input = (!first_bytes.is_empty()).then_some(first_bytes);
            env::spawn(h1::serve::serve_h1_connection(connection, timer));
            None
        }
        Err(end) => {
            record.end_with(end);
            // An orderly close would look like an empty answer.
            opened.stream.reset_on_close();
            None
        }
    }
}

// The network of the simulation has streams of another size.
#[cfg(all(test, not(feature = "simulation")))]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_make: impl FnOnce(OpenedConnection) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn waiting_session_takes_less_than_1_kib() {
        let bytes = size_of_future(serve_stream_session) + size_of::<SessionRecord>();
        assert!(bytes < 1024, "{bytes} bytes for a session that waits");
    }
}
