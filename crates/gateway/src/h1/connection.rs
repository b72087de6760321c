//! A client's HTTP/1 connection from accept to close: waiting for a request without holding a buffer, reading its head,
//! one exchange after another, and closing so that nothing in flight is lost. It sequences; each step lives elsewhere.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use http1::{HeadError, HeadStatus, RequestWire, asks_for_head, is_still_partial, parse_request};
use message::{HeadLimits, Method};
use stdx::buffer::Buffer;
use stdx::pooled::PooledBox;

use super::linger::linger;
use super::send_capacity::KeptSendCapacity;
use super::server::{After, H1Server};
use super::timer::ConnectionTimer;
use super::tunnel;
use crate::idle::IdleState;
use crate::pipeline::{self, Outcome, Served};
use crate::worker::{ConnectionGuard, OpenListener};
use exchange::Exchange;
use exchange::exchange::{Address, ConnectionContext, Scheme};
use exchange::failure::{Cause, Failure};
use net::env::{Stream, yield_when_spent};

/// A client's connection between exchanges: small, and without a buffer while it is idle. It lives in a box of its own,
/// since an `async fn` would keep two copies of what it is given, one as its argument and one as its variable.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) input: Option<Buffer>,
    /// A number no other connection of this process has.
    id: u64,
    peer: Address,
    /// Requests begun on it.
    requests: u32,
    /// Where it came in; when that ends, it ends too.
    pub(crate) listener: Rc<OpenListener>,
    /// What is known of the head of which only a part has come, if there is one.
    partial: Option<PartialHead>,
    /// What is known of the client's room between exchanges.
    pub(super) room: KeptSendCapacity,
    /// Its place in the worker's count, given back with it.
    counted: ConnectionGuard,
}

/// A head of which only a part has come: all that is held of a slow client besides its bytes.
#[derive(Clone, Copy)]
struct PartialHead {
    /// When its first byte was read.
    started_ns: u64,
    /// How far it was searched for its end.
    scanned_bytes: usize,
}

impl Connection {
    /// A connection that was just accepted.
    pub(crate) fn new(
        stream: Stream,
        id: u64,
        peer: SocketAddr,
        listener: Rc<OpenListener>,
        counted: ConnectionGuard,
    ) -> Box<Connection> {
        let peer = peer.into();
        let room = KeptSendCapacity::AfterShort;
        Box::new(Connection {
            stream,
            input: None,
            id,
            peer,
            requests: 0,
            listener,
            partial: None,
            room,
            counted,
        })
    }

    /// What an exchange knows of it.
    fn context(&self) -> ConnectionContext {
        ConnectionContext {
            id: self.id,
            peer: self.peer,
            local: self.listener.listener.address().into(),
            scheme: Scheme::Http,
            requests: self.requests,
        }
    }

    /// A buffer to read from a client.
    pub(crate) fn take_input() -> Buffer {
        Buffer::small()
    }

    /// Takes up what the kernel has accepted for us and the event loop has not told of: such a request is answered even
    /// though the connection is about to end. False if there is nothing.
    fn take_arrived(&mut self) -> bool {
        let mut input = Connection::take_input();
        let count = self.stream.read_arrived(input.spare_mut());
        input.advance(count);
        self.input = Some(input);
        count > 0
    }

    /// Whether it is to end after the exchange under way.
    #[inline]
    pub(super) fn is_closing(&self, now_ms: u64) -> bool {
        self.listener.is_closing(self.id, now_ms)
    }

    pub(super) fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|input| !input.filled().is_empty())
    }

    /// Reads on until the head may be complete, cannot become so, or is late: then it is worth an exchange. False when
    /// the connection is over.
    fn poll_rest_of_head(&mut self, cx: &mut Context<'_>, timer: &ConnectionTimer) -> Poll<bool> {
        let limits = &timer.context.local.options.limits.head;
        let (Some(partial), Some(input)) = (&mut self.partial, &mut self.input) else {
            return Poll::Ready(true);
        };
        loop {
            make_room(input, limits);
            match self.stream.poll_read(cx, input.spare_mut()) {
                Poll::Ready(Ok(count @ 1..)) => {
                    input.advance(count);
                    if !is_still_partial(input.filled(), &mut partial.scanned_bytes, limits) {
                        return Poll::Ready(true);
                    }
                }
                // The end of the stream can be read again, by whoever tells the client.
                Poll::Ready(Ok(_)) => return Poll::Ready(true),
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending if timer.gives_way() => return Poll::Ready(false),
                Poll::Pending if timer.deadline.expired() => return Poll::Ready(true),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counted.release(self.peer.ip());
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(mut connection: Box<Connection>, timer: ConnectionTimer) {
    while wait_for_request(&mut connection, &timer).await {
        timer.end_idle();
        // Requests sent ahead that are answered here could follow each other without end.
        yield_when_spent().await;
        // The exchange's state is large; it lives in memory that workers reuse, not in this task.
        let exchange = PooledBox::make(|| one_exchange(&mut connection, &timer)).into_pin();
        match exchange.await {
            After::KeepAlive => {
                if !connection.has_input() {
                    connection.input = None;
                }
            }
            After::HeadPartial => {}
            After::Close => return PooledBox::pin(linger(&mut connection, &timer)).await,
            After::Over => return,
            After::Abort => return connection.stream.reset_on_close(),
        }
    }
}

/// Waits until a request begins to arrive, or goes on; false when the connection is over. The very first one has the
/// time of a head, the later ones the idle time.
async fn wait_for_request(connection: &mut Connection, timer: &ConnectionTimer) -> bool {
    if connection.has_input() && connection.partial.is_none() {
        return true;
    }
    let local = &timer.context.local;
    let limits = &local.options.limits;
    let timeout_ms = if connection.requests == 0 { limits.head_timeout_ms } else { limits.idle_timeout_ms };
    let mut armed = false;
    let mut silent = false;
    let mut close_grace = CloseGrace::default();
    poll_fn(|cx| {
        let falls_silent = !std::mem::replace(&mut silent, true);
        if connection.partial.is_some() {
            let rest = connection.poll_rest_of_head(cx, timer);
            if falls_silent && rest.is_pending() {
                timer.begin_idle(IdleState::Head);
            }
            return rest;
        }
        // A look first: it is cheaper than the question that leaves a waker.
        if connection.stream.is_readable() || connection.stream.poll_read_ready(cx).is_ready() {
            return Poll::Ready(true);
        }
        if falls_silent {
            timer.begin_idle(if connection.requests == 0 { IdleState::Unspoken } else { IdleState::Idle });
        } else if timer.gives_way() {
            return Poll::Ready(connection.take_arrived());
        }
        if let Some(at_ms) = connection.listener.closes_idle_at_ms(connection.id, connection.requests == 0) {
            return close_grace.poll(cx, connection, timer, at_ms, timeout_ms);
        }
        if connection.requests > 0 && local.shared.memory.sheds_idle() {
            return Poll::Ready(connection.take_arrived());
        }
        // What the deadline was set for in the last exchange does not count here.
        if armed && timer.deadline.expired() {
            return Poll::Ready(false);
        }
        if !armed {
            armed = true;
            timer.deadline.set(cx, timeout_ms);
        }
        Poll::Pending
    })
    .await
}

/// The last wait of a connection whose listener is closing.
#[derive(Default)]
struct CloseGrace {
    /// The end that the deadline is set for; 0 before it is.
    armed_for_ms: u64,
}

impl CloseGrace {
    /// Ready when the time for one more request is over; true if one has arrived nevertheless.
    fn poll(
        &mut self,
        cx: &Context<'_>,
        connection: &mut Connection,
        timer: &ConnectionTimer,
        at_ms: u64,
        timeout_ms: u64,
    ) -> Poll<bool> {
        let left_ms = at_ms.saturating_sub(timer.context.local.now_ms());
        if left_ms == 0 || (self.armed_for_ms != 0 && timer.deadline.expired()) {
            return Poll::Ready(connection.take_arrived());
        }
        // A second close of the listener brings the end nearer.
        if self.armed_for_ms != at_ms {
            self.armed_for_ms = at_ms;
            // 0 is no idle timeout, and not none at all.
            timer.deadline.set(cx, if timeout_ms == 0 { left_ms } else { left_ms.min(timeout_ms) });
        }
        Poll::Pending
    }
}

async fn one_exchange(connection: &mut Connection, timer: &ConnectionTimer) -> After {
    let local = &timer.context.local;
    let mut exchange = timer.context.exchanges.checkout();
    let exchange = &mut *exchange;
    let mut wire = RequestWire::default();
    let refused = match read_head(timer, connection, exchange).await {
        Ok(Arrived::Head(head)) => {
            wire = head;
            None
        }
        Ok(Arrived::Part) => return After::HeadPartial,
        Ok(Arrived::Nothing) => return After::KeepAlive,
        Ok(Arrived::End) => return After::Close,
        Err(failure) => {
            if connection.input.as_ref().is_some_and(|input| asks_for_head(input.filled())) {
                // What is kept of a refused head, so that the refusal suits it.
                exchange.request.method = Method::Head;
            }
            Some(failure)
        }
    };
    connection.requests = connection.requests.saturating_add(1);
    exchange.connection = connection.context();
    let limits = &local.options.limits;
    let keep_alive = refused.is_none()
        && wire.keep_alive
        && !connection.is_closing(local.now_ms())
        && !local.shared.memory.sheds_idle()
        && (limits.max_requests_per_connection == 0
            || u64::from(connection.requests) < limits.max_requests_per_connection);
    if limits.request_timeout_ms != 0 {
        timer.deadline.set_cap(exchange.times.started_ns / 1_000_000 + limits.request_timeout_ms);
    }
    let mut server = H1Server::new(connection, exchange, wire, local.take_bytes(), keep_alive);
    let Served { outcome, log } = match refused {
        None => pipeline::run(&timer.context, exchange, &mut server, &timer.deadline).await,
        Some(failure) => {
            PooledBox::pin(pipeline::refuse(&timer.context, exchange, &mut server, &timer.deadline, failure))
                .await
        }
    };
    if limits.request_timeout_ms != 0 {
        // What follows is no longer about this request; a tunnel is none.
        timer.deadline.clear_cap();
    }
    let after = match outcome {
        Outcome::Done => {
            let (after, bytes) = server.end();
            local.give_bytes(bytes);
            after
        }
        Outcome::Tunnel(origin) => {
            let (connection, bytes) = server.into_tunnel();
            local.give_bytes(bytes);
            PooledBox::pin(tunnel::run(&timer.deadline, exchange, connection, *origin)).await;
            After::Over
        }
    };
    pipeline::log(&timer.context, exchange, log);
    after
}

/// What came where a request was expected.
enum Arrived {
    /// The head of a request.
    Head(RequestWire),
    /// A part of one; the connection keeps it.
    Part,
    /// Nothing yet.
    Nothing,
    /// The end of the connection.
    End,
}

/// Reads one request's head, once it has begun to arrive. Whoever sends it in parts holds no exchange while the rest is
/// on its way.
async fn read_head(
    timer: &ConnectionTimer,
    connection: &mut Connection,
    exchange: &mut Exchange,
) -> Result<Arrived, Failure> {
    let local = &timer.context.local;
    let limits = &local.options.limits;
    let mut input = connection.input.take().unwrap_or_else(Connection::take_input);
    let before = connection.partial.take();
    let mut wire = RequestWire::default();
    exchange.times.started_ns = before.map_or_else(|| local.clock_ns(), |partial| partial.started_ns);
    let result = poll_fn(|cx| {
        loop {
            if !input.filled().is_empty() {
                match parse_request(input.filled(), &mut exchange.request, &mut wire, &limits.head) {
                    Ok(HeadStatus::Complete { head_bytes }) => {
                        input.consume(head_bytes);
                        exchange.stats.request_bytes = head_bytes as u64;
                        return Poll::Ready(Ok(Arrived::Head(wire)));
                    }
                    Ok(HeadStatus::Partial) => make_room(&mut input, &limits.head),
                    Err(error) => return Poll::Ready(Err(head_failure(&error))),
                }
            }
            match connection.stream.poll_read_at_once(cx, input.spare_mut()) {
                Poll::Ready(Ok(0)) if input.filled().is_empty() => return Poll::Ready(Ok(Arrived::End)),
                Poll::Ready(Ok(0)) => {
                    // Bytes that came since the first look may be malformed, so that all of them are parsed again.
                    exchange.request.clear();
                    wire = RequestWire::default();
                    let failure =
                        match parse_request(input.filled(), &mut exchange.request, &mut wire, &limits.head) {
                            Err(error) => head_failure(&error),
                            Ok(_) => Failure::new(
                                Cause::BadRequest,
                                "the connection closed inside the request head",
                            ),
                        };
                    return Poll::Ready(Err(failure));
                }
                Poll::Ready(Ok(count)) => input.advance(count),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(Arrived::End)),
                // The event loop takes every fresh connection for readable: it goes back to waiting, without a buffer.
                Poll::Pending if input.filled().is_empty() => return Poll::Ready(Ok(Arrived::Nothing)),
                Poll::Pending if before.is_some() && timer.deadline.expired() => {
                    let detail = "the request head did not arrive in time";
                    return Poll::Ready(Err(Failure::new(Cause::HeadTimeout, detail)));
                }
                Poll::Pending => {
                    if before.is_none() {
                        timer.deadline.set(cx, limits.head_timeout_ms);
                    }
                    let started_ns = exchange.times.started_ns;
                    let scanned_bytes = input.filled().len();
                    connection.partial = Some(PartialHead { started_ns, scanned_bytes });
                    return Poll::Ready(Ok(Arrived::Part));
                }
            }
        }
    })
    .await;
    connection.input = Some(input);
    result
}

/// Makes room for more of a head: what earlier requests left in front, then as much again as has come.
fn make_room(input: &mut Buffer, limits: &HeadLimits) {
    if input.spare_mut().is_empty() {
        input.compact();
    }
    if input.is_full() {
        input.double_to(limits.max_head_bytes + 1);
    }
}

fn head_failure(error: &HeadError) -> Failure {
    let cause = match error.status() {
        413 => Cause::BodyTooLarge,
        414 => Cause::LineTooLong,
        417 => Cause::ExpectationFailed,
        431 => Cause::HeadTooLarge,
        501 => Cause::NotImplemented,
        505 => Cause::VersionNotSupported,
        _ => Cause::BadRequest,
    };
    Failure::new(cause, error.reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that `make` makes.
    fn size_of_future<F: Future>(_make: impl FnOnce(Box<Connection>, ConnectionTimer) -> F) -> usize {
        size_of::<F>()
    }

    /// The design's figure. A TLS connection will hold some 10 KiB of its own.
    #[test]
    fn idle_connection_takes_less_than_1_kib() {
        let bytes = size_of_future(serve) + size_of::<Connection>();
        assert!(bytes <= 1024, "{bytes} bytes for a connection that waits");
    }
}
