//! The skeleton of log plugins that send batches: their fields, their metadata, a queue that survives
//! configuration changes, and the calls of the log phase. A log plugin adds its own fields, the form of one
//! entry, and a [`Sink`] for batches.
//!
//! A plugin that needs no queue (a file, for example) uses [`Contents`] without [`LogPlugin`].

pub(crate) mod byte_stream;
pub(crate) mod collector;
pub(crate) mod contents;
pub(crate) mod datagrams;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod log_server;
pub(crate) mod rfc5424;
pub(crate) mod sessions;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod text;
pub(crate) mod times;

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::batch::{BatchQueue, QueueSettings, Sink};
use exchange::plugin::stream::StreamSession;
use exchange::plugin::{BodyNeed, Build, Plugin, PluginKind, PluginPhase};
use serde_json::{Map, Value, json};

use super::attributes::{Attribute, AttributeFields, FieldSet};
use super::batch::{self, BatchFields};
use super::config;
use contents::Contents;
use fields::{BodyFields, FormatFields};

/// The phases of a log plugin that may add bodies to its entries.
pub(crate) const PHASES: &[PluginPhase] =
    &[PluginPhase::RequestBody, PluginPhase::ResponseBody, PluginPhase::Log];

/// Which of the common fields a log plugin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommonFields {
    /// None: the plugin alone decides what an entry holds.
    None,
    /// `log_format` and `log_format_extra`.
    Format,
    /// `log_format`, `log_format_extra` and the fields about bodies.
    FormatAndBodies,
}

/// A log plugin: the compiled part of one instance that makes entries.
pub(crate) trait LogPlugin: Send + Sync + Sized + 'static {
    /// The fields of its own.
    type TcpLoggerConfig: FieldSet;
    /// The destination of its batches.
    type Sink: Sink;

    /// The name of the plugin.
    const NAME: &'static str;
    /// The default of `name`, the queue's name in metrics and messages.
    const QUEUE_NAME: &'static str = Self::NAME;
    /// The default of `batch_max_size`.
    const BATCH_MAX_SIZE: usize = batch::BATCH_MAX_SIZE;
    /// Which common fields it has.
    const COMMON: CommonFields = CommonFields::FormatAndBodies;

    /// Compiles the fields. It is also the check of a configuration when that is written; then texts may
    /// still be references to secrets, and there is no metadata.
    ///
    /// # Errors
    /// The misfit, with the name of the field.
    fn compile(config: &Self::TcpLoggerConfig, metadata: Option<&Value>) -> Result<Self, String>;

    /// Makes the destination of batches. It is kept while the configuration of the instance, and the metadata
    /// except its formats, stay the same.
    ///
    /// # Errors
    /// Why there is none, a sentence.
    fn sink(
        &self,
        build: &Build<'_>,
        config: &Self::TcpLoggerConfig,
        settings: &QueueSettings,
    ) -> Result<Self::Sink, String>;

    /// The settings of the queue, for a plugin of which the own fields bound it.
    fn queue_settings(_config: &Self::TcpLoggerConfig, settings: QueueSettings) -> QueueSettings {
        settings
    }

    /// The entry of an exchange that has ended, in the form in which the sink joins entries; none: it is not
    /// logged.
    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>>;

    /// The entry of a session of layer 4 that has ended, in the same form.
    fn session_entry(&self, session: &StreamSession, contents: &Contents) -> Vec<u8> {
        contents.session_json(session)
    }

    /// Checks that there are entries of sessions.
    ///
    /// # Errors
    /// Why there are none, a sentence.
    fn check_sessions(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether the exchange may be logged. It is asked in several phases and has to give the same answer in
    /// all of them.
    fn may_log(&self, _exchange: &Exchange) -> bool {
        true
    }

    /// Whether formats have no effect on entries: these then have all bodies that the instance asks for.
    fn ignores_formats(&self) -> bool {
        false
    }

    /// Properties of the metadata besides the formats and `max_pending_entries`, by name.
    fn metadata_properties() -> Value {
        Value::Null
    }
}

/// An instance of a log plugin.
struct Logger<P> {
    plugin: P,
    contents: Contents,
    queue: Arc<Result<BatchQueue, String>>,
}

/// The fields of a log plugin as they were written.
struct LogPluginConfig<C> {
    own: C,
    format: FormatFields,
    bodies: BodyFields,
    batch: BatchFields,
}

/// The kind of the log plugin `P`, which runs at `priority` and of which `page` is the source text. One
/// without common fields runs in the log phase alone.
pub(crate) const fn log_plugin_kind<P: LogPlugin>(priority: i32, page: &'static str) -> PluginKind {
    let kind = PluginKind::new(P::NAME, priority, PHASES, schema::<P>, build::<P>)
        .checked(check::<P>)
        .with_metadata(log_metadata_schema::<P>)
        .documented(page);
    match P::COMMON {
        CommonFields::None => PluginKind { phases: &[PluginPhase::Log], ..kind },
        CommonFields::Format | CommonFields::FormatAndBodies => kind.checked_metadata(check_log_metadata),
    }
}

/// The schema of `P`.
fn schema<P: LogPlugin>() -> Value {
    let mut schema = P::TcpLoggerConfig::schema();
    let properties = schema["properties"].as_object_mut().expect("the schema of an object");
    let mut add = |part: Value| properties.extend(properties_of(part));
    if P::COMMON != CommonFields::None {
        add(FormatFields::schema());
    }
    if P::COMMON == CommonFields::FormatAndBodies {
        add(BodyFields::schema());
    }
    let mut queue = BatchFields::schema();
    queue["properties"]["name"]["default"] = P::QUEUE_NAME.into();
    queue["properties"]["batch_max_size"]["default"] = P::BATCH_MAX_SIZE.into();
    add(queue);
    schema
}

fn properties_of(mut schema: Value) -> Map<String, Value> {
    match schema["properties"].take() {
        Value::Object(properties) => properties,
        _ => Map::new(),
    }
}

/// The schema of the metadata of `P`.
fn log_metadata_schema<P: LogPlugin>() -> Value {
    let mut properties = match P::metadata_properties() {
        Value::Object(own) => own,
        _ => Map::new(),
    };
    if P::COMMON != CommonFields::None {
        properties.extend(properties_of(FormatFields::metadata_schema()));
    }
    properties.insert("max_pending_entries".to_owned(), batch::max_pending_schema());
    json!({ "type": "object", "properties": properties })
}

/// Checks what the schema of `P` cannot express.
///
/// # Errors
/// The misfit, with the name of the field.
fn check<P: LogPlugin>(config: &Value) -> Result<(), String> {
    let written = read::<P>(config)?;
    P::compile(&written.own, None)?;
    Contents::compile(&written.format, &written.bodies, None).map(drop)
}

/// Checks the formats in metadata.
///
/// # Errors
/// The misfit, with the name of the field.
pub(crate) fn check_log_metadata(metadata: &Value) -> Result<(), String> {
    Contents::compile(&FormatFields::default(), &BodyFields::default(), Some(metadata)).map(drop)
}

fn read<P: LogPlugin>(config: &Value) -> Result<LogPluginConfig<P::TcpLoggerConfig>, String> {
    let mut fields = AttributeFields::of(config.clone())?;
    let own = P::TcpLoggerConfig::take(&mut fields)?;
    let format = match P::COMMON {
        CommonFields::None => FormatFields::default(),
        _ => FormatFields::take(&mut fields)?,
    };
    let bodies = match P::COMMON {
        CommonFields::FormatAndBodies => BodyFields::take(&mut fields)?,
        _ => BodyFields::default(),
    };
    let mut batch = BatchFields::take(&mut fields)?;
    if config.get("batch_max_size").is_none() {
        batch.batch_max_size = P::BATCH_MAX_SIZE;
    }
    let common: [&[&str]; 2] = match P::COMMON {
        CommonFields::None => [&[], &[]],
        CommonFields::Format => [FormatFields::NAMES, &[]],
        CommonFields::FormatAndBodies => [FormatFields::NAMES, BodyFields::NAMES],
    };
    fields.finish(&[P::TcpLoggerConfig::NAMES, common[0], common[1], BatchFields::NAMES])?;
    Ok(LogPluginConfig { own, format, bodies, batch })
}

/// Builds an instance of `P`.
///
/// # Errors
/// Why it cannot be built, a sentence.
fn build<P: LogPlugin>(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(logger::<P>(build, config)?))
}

fn logger<P: LogPlugin>(build: &Build<'_>, config: &Value) -> Result<Logger<P>, String> {
    let written = read::<P>(config)?;
    let plugin = P::compile(&written.own, build.metadata)?;
    let contents = contents(&plugin, &written, build.metadata)?;
    let settings = written.batch.settings(P::QUEUE_NAME, build.owner, build.metadata);
    let key = queue_key::<P>(build, config);
    let queue = build.states.keep(&key, || {
        let sink = plugin.sink(build, &written.own, &settings)?;
        build.services.queue(P::queue_settings(&written.own, settings), sink)
    });
    if let Err(reason) = &*queue {
        return Err(reason.clone());
    }
    Ok(Logger { plugin, contents, queue })
}

fn contents<P: LogPlugin>(
    plugin: &P,
    written: &LogPluginConfig<P::TcpLoggerConfig>,
    metadata: Option<&Value>,
) -> Result<Contents, String> {
    if plugin.ignores_formats() {
        return Contents::compile(&FormatFields::default(), &written.bodies, None);
    }
    Contents::compile(&written.format, &written.bodies, metadata)
}

/// The name under which the queue of an instance is kept: formats do not belong to it, because they are
/// applied before an entry enters the queue.
fn queue_key<P: LogPlugin>(build: &Build<'_>, config: &Value) -> String {
    let without_formats = |value: &Value| {
        let mut value = value.clone();
        if let Value::Object(fields) = &mut value {
            FormatFields::NAMES.iter().for_each(|name| drop(fields.shift_remove(*name)));
        }
        config::identity(&value)
    };
    let metadata = build.metadata.map(without_formats).unwrap_or_default();
    format!("{}/{}/{}/{metadata}", P::NAME, build.owner, without_formats(config))
}

impl<P: LogPlugin> Plugin for Logger<P> {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        if self.plugin.may_log(exchange) { self.contents.wants_request_body() } else { BodyNeed::None }
    }

    fn wants_response_body(&self, exchange: &Exchange) -> BodyNeed {
        if self.plugin.may_log(exchange) {
            self.contents.wants_response_body(exchange)
        } else {
            BodyNeed::None
        }
    }

    fn log(&self, exchange: &Exchange) {
        if !self.plugin.may_log(exchange) {
            return;
        }
        if let (Ok(queue), Some(entry)) = (&*self.queue, self.plugin.entry(exchange, &self.contents)) {
            // The queue counts and reports a dropped entry.
            queue.push_from(exchange.connection.local.ip(), entry);
        }
    }
}

#[cfg(test)]
mod tests;
