//! The state of an HTTP/3 connection that its task and its streams share: the engine, the transport, and how
//! the connection fails. It reads no stream.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use http3::{Config, ConnectionError, ErrorCode};
use message::HeadLimits;
use quinn::{RecvStream, SendStream, VarInt};

use crate::context::WorkerContext;
use net::env::random_u64;
use net::quic::{Guarded, QuicHealth};

/// A bidirectional stream that the client has opened.
pub(super) type RequestStream = (Guarded<SendStream>, Guarded<RecvStream>);

/// See the module. No borrow of the engine outlasts one call, because streams are polled by the same task.
pub(super) struct H3Link {
    engine: RefCell<http3::Connection>,
    pub(super) quic: Guarded<quinn::Connection>,
    pub(super) context: Rc<WorkerContext>,
    /// Streams that have not been begun. The transport's limits of streams bound them.
    pub(super) requests: RefCell<VecDeque<RequestStream>>,
    pub(super) unidirectional: RefCell<VecDeque<Guarded<RecvStream>>>,
    is_lost: Cell<bool>,
}

impl H3Link {
    /// The link of a connection that has ended its handshake.
    pub(super) fn new(quic: Guarded<quinn::Connection>, context: &Rc<WorkerContext>) -> Rc<H3Link> {
        Rc::new(H3Link {
            engine: RefCell::new(http3::Connection::server(config(context))),
            quic,
            context: context.clone(),
            requests: RefCell::default(),
            unidirectional: RefCell::default(),
            is_lost: Cell::new(false),
        })
    }

    /// The engine, for one call.
    #[inline]
    pub(super) fn engine(&self) -> RefMut<'_, http3::Connection> {
        self.engine.borrow_mut()
    }

    /// The health of the endpoint.
    pub(super) fn health(&self) -> &QuicHealth {
        self.quic.health()
    }

    /// Whether no stream can be read or written any more.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get() || self.health().has_failed()
    }

    /// The transport is gone.
    pub(super) fn lose(&self) {
        self.is_lost.set(true);
    }

    /// Closes the connection; later calls change nothing.
    pub(super) fn close(&self, code: ErrorCode, reason: &str) {
        if !self.is_lost.replace(true) {
            self.quic.call_ref(|quic| quic.close(number(code), reason.as_bytes()));
        }
    }

    /// Counts a request that the client has given up.
    pub(super) fn note_reset(&self) {
        let counted = self.engine().request_reset();
        if let Err(error) = counted {
            self.fail(error);
        }
    }

    /// Closes the connection because the client broke one of its rules.
    pub(super) fn fail(&self, error: ConnectionError) {
        tracing::debug!(code = %error.code, reason = error.reason, "an HTTP/3 connection is closed for a fault");
        self.close(error.code, error.reason);
    }
}

/// An error code as the transport takes it. One of a peer's that is too large is none that this side sends.
pub(super) fn number(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// The limits of a connection, as the settings have them.
fn config(context: &WorkerContext) -> Config {
    let limits = &context.local.options.limits;
    Config { head: HeadLimits { ..limits.head }, extended_connect: true, grease: Some(random_u64()) }
}
