//! # example-plugin
//!
//! Logs each phase of a request, and may send the request to a node of its own: APISIX's example for authors
//! of plugins, here to see when plugins run.
//!
//! ```json
//! {
//!   "i": 1,
//!   "s": "text",
//!   "t": [1, 2],
//!   "ip": "127.0.0.1",
//!   "port": 8080
//! }
//! ```
//!
//! `ip` and `port` are the node that requests go to in place of the upstream of the route; a port that is
//! left out is that of the scheme, 80. A node that cannot be used is refused when the object is written;
//! APISIX answers requests with 500 then. The other fields have no effect, and neither have those of the
//! metadata.
//!
//! The error log gets a line of the level `warn` in the phases rewrite, access, header_filter, body_filter
//! (one for each piece of the body) and log. Each shows this configuration, and the first also names the
//! object that it is written in. That is one line and more for each request, so do not use this plugin on a
//! route with traffic. There is no line for APISIX's `delayed_body_filter`, which is no phase here.
//!
//! `GET /v1/plugin/example-plugin/hello` of the [control API](../../guide/observability.md#control-api)
//! answers `world`, and with `?json` the same in JSON. [Writing a plugin](../../guide/writing-a-plugin.md)
//! has the example for plugins of Weir.

use std::net::Ipv6Addr;
use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::{
    BodyNeed, Build, Flow, Plugin, PluginKind, PluginPhase, Portion, ResponseStep, UpstreamRef,
};
use model::control_endpoint::{ControlAnswer, ControlEndpoint, ControlQuestion};
use model::{ObjectKind, PluginCatalog, check};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "example-plugin",
    0,
    &[
        PluginPhase::Rewrite,
        PluginPhase::Access,
        PluginPhase::ResponseHead,
        PluginPhase::ResponseBody,
        PluginPhase::Log,
    ],
    ExamplePluginConfig::schema,
    build,
)
.checked(|config| node(&config::parse_config(config)?).map(drop))
.with_metadata(ExamplePluginMetadata::schema)
.with_control_endpoints(&[ControlEndpoint { path: "/v1/plugin/example-plugin/hello", answer: hello }])
.documented(include_str!("example_plugin.rs"));

attributes! {
    struct ExamplePluginConfig {
        /// A number.
        i: f64, { "minimum": 0 };
        /// A text.
        s: Option<String>;
        /// A list.
        t: Option<Vec<Value>>, { "minItems": 1 };
        /// The address of the node that requests go to.
        ip: Option<String>;
        /// The port of that node.
        port: Option<i64>;
    }
}

attributes! {
    struct ExamplePluginMetadata {
        /// A number.
        ikey: f64, { "minimum": 0 };
        /// A text.
        skey: String;
    }
}

/// The compiled plugin.
struct ExamplePlugin {
    /// The object that the configuration is written in.
    owner: Box<str>,
    /// The configuration, for the log.
    shown: Box<str>,
    upstream: Option<UpstreamRef>,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let upstream = node(&config::parse_config(config)?)?;
    Ok(Arc::new(ExamplePlugin {
        owner: build.owner.into(),
        shown: config.to_string().into(),
        upstream: upstream.map(|written| build.upstream("node", &written)).transpose()?,
    }))
}

/// The upstream with the node of the configuration, if there is one.
fn node(config: &ExamplePluginConfig) -> Result<Option<Value>, String> {
    let Some(ip) = &config.ip else { return Ok(None) };
    let is_ipv6 = ip.parse::<Ipv6Addr>().is_ok();
    let host = if is_ipv6 { format!("[{ip}]") } else { ip.clone() };
    let mut node = json!({ "host": host, "weight": 1 });
    if let Some(port) = config.port {
        node["port"] = port.into();
    }
    let upstream = json!({ "type": "roundrobin", "nodes": [node] });
    match check::value(&PluginCatalog::default(), ObjectKind::Upstream, &upstream) {
        Ok(_) => Ok(Some(upstream)),
        Err(refusal) => Err(format!("ip and port are no node: {}", refusal.contract_message())),
    }
}

impl ExamplePlugin {
    fn tell(&self, phase: &str) {
        tracing::warn!(conf = &*self.shown, "plugin {phase} phase");
    }
}

impl Plugin for ExamplePlugin {
    fn rewrite<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        tracing::warn!(conf = &*self.shown, owner = &*self.owner, "plugin rewrite phase");
        Flow::Continue
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        self.tell("access");
        if let Some(upstream) = &self.upstream {
            exchange.set_upstream(upstream.clone());
        }
        Flow::Continue
    }

    fn response_head<'a>(&'a self, _exchange: &'a mut Exchange) -> ResponseStep<'a> {
        self.tell("header_filter");
        ResponseStep::Done
    }

    fn wants_response_body(&self, _exchange: &Exchange) -> BodyNeed {
        BodyNeed::Stream
    }

    fn response_body<'a>(
        &'a self,
        _exchange: &'a mut Exchange,
        _body: &'a mut Vec<u8>,
        portion: Portion,
    ) -> ResponseStep<'a> {
        let eof = portion == Portion::Last;
        tracing::warn!(conf = &*self.shown, eof, "plugin body_filter phase");
        ResponseStep::Done
    }

    fn log(&self, _exchange: &Exchange) {
        self.tell("log");
    }
}

fn hello(question: &ControlQuestion<'_>) -> ControlAnswer {
    let names = question.query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    if names.into_iter().any(|name| name == "json") {
        return ControlAnswer::Json(json!({ "msg": "world" }));
    }
    ControlAnswer::Text("world\n".to_owned())
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, decide};
    use model::catalog::SchemaType;
    use model::instance::InstanceInfo;

    use super::*;

    #[test]
    fn configurations() {
        let rows = [
            (json!({"i": 1, "s": "s", "t": [1]}), None),
            (json!({"i": 1.5, "ip": "127.0.0.1", "port": 1981}), None),
            (json!({"i": 1, "ip": "::1"}), None),
            (json!({}), Some("i")),
            (json!({"i": -1}), Some("i")),
            (json!({"i": "1"}), Some("i")),
            (json!({"i": 1, "s": 123}), Some("s")),
            (json!({"i": 1, "t": []}), Some("t")),
            (json!({"i": 1, "port": 1.5}), Some("port")),
            (json!({"i": 1, "ip": "127.0.0.1", "port": 70_000}), Some("port")),
            (json!({"i": 1, "ip": "a b"}), Some("ip and port")),
        ];
        for (config, fault) in rows {
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        }
        for (metadata, fault) in [
            (json!({"ikey": 0, "skey": "a"}), None),
            (json!({"ikey": 0}), Some("skey")),
            (json!({"ikey": -1, "skey": "a"}), Some("ikey")),
        ] {
            check_configuration(&KIND, SchemaType::Metadata, &metadata, fault);
        }
    }

    #[test]
    fn request_goes_to_the_node_if_there_is_one() {
        let mut scene = Scene::new();
        for (config, expected) in [
            (json!({"i": 1, "ip": "127.0.0.1", "port": 1981}), Some("routes/1#node")),
            (json!({"i": 1, "port": 1981}), None),
        ] {
            let plugin = scene.build(&KIND, &config);
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(decide(plugin.access(&mut exchange)).is_none());
            let upstream = exchange.decision.upstream.as_ref().map(UpstreamRef::identity);
            assert_eq!(upstream, expected, "{config}");
        }
    }

    #[test]
    fn endpoint_answers_text_or_json() {
        let instance = InstanceInfo::default();
        for (query, expected) in [
            ("", ControlAnswer::Text("world\n".to_owned())),
            ("jsonp=1", ControlAnswer::Text("world\n".to_owned())),
            ("a=1&json", ControlAnswer::Json(json!({"msg": "world"}))),
            ("json=1", ControlAnswer::Json(json!({"msg": "world"}))),
        ] {
            assert_eq!(hello(&ControlQuestion { query, instance: &instance }), expected, "{query}");
        }
    }
}
