//! # error-log-logger
//!
//! Reports the lines of the gateway's own error log to a TCP server, SkyWalking, ClickHouse or Kafka.
//!
//! ```json
//! {}
//! ```
//!
//! The plugin runs as long as it has metadata (`plugin_metadata/error-log-logger`), and stands in no route;
//! an object that has it is accepted, as in APISIX, and changes nothing. The metadata name one destination:
//!
//! ```json
//! {
//!   "tcp": { "host": "127.0.0.1", "port": 5044 },
//!   "level": "WARN",
//!   "inactive_timeout": 1
//! }
//! ```
//!
//! | destination | what it gets |
//! |---|---|
//! | `tcp` | the lines, each with a line feed, over connections that are kept; with `tls` encrypted, the name `tls_server_name` sent as SNI, and not verified |
//! | `skywalking` | `POST` of a JSON list of log records to `endpoint_addr`; `$hostname` as `service_instance_name` stands for the name of this machine |
//! | `clickhouse` | `INSERT INTO logtable FORMAT JSONEachRow`, with the line in the column `data` |
//! | `kafka` | each line as a JSON text; the fields are those of [`kafka-logger`](kafka-logger.md) |
//!
//! `host`, `port`, `tls` and `tls_server_name` beside the others are the older form of `tcp`.
//!
//! Lines are those of the setting `log_level` that are as severe as `level`: `ERR` and what is above it are
//! `error`, `WARN` is `warn`, `NOTICE` and `INFO` are `info`. They have the form of the setting
//! `error_log_format`. Lines about this report, such as that its destination is down, are in the error log
//! and not reported. At most 8,192 lines wait; further ones are dropped and counted
//! ([metrics](../../guide/observability.md#metrics)). [The guide](../../guide/plugins.md#calls-and-queues)
//! says when a batch is sent, repeated and dropped.

mod metadata;
mod sink;

use std::sync::Arc;

use exchange::observe::error_tap::ErrorTapReader;
use exchange::plugin::batch::{BatchQueue, QueueSettings};
use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::{Value, json};

use crate::shared::config;
use metadata::ErrorLogLoggerMetadata;
use sink::ErrorLogSink;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(NAME, 1091, &[], schema, build)
    .global()
    .with_metadata(metadata::schema)
    .checked_metadata(|written| {
        metadata::read_error_log_metadata(written).and_then(|metadata| metadata.check())
    })
    .running_by_metadata()
    .documented(include_str!("error_log_logger.rs"));

const NAME: &str = "error-log-logger";
/// The owner of the instance that the metadata make.
const OWNER: &str = "/plugin_metadata/error-log-logger";
/// Lines that wait.
const PENDING_MAX: usize = 8_192;

fn schema() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// The reader of the error log; none in an object.
struct ErrorLogLogger {
    _reader: Option<ErrorTapReader>,
}

impl Plugin for ErrorLogLogger {}

fn build(build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let Some(written) = build.metadata.filter(|_| build.owner == OWNER) else {
        return Ok(Arc::new(ErrorLogLogger { _reader: None }));
    };
    let metadata = metadata::read_error_log_metadata(written)?;
    let key = format!("{NAME}/{}", config::identity(written));
    let queue = build.states.keep(&key, || {
        let destination = ErrorLogSink::new(build.services, &metadata)?;
        build.services.queue(settings(&metadata), destination)
    });
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(Arc::new(ErrorLogLogger { _reader: Some(reader(queue, &metadata)) }))
}

fn reader(queue: Arc<Result<BatchQueue, String>>, metadata: &ErrorLogLoggerMetadata) -> ErrorTapReader {
    let take = move |line: &[u8]| {
        if let Ok(queue) = &*queue {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            queue.push_silently(line.to_vec());
        }
    };
    ErrorTapReader::open(OWNER, metadata.level.severity(), Box::new(take))
}

fn settings(metadata: &ErrorLogLoggerMetadata) -> QueueSettings {
    let ms = |seconds: u64| seconds.saturating_mul(1_000);
    QueueSettings {
        name: metadata.name.clone(),
        owner: OWNER.into(),
        // 0, which the contract allows, would mean a batch of nothing.
        batch_max_entries: metadata.batch_max_size.max(1),
        buffer_duration_ms: ms(metadata.buffer_duration),
        inactive_timeout_ms: ms(metadata.inactive_timeout),
        max_retry_count: metadata.max_retry_count,
        retry_delay_ms: ms(metadata.retry_delay),
        max_pending_entries: PENDING_MAX,
    }
}

#[cfg(test)]
mod tests;
