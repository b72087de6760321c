//! The destination of lines. It knows nothing of where they come from.

use bytes::Bytes;
use exchange::observe::error_tap;
use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::{HttpClient, OutboundTls};
use exchange::plugin::services::Services;
use serde_json::{Value, json};

use super::metadata::{ClickhouseSinkConfig, ErrorLogLoggerMetadata, Kafka, SkywalkingSinkConfig, Tcp};
use crate::shared::kafka::{ClusterSettings, Producer, TlsFields, TopicSettings};
use crate::shared::log_entry;
use crate::shared::logger::byte_stream::{ByteStream, Reaching};
use crate::shared::logger::collector::{Calling, LogCollector};

/// The most connections to a TCP server that are kept.
const KEPT_MAX: usize = 5;
/// The longest request to Kafka, in bytes of messages.
const REQUEST_MAX_BYTES: usize = 1024 * 1024;

/// See the module.
pub(super) enum ErrorLogSink {
    Tcp(ByteStream),
    Skywalking { collector: LogCollector, service: String, instance: String },
    Clickhouse { collector: LogCollector, table: String },
    Kafka(Producer),
}

impl ErrorLogSink {
    /// The destination that the metadata name.
    ///
    /// # Errors
    /// Why it cannot be reached, a sentence.
    pub(super) fn new(
        services: &Services,
        metadata: &ErrorLogLoggerMetadata,
    ) -> Result<ErrorLogSink, String> {
        if let Some(skywalking) = &metadata.skywalking {
            return ErrorLogSink::skywalking(services, metadata, skywalking);
        }
        if let Some(clickhouse) = &metadata.clickhouse {
            return ErrorLogSink::clickhouse(services, metadata, clickhouse);
        }
        if let Some(kafka) = &metadata.kafka {
            return ErrorLogSink::kafka(services, metadata, kafka);
        }
        let Some(tcp) = &metadata.tcp else { return Err("the metadata name no destination".to_owned()) };
        ErrorLogSink::tcp(services, metadata, tcp)
    }

    fn tcp(
        services: &Services,
        metadata: &ErrorLogLoggerMetadata,
        tcp: &Tcp,
    ) -> Result<ErrorLogSink, String> {
        let tls = OutboundTls { server_name: tcp.tls_server_name.clone(), ..OutboundTls::default() };
        let reaching = Reaching {
            host: &tcp.host,
            port: tcp.port,
            tls: tcp.tls.then_some(tls),
            timeout_ms: metadata.timeout.saturating_mul(1_000),
            kept_max: KEPT_MAX,
            idle_ms: metadata.keepalive.saturating_mul(1_000),
        };
        ByteStream::new(services, reaching).map(ErrorLogSink::Tcp)
    }

    fn skywalking(
        services: &Services,
        metadata: &ErrorLogLoggerMetadata,
        skywalking: &SkywalkingSinkConfig,
    ) -> Result<ErrorLogSink, String> {
        let instance = match &*skywalking.service_instance_name {
            "$hostname" => log_entry::hostname().to_owned(),
            name => name.to_owned(),
        };
        let collector = collector(services, metadata, &skywalking.endpoint_addr)?;
        Ok(ErrorLogSink::Skywalking { collector, service: skywalking.service_name.clone(), instance })
    }

    fn clickhouse(
        services: &Services,
        metadata: &ErrorLogLoggerMetadata,
        clickhouse: &ClickhouseSinkConfig,
    ) -> Result<ErrorLogSink, String> {
        let mut collector = collector(services, metadata, &clickhouse.endpoint_addr)?;
        collector.set("clickhouse.user", "X-ClickHouse-User", &clickhouse.user)?;
        collector.set("clickhouse.password", "X-ClickHouse-Key", &clickhouse.password)?;
        collector.set("clickhouse.database", "X-ClickHouse-Database", &clickhouse.database)?;
        Ok(ErrorLogSink::Clickhouse { collector, table: clickhouse.logtable.clone() })
    }

    fn kafka(
        services: &Services,
        metadata: &ErrorLogLoggerMetadata,
        kafka: &Kafka,
    ) -> Result<ErrorLogSink, String> {
        let cluster = ClusterSettings {
            brokers: kafka.brokers.clone(),
            tls: kafka.tls.as_ref().map(|tls| TlsFields { verify: tls.verify }),
            timeout_ms: metadata.timeout.saturating_mul(1_000),
            refresh_ms: kafka.meta_refresh_interval.saturating_mul(1_000),
        };
        let topic = TopicSettings {
            topic: kafka.kafka_topic.clone(),
            key: kafka.key.clone(),
            required_acks: i16::try_from(kafka.required_acks).unwrap_or(1),
            request_max_bytes: REQUEST_MAX_BYTES,
        };
        Producer::new(services, &cluster, topic).map(ErrorLogSink::Kafka)
    }

    async fn send(&self, client: &HttpClient, lines: &[BatchEntry]) -> Result<(), DeliveryFailure> {
        match self {
            ErrorLogSink::Tcp(stream) => Ok(stream.send(&with_line_feeds(lines)).await?),
            ErrorLogSink::Skywalking { collector, service, instance } => {
                let records = skywalking_records(lines, service, instance);
                Ok(collector.post(client, records).await?.below_400()?)
            }
            ErrorLogSink::Clickhouse { collector, table } => {
                Ok(collector.post(client, clickhouse_insert(lines, table)).await?.below_400()?)
            }
            ErrorLogSink::Kafka(producer) => {
                let messages = lines.iter().map(|line| Bytes::from(json!(text(line)).to_string()));
                producer.send(messages.collect()).await
            }
        }
    }
}

fn collector(
    services: &Services,
    metadata: &ErrorLogLoggerMetadata,
    uri: &str,
) -> Result<LogCollector, String> {
    let mut collector = LogCollector::new(services, [uri], Calling::within_s(metadata.timeout, false))?;
    collector.set("endpoint_addr", "Content-Type", "application/json")?;
    Ok(collector)
}

impl Sink for ErrorLogSink {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        // A line about a delivery would be delivered next.
        Box::pin(error_tap::muted(self.send(client, batch)))
    }
}

fn text(line: &BatchEntry) -> String {
    String::from_utf8_lossy(line).into_owned()
}

fn with_line_feeds(lines: &[BatchEntry]) -> Vec<u8> {
    let mut data = lines.join(&b'\n');
    data.push(b'\n');
    data
}

fn skywalking_records(lines: &[BatchEntry], service: &str, instance: &str) -> Vec<u8> {
    let record = |line: &BatchEntry| {
        json!({
            "service": service, "serviceInstance": instance, "endpoint": "",
            "body": { "text": { "text": text(line) } },
        })
    };
    lines.iter().map(record).collect::<Value>().to_string().into_bytes()
}

fn clickhouse_insert(lines: &[BatchEntry], table: &str) -> Vec<u8> {
    let rows: Vec<String> = lines.iter().map(|line| json!({ "data": text(line) }).to_string()).collect();
    format!("INSERT INTO {table} FORMAT JSONEachRow {}", rows.join(" ")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_the_form_of_their_destination() {
        let lines = [BatchEntry::from(&b"first \"line\""[..]), BatchEntry::from(&b"second"[..])];
        let check = |got: Vec<u8>, expected: &str| assert_eq!(String::from_utf8(got).unwrap(), expected);
        check(with_line_feeds(&lines), "first \"line\"\nsecond\n");
        check(
            clickhouse_insert(&lines, "t"),
            r#"INSERT INTO t FORMAT JSONEachRow {"data":"first \"line\""} {"data":"second"}"#,
        );
        check(
            skywalking_records(&lines[1..], "APISIX", "one"),
            r#"[{"service":"APISIX","serviceInstance":"one","endpoint":"","body":{"text":{"text":"second"}}}]"#,
        );
    }
}
