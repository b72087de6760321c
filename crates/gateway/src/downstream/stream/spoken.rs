//! A session with a protocol that is spoken inside: the protocol reads the bytes of both ways before they are
//! passed on, may hold the client's back, and ends a session that breaks its rules. Loggers see each call.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::body::Capacity;
use crate::runtime::StreamRoute;
use crate::runtime::stream_route::SpokenProtocol;
use crate::tunnel::TunnelEnd;
use exchange::plugin::stream::StreamSession;
use exchange::plugin::stream::chain::StreamChain;
use exchange::plugin::stream::protocol::{ProtocolCall, ProtocolSession};
use net::env;

/// The protocol of one session. Both ends of its tunnel share it.
#[derive(Clone)]
pub(super) struct Spoken(Rc<RefCell<SpokenProtocolState>>);

struct SpokenProtocolState {
    protocol: Box<dyn ProtocolSession>,
    calls: Calls,
    fault: Option<Cow<'static, str>>,
}

/// The loggers of calls, with the session as they see it.
struct Calls {
    route: Arc<StreamRoute>,
    session: Option<Box<StreamSession>>,
}

/// The side of a tunnel that bytes come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TunnelSide {
    Client,
    Node,
}

impl Spoken {
    /// Begins to read the session of a route, if that names a protocol.
    pub(super) fn begin(route: &Arc<StreamRoute>, session: &StreamSession) -> Option<Spoken> {
        let SpokenProtocol { protocol, loggers } = route.spoken.as_ref()?;
        let is_logged = !loggers.instances().is_empty();
        let calls = Calls { route: route.clone(), session: is_logged.then(|| Box::new(session.clone())) };
        let protocol = protocol.open(session, is_logged);
        Some(Spoken(Rc::new(RefCell::new(SpokenProtocolState { protocol, calls, fault: None }))))
    }

    /// The client's end of the tunnel.
    pub(super) fn client<E: TunnelEnd>(&self, inner: E) -> SpokenEnd<E> {
        SpokenEnd { inner, spoken: self.clone(), side: TunnelSide::Client, shown_bytes: 0, delay: None }
    }

    /// The node's end of the tunnel.
    pub(super) fn node<E: TunnelEnd>(&self, inner: E) -> SpokenEnd<E> {
        SpokenEnd { inner, spoken: self.clone(), side: TunnelSide::Node, shown_bytes: 0, delay: None }
    }

    /// The session is over: why its bytes broke the rules, if they did.
    pub(super) fn end(self) -> Option<Cow<'static, str>> {
        let SpokenProtocolState { protocol, calls, fault } = &mut *self.0.borrow_mut();
        protocol.close(&mut |call| calls.log(call));
        fault.take()
    }

    /// Shows bytes to the protocol; how many milliseconds they are held back.
    fn read(&self, side: TunnelSide, bytes: &[u8]) -> io::Result<u64> {
        let SpokenProtocolState { protocol, calls, fault } = &mut *self.0.borrow_mut();
        let read = match side {
            TunnelSide::Client => protocol.client_sent(bytes),
            TunnelSide::Node => protocol.node_sent(bytes, &mut |call| calls.log(call)).map(|()| 0),
        };
        read.map_err(|reason| {
            *fault = Some(reason);
            io::ErrorKind::InvalidData.into()
        })
    }
}

impl Calls {
    fn log(&mut self, call: ProtocolCall) {
        let Some(session) = &mut self.session else { return };
        for (name, value) in call.variables {
            session.set_variable(name, value);
        }
        session.ended_ns = env::monotonic_ns();
        let loggers: Option<&StreamChain> = self.route.spoken.as_ref().map(|spoken| &spoken.loggers);
        loggers.into_iter().for_each(|loggers| loggers.log(session));
    }
}

/// One end of the tunnel of such a session: its bytes are passed on once the protocol has read them and does
/// not hold them back.
pub(super) struct SpokenEnd<E> {
    inner: E,
    spoken: Spoken,
    side: TunnelSide,
    /// How many of the held bytes may be passed on.
    shown_bytes: usize,
    delay: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl<E: TunnelEnd> TunnelEnd for SpokenEnd<E> {
    fn held(&self) -> &[u8] {
        &self.inner.held()[..self.shown_bytes]
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.shown_bytes -= count;
    }

    fn commit(&mut self) -> io::Result<()> {
        self.inner.commit()
    }

    fn release(&mut self) -> io::Result<()> {
        self.inner.release()
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, capacity: Capacity) -> Poll<io::Result<usize>> {
        if self.delay.is_none() {
            if self.inner.held().is_empty() {
                // Peeked bytes would be read a second time.
                let capacity = Capacity::Firm(capacity.bytes());
                if ready!(self.inner.poll_fill(cx, capacity))? == 0 {
                    return Poll::Ready(Ok(0));
                }
            }
            let delay_ms = self.spoken.read(self.side, self.inner.held())?;
            if delay_ms > 0 {
                self.delay = Some(Box::pin(env::sleep_ms(delay_ms)));
            }
        }
        if let Some(delay) = &mut self.delay {
            ready!(delay.as_mut().poll(cx));
            self.delay = None;
        }
        self.shown_bytes = self.inner.held().len();
        Poll::Ready(Ok(self.shown_bytes))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_write(cx, data)
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_writable(cx)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_shutdown(cx)
    }

    fn reset_on_close(&mut self) {
        self.inner.reset_on_close();
    }

    fn end_on_close(&mut self) {
        self.inner.end_on_close();
    }
}
