//! # public-api
//!
//! Opens an endpoint of a plugin to clients, as the upstream of its route: a route without this plugin never
//! reaches one.
//!
//! ```json
//! {
//!   "uri": "/apisix/batch-requests"
//! }
//! ```
//!
//! Without `uri` the endpoint is the one at the path of the request. A request for which there is no endpoint
//! with that path and method is answered 404. Other plugins of the route protect the endpoint as they protect
//! an upstream; without one, such as `key-auth` or `ip-restriction`, every client may use it.
//!
//! | endpoint | of the plugin |
//! |---|---|
//! | `POST /apisix/batch-requests` | `batch-requests` |
//! | `PURGE /apisix/plugin/graphql-proxy-cache/*` | `graphql-proxy-cache` |
//! | `GET /apisix/prometheus/metrics` | `prometheus` |
//! | `GET /apisix/status` | `node-status` |
//!
//! Plugins of users in Lua add endpoints: the routes that their function `api` returns,
//! `{methods, uri, handler}`. They exist as long as the plugin does, with or without a route that has it; a
//! `uri` that ends in `*` stands for all paths that begin so, and built-in endpoints go first.
//!
//! The endpoints of a plugin that the setting `plugins` switches off do not exist. A request of
//! `batch-requests` reaches no endpoint.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::chain::PluginInstance;
use exchange::plugin::extension::EndpointCode;
use exchange::plugin::{BodyNeed, BufferedReply, Build, Flow, Plugin, PluginApi, PluginKind, PluginPhase};
use model::loaded_endpoint::LoadedEndpoint;
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::config;

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "public-api",
    501,
    &[PluginPhase::RequestBody, PluginPhase::Access],
    PublicApiConfig::schema,
    build,
)
.with_parts(PARTS)
.opening_endpoints()
.documented(include_str!("public_api.rs"));

attributes! {
    struct PublicApiConfig {
        /// The path of the endpoint in place of that of the request.
        uri: Option<String>;
    }
}

/// The plugins with endpoints.
const PARTS: &[&str] = &["batch-requests", "graphql-proxy-cache", "node-status", "prometheus"];

/// The compiled plugin.
struct PublicApi {
    uri: Option<String>,
    endpoints: Vec<(&'static PluginApi, Arc<PluginInstance>)>,
    /// Those of extensions.
    loaded: Vec<LoadedEndpoint>,
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: PublicApiConfig = config::parse_config(config)?;
    let mut endpoints = Vec::new();
    for kind in crate::ALL.iter().filter(|kind| !kind.apis.is_empty() && build.assembly.knows(kind.name)) {
        if let Some(instance) = build.plugin(kind.name, kind.name, &json!({}))? {
            endpoints.extend(kind.apis.iter().map(|api| (api, instance.clone())));
        }
    }
    Ok(Arc::new(PublicApi { uri: config.uri, endpoints, loaded: build.assembly.endpoints() }))
}

impl Plugin for PublicApi {
    fn wants_request_body(&self, exchange: &Exchange) -> BodyNeed {
        self.endpoint(exchange).map_or(BodyNeed::None, |plugin| plugin.wants_request_body(exchange))
    }

    fn refuse_long_body(&self, exchange: &Exchange) -> Option<BufferedReply> {
        self.endpoint(exchange)?.refuse_long_body(exchange)
    }

    fn access<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match self.endpoint(exchange) {
            Some(plugin) => plugin.api(exchange),
            None => Flow::reply(BufferedReply::status(404)),
        }
    }
}

impl PublicApi {
    /// The plugin with the endpoint that the request is for. A request that a plugin made finds none, so that
    /// a batch cannot hold batches.
    fn endpoint(&self, exchange: &Exchange) -> Option<&dyn Plugin> {
        if exchange.inner_client.is_some() {
            return None;
        }
        let path = self.uri.as_ref().map_or(exchange.path(), |uri| uri.as_bytes());
        let found = self.endpoints.iter().find(|(api, _)| api.is_asked(exchange.request.method, path));
        if let Some((_, instance)) = found {
            return Some(&*instance.plugin);
        }
        let method = str::from_utf8(exchange.request.method_text()).ok()?;
        EndpointCode::of(LoadedEndpoint::find(&self.loaded, method, path)?)
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, decide};
    use model::catalog::SchemaType;

    use super::*;

    #[test]
    fn configurations() {
        let rows = [
            (json!({}), None),
            (json!({"uri": "/apisix/batch-requests"}), None),
            (json!({"uri": 1}), Some("uri")),
        ];
        for (config, fault) in rows {
            check_configuration(&KIND, SchemaType::Plugin, &config, fault);
        }
    }

    #[test]
    fn parts_are_all_plugins_with_endpoints() {
        let with_endpoints = crate::ALL.iter().filter(|kind| !kind.apis.is_empty()).map(|kind| kind.name);
        assert_eq!(with_endpoints.collect::<Vec<_>>(), PARTS);
    }

    #[test]
    fn every_endpoint_is_in_the_documentation() {
        for kind in crate::ALL {
            for api in kind.apis {
                let row = format!("| `{} {}` | `{}` |", api.method.as_str(), api.path, kind.name);
                assert!(KIND.documentation.contains(&row), "public_api.rs lacks the row {row}");
            }
        }
    }

    #[test]
    fn request_without_endpoint_is_answered_404() {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &json!({}));
        let mut exchange = scene.exchange(b"GET /apisix/batch-requests HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(decide(plugin.access(&mut exchange)).map(|reply| reply.status), Some(404));
    }
}
