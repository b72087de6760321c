//! The usable plugins, and the size of a body that is read for matching. Builds no plugin.

use std::path::Path;

use super::draft::{At, Draft, Spot};
use super::units;
use crate::settings::LUA_FOLDERS;

/// The plugin that reports to etcd wherever it is listed.
const SERVER_INFO: &str = "server-info";
/// Seconds that APISIX lets a report live if nothing is written.
const REPORT_TTL_S: u64 = 60;

/// The reports of `server-info`: they are on if the plugin is listed.
#[derive(Default)]
pub(super) struct ServerInfo {
    listed: Option<At>,
    ttl_s: Option<u64>,
}

/// Plugins that are not built in, and the folders with those in Lua.
#[derive(Default)]
pub(super) struct LuaPlugins {
    listed: Option<(At, Vec<String>)>,
    /// Those of `stream_plugins`.
    listed_for_streams: Option<(At, Vec<String>)>,
    folders: Vec<String>,
}

/// Two limits of APISIX that are one setting here: the larger one counts.
#[derive(Default)]
pub(super) struct BodyLimits {
    largest: Option<(At, u64)>,
}

/// `plugins`: those of the list that are built in. An object that names another one is faulty, so that no
/// route is served without a plugin that protects it.
pub(super) fn convert_plugin_list(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(names) = draft.texts(spot) else { return };
    let is_known = |name: &String| plugins::ALL.iter().any(|kind| kind.name == name);
    let (known, unknown): (Vec<String>, Vec<String>) = names.into_iter().partition(is_known);
    draft.lua_plugins.listed = Some((spot.at(), unknown));
    if known.iter().any(|name| name == SERVER_INFO) {
        draft.server_info.listed = Some(spot.at());
    }
    if known.iter().any(|name| name == ROTATES_LOGS) {
        draft.set_one(&spot.at(), "log_rotate", "true");
    }
    draft.set(&spot.at(), "plugins", known);
}

/// `stream_plugins`: those of the list that are built in need no setting.
pub(super) fn stream_list(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(names) = draft.texts(spot) else { return };
    let is_own = |name: &String| plugins::ALL.iter().all(|kind| kind.name != name);
    draft.lua_plugins.listed_for_streams = Some((spot.at(), names.into_iter().filter(is_own).collect()));
}

/// `apisix.extra_lua_path`: patterns such as `/opt/plugins/?.lua`, with semicolons between.
pub(super) fn extra_lua_path(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(text) = draft.text(spot) else { return };
    let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let folder = |entry: &str| draft.beneath_home(entry.split('?').next().unwrap_or_default());
    let folders: Vec<String> = entries.map(folder).filter(|folder| !folder.is_empty()).collect();
    draft.set(&spot.at(), "lua_path", folders.clone());
    draft.lua_plugins.folders = folders;
}

/// `graphql.max_size`, in bytes.
pub(super) fn graphql_limit(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(bytes) = units::read_size(draft, spot) {
        body_limit(draft, spot, bytes);
    }
}

/// `apisix.max_post_args_readable_size`, in MiB; 0 is no limit there, and the largest one here.
pub(super) fn post_args_limit(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(text) = draft.text(spot) else { return };
    let Ok(written) = text.parse::<u64>() else {
        let reason = format!("`{text}` is not a number of MiB");
        return draft.fault(spot.key, spot.node.line, reason);
    };
    if written == 0 || written > MATCHED_BODY_MAX_MIB {
        let reason =
            format!("it is a number of MiB, and {MATCHED_BODY_MAX_MIB} MiB is the most that is read");
        draft.remark(spot.key, spot.node.line, reason);
    }
    let mib = if written == 0 { MATCHED_BODY_MAX_MIB } else { written.min(MATCHED_BODY_MAX_MIB) };
    body_limit(draft, spot, mib << 20);
}

/// The largest `max_matched_body_bytes`, in MiB.
const MATCHED_BODY_MAX_MIB: u64 = 64;

fn body_limit(draft: &mut Draft<'_>, spot: &Spot<'_>, bytes: u64) {
    let largest = draft.body_limits.largest.as_ref().map_or(0, |(_, bytes)| *bytes);
    if bytes >= largest {
        draft.body_limits.largest = Some((spot.at(), bytes));
    }
}

/// `ext-plugin.cmd`: the command of the runner.
pub(super) fn runner_command(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(words) = draft.texts(spot) {
        draft.set_one(&spot.at(), "plugin_runner", serde_json::json!(words).to_string());
    }
}

/// `nginx_config.envs`: the variables of the runner. `NAME=` unsets one in nginx, and an empty value is as
/// good.
pub(super) fn runner_environment(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(variables) = draft.texts(spot) else { return };
    let (given, kept): (Vec<_>, Vec<_>) =
        variables.into_iter().partition(|entry| !entry.starts_with("WEIR_"));
    if !kept.is_empty() {
        let reason = format!("no plugin runner gets variables of the gateway: {}", kept.join(", "));
        draft.remark(spot.key, spot.node.line, reason);
    }
    draft.set(&spot.at(), "plugin_runner_environment", given);
}

/// `plugin_attr.server-info.report_ttl`.
pub(super) fn server_info_ttl(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(text) = draft.text(spot) else { return };
    match text.parse() {
        Ok(ttl_s @ 3..=86_400) => draft.server_info.ttl_s = Some(ttl_s),
        _ => draft.fault(spot.key, spot.node.line, format!("`{text}` is not between 3 and 86400")),
    }
}

/// `plugin_attr.redirect.https_port`: a number that is no port stands for a URI without one.
pub(super) fn redirect_https_port_number(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(text) = draft.text(spot) else { return };
    match text.parse::<i64>() {
        Ok(port @ 1..=65_535) => draft.set_one(&spot.at(), "redirect_https_port_number", port.to_string()),
        Ok(_) => draft.set_one(&spot.at(), "redirect_https_port_number", "443"),
        Err(_) => draft.fault(spot.key, spot.node.line, format!("`{text}` is no number")),
    }
}

/// A plugin of APISIX that works for the whole process, which here is a setting.
const ROTATES_LOGS: &str = "log-rotate";

/// Writes the limit, the life of reports, and the plugins in Lua: those with a file in a folder of Lua.
pub(super) fn finish_plugins(draft: &mut Draft<'_>) {
    let base = draft.path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let folders = std::mem::take(&mut draft.lua_plugins.folders);
    let lists = [draft.lua_plugins.listed.take(), draft.lua_plugins.listed_for_streams.take()];
    let mut all_in_lua = Vec::new();
    for ((at, names), of_plugins) in
        lists.into_iter().zip(LUA_FOLDERS).filter_map(|(list, of)| Some((list?, of)))
    {
        let file = |name: &str| Path::new(of_plugins).join(format!("{name}.lua"));
        let is_there =
            |name: &String| folders.iter().any(|folder| base.join(folder).join(file(name)).is_file());
        let (in_lua, unknown): (Vec<String>, Vec<String>) = names.into_iter().partition(is_there);
        if let Some(name) = in_lua.iter().find(|name| all_in_lua.contains(*name)) {
            let reason =
                format!("there are two plugins {name}, of which one is in {of_plugins}: rename one of them");
            draft.fault(&at.key, at.line, reason);
            continue;
        }
        if !in_lua.is_empty() {
            all_in_lua.extend(in_lua);
            draft.set(&at, "lua_plugins", all_in_lua.clone());
        }
        if !unknown.is_empty() {
            let reason = format!("unknown here, objects with one of them are faulty: {}", unknown.join(", "));
            draft.remark(&at.key, at.line, reason);
        }
    }
    if let Some(at) = draft.server_info.listed.take() {
        let ttl_s = draft.server_info.ttl_s.unwrap_or(REPORT_TTL_S);
        draft.set_one(&at, "server_info_report_seconds", ttl_s.to_string());
    }
    if let Some((at, bytes)) = draft.body_limits.largest.take() {
        draft.set_one(&at, "max_matched_body_bytes", bytes.to_string());
    }
}
