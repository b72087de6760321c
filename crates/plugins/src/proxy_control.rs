//! # proxy-control
//!
//! Chooses between reading a request body whole before the request is forwarded, and streaming it.
//!
//! ```json
//! { "request_buffering": false }
//! ```
//!
//! | configuration | the body |
//! |---|---|
//! | without the plugin | Of a body with a declared length the first bytes are awaited, so that a slow client occupies no connection of the upstream; the rest is streamed. A body without a declared length is streamed. |
//! | `"request_buffering": true`, the default | The body is awaited whole, and the upstream is told its length. Of a body above 8 MiB these are awaited and the rest is streamed, because it is held in memory and in no file. |
//! | `"request_buffering": false` | The body is streamed from its first byte: the upstream is chosen when the head has arrived. |
//!
//! A body that was awaited whole can be sent again, so that a failed attempt is retried as one without a body
//! would be. Do not buffer calls that stream in both directions (gRPC): the upstream sees nothing before the
//! client has ended.

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::BodyArrival;
use exchange::plugin::{Build, Explained, Flow, Plugin, PluginKind, PluginPhase, explain_by_running};
use serde_json::Value;

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("proxy-control", 21990, &[PluginPhase::Rewrite], ProxyControlConfig::schema, build)
        .documented(include_str!("proxy_control.rs"));

attributes! {
    struct ProxyControlConfig {
        /// Whether the body is read whole before the request is forwarded.
        request_buffering: bool = true;
    }
}

/// The compiled plugin.
struct ProxyControl {
    arrival: BodyArrival,
}

fn build(_build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: ProxyControlConfig = config::parse_config(config)?;
    let arrival = if config.request_buffering { BodyArrival::Whole } else { BodyArrival::Nothing };
    Ok(Arc::new(ProxyControl { arrival }))
}

impl Plugin for ProxyControl {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        exchange.await_request_body(self.arrival);
        Flow::Continue
    }

    fn explain(&self, exchange: &mut Exchange, phase: PluginPhase) -> Explained {
        explain_by_running(self, exchange, phase)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{self, check_configuration};
    use model::catalog::SchemaType;
    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_decides_about_arrival() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({ "request_buffering": 1 }), Some("boolean"));
        let check = |config: Value, expected: BodyArrival| {
            check_configuration(&KIND, SchemaType::Plugin, &config, None);
            let mut scene = testing::Scene::new();
            let plugin = scene.build(&KIND, &config);
            let mut exchange = scene.exchange(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(exchange.decision.body_arrival, BodyArrival::Prefix);
            assert!(testing::decide(plugin.rewrite(&mut exchange)).is_none());
            assert_eq!(exchange.decision.body_arrival, expected, "{config}");
        };
        check(json!({}), BodyArrival::Whole);
        check(json!({ "request_buffering": true }), BodyArrival::Whole);
        check(json!({ "request_buffering": false }), BodyArrival::Nothing);
    }
}
