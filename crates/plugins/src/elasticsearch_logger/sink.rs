//! The bulk API of Elasticsearch and OpenSearch: asks for the version once, posts documents, reads which were
//! refused. It knows no requests.

use std::sync::OnceLock;

use exchange::observe::pace::Pace;
use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::services::Services;
use jsonx::Bounds;
use message::{Headers, Method};
use net::env;
use serde_json::Value;

use super::ElasticsearchLoggerConfig;
use crate::shared::logger::collector::{Calling, CollectorResponse, LogCollector, basic_authorization};

/// The path that is appended to an endpoint.
const BULK: &str = "/_bulk";
/// Milliseconds between two log lines about the version.
const VERSION_LOG_INTERVAL_MS: u64 = 10_000;
/// Statuses of a document that the server had no capacity for, so that it may take it later.
const RETRIED_STATUSES: [u16; 2] = [429, 503];

/// The server, as one plugin instance reaches it.
pub(crate) struct Elasticsearch {
    /// Its fields are those of every request: the authentication and the user's own.
    collector: LogCollector,
    /// The fields of bulk requests.
    bulk: Headers,
    /// Whether documents need a type, once the server has said its version.
    needs_type: OnceLock<bool>,
    version_log: Pace,
}

impl Elasticsearch {
    /// The server as `config` describes it.
    ///
    /// # Errors
    /// Why it cannot be reached, or which text cannot be sent as a field.
    pub(super) fn new(
        services: &Services,
        config: &ElasticsearchLoggerConfig,
    ) -> Result<Elasticsearch, String> {
        let calling = Calling::within_s(config.timeout, config.ssl_verify);
        let uris: Vec<String> = config.endpoints().map(|address| format!("{address}{BULK}")).collect();
        let mut collector = LogCollector::new(services, uris.iter().map(String::as_str), calling)?;
        if let Some(auth) = &config.auth {
            let value = basic_authorization(&auth.username, &auth.password);
            collector.set("auth", "Authorization", &value)?;
        }
        for (name, value) in config.headers.iter().flatten() {
            collector.set("headers", name, value.as_str().unwrap_or_default())?;
        }
        let mut bulk = collector.headers().clone();
        let own =
            [("Content-Type", "application/x-ndjson"), ("Accept", "application/vnd.elasticsearch+json")];
        for (name, value) in own.into_iter().filter(|(name, _)| !collector.headers().contains(name)) {
            bulk.set(name, value.as_bytes()).map_err(|error| error.to_string())?;
        }
        let version_log = Pace::every_ms(VERSION_LOG_INTERVAL_MS);
        Ok(Elasticsearch { collector, bulk, needs_type: OnceLock::new(), version_log })
    }

    /// Whether documents need a type; the server is asked until it has said its version.
    async fn needs_type(&self, client: &HttpClient) -> bool {
        if let Some(known) = self.needs_type.get() {
            return *known;
        }
        match self.major_version(client).await {
            Ok(version) => *self.needs_type.get_or_init(|| matches!(&*version, "5" | "6")),
            Err(reason) => {
                if self.version_log.add(1, env::monotonic_ns() / 1_000_000).is_some() {
                    tracing::error!(%reason, "failed to get Elasticsearch version");
                }
                false
            }
        }
    }

    async fn major_version(&self, client: &HttpClient) -> Result<String, String> {
        let endpoint = self.collector.endpoint();
        let target = match endpoint.target().strip_suffix(BULK) {
            Some(prefix) if !prefix.is_empty() => prefix,
            _ => "/",
        };
        let headers = self.collector.headers().clone();
        let asked = self.collector.send(client, endpoint, (Method::Get, target), headers, Vec::new());
        let answer = asked.await?;
        if answer.status() != 200 {
            return Err(format!(
                "server returned status: {}, body: {}",
                answer.status(),
                answer.body_excerpt()
            ));
        }
        let body: Value = jsonx::read(&answer.response.body, Bounds::SMALL)
            .map_err(|error| format!("failed to decode response body: {error}"))?;
        let number = body["version"]["number"].as_str().ok_or("failed to get version from response body")?;
        let (major, _) = number.split_once('.').unwrap_or_default();
        let is_number = !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Ok(major.to_owned()) } else { Err(format!("invalid version format: {number:.20}")) }
    }
}

/// The body of a bulk request: an action and a document a line each.
fn actions(batch: &[BatchEntry], needs_type: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in batch {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        body.extend(b"{\"index\":{\"_index\":");
        body.extend(&entry[..end]);
        body.extend(if needs_type { &b",\"_type\":\"_doc\"}}"[..] } else { b"}}" });
        body.extend(&entry[end..]);
        body.push(b'\n');
    }
    body
}

/// The documents that the server refused in a response of status 200; nothing if it took all. Those that it
/// had no capacity for are left for another attempt; the others would be refused again.
fn refused(answer: &CollectorResponse<'_>, entries: usize) -> Option<DeliveryFailure> {
    let body: Value = jsonx::read(&answer.response.body, Bounds::DEFAULT).ok()?;
    if body["errors"] != Value::Bool(true) {
        return None;
    }
    let items = body["items"].as_array().into_iter().flatten().take(entries).enumerate();
    // The items are in the order of the actions.
    let faults: Vec<(usize, &Value)> = items
        .map(|(index, item)| (index, &item["index"]))
        .filter(|(_, result)| !result["error"].is_null())
        .collect();
    let first = faults.first().and_then(|(_, result)| result["error"]["reason"].as_str());
    let first = first.unwrap_or("no reason").chars();
    let first: String = first.filter(|character| !character.is_control()).take(200).collect();
    let count = faults.len();
    let reason = format!("elasticsearch server refused {count} documents of {entries}: {first}");
    let may_pass = |result: &Value| RETRIED_STATUSES.iter().any(|status| result["status"] == *status);
    let left = faults.iter().filter(|(_, result)| may_pass(result));
    let left: Vec<usize> = left.map(|(index, _)| *index).collect();
    if left.is_empty() {
        return Some(DeliveryFailure::last_after(entries - count, reason));
    }
    Some(DeliveryFailure::with_left(entries - count, left, reason))
}

impl Sink for Elasticsearch {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let body = actions(batch, self.needs_type(client).await);
            let endpoint = self.collector.endpoint();
            let request = (Method::Post, endpoint.target());
            let answer = self.collector.send(client, endpoint, request, self.bulk.clone(), body).await?;
            if answer.status() != 200 {
                let (status, excerpt) = (answer.status(), answer.body_excerpt());
                return Err(format!("elasticsearch server returned status: {status}, body: {excerpt}").into());
            }
            match refused(&answer, batch.len()) {
                Some(failure) => Err(failure),
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shared::config;
    use crate::shared::logger::collector::testing::answer;

    fn server(more: Value) -> Elasticsearch {
        let mut written = json!({"endpoint_addrs": ["http://127.0.0.1:1/es"], "field": {"index": "a"}});
        written.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Elasticsearch::new(&exchange::testing::services(), &config::parse_config(&written).unwrap()).unwrap()
    }

    #[test]
    fn batches_are_lines_of_actions_and_documents() {
        let batch: [BatchEntry; 2] = [b"\"a\"\n{\"n\":1}".to_vec().into(), b"\"b\"\n{}".to_vec().into()];
        let check = |needs_type, expected: &str| {
            assert_eq!(String::from_utf8(actions(&batch, needs_type)).unwrap(), expected);
        };
        check(false, "{\"index\":{\"_index\":\"a\"}}\n{\"n\":1}\n{\"index\":{\"_index\":\"b\"}}\n{}\n");
        let typed = ",\"_type\":\"_doc\"";
        check(
            true,
            &format!(
                "{{\"index\":{{\"_index\":\"a\"{typed}}}}}\n{{\"n\":1}}\n{{\"index\":{{\"_index\":\"b\"{typed}}}}}\n{{}}\n"
            ),
        );
    }

    #[test]
    fn headers_of_the_user_win() {
        let plain = server(json!({"auth": {"username": "a", "password": "b"}}));
        assert_eq!(plain.bulk.get("content-type"), Some(&b"application/x-ndjson"[..]));
        assert_eq!(plain.bulk.get("accept"), Some(&b"application/vnd.elasticsearch+json"[..]));
        assert_eq!(plain.bulk.get("authorization"), Some(&b"Basic YTpi"[..]));
        assert!(!plain.collector.headers().contains("accept"), "the version is asked for plainly");
        let auth = json!({"username": "a", "password": "b"});
        let own = server(json!({"auth": auth, "headers": {"Authorization": "ApiKey x", "accept": "a/b"}}));
        assert_eq!(own.bulk.get("authorization"), Some(&b"ApiKey x"[..]));
        assert_eq!(own.bulk.get("accept"), Some(&b"a/b"[..]));
        assert_eq!(own.collector.endpoint().uri(), "http://127.0.0.1:1/es/_bulk");
    }

    #[test]
    fn refused_documents_are_counted() {
        let refusal = |body: Value, entries: usize| {
            let services = exchange::testing::services();
            let place = services.destination("http://127.0.0.1:1", Default::default(), &Default::default());
            refused(&answer(&place.unwrap(), 200, &body.to_string()), entries)
        };
        assert_eq!(refusal(json!({"errors": false, "items": []}), 1), None);
        assert_eq!(refusal(json!("?"), 1), None);
        let fault = json!({"type": "mapper_parsing_exception", "reason": "failed to parse\nfield"});
        let items = json!([{"index": {"status": 201}}, {"index": {"status": 400, "error": fault.clone()}}]);
        let failure = refusal(json!({"errors": true, "items": items}), 2).unwrap();
        assert_eq!((failure.delivered, failure.is_final), (1, true));
        assert_eq!(failure.reason, "elasticsearch server refused 1 documents of 2: failed to parsefield");
        let busy = json!({"type": "es_rejected_execution_exception", "reason": "queue is full"});
        let items = json!([
            {"index": {"status": 429, "error": busy}}, {"index": {"status": 201}},
            {"index": {"status": 400, "error": fault}}, {"index": {"status": 503, "error": busy}},
        ]);
        let failure = refusal(json!({"errors": true, "items": items}), 4).unwrap();
        assert_eq!((failure.delivered, failure.left, failure.is_final), (1, Some(vec![0, 3]), false));
    }
}
