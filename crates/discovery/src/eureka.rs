//! Eureka, with the fields of APISIX, changes in place of the whole registry, and zones.
//!
//! ```yaml
//! discovery:
//!   eureka:
//!     host: ["http://user:password@127.0.0.1:8761"]
//!     prefix: /eureka/
//!     fetch_interval: 30
//! ```
//!
//! An upstream names the application:
//! `{"type": "roundrobin", "discovery_type": "eureka", "service_name": "ORDERS"}`; the case does not matter.
//! Only instances with the status UP get traffic, those that are STARTING too with `starting: true`. The
//! scheme of the upstream chooses between `port` and `securePort`. The metadata `weight` of an instance is
//! its weight. With `zone`, instances of that zone serve as long as there are some. Eureka does not push: a
//! change is seen after `fetch_interval` seconds at most.

mod answer;
mod catalog;
mod register;

use std::collections::HashSet;
use std::pin::Pin;
use std::time::Duration;

use model::discovery::ServiceKey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use self::catalog::{EurekaCatalog, EurekaRules};
use super::blocks::{self, RegistryTimeouts};
use super::http::{HttpClient, RegistryRequest, TlsSettings};
use super::publish::{RegistryBackoff, ServiceLookup, is_secure, publish};
use super::{BuildContext, Registry, RegistryKind, Services, auto_routes};

pub(super) use register::REGISTRAR;

/// The registry `eureka`.
pub(super) const KIND: RegistryKind =
    RegistryKind { name: "eureka", has_ports_by_scheme: true, schema, build };

struct Eureka {
    client: HttpClient,
    prefix: String,
    interval: Duration,
    with_delta: bool,
    rules: EurekaRules,
}

#[derive(Deserialize)]
struct EurekaBlock {
    host: Vec<String>,
    #[serde(default)]
    prefix: String,
    #[serde(default = "blocks::default_fetch_interval_s")]
    fetch_interval: u64,
    #[serde(default = "blocks::default_instance_weight")]
    weight: u32,
    #[serde(default)]
    timeout: RegistryTimeouts,
    zone: Option<Box<str>>,
    #[serde(default)]
    starting: bool,
    delta: Option<bool>,
    #[serde(default)]
    tls: TlsSettings,
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "host": blocks::servers_schema(),
            "prefix": {
                "description": "The path in front of `apps`, usually /eureka/.",
                "type": "string", "pattern": "^[/a-zA-Z0-9_.~-]*$", "maxLength": 256
            },
            "fetch_interval": blocks::interval_schema(),
            "weight": blocks::weight_schema(),
            "timeout": RegistryTimeouts::schema(),
            "zone": {
                "description": "The zone with instances that are preferred: the metadata `zone`, or Amazon's zone.",
                "type": "string", "minLength": 1, "maxLength": 256
            },
            "starting": {
                "description": "Whether instances that are STARTING get traffic.",
                "type": "boolean", "default": false
            },
            "delta": {
                "description": "Whether only changes are fetched after the first answer.",
                "type": "boolean", "default": true
            },
            "tls": TlsSettings::schema(),
            "auto_routes": auto_routes::build_auto_routes_schema()
        },
        "required": ["host"],
        "additionalProperties": false
    })
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    let block: EurekaBlock = serde_json::from_value(block.clone()).map_err(|error| error.to_string())?;
    let client = block.timeout.client(block.host, block.tls, MAX_ANSWER_BYTES, context)?;
    Ok(Box::new(Eureka {
        client,
        prefix: path_prefix(&block.prefix),
        interval: Duration::from_secs(block.fetch_interval),
        with_delta: block.delta.unwrap_or(true),
        rules: EurekaRules { default_weight: block.weight, zone: block.zone, with_starting: block.starting },
    }))
}

/// The path in front of `apps`, with a slash at both ends.
fn path_prefix(written: &str) -> String {
    match written.trim_matches('/') {
        "" => "/".to_owned(),
        prefix => format!("/{prefix}/"),
    }
}

impl Registry for Eureka {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let mut pause = RegistryBackoff::default();
            let mut catalog: Option<EurekaCatalog> = None;
            let mut has_failed = false;
            loop {
                match self.refresh(&mut catalog).await {
                    Ok(touched) => {
                        pause.reset();
                        if services.list_of().is_some()
                            && let Some(catalog) = &catalog
                        {
                            services.listed(catalog.names());
                        }
                        // After a failure every service gets its answer again, which ends the failure.
                        let touched = touched.filter(|_| !has_failed);
                        has_failed = false;
                        self.wait(&services, catalog.as_ref(), touched).await;
                    }
                    Err(reason) => {
                        has_failed = true;
                        services.list_failed(&reason);
                        services.failed(None, &reason);
                        pause.wait().await;
                    }
                }
            }
        })
    }
}

impl Eureka {
    /// Brings the catalog up to date. Gives the applications that have changed; none: all of them may have.
    async fn refresh(
        &self,
        catalog: &mut Option<EurekaCatalog>,
    ) -> Result<Option<HashSet<Box<str>>>, String> {
        if let Some(known) = catalog.as_mut().filter(|_| self.with_delta) {
            match self.fetch("apps/delta").await.and_then(|changes| known.apply(changes)) {
                Ok(touched) => return Ok(Some(touched)),
                // A server may not serve changes, and a copy may have missed some: the whole is fetched.
                Err(reason) => {
                    tracing::debug!(%reason, "changes of eureka cannot be used; fetching everything")
                }
            }
        }
        *catalog = Some(EurekaCatalog::of(self.fetch("apps").await?)?);
        Ok(None)
    }

    async fn fetch(&self, path: &str) -> Result<answer::Applications, String> {
        let call = RegistryRequest::get(format!("{}{path}", self.prefix))
            .with(http::header::ACCEPT, "application/json");
        let reply = self.client.call(&call).await?;
        answer::applications(reply.ok()?)
    }

    /// Passes on the services that have changed or have no outcome, for example because they were followed
    /// during the fetch; then waits for the next fetch. Services that are followed meanwhile get their answer
    /// at once.
    async fn wait(
        &self,
        services: &Services,
        catalog: Option<&EurekaCatalog>,
        touched: Option<HashSet<Box<str>>>,
    ) {
        let Some(catalog) = catalog else { return };
        let unanswered = services.unanswered();
        let is_concerned = |key: &&ServiceKey| {
            unanswered.contains_key(*key)
                || touched
                    .as_ref()
                    .is_none_or(|touched| touched.contains(key.service.to_ascii_uppercase().as_str()))
        };
        services.wanted().iter().filter(is_concerned).for_each(|key| self.tell(services, catalog, key));
        let next = Instant::now() + self.interval;
        loop {
            tokio::select! {
                () = sleep_until(next) => return,
                () = services.wanted_changed() => {
                    services.unanswered().keys().for_each(|key| self.tell(services, catalog, key));
                }
            }
        }
    }

    fn tell(&self, services: &Services, catalog: &EurekaCatalog, key: &ServiceKey) {
        let found = match catalog.has(&key.service) {
            false => Ok(ServiceLookup::Unknown),
            true => catalog
                .instances(&key.service, is_secure(key), &self.rules)
                .map(|(instances, reason)| ServiceLookup::Instances(instances, reason)),
        };
        publish(services, key, found);
    }
}

/// Limit of an answer: 100,000 instances of 1.2 KB.
const MAX_ANSWER_BYTES: usize = 128 << 20;

#[cfg(test)]
mod tests;
