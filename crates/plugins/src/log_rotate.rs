//! # log-rotate
//!
//! Rotates the access log and the error log of the gateway: renames them by the time, opens new ones, and
//! removes the oldest.
//!
//! ```json
//! {}
//! ```
//!
//! It is switched on by the setting [`log_rotate`](../settings.md#log_rotate), or by its name in the list
//! `plugins` of an APISIX `config.yaml`, and works for the whole process: an object that has the plugin is
//! accepted, as in APISIX, and changes nothing. `plugin_attr.log-rotate` of the `config.yaml` becomes these
//! settings:
//!
//! | `plugin_attr.log-rotate` | setting | default | meaning |
//! |---|---|---|---|
//! | `interval` | [`log_rotate_interval`](../settings.md#log_rotate_interval) | 3600 | seconds between two rotations, which are at multiples of it |
//! | `max_kept` | [`log_rotate_max_kept`](../settings.md#log_rotate_max_kept) | 168 | rotated files of each log that are kept |
//! | `max_size` | [`log_rotate_max_size`](../settings.md#log_rotate_max_size) | none | bytes from which a log is rotated before its time |
//! | `enable_compression` | [`log_rotate_compression`](../settings.md#log_rotate_compression) | false | packs rotated files with `tar` |
//! | `timeout` | [`log_rotate_timeout`](../settings.md#log_rotate_timeout) | 10000 | milliseconds a compression may take |
//!
//! A rotated file is named by its time in UTC: `2026-11-25_20-15-00__access.log`, compressed with `.tar.gz`
//! behind it. It is compressed a second after it was renamed, because another process may still write to it
//! during an upgrade; not before the new log is open; and not if the process ends in this second. Only logs
//! that are files are rotated; those of `file-logger` are not. The signal USR1 with logrotate does the same
//! from outside ([operations](../../guide/operations.md)).

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::{Value, json};

/// The plugin. Its work is that of the process, which has the log files.
pub(crate) const KIND: PluginKind =
    PluginKind::new("log-rotate", 100, &[], schema, build).global().documented(include_str!("log_rotate.rs"));

fn schema() -> Value {
    json!({ "type": "object", "properties": {} })
}

struct LogRotate;

impl Plugin for LogRotate {}

fn build(_build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(LogRotate))
}

#[cfg(test)]
mod tests {
    use exchange::testing::check_configuration;
    use model::catalog::SchemaType;

    use super::*;

    #[test]
    fn object_with_it_is_accepted() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!([]), Some("object"));
    }
}
