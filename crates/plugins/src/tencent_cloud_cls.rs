//! # tencent-cloud-cls
//!
//! Reports every request to Tencent Cloud Log Service, in batches over its API. No request waits for it.
//!
//! ```json
//! {
//!   "cls_host": "ap-guangzhou.cls.tencentyun.com",
//!   "cls_topic": "1f3a2b",
//!   "secret_id": "AKIDexample",
//!   "secret_key": "$env://CLS_SECRET_KEY",
//!   "sample_ratio": 0.1,
//!   "global_tag": { "gateway": "edge-1" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md), with the fields of `global_tag` added.
//! Each field is sent as a text: an object as JSON, and at most its first mebibyte. `sample_ratio` is the
//! share of requests that are logged.
//!
//! **How it is sent.** By POST to `/structuredlog` at `cls_host`, in Protocol Buffers, signed with
//! `secret_id` and `secret_key`, at most 5 MiB in one request; an entry that is longer is dropped and counted
//! as failed. Status 200 within 10 seconds means that the entries have arrived. Statuses 401, 403, 404 and
//! 413 are final: the entries are counted as failed and not sent again. [The guide](../../guide/logging.md)
//! says when a batch is sent, repeated and dropped.

mod message;
mod signature;
mod sink;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value};

use crate::shared::attributes::{attributes, words};
use crate::shared::config;
use crate::shared::logger::collector;
use crate::shared::logger::contents::Contents;
use crate::shared::logger::times::{now, unix_ms};
use crate::shared::logger::{self, LogPlugin};
use sink::LogService;

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<TencentLogger>(397, include_str!("tencent_cloud_cls.rs"));

words! {
    /// The scheme of the API.
    pub(crate) enum ClsScheme {
        /// Without TLS.
        Http = "http",
        /// With TLS.
        Https = "https",
    }
}

attributes! {
    pub(crate) struct TencentCloudClsConfig {
        /// The host of the API, perhaps with a port.
        cls_host: String;
        /// The topic that entries belong to.
        cls_topic: String;
        /// The scheme of the API.
        scheme: ClsScheme = ClsScheme::Https;
        /// Whether the certificate of the API is verified.
        ssl_verify: bool = true;
        /// The identifier of the key.
        secret_id: String, { "minLength": 1 };
        /// The key that signs requests.
        secret_key: String, { "minLength": 1 };
        /// The share of requests that are logged.
        sample_ratio: f64 = 1.0, { "minimum": 0.00001, "maximum": 1, "default": 1 };
        /// Further fields of every entry.
        global_tag: Option<Map<String, Value>>;
    }
    { "encrypt_fields": ["secret_key"] }
}

impl TencentCloudClsConfig {
    fn uri(&self) -> String {
        format!("{}://{}{}?topic_id={}", self.scheme.word(), self.cls_host, signature::PATH, self.cls_topic)
    }
}

/// The compiled plugin: an entry is a log of the service, in Protocol Buffers.
struct TencentLogger {
    sample_ratio: f64,
    global_tag: Map<String, Value>,
}

impl LogPlugin for TencentLogger {
    type TcpLoggerConfig = TencentCloudClsConfig;
    type Sink = LogService;

    const NAME: &'static str = "tencent-cloud-cls";

    fn compile(config: &TencentCloudClsConfig, _metadata: Option<&Value>) -> Result<TencentLogger, String> {
        if !config::is_reference(&config.cls_host) && !config::is_reference(&config.cls_topic) {
            collector::check("cls_host", &config.uri())?;
        }
        Ok(TencentLogger {
            sample_ratio: config.sample_ratio,
            global_tag: config.global_tag.clone().unwrap_or_default(),
        })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &TencentCloudClsConfig,
        _: &QueueSettings,
    ) -> Result<LogService, String> {
        LogService::new(build.services, config)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let mut fields = contents.entry(exchange).fields;
        fields.extend(self.global_tag.iter().map(|(name, value)| (name.clone(), value.clone())));
        Some(message::log(&fields, unix_ms(now(exchange))))
    }

    fn may_log(&self, exchange: &Exchange) -> bool {
        self.sample_ratio >= 1.0 || sample(exchange) < self.sample_ratio
    }
}

/// A number from 0 to 1 that is the same in all phases of an exchange: its start and its connection, mixed.
fn sample(exchange: &Exchange) -> f64 {
    let seed = exchange.times.started_ns ^ (u64::from(exchange.connection.peer.port()) << 48);
    // The finalizer of SplitMix64.
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // The upper 53 bits fit into a double.
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, with_fields};
    use serde_json::json;

    use super::*;

    fn with(fields: Value) -> Value {
        with_fields(
            json!({
                "cls_host": "ap-guangzhou.cls.tencentyun.com", "cls_topic": "t", "secret_id": "i", "secret_key": "k",
            }),
            &fields,
        )
    }

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(with(json!({})), None);
        check(
            with(json!({
                "scheme": "http", "ssl_verify": false, "sample_ratio": 0.5, "global_tag": {"a": "b", "n": 1},
                "include_req_body": true, "log_format": {"a": "$host"}, "max_retry_count": 0,
            })),
            None,
        );
        for name in ["cls_host", "cls_topic", "secret_id", "secret_key"] {
            let mut config = with(json!({}));
            config.as_object_mut().unwrap().shift_remove(name);
            check(config, Some(&format!("property \"{name}\" is required")));
        }
        for (field, value) in [
            ("sample_ratio", json!(0)),
            ("sample_ratio", json!(1.1)),
            ("scheme", json!("ftp")),
            ("cls_host", json!("a b")),
            ("global_tag", json!([])),
        ] {
            check(with(json!({field: value})), Some(field));
        }
    }

    #[test]
    fn share_of_requests_is_sampled_in_all_phases() {
        let maker = logger::testing::Maker::<TencentLogger>::new(&with(json!({"sample_ratio": 0.25})), None);
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut logged = 0;
        for number in 0..4_000_u64 {
            exchange.times.started_ns = 1_000_000_000 + number * 1_000;
            let may_log = maker.plugin.may_log(&exchange);
            assert_eq!(may_log, maker.plugin.may_log(&exchange));
            logged += u32::from(may_log);
        }
        assert!((900..1_100).contains(&logged), "{logged}");
        let all = logger::testing::Maker::<TencentLogger>::new(&with(json!({})), None);
        assert!(all.plugin.may_log(&exchange));
    }
}
