//! The state of an HTTP/2 connection that its task and its streams share: the engine. It knows no socket.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;

use http2::{Config, Connection, Limits};
use message::HeadLimits;

use crate::context::WorkerContext;
use crate::h2::windows::{WindowSizer, Windows};

/// See the module. No borrow of the engine outlasts one call, because streams are polled by the same task.
pub(super) struct DownstreamH2Link {
    engine: RefCell<Connection>,
    windows: RefCell<WindowSizer>,
    pub(super) context: Rc<WorkerContext>,
}

impl DownstreamH2Link {
    /// The link of a connection that was just accepted.
    pub(super) fn new(context: &Rc<WorkerContext>) -> Rc<DownstreamH2Link> {
        let windows = sizer(context);
        let engine = Connection::server(config(context, windows.windows()));
        Rc::new(DownstreamH2Link {
            engine: RefCell::new(engine),
            windows: RefCell::new(windows),
            context: context.clone(),
        })
    }

    /// Changes the windows of received data if memory has become short, or is no longer.
    #[inline]
    pub(super) fn adapt_windows(&self) {
        let local = &self.context.local;
        let changed = self.windows.borrow_mut().note(local.shared.memory.sheds_idle(), local.now_ms());
        if let Some(Windows { stream_bytes, connection_bytes }) = changed {
            self.engine().set_window_limits(stream_bytes, connection_bytes);
        }
    }

    /// The engine, for one call.
    #[inline]
    pub(super) fn engine(&self) -> RefMut<'_, Connection> {
        self.engine.borrow_mut()
    }
}

fn sizer(context: &WorkerContext) -> WindowSizer {
    let (local, limits) = (&context.local, &context.local.options.limits);
    let settings = Windows {
        stream_bytes: limits.http2.stream_window_bytes,
        connection_bytes: limits.http2.connection_window_bytes,
    };
    // One stream: a client that uploads to an endpoint which takes nothing only stops itself.
    WindowSizer::new(settings, limits.memory_limit_bytes, 1, local.shared.memory.sheds_idle())
}

/// The limits of a connection, as the settings have them.
fn config(context: &WorkerContext, windows: Windows) -> Config {
    let limits = &context.local.options.limits;
    let h2 = &limits.http2;
    Config {
        max_streams: h2.max_streams,
        stream_window_bytes: windows.stream_bytes,
        connection_window_bytes: windows.connection_bytes,
        head: HeadLimits { ..limits.head },
        output_bytes: Limits::OUTPUT_BYTES,
        extended_connect: true,
        ..Config::default()
    }
}
