//! The view of the registries in the control API and the metrics. Secrets of their blocks are masked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use model::discovery::{ServiceInstance, ServiceKey};
use serde_json::{Map, Value, json};
use stdx::prometheus_text::{header, sample};

use super::table::{DiscoveryShared, RegistryState, ServiceState, shown_name};

/// The block of a registry without its secrets.
pub(super) fn masked(mut block: Value) -> Value {
    mask(&mut block);
    block
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if is_secret(name) && !text.is_empty() => MASK.clone_into(text),
                    other => mask(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => {
            // The user and password of a URL.
            if let Some((scheme, rest)) = text.split_once("://")
                && let Some((_, host)) = rest.rsplit_once('@')
            {
                *text = format!("{scheme}://{MASK}@{host}");
            }
        }
        _ => {}
    }
}

/// Whether a field of a block holds a secret; files of secrets are shown.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_file = name.ends_with("file") || name.ends_with("path");
    !is_file && ["token", "password", "secret", "access_key", "key"].iter().any(|word| name.ends_with(word))
}

/// See `Discovery::dump`; the shape is APISIX's, with namespace and group before the name of a service.
pub(super) fn dump(shared: &DiscoveryShared, registry: &str) -> Option<Value> {
    let table = shared.table.lock();
    let state = table.get(registry)?;
    let mut services: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for key in state.services.keys() {
        let nodes = state.nodes(key);
        services.entry(shown_name(key)).or_default().extend(nodes.instances.iter().map(shown));
    }
    Some(json!({ "config": state.block, "services": services }))
}

fn shown(instance: &ServiceInstance) -> Value {
    let mut node = Map::new();
    node.insert("host".to_owned(), Value::from(&*instance.host));
    if instance.port != 0 {
        node.insert("port".to_owned(), Value::from(instance.port));
    }
    node.insert("weight".to_owned(), Value::from(instance.weight));
    if instance.priority != 0 {
        node.insert("priority".to_owned(), Value::from(instance.priority));
    }
    if !instance.metadata.is_empty() {
        let entries = instance.metadata.iter();
        let metadata: Map<String, Value> =
            entries.map(|(name, value)| (name.to_string(), Value::from(&**value))).collect();
        node.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Value::Object(node)
}

/// See `Discovery::states`.
pub(super) fn states(shared: &DiscoveryShared) -> Value {
    let table = shared.table.lock();
    let state = |(name, state): (&&'static str, &RegistryState)| {
        let notes = texts(state, &|key, _| state.nodes(key).note);
        let failing = texts(state, &|_, service| service.failure.clone());
        let shown = json!({
            "services": state.services.len(),
            "instances": instances(state),
            "seconds_since_answer": age_s(state),
            "failures": state.failures,
            "failure": state.failure.as_deref(),
            "failing_services": failing,
            "notes": notes,
        });
        ((*name).to_owned(), shown)
    };
    Value::Object(table.iter().map(state).collect())
}

/// A text for each service that has one, by its shown name, bounded.
fn texts(
    state: &RegistryState,
    text: &dyn Fn(&ServiceKey, &ServiceState) -> Option<Arc<str>>,
) -> Map<String, Value> {
    let named = state.services.iter().filter_map(|(key, service)| {
        let text = text(key, service)?;
        Some((shown_name(key), Value::from(&*text)))
    });
    named.take(NOTES_MAX).collect()
}

fn instances(state: &RegistryState) -> usize {
    state.services.values().map(|service| service.instances.len()).sum()
}

/// Seconds since the last good answer; none before the first.
fn age_s(state: &RegistryState) -> Option<u64> {
    let since = state.last_good?;
    Some(SystemTime::now().duration_since(since).unwrap_or_default().as_secs())
}

/// See `Discovery::write_discovery_metrics`.
pub(super) fn write_discovery_metrics(shared: &DiscoveryShared, text: &mut String) {
    let table = shared.table.lock();
    if table.is_empty() {
        return;
    }
    let mut all = |name: &str, kind: &str, help: &str, value: &dyn Fn(&RegistryState) -> Option<u64>| {
        header(text, name, kind, help);
        for (registry, state) in table.iter() {
            if let Some(value) = value(state) {
                sample(text, name, &[("registry", registry)], value);
            }
        }
    };
    let count = |number: usize| Some(number as u64);
    all("weir_discovery_services", "gauge", "Services that are known of a registry.", &|state| {
        count(state.services.len())
    });
    all("weir_discovery_instances", "gauge", "Instances of those services.", &|state| {
        count(instances(state))
    });
    let help = "Seconds since the last good answer of a registry; absent before the first.";
    all("weir_discovery_answer_age_seconds", "gauge", help, &age_s);
    let help = "Failed or unusable answers of a registry.";
    all("weir_discovery_failures_total", "counter", help, &|state| Some(state.failures));
}

/// Stands for a secret.
const MASK: &str = "***";
/// Notes of services that one list shows.
const NOTES_MAX: usize = 100;
