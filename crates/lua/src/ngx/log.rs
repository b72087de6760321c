//! `ngx.log`: lines of programs in the log of the gateway, with the plugin and the phase.

use mlua::LuaString;

use super::Adder;

/// The longest line, in bytes, as in nginx (2048 with the time and the level).
const LINE_MAX_BYTES: usize = 2_048;

pub(super) fn install_logging(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("ngx_log", |state, _, (level, text): (u8, LuaString)| {
        let text = text.as_bytes();
        let line = String::from_utf8_lossy(&text[..text.len().min(LINE_MAX_BYTES)]);
        let call = state.call().ok();
        let (plugin, phase) = call.as_ref().map_or(("", "init"), |call| (call.instance.name, call.phase));
        match level {
            0..=4 => tracing::error!(plugin, phase, "{line}"),
            5 => tracing::warn!(plugin, phase, "{line}"),
            6 | 7 => tracing::info!(plugin, phase, "{line}"),
            _ => tracing::debug!(plugin, phase, "{line}"),
        }
        Ok(())
    })?;
    add.add("get_phase", |state, _, ()| Ok(state.call().map_or("init", |call| call.phase)))
}
