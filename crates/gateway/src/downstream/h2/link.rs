//! The state of an HTTP/2 connection that its task and its streams share: the engine. It knows no socket.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use http2::{Config, Connection, Limits};
use message::HeadLimits;

use crate::context::WorkerContext;

/// See the module. No borrow of the engine outlasts one call, because streams are polled by the same task.
pub(super) struct Link {
    engine: RefCell<Connection>,
    pub(super) context: Rc<WorkerContext>,
}

impl Link {
    /// The link of a connection that was just accepted.
    pub(super) fn new(context: &Rc<WorkerContext>) -> Rc<Link> {
        let engine = RefCell::new(Connection::server(config(context)));
        Rc::new(Link { engine, context: context.clone() })
    }

    /// The engine, for one call.
    #[inline]
    pub(super) fn engine(&self) -> RefMut<'_, Connection> {
        self.engine.borrow_mut()
    }
}

/// The limits of a connection, as the settings have them.
fn config(context: &WorkerContext) -> Config {
    let limits = &context.local.options.limits;
    let h2 = &limits.http2;
    Config {
        max_streams: h2.max_streams,
        stream_window_bytes: h2.stream_window_bytes,
        connection_window_bytes: h2.connection_window_bytes,
        head: HeadLimits { ..limits.head },
        output_bytes: Limits::OUTPUT_BYTES,
        extended_connect: true,
        ..Config::default()
    }
}
