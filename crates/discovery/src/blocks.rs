//! Fields that the blocks of several registries share, with APISIX's names and defaults, and the HTTP client
//! that they describe.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::BuildContext;
use super::http::{HttpClient, HttpSettings, TlsSettings};
use super::limits::WEIGHT_MAX;

/// Time limits in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
pub(super) struct RegistryTimeouts {
    connect: u64,
    send: u64,
    read: u64,
}

impl Default for RegistryTimeouts {
    fn default() -> RegistryTimeouts {
        RegistryTimeouts { connect: 2000, send: 2000, read: 5000 }
    }
}

impl RegistryTimeouts {
    /// The JSON Schema.
    pub(super) fn schema() -> Value {
        let limit = |description: &str, default: u64| json!({"description": description, "type": "integer", "minimum": 1, "maximum": 3_600_000, "default": default});
        json!({
            "description": "Time limits of a call in milliseconds.",
            "type": "object",
            "properties": {
                "connect": limit("For the connection.", 2000),
                "send": limit("For sending; it counts together with `read`.", 2000),
                "read": limit("For the answer.", 5000)
            },
            "additionalProperties": false
        })
    }

    /// A client of these servers.
    ///
    /// # Errors
    /// A server is no URL.
    pub(super) fn client(
        self,
        servers: Vec<String>,
        tls: TlsSettings,
        answer_bytes: usize,
        context: &BuildContext,
    ) -> Result<HttpClient, String> {
        HttpClient::new(HttpSettings {
            servers,
            connect_timeout: Duration::from_millis(self.connect),
            timeout: Duration::from_millis(self.connect + self.send + self.read),
            tls,
            policy: context.policy.clone(),
            answer_bytes,
        })
    }
}

/// The JSON Schema of `host`: URLs of servers.
pub(super) fn servers_schema() -> Value {
    json!({
        "description": "The servers as http://[USER:PASSWORD@]HOST:PORT; they are asked in turn until one answers.",
        "type": "array", "minItems": 1, "maxItems": 16,
        "items": {"type": "string", "pattern": "^https?://([^/]+@)?[^/@]+/?$", "minLength": 2, "maxLength": 400}
    })
}

/// The JSON Schema of `fetch_interval`.
pub(super) fn interval_schema() -> Value {
    json!({
        "description": "Seconds between two fetches.",
        "type": "integer", "minimum": 1, "maximum": 86_400, "default": 30
    })
}

/// The JSON Schema of `weight`.
pub(super) fn weight_schema() -> Value {
    json!({
        "description": "The weight of an instance without one.",
        "type": "integer", "minimum": 0, "maximum": WEIGHT_MAX, "default": 100
    })
}

/// The URL of a server without its user and password, and both of them where it has them.
pub(super) fn split_user(url: &str) -> (String, Option<(String, String)>) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), None) };
    let Some((user, host)) = rest.rsplit_once('@') else { return (url.to_owned(), None) };
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    (format!("{scheme}://{host}"), Some((decoded(name), decoded(password))))
}

pub(super) fn default_fetch_interval_s() -> u64 {
    30
}

pub(super) fn default_instance_weight() -> u32 {
    100
}

#[cfg(test)]
mod tests {
    use super::split_user;

    #[test]
    fn user_is_taken_out_of_a_url() {
        let user = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        assert_eq!(split_user("http://h:80"), ("http://h:80".to_owned(), None));
        assert_eq!(split_user("http://u:p%40:x@h:80"), ("http://h:80".to_owned(), user("u", "p@:x")));
        assert_eq!(split_user("http://u:p@x@h"), ("http://h".to_owned(), user("u", "p@x")));
    }
}
