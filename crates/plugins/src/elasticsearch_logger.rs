//! # elasticsearch-logger
//!
//! Reports every request to Elasticsearch or OpenSearch, in batches over the bulk API. No request waits for
//! it.
//!
//! ```json
//! {
//!   "endpoint_addrs": ["http://127.0.0.1:9200"],
//!   "field": { "index": "weir-$host-{%Y.%m.%d}" },
//!   "auth": { "username": "elastic", "password": "$env://ELASTIC_PASSWORD" },
//!   "log_format": { "host": "$host", "status": "$status", "@timestamp": "$time_iso8601" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md); each is a document.
//!
//! **The index.** `field.index` may hold variables, and formats of `strftime` in braces, such as
//! `{%Y.%m.%d}`: the time of the log entry in UTC. `${host}` is a variable and no format. A conversion that
//! is unknown stays as it is written.
//!
//! **How it is sent.** By POST to `/_bulk` of the endpoints by turns (`endpoint_addr` is the older spelling
//! of one endpoint), with `auth` as basic authentication and `headers` as further fields, which win over
//! those of the plugin. Before the first batch the plugin asks the server for its version, because
//! Elasticsearch 5 and 6 need a document type; while there is no answer, batches are sent without one. Status
//! 200 within `timeout` seconds means that the batch has arrived. Documents that the server refuses in such a
//! response with 429 or 503, because it has no capacity, are sent again as a failed batch is; others that it
//! refuses are counted as failed and reported in the log. [The guide](../../guide/logging.md) says when a
//! batch is sent, repeated and dropped.

mod index;
mod sink;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value};

use crate::shared::attributes::attributes;
use crate::shared::logger::collector;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};
use index::IndexName;
use sink::Elasticsearch;

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<ElasticsearchLogger>(413, include_str!("elasticsearch_logger.rs"));

attributes! {
    pub(crate) struct ElasticsearchLoggerConfig {
        /// The endpoint, in its older spelling; use `endpoint_addrs`.
        endpoint_addr: Option<String>, { "pattern": "[^/]$" };
        /// The endpoints, which take turns.
        endpoint_addrs: Option<Vec<String>>,
            { "minItems": 1, "items": { "type": "string", "pattern": "[^/]$" } };
        /// The place of documents.
        field: Option<ElasticsearchField>;
        /// The user that sends documents.
        auth: Option<Auth>;
        /// Further fields of requests to the server.
        headers: Option<Map<String, Value>>, {
            "minProperties": 1,
            "patternProperties": { "^[^:]+$": { "type": "string", "minLength": 1 } },
            "additionalProperties": false,
        };
        /// Seconds until the server has to have answered.
        timeout: u64 = 10, { "minimum": 1 };
        /// Whether the server's certificate is verified, for https endpoints.
        ssl_verify: bool = true;
    }
    {
        "encrypt_fields": ["auth.password", "headers"],
        "oneOf": [{ "required": ["endpoint_addr", "field"] }, { "required": ["endpoint_addrs", "field"] }],
    }
}

attributes! {
    pub(crate) struct ElasticsearchField {
        /// The index; it may hold variables, and formats of the time in braces.
        index: String;
    }
}

attributes! {
    pub(crate) struct Auth {
        /// The name of the user.
        username: String, { "minLength": 1 };
        /// The password of the user.
        password: String, { "minLength": 1 };
    }
}

/// The compiled plugin. An entry is two lines of JSON: the name of the index, and the document.
struct ElasticsearchLogger {
    index: IndexName,
}

impl LogPlugin for ElasticsearchLogger {
    type TcpLoggerConfig = ElasticsearchLoggerConfig;
    type Sink = Elasticsearch;

    const NAME: &'static str = "elasticsearch-logger";

    fn compile(
        config: &ElasticsearchLoggerConfig,
        _metadata: Option<&Value>,
    ) -> Result<ElasticsearchLogger, String> {
        for uri in config.endpoints() {
            collector::check("endpoint_addrs", uri)?;
        }
        let field = config.field.as_ref().ok_or("property \"field\" is required")?;
        Ok(ElasticsearchLogger { index: IndexName::compile("field.index", &field.index)? })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &ElasticsearchLoggerConfig,
        _: &QueueSettings,
    ) -> Result<Elasticsearch, String> {
        Elasticsearch::new(build.services, config)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let mut entry = Value::from(self.index.render(exchange)).to_string().into_bytes();
        entry.push(b'\n');
        entry.extend(contents.entry(exchange).into_json());
        Some(entry)
    }
}

impl ElasticsearchLoggerConfig {
    fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.endpoint_addr.iter().chain(self.endpoint_addrs.iter().flatten()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::configuration_check;
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        let (address, field) = ("http://127.0.0.1:9200", json!({"index": "services"}));
        check(json!({"endpoint_addr": address, "field": field}), None);
        check(
            json!({
                "endpoint_addrs": [address, "https://es.example"], "field": {"index": "a-{%Y.%m.%d}-$host"},
                "auth": {"username": "elastic", "password": "123456"}, "headers": {"X-A": "b"},
                "ssl_verify": false, "timeout": 60, "max_retry_count": 0, "batch_max_size": 10,
                "include_req_body": true, "log_format": {"a": "$host"},
            }),
            None,
        );
        let none = Some("value should match only one schema, but matches none");
        check(json!({"field": field}), none);
        check(json!({"endpoint_addr": address}), none);
        check(
            json!({"endpoint_addr": address, "endpoint_addrs": [address], "field": field}),
            Some("matches both"),
        );
        check(json!({"endpoint_addr": address, "field": {}}), Some("property \"index\" is required"));
        check(
            json!({"endpoint_addr": "http://127.0.0.1:9200/", "field": field}),
            Some("failed to match pattern"),
        );
        let with =
            |name: &str, value: Value| json!({"endpoint_addrs": [address], "field": field, name: value});
        for (name, value) in [
            ("endpoint_addrs", json!(["127.0.0.1:9200"])),
            ("auth", json!({"username": "elastic"})),
            ("auth", json!({"username": "", "password": "a"})),
            ("headers", json!({})),
            ("headers", json!({"a:b": "c"})),
            ("timeout", json!(0)),
            ("field", json!({"index": "${"})),
        ] {
            check(with(name, value), Some(name));
        }
    }

    #[test]
    fn entry_is_index_and_document() {
        let config = json!({
            "endpoint_addr": "http://127.0.0.1:9200", "field": {"index": "a-$arg_n-${host}"},
            "log_format": {"n": "$arg_n"},
        });
        let entry = logger::testing::entry::<ElasticsearchLogger>(&config, None);
        let expected = "\"a-1-shop.example\"\n{\"n\":\"1\",\"route_id\":\"r1\"}";
        assert_eq!(String::from_utf8(entry).unwrap(), expected);
    }
}
