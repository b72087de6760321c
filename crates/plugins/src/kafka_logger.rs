//! # kafka-logger
//!
//! Reports every request to a topic of Apache Kafka. No request waits for it.
//!
//! ```json
//! {
//!   "brokers": [{ "host": "127.0.0.1", "port": 9092 }],
//!   "kafka_topic": "requests",
//!   "key": "gateway-1",
//!   "batch_max_size": 1
//! }
//! ```
//!
//! **Messages.** A batch is one message: a list of JSON objects, with `batch_max_size` 1 the object alone.
//! With `meta_format` `origin` an entry is the request as text instead (request line, fields, and with
//! `include_req_body` the body).
//!
//! **Partitions.** Messages with a `key` go to the partition with the number CRC-32(key) modulo the number of
//! partitions; without one, partitions take turns. Leaders are asked for every `meta_refresh_interval`
//! seconds, and at once when a broker no longer leads.
//!
//! **Delivery.** A message has arrived when the leader (`required_acks` 1) or all replicas in sync (-1) have
//! it within `timeout` seconds. Messages that a broker did not take are sent again three times, 100 ms apart,
//! then as often as `max_retry_count` says; a message of which the reply was lost may arrive twice. With
//! `producer_type` `async` and `batch_max_size` 1, messages wait until there are `producer_batch_num` of
//! them, or for `producer_time_linger` seconds, and go together in requests of at most `producer_batch_size`
//! bytes; `sync` sends each message alone and at once. At most `producer_max_buffering` messages wait;
//! further ones are dropped and counted.
//!
//! **Connections.** Brokers are those of `brokers`, or of `broker_list` (host to port, deprecated), and those
//! that they name; Kafka 1.0 and later, because messages are sent as record batches with a time, whatever
//! `api_version` says. With `tls` connections are encrypted, and certificates are verified with `tls.verify`.
//! `sasl_config` logs in, with PLAIN or SCRAM. `cluster_name` has no effect: each instance has connections of
//! its own.
//!
//! Entries, bodies and formats are those of [`http-logger`](http-logger.md). [The
//! guide](../../guide/plugins.md#calls-and-queues) says when a batch is sent, repeated and dropped.

mod origin;

use bytes::Bytes;
use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value, json};

use crate::shared::attributes::{attributes, words};
use crate::shared::config;
use crate::shared::kafka::{Broker, ClusterSettings, Producer, TlsFields, TopicSettings};
use crate::shared::logger::collector::json_list;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<KafkaLogger>(403, include_str!("kafka_logger.rs"))
        .on_streams(logger::sessions::build_log_stream_kind::<KafkaLogger>());

words! {
    /// The form of an entry.
    pub(crate) enum MetaFormat {
        /// A JSON object.
        Default = "default",
        /// The request as text.
        Origin = "origin",
    }
}

words! {
    /// When messages are sent.
    pub(crate) enum KafkaProducerType {
        /// Together with others.
        Async = "async",
        /// Alone and at once.
        Sync = "sync",
    }
}

attributes! {
    pub(crate) struct KafkaLoggerConfig {
        /// The form of an entry.
        meta_format: MetaFormat = MetaFormat::Default;
        /// Deprecated: brokers as an object from host to port.
        broker_list: Option<Map<String, Value>>, {
            "minProperties": 1,
            "patternProperties": { ".*": { "type": "integer", "minimum": 1, "maximum": 65_535 } },
        };
        /// Brokers to begin with; the others are found through them.
        brokers: Option<Vec<Broker>>, { "minItems": 1, "uniqueItems": true };
        /// TLS to the brokers.
        tls: Option<TlsFields>;
        /// The topic.
        kafka_topic: String;
        /// When messages are sent.
        producer_type: KafkaProducerType = KafkaProducerType::Async;
        /// Replicas that have a message before it counts as arrived: the leader (1), or all in sync (-1).
        required_acks: i64 = 1, { "enum": [1, -1] };
        /// The key of messages, which chooses their partition.
        key: Option<String>;
        /// Seconds until a connection is open, and until a broker has replied.
        timeout: u64 = 3, { "minimum": 1 };
        /// No effect.
        cluster_name: u64 = 1, { "minimum": 1 };
        /// The most messages of one request.
        producer_batch_num: usize = 200, { "minimum": 1 };
        /// The most bytes of one request; a single message may be longer.
        producer_batch_size: usize = 1_048_576, { "minimum": 0 };
        /// The most messages that wait.
        producer_max_buffering: usize = 50_000, { "minimum": 1 };
        /// Seconds that single messages wait for others.
        producer_time_linger: u64 = 1, { "minimum": 1 };
        /// Seconds after which the leaders of partitions are asked for anew.
        meta_refresh_interval: u64 = 30, { "minimum": 1 };
        /// No effect: messages are sent as record batches with a time.
        api_version: u64 = 1, { "enum": [0, 1, 2] };
    }
    {
        "oneOf": [
            { "required": ["broker_list", "kafka_topic"] },
            { "required": ["brokers", "kafka_topic"] },
        ],
        "encrypt_fields": ["brokers.sasl_config.password"],
    }
}

/// The compiled plugin.
struct KafkaLogger {
    meta_format: MetaFormat,
}

/// The topic of one instance.
struct Topic {
    producer: Producer,
    meta_format: MetaFormat,
    /// Entries are messages of their own.
    is_single: bool,
}

impl KafkaLoggerConfig {
    fn brokers(&self) -> Vec<Broker> {
        let listed = self.broker_list.iter().flatten().filter_map(|(host, port)| {
            let port = u16::try_from(port.as_u64()?).ok()?;
            Some(Broker { host: host.clone(), port, sasl_config: None })
        });
        self.brokers.iter().flatten().cloned().chain(listed).collect()
    }
}

impl LogPlugin for KafkaLogger {
    type TcpLoggerConfig = KafkaLoggerConfig;
    type Sink = Topic;

    const NAME: &'static str = "kafka-logger";
    const QUEUE_NAME: &'static str = "kafka logger";

    fn compile(config: &KafkaLoggerConfig, _metadata: Option<&Value>) -> Result<KafkaLogger, String> {
        for broker in config.brokers().iter().filter(|broker| !config::is_reference(&broker.host)) {
            broker.check().map_err(|reason| format!("brokers: {reason}"))?;
        }
        Ok(KafkaLogger { meta_format: config.meta_format })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &KafkaLoggerConfig,
        settings: &QueueSettings,
    ) -> Result<Topic, String> {
        let seconds_ms = |seconds: u64| seconds.saturating_mul(1_000);
        let cluster = ClusterSettings {
            brokers: config.brokers(),
            tls: config.tls.as_ref().map(|tls| TlsFields { verify: tls.verify }),
            timeout_ms: seconds_ms(config.timeout),
            refresh_ms: seconds_ms(config.meta_refresh_interval),
        };
        let topic = TopicSettings {
            topic: config.kafka_topic.clone(),
            key: config.key.clone(),
            required_acks: if config.required_acks == -1 { -1 } else { 1 },
            request_max_bytes: config.producer_batch_size,
        };
        let producer = Producer::new(build.services, &cluster, topic)?;
        let is_single = settings.batch_max_entries == 1;
        Ok(Topic { producer, meta_format: self.meta_format, is_single })
    }

    fn queue_settings(config: &KafkaLoggerConfig, settings: QueueSettings) -> QueueSettings {
        let messages = config.producer_max_buffering;
        let entries = messages.saturating_mul(settings.batch_max_entries);
        let settings =
            QueueSettings { max_pending_entries: settings.max_pending_entries.min(entries), ..settings };
        if settings.batch_max_entries > 1 || config.producer_type == KafkaProducerType::Sync {
            return settings;
        }
        // Messages of one entry go together, as APISIX's producer gathers them.
        let linger_ms = config.producer_time_linger.saturating_mul(1_000);
        QueueSettings {
            batch_max_entries: config.producer_batch_num,
            buffer_duration_ms: linger_ms,
            inactive_timeout_ms: linger_ms,
            ..settings
        }
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(match self.meta_format {
            MetaFormat::Default => contents.json_of_route(exchange),
            MetaFormat::Origin => origin::render_request_text(exchange, contents),
        })
    }

    fn check_sessions(&self) -> Result<(), String> {
        match self.meta_format {
            MetaFormat::Default => Ok(()),
            MetaFormat::Origin => {
                Err("meta_format: a session has no request that `origin` could send".to_owned())
            }
        }
    }

    fn ignores_formats(&self) -> bool {
        self.meta_format == MetaFormat::Origin
    }
}

impl Topic {
    /// The messages of a batch.
    fn messages(&self, batch: &[BatchEntry]) -> Vec<Bytes> {
        if self.is_single {
            return batch.iter().map(|entry| Bytes::copy_from_slice(entry)).collect();
        }
        let list = match self.meta_format {
            MetaFormat::Default => json_list(batch),
            MetaFormat::Origin => {
                let texts: Vec<_> = batch.iter().map(|entry| String::from_utf8_lossy(entry)).collect();
                json!(texts).to_string().into_bytes()
            }
        };
        vec![list.into()]
    }
}

impl Sink for Topic {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let sent = self.producer.send(self.messages(batch)).await;
            sent.map_err(|failure| match self.is_single {
                true => failure,
                // The message of the batch is the only one.
                false => DeliveryFailure { delivered: 0, left: None, ..failure },
            })
        })
    }
}

#[cfg(test)]
mod tests;
