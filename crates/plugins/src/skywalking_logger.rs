//! # skywalking-logger
//!
//! Reports every request to Apache SkyWalking, in batches over its HTTP interface for logs. No request waits
//! for it.
//!
//! ```json
//! {
//!   "endpoint_addr": "http://127.0.0.1:12800",
//!   "service_name": "shop",
//!   "service_instance_name": "$hostname",
//!   "log_format": { "host": "$host", "status": "$status" }
//! }
//! ```
//!
//! **Entries and bodies** are those of [http-logger](http-logger.md); an entry is the JSON body of a log of
//! SkyWalking. The service of the log is `service_name`, its instance `service_instance_name` (`$hostname` is
//! the name of this machine), its endpoint the path of the request. If the request has the field `sw8`, the
//! log belongs to that trace.
//!
//! **How it is sent.** By POST of a JSON list to `/v3/logs`. A status below 400 within `timeout` seconds
//! means that the batch has arrived. Over `https` the certificate is verified. [The
//! guide](../../guide/logging.md) says when a batch is sent, repeated and dropped.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
use exchange::Exchange;
use exchange::plugin::batch::{BatchEntry, Delivery, QueueSettings, Sink};
use exchange::plugin::outbound::HttpClient;
use exchange::plugin::{Build, PluginKind};
use message::Method;
use serde_json::{Value, json};

use crate::shared::attributes::attributes;
use crate::shared::log_entry::hostname;
use crate::shared::logger::collector::{self, Calling, LogCollector, URI_PATTERN, json_list};
use crate::shared::logger::contents::Contents;
use crate::shared::logger::{self, LogPlugin};

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<SkywalkingLogger>(408, include_str!("skywalking_logger.rs"));

attributes! {
    pub(crate) struct SkywalkingLoggerConfig {
        /// SkyWalking: an http or https URI.
        endpoint_addr: String, { "pattern": URI_PATTERN };
        /// The name of the service.
        service_name: String = "APISIX".to_owned();
        /// The name of the instance; `$hostname` is the name of this machine.
        service_instance_name: String = "APISIX Instance Name".to_owned();
        /// Seconds until SkyWalking has to have answered.
        timeout: u64 = 3, { "minimum": 1 };
    }
}

/// The path of the interface for logs.
const LOGS: &str = "/v3/logs";

/// The compiled plugin: an entry is a JSON object.
struct SkywalkingLogger {
    service: Box<str>,
    instance: Box<str>,
}

impl LogPlugin for SkywalkingLogger {
    type TcpLoggerConfig = SkywalkingLoggerConfig;
    type Sink = SkywalkingLogServer;

    const NAME: &'static str = "skywalking-logger";
    const QUEUE_NAME: &'static str = "skywalking logger";

    fn compile(
        config: &SkywalkingLoggerConfig,
        _metadata: Option<&Value>,
    ) -> Result<SkywalkingLogger, String> {
        collector::check("endpoint_addr", &config.endpoint_addr)?;
        let instance = match &*config.service_instance_name {
            "$hostname" => hostname(),
            name => name,
        };
        Ok(SkywalkingLogger { service: (&*config.service_name).into(), instance: instance.into() })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &SkywalkingLoggerConfig,
        _: &QueueSettings,
    ) -> Result<SkywalkingLogServer, String> {
        let calling = Calling::within_s(config.timeout, true);
        let mut collector = LogCollector::new(build.services, [&*config.endpoint_addr], calling)?;
        collector.set("endpoint_addr", "Content-Type", "application/json")?;
        Ok(SkywalkingLogServer(collector))
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let body = Value::Object(contents.entry(exchange).fields).to_string();
        let mut entry = json!({
            "body": { "json": { "json": body } },
            "service": &*self.service,
            "serviceInstance": &*self.instance,
            "endpoint": String::from_utf8_lossy(exchange.path()),
        });
        if let Some(context) = exchange.request.headers.get("sw8").and_then(trace_context) {
            entry["traceContext"] = context;
        }
        Some(entry.to_string().into_bytes())
    }
}

/// The trace that the field `sw8` names: `1-TRACE-SEGMENT-SPAN-SERVICE-INSTANCE-ENDPOINT-ADDRESS`, with
/// texts in base64. Nothing if it has another form.
fn trace_context(field: &[u8]) -> Option<Value> {
    let field = str::from_utf8(field).ok()?;
    let parts: Vec<&str> = field.split('-').collect();
    let [_, trace, segment, span, _, _, _, _] = parts[..] else { return None };
    let span: i64 = span.parse().ok()?;
    Some(json!({ "traceId": decoded(trace)?, "traceSegmentId": decoded(segment)?, "spanId": span }))
}

/// A text in base64: agents write the usual alphabet, the contract reads that of URLs.
fn decoded(text: &str) -> Option<String> {
    let encodings = [BASE64, BASE64URL, BASE64_NOPAD, BASE64URL_NOPAD];
    let bytes = encodings.iter().find_map(|encoding| encoding.decode(text.as_bytes()).ok())?;
    String::from_utf8(bytes).ok()
}

/// SkyWalking, as one plugin instance reaches it.
struct SkywalkingLogServer(LogCollector);

impl Sink for SkywalkingLogServer {
    fn deliver<'a>(&'a self, client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            let (endpoint, headers) = (self.0.endpoint(), self.0.headers().clone());
            let answer =
                self.0.send(client, endpoint, (Method::Post, LOGS), headers, json_list(batch)).await?;
            Ok(answer.below_400()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, configuration_check, respond};

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({"endpoint_addr": "http://127.0.0.1"}), None);
        check(
            json!({
                "endpoint_addr": "http://127.0.0.1:1982", "timeout": 3, "service_name": "s", "name": "n",
                "service_instance_name": "$hostname", "max_retry_count": 2, "include_req_body": true,
            }),
            None,
        );
        check(json!({}), Some("property \"endpoint_addr\" is required"));
        check(json!({"endpoint_addr": "127.0.0.1"}), Some("endpoint_addr"));
        check(json!({"endpoint_addr": "http://a", "timeout": 0}), Some("timeout"));
    }

    #[test]
    fn entry_belongs_to_the_trace_of_sw8() {
        let entry = |config: Value, sw8: &str| -> Value {
            let mut config = config;
            config["endpoint_addr"] = json!("http://127.0.0.1:1");
            config["log_format"] = json!({"n": "$arg_n"});
            let mut scene = Scene::new();
            let head = format!("GET /a?n=1 HTTP/1.1\r\nHost: a\r\nsw8: {sw8}\r\n\r\n");
            let mut exchange = scene.exchange(head.as_bytes());
            respond(&mut exchange, 200, &[]);
            let maker = logger::testing::Maker::<SkywalkingLogger>::new(&config, None);
            serde_json::from_slice(&maker.entry(&exchange).unwrap()).unwrap()
        };
        let plain = json!({
            "body": {"json": {"json": "{\"n\":\"1\"}"}},
            "service": "APISIX", "serviceInstance": "APISIX Instance Name", "endpoint": "/a",
        });
        let check = |sw8: &str, context: Option<Value>| {
            let mut expected = plain.clone();
            if let Some(context) = context {
                expected["traceContext"] = context;
            }
            assert_eq!(entry(json!({}), sw8), expected, "{sw8}");
        };
        // base64 of `trace-1` and `seg??`, with padding and without it.
        let context = json!({"traceId": "trace-1", "traceSegmentId": "seg??", "spanId": 3});
        check("1-dHJhY2UtMQ==-c2VnPz8=-3-c3Zj-aQ==-L2E=-YQ==", Some(context.clone()));
        check("1-dHJhY2UtMQ-c2VnPz8-3-c3Zj-aQ-L2E-YQ", Some(context));
        for sw8 in ["", "1-dHJhY2UtMQ==-c2VnPz8=-3", "1-%-c2VnPz8=-3-a-b-c-d", "1-dHJh-dHJh-x-a-b-c-d"] {
            check(sw8, None);
        }
        let named = json!({"service_name": "shop", "service_instance_name": "$hostname"});
        let named = entry(named, "");
        assert_eq!((&named["service"], &named["serviceInstance"]), (&json!("shop"), &json!(hostname())));
    }
}
