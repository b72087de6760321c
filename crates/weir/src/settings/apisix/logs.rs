//! The logs and the workers of `nginx_config`. Opens no file.

use super::super::fault::SettingLocation;
use super::super::parse;
use super::super::written::SettingTexts;
use super::draft::{At, Draft, Spot};
use super::units;

/// Values of the keys of the access log, combined when all are read.
#[derive(Default)]
pub(super) struct AccessLog {
    enable: Option<(At, bool)>,
    path: Option<(At, String)>,
    format: Option<(At, String)>,
}

/// `nginx_config.error_log`.
pub(super) fn convert_error_log(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    match draft.text(spot) {
        None => {}
        Some("/dev/stderr" | "stderr") => draft.set_one(&spot.at(), "error_log", "stderr"),
        Some(path) if path.starts_with("syslog:") => no_syslog(draft, spot),
        Some(path) => {
            let path = draft.beneath_home(path);
            draft.set_one(&spot.at(), "error_log", path);
        }
    }
}

/// `nginx_config.error_log_level`: a level that Weir does not have becomes the next more verbose one.
pub(super) fn error_log_level(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(level) = draft.text(spot) else { return };
    let known = match level {
        "debug" | "info" | "warn" | "error" => level,
        "notice" => "info",
        "crit" | "alert" | "emerg" => "error",
        other => {
            let reason = format!(
                "`{other}` is not a level; write debug, info, notice, warn, error, crit, alert or emerg"
            );
            return draft.fault(spot.key, spot.node.line, reason);
        }
    };
    draft.set_one(&spot.at(), "log_level", known);
}

/// `plugin_attr.log-rotate.max_size`: no size at all is a negative number there.
pub(super) fn rotated_size(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(bytes) = draft.text(spot) else { return };
    let bytes = if bytes.starts_with('-') { "0" } else { bytes };
    draft.set_one(&spot.at(), "log_rotate_max_bytes", bytes);
}

/// `nginx_config.http.enable_access_log`.
pub(super) fn enable_access_log(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.access_log.enable = draft.switch(spot).map(|on| (spot.at(), on));
}

/// `nginx_config.http.access_log`.
pub(super) fn convert_access_log(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.access_log.path = draft.text(spot).map(|path| (spot.at(), path.to_owned()));
}

/// `nginx_config.http.access_log_format`.
pub(super) fn convert_access_log_format(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.access_log.format = draft.text(spot).map(|format| (spot.at(), format.to_owned()));
}

/// `nginx_config.worker_shutdown_timeout`.
pub(super) fn shutdown_timeout(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(milliseconds) = units::milliseconds(draft, spot) {
        draft.set_one(&spot.at(), "grace_seconds", milliseconds.div_ceil(1_000).to_string());
    }
}

/// `nginx_config.http.keepalive_timeout`; 0 closes each connection after one request.
pub(super) fn keepalive_timeout(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    match units::milliseconds(draft, spot) {
        None => {}
        Some(0) => draft.set_one(&spot.at(), "max_requests_per_connection", "1"),
        Some(milliseconds) => draft.set_one(&spot.at(), "idle_timeout_ms", milliseconds.to_string()),
    }
}

/// `nginx_config.http.client_max_body_size`.
pub(super) fn client_max_body_size(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(bytes) = units::read_size(draft, spot) {
        draft.set_one(&spot.at(), "max_body_bytes", bytes.to_string());
    }
}

/// `apisix.enable_dev_mode`: one worker.
pub(super) fn dev_mode(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if draft.switch(spot) == Some(true) {
        draft.set_one(&spot.at(), "workers", "1");
    }
}

/// `apisix.dns_resolver_valid`: seconds that replace every TTL.
pub(super) fn dns_valid(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(milliseconds) = units::milliseconds(draft, spot) {
        for setting in ["dns_ttl_min_ms", "dns_ttl_max_ms"] {
            draft.set_one(&spot.at(), setting, milliseconds.to_string());
        }
    }
}

/// Decides the target and the format of the access log.
pub(super) fn finish_logs(draft: &mut Draft<'_>) {
    let AccessLog { enable, path, format } = std::mem::take(&mut draft.access_log);
    match (enable, path) {
        (Some((at, false)), _) => return draft.set_one(&at, "access_log", "off"),
        (_, Some((at, path))) if path.starts_with("syslog:") => {
            draft.remark(&at.key, at.line, NO_SYSLOG.to_owned());
        }
        (_, Some((at, path))) => target(draft, &at, &path),
        (Some((at, true)), None) => target(draft, &at, DEFAULT_ACCESS_LOG),
        (None, None) => {}
    }
    let Some((at, format)) = format else { return };
    // Unescaped as nginx does, because nginx has the format in quotes.
    let format = format.trim().replace("\\\"", "\"").replace("\\'", "'");
    let given = SettingTexts { values: vec![format.clone()], place: SettingLocation::Default };
    match parse::parse_access_log_format(&given) {
        Ok(_) => draft.set_one(&at, "access_log_format", format),
        Err(reason) => draft.remark(&at.key, at.line, format!("the usual format is written: {reason}")),
    }
}

fn target(draft: &mut Draft<'_>, at: &At, path: &str) {
    let target = match path {
        "/dev/stdout" | "stdout" => "stdout".to_owned(),
        "off" => "off".to_owned(),
        path => draft.beneath_home(path),
    };
    draft.set_one(at, "access_log", target);
}

fn no_syslog(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.remark(spot.key, spot.node.line, NO_SYSLOG.to_owned());
}

const NO_SYSLOG: &str = "there is no syslog target; write a path, /dev/stdout or /dev/stderr";

const DEFAULT_ACCESS_LOG: &str = "logs/access.log";
