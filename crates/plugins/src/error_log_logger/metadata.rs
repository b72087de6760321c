//! The metadata: one destination, the level, and how batches are made. It opens no connection.

use exchange::observe::error_tap::Severity;
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes, words};
use crate::shared::config;
use crate::shared::kafka::{Broker, TlsFields};
use crate::shared::logger::{byte_stream, collector};

words! {
    /// The least severe line that is reported.
    pub(super) enum ErrorLogLevel {
        /// As ERR.
        Stderr = "STDERR",
        /// As ERR.
        Emerg = "EMERG",
        /// As ERR.
        Alert = "ALERT",
        /// As ERR.
        Crit = "CRIT",
        /// Errors.
        Err = "ERR",
        /// Errors.
        Error = "ERROR",
        /// Warnings.
        Warn = "WARN",
        /// As INFO.
        Notice = "NOTICE",
        /// Events.
        Info = "INFO",
        /// Details.
        Debug = "DEBUG",
    }
}

words! {
    /// When messages are sent: batches are messages here, so that both mean the same.
    pub(super) enum ErrorLogProducerType {
        /// With others.
        Async = "async",
        /// At once.
        Sync = "sync",
    }
}

attributes! {
    pub(super) struct Tcp {
        /// The host of the server.
        host: String;
        /// The port of the server.
        port: u16, { "minimum": 0 };
        /// Whether connections are encrypted.
        tls: bool = false;
        /// The name that is sent as SNI, with tls.
        tls_server_name: Option<Box<str>>;
    }
}

attributes! {
    pub(super) struct SkywalkingSinkConfig {
        /// The URI of the log receiver.
        endpoint_addr: String = "http://127.0.0.1:12900/v3/logs".into();
        /// The name of the service.
        service_name: String = "APISIX".into();
        /// The name of the instance; $hostname stands for the name of this machine.
        service_instance_name: String = "APISIX Service Instance".into();
    }
}

attributes! {
    pub(super) struct ClickhouseSinkConfig {
        /// The URI of the HTTP interface.
        endpoint_addr: String, { "default": "http://127.0.0.1:8123" };
        /// The user.
        user: String, { "default": "default" };
        /// The password.
        password: String, { "default": "" };
        /// The database.
        database: String, { "default": "" };
        /// The table.
        logtable: String, { "default": "" };
    }
}

attributes! {
    pub(super) struct Kafka {
        /// Brokers to begin with; the others are found through them.
        brokers: Vec<Broker>, { "minItems": 1, "uniqueItems": true };
        /// TLS to the brokers.
        tls: Option<TlsFields>;
        /// The topic.
        kafka_topic: String;
        /// No effect: lines of a batch are sent together.
        producer_type: ErrorLogProducerType = ErrorLogProducerType::Async;
        /// Replicas that have a message before it counts as arrived: none (0), the leader (1), or all in sync
        /// (-1).
        required_acks: i64 = 1, { "enum": [0, 1, -1] };
        /// The key of messages, which chooses their partition.
        key: Option<String>;
        /// No effect.
        cluster_name: u64 = 1, { "minimum": 1 };
        /// Seconds after which the leaders of partitions are asked for anew.
        meta_refresh_interval: u64 = 30, { "minimum": 1 };
    }
}

attributes! {
    /// See the module.
    pub(super) struct ErrorLogLoggerMetadata {
        /// A TCP server.
        tcp: Option<Tcp>;
        /// SkyWalking.
        skywalking: Option<SkywalkingSinkConfig>;
        /// ClickHouse.
        clickhouse: Option<ClickhouseSinkConfig>;
        /// Kafka.
        kafka: Option<Kafka>;
        /// Deprecated: the host of tcp.
        host: Option<String>;
        /// Deprecated: the port of tcp.
        port: Option<u16>, { "minimum": 0 };
        /// Deprecated: whether connections of tcp are encrypted.
        tls: bool = false;
        /// Deprecated: the name that is sent as SNI.
        tls_server_name: Option<Box<str>>;
        /// The name of the queue in metrics and messages.
        name: Box<str> = "error-log-logger".into();
        /// The least severe line that is reported.
        level: ErrorLogLevel = ErrorLogLevel::Warn;
        /// Seconds until the destination has to have taken a batch.
        timeout: u64 = 3, { "minimum": 1 };
        /// Seconds a connection is kept without use.
        keepalive: u64 = 30, { "minimum": 1 };
        /// A batch is sent as soon as it has so many lines.
        batch_max_size: usize = 1_000, { "minimum": 0 };
        /// How often a batch that failed is sent again.
        max_retry_count: u32 = 0, { "minimum": 0 };
        /// Seconds before it is sent again.
        retry_delay: u64 = 1, { "minimum": 0 };
        /// A batch is sent when its oldest line is so many seconds old.
        buffer_duration: u64 = 60, { "minimum": 1 };
        /// A batch is sent when no line has come for so many seconds.
        inactive_timeout: u64 = 3, { "minimum": 1 };
    }
    {
        "oneOf": [
            { "required": ["skywalking"] },
            { "required": ["tcp"] },
            { "required": ["clickhouse"] },
            { "required": ["kafka"] },
            { "required": ["host", "port"] },
        ],
        "encrypt_fields": ["clickhouse.password", "kafka.brokers.sasl_config.password"],
    }
}

/// The schema.
pub(super) fn schema() -> Value {
    ErrorLogLoggerMetadata::schema()
}

/// Reads metadata; the older form of `tcp` becomes the present one.
///
/// # Errors
/// The misfit, a sentence.
pub(super) fn read_error_log_metadata(written: &Value) -> Result<ErrorLogLoggerMetadata, String> {
    let mut metadata: ErrorLogLoggerMetadata = config::parse_config(written)?;
    let ErrorLogLoggerMetadata { host, port, tls, tls_server_name, .. } = &mut metadata;
    if let (Some(host), Some(port)) = (host.take(), *port) {
        metadata.tcp = Some(Tcp { host, port, tls: *tls, tls_server_name: tls_server_name.take() });
    }
    Ok(metadata)
}

impl ErrorLogLoggerMetadata {
    /// Checks what the schema cannot express.
    ///
    /// # Errors
    /// The misfit, with the name of the field.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(tcp) = &self.tcp {
            byte_stream::check(&tcp.host, tcp.port)?;
        }
        if let Some(skywalking) = &self.skywalking {
            collector::check("skywalking.endpoint_addr", &skywalking.endpoint_addr)?;
        }
        if let Some(clickhouse) = &self.clickhouse {
            collector::check("clickhouse.endpoint_addr", &clickhouse.endpoint_addr)?;
        }
        for broker in self.kafka.iter().flat_map(|kafka| &kafka.brokers) {
            if !config::is_reference(&broker.host) {
                broker.check().map_err(|reason| format!("kafka.brokers: {reason}"))?;
            }
        }
        Ok(())
    }
}

impl ErrorLogLevel {
    /// The level of the gateway's own log; it has none above `error` and none between `info` and `warn`.
    pub(super) fn severity(self) -> Severity {
        match self {
            ErrorLogLevel::Stderr
            | ErrorLogLevel::Emerg
            | ErrorLogLevel::Alert
            | ErrorLogLevel::Crit
            | ErrorLogLevel::Err
            | ErrorLogLevel::Error => Severity::Error,
            ErrorLogLevel::Warn => Severity::Warning,
            ErrorLogLevel::Notice | ErrorLogLevel::Info => Severity::Info,
            ErrorLogLevel::Debug => Severity::Debug,
        }
    }
}
