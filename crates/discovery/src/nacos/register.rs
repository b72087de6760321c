//! Registration of this instance in Nacos: an ephemeral instance with heartbeats, by the API that the server
//! has.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asker::{NacosClient, NacosService};
use super::{KIND, answer, asker_of};
use crate::BuildContext;
use crate::http::{RegistryRequest, RegistryResponse};
use crate::parts::encoded;
use crate::registration::{Calling, Registrar, RegistrarKind, RegistrationIdentity, Renewal};

pub(crate) const REGISTRAR: RegistrarKind = RegistrarKind {
    registry: KIND,
    connection: &["host", "prefix", "timeout", "tls", "access_key", "secret_key"],
    properties,
    build,
};

fn properties() -> Value {
    let text = |description: &str, default: &str| json!({"description": description, "type": "string", "minLength": 1, "maxLength": 128, "default": default});
    json!({
        "namespace_id": text("The namespace of the service.", "public"),
        "group_name": text("The group of the service.", "DEFAULT_GROUP"),
        "cluster_name": text("The cluster of the instance.", "DEFAULT"),
        "weight": {"description": "The weight of the instance.", "type": "number", "minimum": 0, "maximum": 10_000, "default": 1},
        "renew_interval": {
            "description": "Seconds between two heartbeats. Nacos holds an instance for unhealthy after 15 seconds without one, and removes it after 30.",
            "type": "integer", "minimum": 1, "maximum": 60, "default": 5
        }
    })
}

#[derive(Deserialize)]
struct Own {
    #[serde(default = "default_namespace")]
    namespace_id: String,
    #[serde(default = "default_group")]
    group_name: String,
    #[serde(default = "default_cluster")]
    cluster_name: String,
    #[serde(default = "default_weight")]
    weight: f64,
    #[serde(default = "default_renew_interval")]
    renew_interval: u64,
}

fn default_namespace() -> String {
    "public".to_owned()
}

fn default_group() -> String {
    "DEFAULT_GROUP".to_owned()
}

fn default_cluster() -> String {
    "DEFAULT".to_owned()
}

fn default_weight() -> f64 {
    1.0
}

fn default_renew_interval() -> u64 {
    5
}

struct NacosRegistrar {
    asker: NacosClient,
    identity: RegistrationIdentity,
    own: Own,
}

fn build(
    block: &Value,
    identity: RegistrationIdentity,
    context: &BuildContext,
) -> Result<Box<dyn Registrar>, String> {
    let own = Own::deserialize(block).map_err(|error| error.to_string())?;
    Ok(Box::new(NacosRegistrar { asker: asker_of(block, context)?, identity, own }))
}

impl NacosRegistrar {
    /// The parameters of every call: the instance and its service.
    fn parameters(&self) -> String {
        let all = [
            ("serviceName", self.identity.service.clone()),
            ("groupName", self.own.group_name.clone()),
            ("namespaceId", self.own.namespace_id.clone()),
            ("clusterName", self.own.cluster_name.clone()),
            ("ip", self.identity.address.clone()),
            ("port", self.identity.main_port().to_string()),
            ("ephemeral", "true".to_owned()),
        ];
        all.map(|(name, value)| format!("{name}={}", encoded(&value))).join("&")
    }

    async fn send(
        &self,
        call: impl Fn(bool) -> RegistryRequest + Send + Sync,
    ) -> Result<RegistryResponse, String> {
        let service = NacosService { group: &self.own.group_name, name: &self.identity.service };
        self.asker.send(service, &call).await.map_err(Into::into)
    }

    fn instance(&self, method: &Method, is_third: bool, more: &str) -> RegistryRequest {
        let path = self.asker.path(is_third, "ns/instance");
        RegistryRequest {
            method: method.clone(),
            ..RegistryRequest::get(format!("{path}?{}{more}", self.parameters()))
        }
    }
}

impl Registrar for NacosRegistrar {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.own.renew_interval)
    }

    fn register(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let metadata = json!(self.identity.described()).to_string();
            let more = format!(
                "&weight={}&enabled=true&healthy=true&metadata={}",
                self.own.weight,
                encoded(&metadata)
            );
            let reply = self.send(|is_third| self.instance(&Method::POST, is_third, &more)).await?;
            match answer::renewal(&reply)? {
                Renewal::Kept => Ok(()),
                Renewal::Lost => Err("Nacos answers that it has no such instance".to_owned()),
            }
        })
    }

    fn renew(&self) -> Calling<'_, Renewal> {
        Box::pin(async move {
            let call = |is_third: bool| match is_third {
                true => self.instance(&Method::POST, true, "&heartBeat=true"),
                false => {
                    let path = self.asker.path(false, "ns/instance/beat");
                    RegistryRequest {
                        method: Method::PUT,
                        ..RegistryRequest::get(format!("{path}?{}", self.parameters()))
                    }
                }
            };
            answer::renewal(&self.send(call).await?)
        })
    }

    fn withdraw(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let reply = self.send(|is_third| self.instance(&Method::DELETE, is_third, "")).await?;
            answer::renewal(&reply).map(drop)
        })
    }
}
