//! # clickhouse-logger
//!
//! Reports every request to a table of ClickHouse, in batches over its HTTP interface. No request waits for
//! it.
//!
//! ```json
//! {
//!   "endpoint_addrs": ["http://127.0.0.1:8123"],
//!   "user": "default",
//!   "password": "$env://CLICKHOUSE_PASSWORD",
//!   "database": "default",
//!   "logtable": "requests",
//!   "log_format": { "host": "$host", "status": "$status", "client_ip": "$remote_addr" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md). Each is a row: its fields have to be
//! the columns of the table, so choose them with `log_format`. The table has to exist, for the example:
//!
//! ```sql
//! CREATE TABLE default.requests
//!   (host String, status UInt16, client_ip String, route_id String, service_id String, PRIMARY KEY(route_id))
//!   ENGINE = MergeTree()
//! ```
//!
//! **How it is sent.** By POST of `INSERT INTO logtable FORMAT JSONEachRow` with the rows to the endpoints by
//! turns (`endpoint_addr` is the older spelling of one endpoint), with `user`, `password` and `database` in
//! `X-ClickHouse-User`, `X-ClickHouse-Key` and `X-ClickHouse-Database`. A status below 400 within `timeout`
//! seconds means that the batch has arrived. [The guide](../../guide/logging.md) says when a batch is sent,
//! repeated and dropped.

use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use serde_json::Value;

use crate::shared::attributes::attributes;
use crate::shared::logger::collector::{self, Calling, LogCollector, URI_PATTERN};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<ClickhouseLogger>(398, include_str!("clickhouse_logger.rs"));

attributes! {
    pub(crate) struct ClickhouseLoggerConfig {
        /// The endpoint, in its older spelling; use `endpoint_addrs`.
        endpoint_addr: Option<String>, { "pattern": URI_PATTERN };
        /// The endpoints of ClickHouse, which take turns.
        endpoint_addrs: Option<Vec<String>>,
            { "minItems": 1, "items": { "type": "string", "pattern": URI_PATTERN } };
        /// The user that inserts rows.
        user: String = String::new();
        /// The password of the user.
        password: String = String::new();
        /// The database of the table.
        database: String = String::new();
        /// The table.
        logtable: String = String::new();
        /// Seconds until ClickHouse has to have answered.
        timeout: u64 = 3, { "minimum": 1 };
        /// Whether the server's certificate is verified, for https endpoints.
        ssl_verify: bool = true;
    }
    {
        "encrypt_fields": ["password"],
        "oneOf": [
            { "required": ["endpoint_addr", "user", "password", "database", "logtable"] },
            { "required": ["endpoint_addrs", "user", "password", "database", "logtable"] },
        ],
    }
}

/// The compiled plugin: an entry is a JSON object.
struct ClickhouseLogger;

impl LogPlugin for ClickhouseLogger {
    type TcpLoggerConfig = ClickhouseLoggerConfig;
    type Sink = Clickhouse;

    const NAME: &'static str = "clickhouse-logger";

    fn compile(
        config: &ClickhouseLoggerConfig,
        _metadata: Option<&Value>,
    ) -> Result<ClickhouseLogger, String> {
        config.endpoints().try_for_each(|uri| collector::check("endpoint_addrs", uri))?;
        Ok(ClickhouseLogger)
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &ClickhouseLoggerConfig,
        _: &QueueSettings,
    ) -> Result<Clickhouse, String> {
        let calling = Calling::within_s(config.timeout, config.ssl_verify);
        let mut collector = LogCollector::new(build.services, config.endpoints(), calling)?;
        for (attribute, name, value) in [
            ("timeout", "Content-Type", "application/json"),
            ("user", "X-ClickHouse-User", &config.user),
            ("password", "X-ClickHouse-Key", &config.password),
            ("database", "X-ClickHouse-Database", &config.database),
        ] {
            collector.set(attribute, name, value)?;
        }
        let insert = format!("INSERT INTO {} FORMAT JSONEachRow ", config.logtable);
        Ok(Clickhouse { collector, insert: insert.into() })
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        Some(contents.entry(exchange).into_json())
    }
}

impl ClickhouseLoggerConfig {
    fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.endpoint_addr.iter().chain(self.endpoint_addrs.iter().flatten()).map(String::as_str)
    }
}

/// ClickHouse, as one plugin instance reaches it.
struct Clickhouse {
    collector: LogCollector,
    /// The statement before the rows.
    insert: Box<str>,
}

impl Clickhouse {
    fn body(&self, batch: &[BatchEntry]) -> Vec<u8> {
        [self.insert.as_bytes(), &*batch.join(&b' ')].concat()
    }
}

impl Sink for Clickhouse {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let answer = self.collector.post(client, self.body(batch)).await?;
            Ok(answer.below_400()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{configuration_check, with_fields};
    use serde_json::json;

    use super::*;

    fn with(fields: Value) -> Value {
        with_fields(
            json!({
                "endpoint_addrs": ["http://127.0.0.1:1"], "user": "u", "password": "p", "database": "d", "logtable": "t",
            }),
            &fields,
        )
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(with(json!({})), None);
        check(
            with(
                json!({"timeout": 3, "name": "clickhouse logger", "max_retry_count": 1, "ssl_verify": false}),
            ),
            None,
        );
        let old = json!({
            "endpoint_addr": "http://127.0.0.1:1", "user": "", "password": "", "database": "", "logtable": "",
        });
        check(old, None);
        check(with(json!({"endpoint_addr": "http://127.0.0.1:1"})), Some("matches both"));
        let none = Some("value should match only one schema, but matches none");
        check(json!({"endpoint_addrs": ["http://127.0.0.1:1"]}), none);
        check(json!({"user": "u", "password": "p", "database": "d", "logtable": "t"}), none);
        check(with(json!({"endpoint_addrs": ["127.0.0.1"]})), Some("endpoint_addrs"));
        check(with(json!({"endpoint_addrs": ["ftp://127.0.0.1"]})), Some("endpoint_addrs"));
        check(with(json!({"timeout": "3"})), Some("timeout"));
    }

    #[test]
    fn batches_are_inserts_of_rows() {
        let sink = logger::testing::sink::<ClickhouseLogger>(&with(json!({})), None).unwrap();
        let batch: [BatchEntry; 2] = [b"{\"a\":1}".to_vec().into(), b"{}".to_vec().into()];
        assert_eq!(sink.body(&batch), b"INSERT INTO t FORMAT JSONEachRow {\"a\":1} {}");
        let headers = sink.collector.headers();
        for (name, value) in [("user", "u"), ("key", "p"), ("database", "d")] {
            assert_eq!(headers.get(&format!("x-clickhouse-{name}")), Some(value.as_bytes()), "{name}");
        }
    }
}
