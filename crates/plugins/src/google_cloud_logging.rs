//! # google-cloud-logging
//!
//! Reports every request to Google Cloud Logging, in batches over its API. No request waits for it.
//!
//! ```json
//! {
//!   "auth_config": {
//!     "client_email": "gateway@example.iam.gserviceaccount.com",
//!     "private_key": "$env://GOOGLE_PRIVATE_KEY",
//!     "project_id": "example"
//!   },
//!   "resource": { "type": "global" },
//!   "log_id": "weir%2Flogs"
//! }
//! ```
//!
//! **Entries.** Without `log_format` an entry has `httpRequest` (method, URL, sizes, status, user agent,
//! addresses, latency) and in `jsonPayload` `route_id`, `service_id` and the fields of `log_format_extra`;
//! with `log_format`, `jsonPayload` holds the chosen fields, as in [http-logger](http-logger.md). `resource`
//! and `log_id` are those of the API; `insertId` is the identifier of the request.
//!
//! **The service account.** `auth_config` holds it, or `auth_file` names its JSON file, which is read when
//! the configuration is compiled. For the `scope` (`scopes` is another spelling, which wins) the plugin gets
//! a token from `token_uri` with an assertion that it signs with `private_key` (RSA with at least 2048 bits),
//! and uses it until a minute before its end.
//!
//! **How it is sent.** By POST to `entries_uri`. Status 200 means that the batch has arrived. The
//! certificates of both servers are verified unless `ssl_verify` is `false`. [The
//! guide](../../guide/logging.md) says when a batch is sent, repeated and dropped.

mod account;
mod sink;
mod token;

use exchange::Exchange;
use exchange::plugin::batch::QueueSettings;
use exchange::plugin::{Build, PluginKind};
use serde_json::{Map, Value, json};

use crate::shared::attributes::attributes;
use crate::shared::logger::contents::{Contents, LogEntry};
use crate::shared::logger::times::{now, rfc3339};
use crate::shared::logger::{self, CommonFields, LogPlugin};
use account::{Account, AuthConfig};
use sink::CloudLogging;

/// The plugin.
pub(crate) const KIND: PluginKind =
    logger::log_plugin_kind::<GoogleLogging>(407, include_str!("google_cloud_logging.rs"));

attributes! {
    pub(crate) struct GoogleCloudLoggingConfig {
        /// The service account.
        auth_config: Option<AuthConfig>;
        /// Whether the certificates of the servers are verified.
        ssl_verify: bool = true;
        /// The file of the service account, in JSON.
        auth_file: Option<String>;
        /// The monitored resource of entries.
        resource: MonitoredResource = MonitoredResource { r#type: "global".to_owned(), labels: None }, { "default": { "type": "global" } };
        /// The identifier of the log, percent-encoded.
        log_id: String = "apisix.apache.org%2Flogs".to_owned();
    }
    {
        "encrypt_fields": ["auth_config.private_key"],
        "oneOf": [{ "required": ["auth_config"] }, { "required": ["auth_file"] }],
    }
}

attributes! {
    pub(crate) struct MonitoredResource {
        /// The type of the resource.
        r#type: String;
        /// The labels of the resource.
        labels: Option<Map<String, Value>>;
    }
}

/// The compiled plugin: an entry is a JSON object.
struct GoogleLogging {
    log_id: Box<str>,
    resource: Value,
    account: Option<Account>,
}

impl LogPlugin for GoogleLogging {
    type TcpLoggerConfig = GoogleCloudLoggingConfig;
    type Sink = CloudLogging;

    const NAME: &'static str = "google-cloud-logging";
    const COMMON: CommonFields = CommonFields::Format;

    fn compile(
        config: &GoogleCloudLoggingConfig,
        _metadata: Option<&Value>,
    ) -> Result<GoogleLogging, String> {
        let mut resource = json!({ "type": config.resource.r#type });
        if let Some(labels) = &config.resource.labels {
            resource["labels"] = Value::Object(labels.clone());
        }
        let account = Account::of(config)?;
        Ok(GoogleLogging { log_id: (&*config.log_id).into(), resource, account })
    }

    fn sink(
        &self,
        build: &Build<'_>,
        config: &GoogleCloudLoggingConfig,
        _: &QueueSettings,
    ) -> Result<CloudLogging, String> {
        let account = self.account.as_ref().ok_or("auth_file: the reference to a secret is not resolved")?;
        CloudLogging::new(build.services, account, config.ssl_verify)
    }

    fn entry(&self, exchange: &Exchange, contents: &Contents) -> Option<Vec<u8>> {
        let project = self.account.as_ref()?.project_id();
        let mut entry = entry(contents.entry(exchange));
        entry["labels"] = json!({ "source": "apache-apisix-google-cloud-logging" });
        entry["timestamp"] = rfc3339(now(exchange)).into();
        entry["resource"] = self.resource.clone();
        entry["logName"] = format!("projects/{project}/logs/{}", self.log_id).into();
        entry["insertId"] = exchange.request_id.get().into();
        Some(entry.to_string().into_bytes())
    }
}

/// The parts of an entry that hold the request.
fn entry(mut entry: LogEntry) -> Value {
    if entry.is_chosen {
        return json!({ "jsonPayload": entry.fields });
    }
    let whole = Value::Object(std::mem::take(&mut entry.fields));
    let mut request = Map::new();
    for (name, pointer) in REQUEST {
        if let Some(value) = whole.pointer(pointer) {
            request.insert(name.to_owned(), value.clone());
        }
    }
    let latency_ms = whole["latency"].as_f64().unwrap_or_default();
    request.insert("latency".to_owned(), format!("{:.3}s", latency_ms / 1_000.0).into());
    let mut payload = Map::new();
    for name in ["route_id", "service_id"] {
        if let Some(value) = whole.get(name) {
            payload.insert(name.to_owned(), value.clone());
        }
    }
    for (name, value) in entry.extra {
        payload.entry(name).or_insert(value);
    }
    json!({ "httpRequest": request, "jsonPayload": payload })
}

/// The fields of `httpRequest`, and where they stand in the whole entry.
const REQUEST: [(&str, &str); 8] = [
    ("requestMethod", "/request/method"),
    ("requestUrl", "/request/url"),
    ("requestSize", "/request/size"),
    ("status", "/response/status"),
    ("responseSize", "/response/size"),
    ("userAgent", "/request/headers/user-agent"),
    ("remoteIp", "/client_ip"),
    ("serverIp", "/upstream"),
];

#[cfg(test)]
mod tests;
