//! Lines that guests log, and the level above which they are seen.

use tracing::Level;
use wasmtime::{Caller, Error, Linker};

use super::ENV;
use crate::abi::AbiStatus;
use crate::host::Host;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::memory::{HostResult, finish, view, write_u32};

pub(crate) fn add_log_functions(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        ENV,
        "proxy_log",
        |mut caller: Caller<'_, Host>, level: i32, message: i32, size: i32| {
            finish(log(&mut caller, level, message, size))
        },
    )?;
    linker.func_wrap(ENV, "proxy_get_log_level", |mut caller: Caller<'_, Host>, level: i32| {
        finish(write_u32(&mut caller, level, lowest()).map_err(Into::into))
    })?;
    Ok(())
}

/// The number of the lowest level that is written.
fn lowest() -> u32 {
    if tracing::enabled!(target: "wasm", Level::TRACE) {
        0
    } else if tracing::enabled!(target: "wasm", Level::DEBUG) {
        1
    } else if tracing::enabled!(target: "wasm", Level::INFO) {
        2
    } else if tracing::enabled!(target: "wasm", Level::WARN) {
        3
    } else {
        4
    }
}

fn log(caller: &mut Caller<'_, Host>, level: i32, message: i32, size: i32) -> HostResult {
    let level = match level {
        0 => Level::TRACE,
        1 => Level::DEBUG,
        2 => Level::INFO,
        3 => Level::WARN,
        4 | 5 => Level::ERROR,
        _ => return Err(AbiStatus::BadArgument.into()),
    };
    let bytes = view(caller, message, size)?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOG_LINE_BYTES_MAX)]).into_owned();
    write_line(caller.data_mut(), level, &text);
    Ok(())
}

/// Writes a line for the guest, unless it has written too many in this second.
pub(crate) fn write_line(host: &mut Host, level: Level, text: &str) {
    let text = text.trim_end();
    if level == Level::ERROR {
        text.clone_into(&mut host.last_words);
    }
    let now_ms = net::env::monotonic_ns() / 1_000_000;
    if !host.log.allows(now_ms) {
        return;
    }
    let plugin = host.identity.name;
    let dropped = std::mem::take(&mut host.log.dropped);
    if dropped > 0 {
        tracing::warn!(target: "wasm", plugin, count = dropped, "the plugin logs too much; lines were left out");
    }
    match level {
        Level::TRACE => tracing::trace!(target: "wasm", plugin, "{text}"),
        Level::DEBUG => tracing::debug!(target: "wasm", plugin, "{text}"),
        Level::INFO => tracing::info!(target: "wasm", plugin, "{text}"),
        Level::WARN => tracing::warn!(target: "wasm", plugin, "{text}"),
        Level::ERROR => tracing::error!(target: "wasm", plugin, "{text}"),
    }
}
