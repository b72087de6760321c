//! The push API of Loki: sorts lines into streams by their labels and posts them. It knows no requests.

use std::collections::HashMap;

use exchange::plugin::batch::{BatchEntry, Delivery, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;

use super::LokiLoggerConfig;
use crate::shared::logger::collector::{Calling, LogCollector, kept_connections};

/// Loki, as one plugin instance reaches it.
pub(crate) struct Loki(LogCollector);

impl Loki {
    /// Loki as `config` describes it.
    ///
    /// # Errors
    /// Why it cannot be reached, or which text cannot be sent as a field.
    pub(super) fn new(services: &Services, config: &LokiLoggerConfig) -> Result<Loki, String> {
        let calling = Calling {
            timeout_ms: config.timeout,
            verifies: config.ssl_verify,
            keep_alive: kept_connections(config.keepalive, config.keepalive_pool, config.keepalive_timeout),
        };
        let uris: Vec<String> =
            config.endpoint_addrs.iter().map(|address| format!("{address}{}", config.endpoint_uri)).collect();
        let mut collector = LogCollector::new(services, uris.iter().map(String::as_str), calling)?;
        for (name, value) in config.headers.iter().flatten() {
            collector.set("headers", name, value.as_str().unwrap_or_default())?;
        }
        collector.set("tenant_id", "X-Scope-OrgID", &config.tenant_id)?;
        collector.set("headers", "Content-Type", "application/json")?;
        Ok(Loki(collector))
    }
}

/// The body of a request: one stream for all lines with the same labels, in the order of their first line.
fn streams(batch: &[BatchEntry]) -> Vec<u8> {
    let mut streams: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    for entry in batch {
        // JSON has no line breaks but those inside texts, which are escaped.
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        let (labels, value) = (&entry[..end], &entry[(end + 1).min(entry.len())..]);
        let index = *known.entry(labels).or_insert_with(|| {
            streams.push((labels, Vec::new()));
            streams.len() - 1
        });
        streams[index].1.push(value);
    }
    let mut body = b"{\"streams\":[".to_vec();
    for (number, (labels, values)) in streams.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        let values = values.join(&b',');
        body.extend([b"{\"stream\":", *labels, b",\"values\":[", &*values, b"]}"].concat());
    }
    body.extend(b"]}");
    body
}

impl Sink for Loki {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let answer = self.0.post(client, streams(batch)).await?;
            if answer.status() < 300 {
                return Ok(());
            }
            let (status, excerpt) = (answer.status(), answer.body_excerpt());
            Err(format!("loki server returned status: {status}, body: {excerpt}").into())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::shared::config;

    #[test]
    fn lines_with_equal_labels_are_one_stream() {
        let entries =
            ["{\"a\":\"1\"}\n[\"1\",\"x\"]", "{\"a\":\"2\"}\n[\"2\",\"y\"]", "{\"a\":\"1\"}\n[\"3\",\"z\"]"];
        let batch: Vec<BatchEntry> = entries.iter().map(|entry| entry.as_bytes().into()).collect();
        let body: Value = serde_json::from_slice(&streams(&batch)).unwrap();
        let expected = json!({"streams": [
            {"stream": {"a": "1"}, "values": [["1", "x"], ["3", "z"]]},
            {"stream": {"a": "2"}, "values": [["2", "y"]]},
        ]});
        assert_eq!(body, expected);
    }

    #[test]
    fn own_fields_win_over_headers() {
        let written = json!({
            "endpoint_addrs": ["http://127.0.0.1:1"], "tenant_id": "t1",
            "headers": {"X-Scope-OrgID": "other", "content-type": "text/plain", "X-A": "b"},
        });
        let services = exchange::testing::services();
        let loki = Loki::new(&services, &config::parse_config(&written).unwrap()).unwrap();
        let headers = loki.0.headers();
        for (name, value) in [("x-scope-orgid", "t1"), ("content-type", "application/json"), ("x-a", "b")] {
            assert_eq!(headers.get(name), Some(value.as_bytes()), "{name}");
        }
        assert_eq!(loki.0.endpoint().uri(), "http://127.0.0.1:1/loki/api/v1/push");
    }
}
