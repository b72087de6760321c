//! The limits of a connection to an endpoint and its windows, as the settings and the memory limit have them.
//! It knows no connection.

use http2::{Config, Limits};
use message::HeadLimits;

use crate::h2::windows::{WindowSizer, Windows};
use exchange::WorkerLocal;

/// The largest window of a connection (RFC 9113 section 6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;

/// The windows of a connection. Each stream is bounded by its own. If that of the connection were smaller
/// than all of them together, clients that take nothing would stop the others.
pub(super) fn upstream_window_sizer(local: &WorkerLocal) -> WindowSizer {
    let limits = &local.options.limits;
    let own = &limits.upstream_http2;
    let connection_bytes = u64::from(own.max_streams) * u64::from(own.stream_window_bytes);
    let settings = Windows {
        stream_bytes: own.stream_window_bytes,
        connection_bytes: connection_bytes.min(WINDOW_MAX) as u32,
    };
    let is_short = local.shared.memory.sheds_idle();
    WindowSizer::new(settings, limits.memory_limit_bytes, own.max_streams, is_short)
}

/// The limits of a connection, as the settings have them.
pub(super) fn limits(local: &WorkerLocal, windows: Windows) -> Config {
    let limits = &local.options.limits;
    Config {
        max_streams: limits.upstream_http2.max_streams,
        stream_window_bytes: windows.stream_bytes,
        connection_window_bytes: windows.connection_bytes,
        head: HeadLimits { ..limits.origin_head },
        output_bytes: Limits::OUTPUT_BYTES,
        extended_connect: false,
        ..Config::default()
    }
}
