//! Consul's key-value store: keys `PREFIX/SERVICE/HOST:PORT` with JSON values, `{"weight": 1}`, watched with
//! one blocking query. `{"check_status": false}` takes an instance out.
//!
//! `service_name` is `SERVICE`, or as in APISIX `http://AGENT/v1/kv/PREFIX/SERVICE/` with an agent of the
//! block. Other fields of the value become metadata.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use data_encoding::BASE64;
use model::discovery::{ServiceInstance, ServiceKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::consul::{Agent, ConsulPosition, common_schema};
use super::parts::{Loose, encoded, read_answer, read_message};
use super::{BuildContext, Registry, RegistryKind, Services};

pub(super) const KIND: RegistryKind =
    RegistryKind { name: "consul_kv", has_ports_by_scheme: false, schema, build };

fn schema() -> Value {
    let mut schema = common_schema();
    schema["properties"]["prefix"] = json!({"type": "string", "minLength": 1, "default": "upstreams", "description": "The first part of all keys."});
    schema["properties"]["skip_keys"] = json!({
        "type": "array", "minItems": 1, "items": {"type": "string"},
        "description": "Services that are left out, `SERVICE` or `PREFIX/SERVICE/`."
    });
    schema
}

struct ConsulKv {
    agent: Agent,
}

fn build(block: &Value, context: &BuildContext) -> Result<Box<dyn Registry>, String> {
    Ok(Box::new(ConsulKv { agent: Agent::new(block, context)? }))
}

impl Registry for ConsulKv {
    fn run(self: Box<Self>, services: Services) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let agent = self.agent;
            services.set_default(agent.default_service());
            let prefix = agent.block.prefix.trim_matches('/').to_owned();
            let path: Vec<String> = prefix.split('/').map(encoded).collect();
            let target = format!("/v1/kv/{}/?recurse=true", path.join("/"));
            let mut position = ConsulPosition::default();
            loop {
                let answer = agent.next(&target, &mut position, true).await;
                // A prefix without keys is answered 404.
                let all = answer.and_then(|body| all_services(body.as_deref().unwrap_or(b"[]"), &agent));
                match all {
                    Ok(all) => services.replace_all(all),
                    Err(reason) => {
                        services.failed(None, &reason);
                        agent.pause_after_failure(&mut position).await;
                        continue;
                    }
                }
                agent.pause_after_answer(&position, true).await;
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulKvEntry {
    key: Box<str>,
    value: Option<Box<str>>,
}

/// All services under the names that upstreams may use.
fn all_services(body: &[u8], agent: &Agent) -> Result<BTreeMap<ServiceKey, Vec<ServiceInstance>>, String> {
    let prefix = agent.block.prefix.trim_matches('/');
    let found = services_of(body, prefix, agent.block.weight, &agent.block.skip_keys)?;
    let mut all = BTreeMap::new();
    for (service, instances) in found {
        for server in agent.servers() {
            let name = format!("{}/v1/kv/{prefix}/{service}/", server.trim_end_matches('/'));
            all.insert(ServiceKey::new(KIND.name, &name), instances.clone());
        }
        all.insert(ServiceKey::new(KIND.name, &service), instances);
    }
    Ok(all)
}

fn services_of(
    body: &[u8],
    prefix: &str,
    weight: u32,
    skipped: &[String],
) -> Result<BTreeMap<String, Vec<ServiceInstance>>, String> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return Err("no list of JSON".to_owned());
    }
    let Loose(entries) =
        read_answer::<Loose<ConsulKvEntry>>(body).map_err(|error| format!("no list of JSON: {error}"))?;
    let mut all: BTreeMap<String, Vec<ServiceInstance>> = BTreeMap::new();
    for entry in entries {
        let Ok(entry) = entry else { continue };
        // A key without all parts is no instance: folders are keys as well.
        let path = entry.key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
        let Some((service, place)) = path.and_then(|path| path.rsplit_once('/')) else { continue };
        let Some((host, port)) = place.rsplit_once(':') else { continue };
        let is_skipped =
            |name: &String| *name == service || name.trim_end_matches('/') == format!("{prefix}/{service}");
        if service.is_empty() || skipped.iter().any(is_skipped) {
            continue;
        }
        let Some(value) = entry.value.as_deref().and_then(value_of) else { continue };
        if matches!(value.get("check_status"), Some(Value::Bool(false)))
            || value.get("check_status") == Some(&json!("false"))
        {
            continue;
        }
        // A port that is none leaves the instance out with a reason.
        let number = port.parse::<u16>().ok().filter(|number| *number != 0);
        let (host, port) = number.map_or(("", 0), |port| (host.trim_matches(['[', ']']), port));
        let own = value.get("weight").and_then(Value::as_u64).and_then(|own| u32::try_from(own).ok());
        let metadata = value.into_iter().filter(|(name, _)| name != "weight").map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.into(), value.into())
        });
        all.entry(service.to_owned()).or_default().push(ServiceInstance {
            host: host.into(),
            port,
            weight: own.unwrap_or(weight),
            priority: 0,
            metadata: metadata.collect(),
        });
    }
    Ok(all)
}

/// The fields of a value, which Consul encodes in base64.
fn value_of(encoded: &str) -> Option<Map<String, Value>> {
    let text = BASE64.decode(encoded.as_bytes()).ok()?;
    read_message(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> Value {
        json!({"Key": key, "Value": BASE64.encode(value.as_bytes()), "Flags": 0})
    }

    #[test]
    fn keys_become_services() {
        let body = json!([
            entry("up/web/127.0.0.1:80", r#"{"weight": 7, "zone": "a", "n": 1}"#),
            entry("up/web/[::1]:81", "{}"),
            entry("up/a/b/host:82", "{}"),
            entry("up/web/10.0.0.1:83", r#"{"check_status": "false"}"#),
            entry("up/skip/10.0.0.1:83", "{}"),
            entry("up/", "{}"),
            entry("other/web/h:1", "{}"),
            entry("up/web/h:port", "{}"),
            entry("up/web/h:0", "{}"),
            entry("up/web/h:1", "no JSON"),
            {"Key": "up/web/h:2", "Value": null}, {"Key": 5}, null,
        ]);
        let all = services_of(body.to_string().as_bytes(), "up", 3, &["up/skip/".to_owned()]).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a/b", "web"]);
        let web: Vec<(&str, u16, u32)> =
            all["web"].iter().map(|one| (&*one.host, one.port, one.weight)).collect();
        assert_eq!(web, [("127.0.0.1", 80, 7), ("::1", 81, 3), ("", 0, 3), ("", 0, 3)]);
        assert_eq!((&*all["web"][0].metadata["zone"], &*all["web"][0].metadata["n"]), ("a", "1"));
        assert!(services_of(b"<html>", "up", 1, &[]).is_err());
    }

    #[test]
    fn services_have_name_of_apisix_too() {
        let block = json!({"servers": ["http://127.0.0.1:8500"], "prefix": "up"});
        let agent = Agent::new(&block, &BuildContext::default()).unwrap();
        let body = json!([entry("up/web/h:80", "{}")]).to_string();
        let all = all_services(body.as_bytes(), &agent).unwrap();
        let names: Vec<&str> = all.keys().map(|key| &*key.service).collect();
        assert_eq!(names, ["http://127.0.0.1:8500/v1/kv/up/web/", "web"]);
    }
}
