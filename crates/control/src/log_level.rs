//! `/v1/weir/log_level` of the control API: the level of the instance's own log, read and changed while it
//! runs. It does not know which levels exist.

use bytes::Bytes;
use http::{Response, StatusCode};
use jsonx::Bounds;
use model::report::LogLevel;
use serde::Deserialize;
use serde_json::json;

use crate::serve::respond;

/// The body of a `PUT`, and of every successful answer: `{"level": "warn,control=debug"}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogLevelBody {
    level: String,
}

/// The level in force.
pub(crate) fn get_log_level(log: Option<&dyn LogLevel>) -> Response<Bytes> {
    log.map_or_else(not_here, shown)
}

/// Sets the level until the next change or the end of the process; 400 with the reason where the text is no
/// level.
pub(crate) fn put_log_level(log: Option<&dyn LogLevel>, body: &[u8]) -> Response<Bytes> {
    let Some(log) = log else { return not_here() };
    let before = log.level();
    let set = jsonx::read::<LogLevelBody>(body, Bounds::SMALL)
        .map_err(|fault| format!("write {{\"level\": \"debug\"}}: {fault}"))
        .and_then(|body| log.set_level(&body.level));
    match set {
        Ok(()) => {
            tracing::info!(before, now = log.level(), "the log level was changed");
            shown(log)
        }
        Err(reason) => respond::error_response(StatusCode::BAD_REQUEST, reason),
    }
}

fn shown(log: &dyn LogLevel) -> Response<Bytes> {
    respond::json(StatusCode::OK, &json!({ "level": log.level() }))
}

fn not_here() -> Response<Bytes> {
    respond::error_response(StatusCode::NOT_FOUND, "the log of this gateway has a fixed level")
}
