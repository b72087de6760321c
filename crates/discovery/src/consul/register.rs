//! Registration of this instance in Consul: a service of the agent with a TTL check, which the instance
//! passes again and again, or with an HTTP check, for which the agent asks the instance. A critical instance
//! is removed after `deregister_after`.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Agent, KIND};
use crate::BuildContext;
use crate::http::{RegistryRequest, RegistryResponse};
use crate::parts::encoded;
use crate::registration::{Calling, Registrar, RegistrarKind, RegistrationIdentity, Renewal};

pub(crate) const REGISTRAR: RegistrarKind =
    RegistrarKind { registry: KIND, connection: &["servers", "token", "timeout", "tls"], properties, build };

fn properties() -> Value {
    json!({
        "tags": {
            "description": "Tags of the service.",
            "type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 255}
        },
        "ttl": {
            "description": "Seconds after which an instance that has not renewed its registration is critical; it renews it three times as often.",
            "type": "integer", "minimum": 1, "maximum": 86_400, "default": 30
        },
        "http_check": {
            "description": "URL that the agent asks in place of the TTL check, such as that of /status/ready.",
            "type": "string", "pattern": "^https?://[^ ]+$", "maxLength": 1024
        },
        "check_interval": {
            "description": "Seconds between two questions of the HTTP check.",
            "type": "integer", "minimum": 1, "maximum": 3600, "default": 10
        },
        "deregister_after": {
            "description": "Seconds after which Consul removes a critical instance; Consul looks for them every 30 seconds and accepts no less than 60.",
            "type": "integer", "minimum": 60, "maximum": 604_800, "default": 60
        }
    })
}

#[derive(Deserialize)]
struct Own {
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default = "default_ttl")]
    ttl: u64,
    #[serde(default = "default_deregister_after")]
    deregister_after: u64,
    http_check: Option<String>,
    #[serde(default = "default_check_interval")]
    check_interval: u64,
}

fn default_check_interval() -> u64 {
    10
}

fn default_ttl() -> u64 {
    30
}

fn default_deregister_after() -> u64 {
    60
}

struct ConsulRegistrar {
    agent: Agent,
    identity: RegistrationIdentity,
    own: Own,
}

fn build(
    block: &Value,
    identity: RegistrationIdentity,
    context: &BuildContext,
) -> Result<Box<dyn Registrar>, String> {
    let own = Own::deserialize(block).map_err(|error| error.to_string())?;
    Ok(Box::new(ConsulRegistrar { agent: Agent::new(block, context)?, identity, own }))
}

impl ConsulRegistrar {
    fn put(&self, target: String, body: &Value) -> RegistryRequest {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.agent.with_token(RegistryRequest::with_body(Method::PUT, target, "application/json", body))
    }

    fn check(&self) -> String {
        format!("service:{}", self.identity.id)
    }

    /// The registration, as `/v1/agent/service/register` takes it.
    fn service(&self) -> Value {
        let RegistrationIdentity { service, id, address, .. } = &self.identity;
        let mut check = json!({
            "CheckID": self.check(),
            "Status": "passing",
            "DeregisterCriticalServiceAfter": format!("{}s", self.own.deregister_after)
        });
        match &self.own.http_check {
            Some(url) => {
                check["Name"] = Value::from("asked by the agent");
                check["HTTP"] = Value::from(url.as_str());
                check["Interval"] = Value::from(format!("{}s", self.own.check_interval));
                check["Timeout"] = Value::from(HTTP_CHECK_TIMEOUT);
            }
            None => {
                check["Name"] = Value::from("renewed by the gateway");
                check["TTL"] = Value::from(format!("{}s", self.own.ttl));
            }
        }
        json!({
            "ID": id,
            "Name": service,
            "Address": address,
            "Port": self.identity.main_port(),
            "Tags": self.own.tags,
            "Meta": self.identity.described(),
            "Check": check
        })
    }
}

impl Registrar for ConsulRegistrar {
    fn interval(&self) -> Duration {
        Duration::from_millis(self.own.ttl * 1000 / RENEWALS_PER_TTL)
    }

    fn register(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let target = "/v1/agent/service/register?replace-existing-checks=true".to_owned();
            let reply = self.agent.client.call(&self.put(target, &self.service())).await?;
            reply.success().map(drop)
        })
    }

    fn renew(&self) -> Calling<'_, Renewal> {
        Box::pin(async move {
            let call = match &self.own.http_check {
                // Only the agent passes this check, so that the instance asks whether it is still there.
                Some(_) => {
                    let target = format!("/v1/agent/service/{}", encoded(&self.identity.id));
                    self.agent.with_token(RegistryRequest::get(target))
                }
                None => {
                    let target = format!("/v1/agent/check/pass/{}", encoded(&self.check()));
                    self.put(target, &Value::Null)
                }
            };
            let reply = self.agent.client.call(&call).await?;
            // Agents before version 1.12 answer 500 for a check that they do not have.
            let is_unknown =
                String::from_utf8_lossy(&reply.body).to_ascii_lowercase().contains("unknown check");
            if reply.status == 404 || (reply.status == 500 && is_unknown) {
                return Ok(Renewal::Lost);
            }
            reply.success().map(|_| Renewal::Kept)
        })
    }

    /// Every agent is asked, because the instance may be registered at one that was used before.
    fn withdraw(&self) -> Calling<'_, ()> {
        Box::pin(async move {
            let target = format!("/v1/agent/service/deregister/{}", encoded(&self.identity.id));
            let replies = self.agent.client.call_each(&self.put(target, &Value::Null)).await;
            withdrawn(replies)
        })
    }
}

/// The outcome of a withdrawal by the answers of all agents. An agent that never had the instance answers
/// 404, which says nothing where the agent that has it fails.
fn withdrawn(replies: Vec<Result<RegistryResponse, String>>) -> Result<(), String> {
    let is_done =
        |reply: &Result<RegistryResponse, String>| reply.as_ref().is_ok_and(|reply| reply.success().is_ok());
    if replies.iter().any(is_done) {
        return Ok(());
    }
    let failure = |reply: Result<RegistryResponse, String>| match reply {
        Ok(reply) if reply.status == 404 => None,
        Ok(reply) => reply.success().err(),
        Err(reason) => Some(reason),
    };
    let failures: Vec<String> = replies.into_iter().filter_map(failure).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

/// How long the agent waits for an answer to its HTTP check.
const HTTP_CHECK_TIMEOUT: &str = "5s";
/// Renewals within a TTL, so that one or two that fail do not make the instance critical.
const RENEWALS_PER_TTL: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawal_needs_an_agent_that_did_it() {
        // statuses of the agents, 0 for one without an answer → whether the instance is withdrawn
        let cases: [(&[u16], bool); 6] = [
            (&[200], true),
            (&[404], true),
            (&[404, 404], true),
            (&[0, 200], true),
            (&[404, 0], false),
            (&[404, 403], false),
        ];
        for (statuses, expected) in cases {
            let reply = |status: &u16| match status {
                0 => Err("no answer".to_owned()),
                status => {
                    Ok(RegistryResponse { status: *status, headers: http::HeaderMap::new(), body: "".into() })
                }
            };
            assert_eq!(withdrawn(statuses.iter().map(reply).collect()).is_ok(), expected, "{statuses:?}");
        }
    }
}
