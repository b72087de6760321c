//! The service-center of ServiceComb, by its HTTP API of version 4.
//!
//! ```yaml
//! discovery:
//!   servicecomb:
//!     host: ["http://127.0.0.1:30100"]
//!     app_id: shop
//! ```
//!
//! An upstream names the microservice, and where they differ from the block, its application and versions:
//! `{"type": "roundrobin", "discovery_type": "servicecomb", "service_name": "orders", "discovery_args": {"app_id": "shop", "version": "1.0.0+"}}`;
//! `environment` is a third argument. Only instances with the status UP, or without a status, and an endpoint
//! `rest://`, `http://` or `https://` get traffic; the scheme of the upstream chooses between endpoints with
//! and without TLS, and the property `weight` is the weight. Each call names the last revision, so that an
//! answer without a change is short. A change is seen after `fetch_interval` seconds at most. `user` and
//! `password` get a token.

mod answer;
mod asker;
mod list;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use self::asker::{ServiceCombClient, ServiceCombScope};
use super::blocks::{self, RegistryTimeouts};
use super::http::TlsSettings;
use super::limits::RegistryLimits;
use super::poll::poll;
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

/// The registry `servicecomb`.
pub(super) const KIND: RegistryKind =
    RegistryKind { name: "servicecomb", has_ports_by_scheme: true, schema, build };

struct ServiceComb {
    asker: Arc<ServiceCombClient>,
    interval: Duration,
}

#[derive(Deserialize)]
struct ServiceCombBlock {
    host: Vec<String>,
    #[serde(default = "default_name")]
    domain: String,
    #[serde(default = "default_name")]
    project: String,
    #[serde(default = "default_name")]
    app_id: String,
    #[serde(default = "default_interval")]
    fetch_interval: u64,
    #[serde(default = "blocks::default_instance_weight")]
    weight: u32,
    #[serde(default)]
    timeout: RegistryTimeouts,
    user: Option<String>,
    password: Option<String>,
    #[serde(default)]
    tls: TlsSettings,
}

fn default_name() -> String {
    "default".to_owned()
}

fn default_interval() -> u64 {
    10
}

fn schema() -> Value {
    let name = |description: &str| {
        json!({"description": description, "type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": 160,
            "default": "default"})
    };
    json!({
        "type": "object",
        "properties": {
            "host": blocks::servers_schema(),
            "domain": name("The tenant, sent as X-Domain-Name."),
            "project": name("The project in the paths."),
            "app_id": name("The application of services that name none."),
            "fetch_interval": {
                "description": "Seconds between two calls for a service.",
                "type": "integer", "minimum": 1, "maximum": 86_400, "default": 10
            },
            "weight": blocks::weight_schema(),
            "timeout": RegistryTimeouts::schema(),
            "user": {"description": "The account, where the service-center asks for one.", "type": "string", "minLength": 1},
            "password": {"description": "The account's password.", "type": "string", "minLength": 1},
            "tls": TlsSettings::schema(),
            "auto_routes": auto_routes::build_auto_routes_schema()
        },
        "required": ["host"],
        "dependencies": {"user": ["password"], "password": ["user"]},
        "additionalProperties": false
    })
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block: ServiceCombBlock = serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let client =
        block.timeout.client(block.host, block.tls, RegistryLimits::default().answer_bytes, context)?;
    let place = ServiceCombScope { domain: block.domain, project: block.project, app_id: block.app_id };
    let asker = Arc::new(ServiceCombClient::new(client, place, block.user.zip(block.password), block.weight));
    Ok(Box::new(ServiceComb { asker, interval: Duration::from_secs(block.fetch_interval) }))
}

impl Registry for ServiceComb {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let asker = self.asker;
            let listing =
                list::follow_servicecomb_services(Arc::clone(&asker), services.clone(), self.interval);
            let polling = poll(services, self.interval, None, move |question| {
                let asker = Arc::clone(&asker);
                async move { asker.ask(&question).await }
            });
            tokio::join!(polling, listing);
        })
    }
}

#[cfg(test)]
mod tests;
