//! Registration of this instance in Eureka: an instance with the status UP and a lease that the instance
//! renews.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{KIND, MAX_ANSWER_BYTES, path_prefix};
use crate::BuildContext;
use crate::blocks::RegistryTimeouts;
use crate::http::{HttpClient, RegistryRequest, TlsSettings};
use crate::parts::encoded;
use crate::registration::{Calling, Registrar, RegistrarKind, RegistrationIdentity, Renewal};

pub(crate) const REGISTRAR: RegistrarKind =
    RegistrarKind { registry: KIND, connection: &["host", "prefix", "timeout", "tls"], properties, build };

fn properties() -> Value {
    json!({
        "renew_interval": {
            "description": "Seconds between two renewals.",
            "type": "integer", "minimum": 1, "maximum": 3600, "default": 30
        },
        "lease": {
            "description": "Seconds after which Eureka removes an instance that has not renewed; at least twice `renew_interval`.",
            "type": "integer", "minimum": 2, "maximum": 86_400, "default": 90
        }
    })
}

#[derive(Deserialize)]
struct EurekaRegistrarBlock {
    host: Vec<String>,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    timeout: RegistryTimeouts,
    #[serde(default)]
    tls: TlsSettings,
    #[serde(default = "default_renew_interval")]
    renew_interval: u64,
    #[serde(default = "default_lease")]
    lease: u64,
}

fn default_renew_interval() -> u64 {
    30
}

fn default_lease() -> u64 {
    90
}

struct EurekaRegistrar {
    client: HttpClient,
    /// The path of the application, without a slash at its end.
    application: String,
    identity: RegistrationIdentity,
    renew_interval: u64,
    lease: u64,
}

fn build(
    block: &Value,
    identity: RegistrationIdentity,
    context: &BuildContext,
) -> Result<Box<dyn Registrar>, String> {
    let block = EurekaRegistrarBlock::deserialize(block).map_err(|error| error.to_string())?;
    if block.lease < block.renew_interval * 2 {
        return Err(format!(
            "`lease` is less than twice `renew_interval`; write at least {}",
            block.renew_interval * 2
        ));
    }
    let client = block.timeout.client(block.host, block.tls, MAX_ANSWER_BYTES, context)?;
    let application =
        format!("{}apps/{}", path_prefix(&block.prefix), encoded(&identity.service.to_ascii_uppercase()));
    let (renew_interval, lease) = (block.renew_interval, block.lease);
    Ok(Box::new(EurekaRegistrar { client, application, identity, renew_interval, lease }))
}

impl EurekaRegistrar {
    /// The instance, as Eureka takes it. Eureka keeps an instance that it has if that changed later than the
    /// one that is registered (`lastDirtyTimestamp`), so that each registration tells the time.
    fn instance(&self) -> Value {
        let RegistrationIdentity { service, id, address, port, tls_port, metadata } = &self.identity;
        let now = stdx::clock::unix_time();
        let listener = |port: Option<u16>, default: u16| json!({"$": port.unwrap_or(default), "@enabled": port.is_some().to_string()});
        json!({"instance": {
            "instanceId": id,
            "app": service.to_ascii_uppercase(),
            "hostName": address,
            "ipAddr": address,
            "vipAddress": service,
            "secureVipAddress": service,
            "status": "UP",
            "port": listener(*port, 80),
            "securePort": listener(*tls_port, 443),
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
            "leaseInfo": {"renewalIntervalInSecs": self.renew_interval, "durationInSecs": self.lease},
            "lastDirtyTimestamp": now.as_millis().to_string(),
            "metadata": metadata
        }})
    }

    fn path(&self) -> String {
        format!("{}/{}", self.application, encoded(&self.identity.id))
    }
}

impl Registrar for EurekaRegistrar {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.renew_interval)
    }

    fn register(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let body = self.instance().to_string();
            let call = RegistryRequest::with_body(Method::POST, &*self.application, "application/json", body);
            self.client.call(&call).await?.success().map(drop)
        })
    }

    fn renew(&self) -> Calling<'_, Renewal> {
        Box::pin(async move {
            let call = RegistryRequest { method: Method::PUT, ..RegistryRequest::get(self.path()) };
            let reply = self.client.call(&call).await?;
            match reply.status {
                404 => Ok(Renewal::Lost),
                _ => reply.success().map(|_| Renewal::Kept),
            }
        })
    }

    fn withdraw(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let call = RegistryRequest { method: Method::DELETE, ..RegistryRequest::get(self.path()) };
            let reply = self.client.call(&call).await?;
            if reply.status == 404 { Ok(()) } else { reply.success().map(drop) }
        })
    }
}
