//! # client-control
//!
//! Limits the request bodies of a route, and refuses longer ones with 413.
//!
//! ```json
//! { "max_body_size": 1048576 }
//! ```
//!
//! A body with a declared length (`Content-Length`) above `max_body_size` bytes is refused before it is read
//! and before authentication. A body without one, such as a chunked one, is counted while it arrives, and the
//! request is refused once it is longer; the upstream may have received a part of it by then, which it can
//! tell to be cut.
//!
//! 0 is no limit of this route. The setting `max_body_bytes`, which holds for all routes, is
//! not exceeded in any case.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BufferedReply, Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running,
};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("client-control", 22000, &[PluginPhase::Rewrite], ClientControlConfig::schema, build)
        .documented(include_str!("client_control.rs"));

attributes! {
    struct ClientControlConfig {
        /// The longest request body in bytes; 0 is without a limit.
        max_body_size: Option<u64>, { "minimum": 0 };
    }
}

/// The compiled plugin.
struct ClientControl {
    max_body_bytes: Option<u64>,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ClientControlConfig = config::parse_config(config)?;
    Ok(Arc::new(ClientControl { max_body_bytes: config.max_body_size }))
}

impl Plugin for ClientControl {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        let Some(max_bytes) = self.max_body_bytes else { return Flow::Continue };
        exchange.limit_request_body(max_bytes);
        let declared = exchange.request.headers.get("content-length");
        let length: Option<u64> =
            declared.and_then(|text| str::from_utf8(text).ok()).and_then(|text| text.trim().parse().ok());
        if max_bytes != 0 && length.is_some_and(|length| length > max_bytes) {
            return Flow::reply(BufferedReply::status(413));
        }
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{self, configuration_check};
    use serde_json::json;

    use super::*;

    #[test]
    fn configurations() {
        let check = configuration_check(&KIND);
        check(json!({}), None);
        check(json!({ "max_body_size": 0 }), None);
        check(json!({ "max_body_size": -1 }), Some("max_body_size"));
        check(json!({ "max_body_size": "1" }), Some("wrong type: expected integer, got string"));
    }

    /// Checks the status of a refusal, 0 for none, and the limit of the body afterwards.
    fn check(config: Value, fields: &str, expected: (u16, u64)) {
        let mut scene = testing::Scene::new();
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        let refusal = testing::decide(plugin.rewrite(&mut exchange));
        let status = refusal.map_or(0, |reply| reply.status);
        assert_eq!((status, exchange.max_request_body_bytes()), expected, "{config} {fields}");
    }

    #[test]
    fn declared_length_is_checked_at_once() {
        let limit = |bytes: u64| json!({ "max_body_size": bytes });
        check(limit(5), "Content-Length: 5\r\n", (0, 5));
        check(limit(5), "Content-Length: 6\r\n", (413, 5));
        check(limit(5), "Content-Length: 18446744073709551615\r\n", (413, 5));
        check(limit(5), "Transfer-Encoding: chunked\r\n", (0, 5));
        check(limit(0), "Content-Length: 6\r\n", (0, 0));
        check(json!({}), "Content-Length: 6\r\n", (0, 0));
    }
}
