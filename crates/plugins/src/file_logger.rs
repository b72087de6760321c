//! # file-logger
//!
//! Appends every request to a file, one JSON object a line. No request waits for it.
//!
//! ```json
//! {
//!   "path": "/var/log/weir/shop.log",
//!   "log_format": { "host": "$host", "@timestamp": "$time_iso8601", "client_ip": "$remote_addr" },
//!   "match": [[["status", ">=", 500]], [["arg_debug", "==", "1"]]]
//! }
//! ```
//!
//! `path` is that of the instance, or of the plugin's metadata; where neither has one, the instance cannot be
//! built. A relative path begins at the working directory of the process. Several instances may write to one
//! file. Folders of the kernel and paths with `..` are refused; `/dev/stdout` and `/dev/stderr` are allowed.
//!
//! With `match`, a list of [conditions](../../guide/routing.md#expressions), a request is logged only if one
//! of them holds; an empty list logs nothing.
//!
//! **Writing.** A thread of its own writes, so that a slow disk holds up no request. A file that was moved
//! away is opened again after a second, or after the signal USR1. At most 8,192 entries of an instance wait;
//! further ones, and entries that cannot be written (the disk is full, the folder is missing), are dropped,
//! counted and reported in the error log.
//!
//! Entries, bodies and formats are those of [`http-logger`](http-logger.md), on stream routes too; conditions
//! read the variables of sessions there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, BatchQueue, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::stream::{StreamKind, StreamPhase, StreamPlugin, StreamSession};
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind};
use router::vars::{Expression, VariableSource};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, AttributeFields, attributes};
use crate::shared::batch::MAX_PENDING_ENTRIES;
use crate::shared::config;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::fields::{BodyFields, FormatFields};
use crate::shared::logger::{self, files};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("file-logger", 399, logger::PHASES, schema, build)
    .checked(|config| read(config).map(drop))
    .with_metadata(metadata_schema)
    .checked_metadata(check_metadata)
    .checked_with_metadata(|config, metadata| path_of(config, metadata).map(drop).map_err(str::to_owned))
    .on_streams(StreamKind { phases: &[StreamPhase::Log], build: build_stream })
    .documented(include_str!("file_logger.rs"));

attributes! {
    struct FileLoggerConfig {
        /// The file that lines are appended to.
        path: Option<String>;
        /// Conditions, of which one has to hold for a request to be logged.
        r#match: Option<Vec<Value>>, { "maxItems": 20, "items": { "type": "array" } };
    }
}

/// The most entries of a line that are written at once, and how long lines wait for others: not at all.
const BATCH_MAX_ENTRIES: usize = 1_000;

fn schema() -> Value {
    let mut schema = FileLoggerConfig::schema();
    for part in [FormatFields::schema(), BodyFields::schema()] {
        let own = schema["properties"].as_object_mut().expect("the schema of an object");
        own.extend(part["properties"].as_object().cloned().unwrap_or_default());
    }
    schema
}

fn metadata_schema() -> Value {
    let mut schema = FormatFields::metadata_schema();
    schema["type"] = "object".into();
    schema["properties"]["path"] = json!({
        "description": "The file of instances that name none.",
        "type": "string",
    });
    schema
}

fn check_metadata(metadata: &Value) -> Result<(), String> {
    if let Some(path) = metadata.get("path").and_then(Value::as_str) {
        check_path(path)?;
    }
    logger::check_log_metadata(metadata)
}

/// The path of the instance, or that of the metadata.
fn path_of<'v>(config: &'v Value, metadata: Option<&'v Value>) -> Result<&'v str, &'static str> {
    let path = |value: &'v Value| value.get("path").and_then(Value::as_str);
    path(config)
        .or_else(|| path(metadata?))
        .ok_or("property \"path\" is not set in either the plugin conf or the metadata")
}

fn check_path(path: &str) -> Result<(), String> {
    if config::is_reference(path) { Ok(()) } else { files::check(path) }
}

/// The fields of an instance, and its compiled conditions.
struct FileLoggerFields {
    conditions: Option<Vec<Expression>>,
    format: FormatFields,
    bodies: BodyFields,
}

fn read(config: &Value) -> Result<FileLoggerFields, String> {
    let mut fields = AttributeFields::of(config.clone())?;
    let own = FileLoggerConfig::take(&mut fields)?;
    let format = FormatFields::take(&mut fields)?;
    let bodies = BodyFields::take(&mut fields)?;
    fields.finish(&[FileLoggerConfig::NAMES, FormatFields::NAMES, BodyFields::NAMES])?;
    if let Some(path) = &own.path {
        check_path(path)?;
    }
    Contents::compile(&format, &bodies, None)?;
    let compile = |written: &Value| {
        let compiled = Expression::compile(written);
        compiled.map_err(|error| format!("failed to validate the 'match' expression: {error}"))
    };
    let conditions = own.r#match.as_ref().map(|all| all.iter().map(compile).collect()).transpose()?;
    Ok(FileLoggerFields { conditions, format, bodies })
}

/// The compiled plugin.
struct FileLogger {
    contents: Contents,
    conditions: Option<Vec<Expression>>,
    queue: Arc<Result<BatchQueue, String>>,
}

/// The file of one instance.
struct LogFile {
    path: PathBuf,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(compile(build, config)?))
}

fn build_stream(build: &Build<'_>, config: &Value) -> Result<Arc<dyn StreamPlugin>, String> {
    Ok(Arc::new(compile(build, config)?))
}

fn compile(build: &Build<'_>, config: &Value) -> Result<FileLogger, String> {
    let written = read(config)?;
    let path = path_of(config, build.metadata)?;
    files::check(path)?;
    let contents = Contents::compile(&written.format, &written.bodies, build.metadata)?;
    let key = format!("file-logger/{}/{path}", build.owner);
    let sink = LogFile { path: Path::new(path).to_owned() };
    let queue = build.states.keep(&key, || build.services.queue(settings(build.owner), sink));
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(FileLogger { contents, conditions: written.conditions, queue })
}

fn settings(owner: &str) -> QueueSettings {
    QueueSettings {
        name: "file logger".into(),
        owner: owner.into(),
        batch_max_entries: BATCH_MAX_ENTRIES,
        buffer_duration_ms: 0,
        inactive_timeout_ms: 0,
        max_retry_count: 0,
        retry_delay_ms: 0,
        max_pending_entries: MAX_PENDING_ENTRIES,
    }
}

impl Plugin for FileLogger {
    fn wants_request_body(&self, _exchange: &Exchange) -> BodyNeed {
        self.contents.wants_request_body()
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        self.contents.wants_response_body(exchange)
    }

    fn log(&self, exchange: &Exchange) {
        if self.applies(exchange) {
            self.push(self.contents.json_of_route(exchange));
        }
    }
}

impl StreamPlugin for FileLogger {
    fn log(&self, session: &StreamSession) {
        if self.applies(session) {
            self.push(self.contents.session_json(session));
        }
    }
}

impl FileLogger {
    fn applies(&self, source: &impl VariableSource) -> bool {
        self.conditions.as_ref().is_none_or(|conditions| conditions.iter().any(|one| one.evaluate(source)))
    }

    fn push(&self, mut line: Vec<u8>) {
        if let Ok(queue) = &*self.queue {
            line.push(b'\n');
            // The queue counts and reports a dropped entry.
            queue.push(line);
        }
    }
}

impl Sink for LogFile {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let written = files::append_log_lines(&self.path, batch.concat()).await;
            let path = self.path.display();
            Ok(written.map_err(|error| format!("failed to write file: {path}, error info: {error}"))?)
        })
    }
}

#[cfg(test)]
mod tests {
    use exchange::plugin::state::StateRegistry;
    use exchange::testing::{accepts, check_configuration, services};
    use model::catalog::SchemaType;

    use super::*;

    #[test]
    fn configurations() {
        let check = |more: Value, fault: Option<&str>| {
            let mut config = json!({"path": "logs/a.log"});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        };
        check(json!({}), None);
        check(
            json!({
                "log_format": {"a": "$host"}, "log_format_extra": {"b": "$uri"}, "include_req_body": true,
                "include_resp_body": true, "max_req_body_bytes": 1,
                "match": [[["arg_name", "==", "jack"]], [["status", ">=", 500], ["uri", "~~", "^/a"]]],
            }),
            None,
        );
        check(json!({"path": "/proc/1/mem"}), Some("path /proc/1/mem is no place for a log"));
        check(json!({"path": 1}), Some("path"));
        check(json!({"match": [["a"]]}), Some("failed to validate the 'match' expression"));
        check(json!({"match": [[["a", "<>", 1]]]}), Some("failed to validate the 'match' expression"));
        check(json!({"match": vec![json!([["uri", "==", "/"]]); 21]}), Some("match"));
        check(json!({"include_req_body_expr": []}), Some("include_req_body_expr"));
        check(json!({"batch_max_size": 1}), Some("batch_max_size"));
        let metadata = |config: Value| accepts(&KIND, SchemaType::Metadata, &config);
        assert_eq!(metadata(json!({"path": "a.log", "log_format": {"a": "$host"}})), Ok(()));
        assert!(metadata(json!({"path": "/sys/a"})).is_err());
        assert!(metadata(json!({"log_format": {"a": "${"}})).is_err());
    }

    #[test]
    fn path_comes_from_instance_or_metadata() {
        let (services, states) = (services(), StateRegistry::default());
        let built = |config: Value, metadata: Option<Value>| {
            let build = exchange::testing::build("/routes/1", metadata.as_ref(), &states, &services);
            (KIND.build)(&build, &config).map(|plugin| {
                let held = ["own.log", "shared.log"].map(|path| {
                    states.held::<Result<BatchQueue, String>>(&format!("file-logger//routes/1/{path}"))
                });
                drop(plugin);
                held.map(|queue| queue.is_some())
            })
        };
        let shared = || Some(json!({"path": "shared.log"}));
        assert_eq!(built(json!({"path": "own.log"}), shared()), Ok([true, false]));
        assert_eq!(built(json!({}), shared()), Ok([false, true]));
        let reason = built(json!({}), None).unwrap_err();
        assert_eq!(reason, "property \"path\" is not set in either the plugin conf or the metadata");
        assert!(built(json!({}), Some(json!({"path": "/dev/mem"}))).is_err());
    }
}
