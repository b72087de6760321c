//! Where the schemas of an instance come from: for each service, or route without one, the server that is
//! asked.

use std::collections::HashMap;
use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::UpstreamHost;
use exchange::plugin::Build;
use exchange::plugin::outbound::{DestinationOpener, check_uri};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::schema_index::{SchemaIndex, SchemaServer, SchemaSource};

/// Schemas of one instance. Instances of global rules and plugin configs serve many services.
const SOURCES_MAX: usize = 1_024;

/// See the module.
pub(super) struct Sources {
    endpoint: Option<String>,
    headers: Arc<[(String, String)]>,
    opener: DestinationOpener,
    by_service: Arc<BySource>,
}

/// The schemas by service; outlives configuration changes.
type BySource = Mutex<HashMap<String, Arc<SchemaSource>>>;

impl Sources {
    /// Sources that ask `endpoint`, or the upstream without one, with these fields.
    ///
    /// # Errors
    /// The endpoint cannot be called, a sentence.
    pub(super) fn new(
        build: &Build<'_>,
        endpoint: Option<String>,
        headers: Map<String, Value>,
    ) -> Result<Sources, String> {
        if let Some(url) = &endpoint {
            check_uri(url).map_err(|reason| format!("introspection_endpoint: {reason}"))?;
        }
        // Another server, or other credentials, may give another schema.
        let asked = Value::Object(headers.clone());
        let key = format!(
            "graphql-limit-count schemas {} {} {asked}",
            build.owner,
            endpoint.as_deref().unwrap_or_default()
        );
        let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
        Ok(Sources {
            endpoint,
            headers: headers.into_iter().filter_map(text).collect(),
            opener: build.services.opener(),
            by_service: build.states.keep(&key, BySource::default),
        })
    }

    /// The schema for a request.
    ///
    /// # Errors
    /// It cannot be fetched, a sentence for the log.
    pub(super) async fn get(&self, exchange: &Exchange) -> Result<Arc<SchemaIndex>, String> {
        let route = exchange.route().ok_or("the request has no route, so that no upstream can be asked")?;
        let name = match &route.service {
            Some(service) => format!("services/{}", service.id),
            None => format!("routes/{}", route.id),
        };
        let source = self.source(name)?;
        let endpoint = match &self.endpoint {
            Some(url) => SchemaServer {
                origin: url.clone(),
                path: String::new(),
                host: None,
                is_host_of_client: false,
            },
            None => of_upstream(exchange)?,
        };
        source.get(exchange.local(), &endpoint, &self.headers).await
    }

    fn source(&self, name: String) -> Result<Arc<SchemaSource>, String> {
        let mut by_service = self.by_service.lock();
        if let Some(source) = by_service.get(&name) {
            return Ok(source.clone());
        }
        if by_service.len() >= SOURCES_MAX {
            return Err(format!("more than {SOURCES_MAX} services use this instance"));
        }
        let source = Arc::new(SchemaSource::new(self.opener.clone()));
        by_service.insert(name, source.clone());
        Ok(source)
    }
}

/// The first node of the upstream of the service, else of the route, at the path of the request.
fn of_upstream(exchange: &Exchange) -> Result<SchemaServer, String> {
    const NO_NODES: &str = "the route has no upstream nodes, set introspection_endpoint";
    let directory = exchange.decision.directory.as_ref().ok_or(NO_NODES)?;
    let route = exchange.route().ok_or(NO_NODES)?;
    let of_service =
        route.service.as_ref().map(|service| (format!("/services/{}", service.id), &service.written));
    let of_route = (format!("/routes/{}", route.id), &route.written);
    let origin = of_service.into_iter().chain([of_route]).find_map(|(path, written)| {
        directory.upstream_origin(&path).or_else(|| {
            let written: Value = serde_json::from_str(written).ok()?;
            let id = written.get("upstream_id")?;
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            directory.upstream_origin(&format!("/upstreams/{id}"))
        })
    });
    let origin = origin.ok_or(NO_NODES)?;
    let path = String::from_utf8_lossy(exchange.forward_path()).into_owned();
    let scheme = if matches!(origin.scheme, "https" | "grpcs") { "https" } else { "http" };
    Ok(SchemaServer {
        origin: format!("{scheme}://{}", origin.address),
        path,
        is_host_of_client: matches!(origin.host, UpstreamHost::OfClient),
        host: Some(match origin.host {
            UpstreamHost::OfClient => exchange.request.authority().to_vec(),
            UpstreamHost::Fixed(host) => host.into_bytes(),
        }),
    })
}
