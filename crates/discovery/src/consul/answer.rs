//! The answers of Consul's health and catalog endpoints. It asks nothing.

use std::collections::BTreeMap;

use model::discovery::ServiceInstance;
use serde::Deserialize;
use serde_json::Value;

use crate::parts::{Collected, Loose, parse_host, port, read_answer, shortened};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulEntry {
    node: Option<ConsulNode>,
    service: Registered,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulNode {
    address: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Registered {
    address: Option<Box<str>>,
    port: Option<i64>,
    meta: Option<BTreeMap<Box<str>, Value>>,
    weights: Option<Weights>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Weights {
    passing: Option<i64>,
}

/// The instances of an answer of the health endpoint, and the reason why some were left out. `weight` is that
/// of instances that have none of their own.
///
/// # Errors
/// The answer is no list, or no instance of it is usable.
pub(super) fn read_consul_instances(
    body: &[u8],
    weight: u32,
) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
    if !body.trim_ascii_start().starts_with(b"[") {
        return Err("no list of JSON".to_owned());
    }
    let Loose(entries) = read_answer(body).map_err(|error| format!("no list of JSON: {error}"))?;
    let mut collected = Collected::default();
    for entry in entries {
        let entry = entry.map_err(|error| format!("it cannot be read: {}", shortened(&error)));
        collected.take(entry.and_then(|entry| instance(entry, weight)).map(Some));
    }
    collected.finish()
}

fn instance(ConsulEntry { node, service }: ConsulEntry, weight: u32) -> Result<ServiceInstance, String> {
    let own = service.address.filter(|address| !address.is_empty());
    let written = own.or(node.and_then(|node| node.address)).ok_or("it has no address")?;
    let passing = service.weights.and_then(|weights| weights.passing).filter(|passing| *passing != 1);
    let text = |(name, value): (Box<str>, Value)| match value {
        Value::String(text) => (name, text.into()),
        other => (name, other.to_string().into()),
    };
    // Only an instance without the field gets the port of the upstream's scheme.
    let port = service.port.map_or(Ok(0), |number| port(Some(&number.into())))?;
    Ok(ServiceInstance {
        host: parse_host(&written)?,
        port,
        weight: passing.and_then(|passing| u32::try_from(passing).ok()).unwrap_or(weight),
        priority: 0,
        metadata: service.meta.unwrap_or_default().into_iter().map(text).collect(),
    })
}

/// Whether a list has entries.
///
/// # Errors
/// The answer is no list.
pub(super) fn has_entries(body: &[u8]) -> Result<bool, String> {
    let entries: Vec<serde::de::IgnoredAny> =
        read_answer(body).map_err(|error| format!("no list of JSON: {error}"))?;
    Ok(!entries.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_entry_becomes_instance() {
        let body = br#"[
            {"Node": {"Address": "10.0.0.1"}, "Service": {"Address": "", "Port": 80, "Meta": {"v": "2"}, "Weights": {"Passing": 1}}},
            {"Node": {"Address": "10.0.0.1"}, "Service": {"Address": "10.0.0.2", "Port": 81, "Meta": null, "Weights": {"Passing": 5}}}
        ]"#;
        let (all, reason) = read_consul_instances(body, 3).unwrap();
        assert_eq!(reason, None);
        let shown: Vec<(&str, u16, u32)> = all.iter().map(|one| (&*one.host, one.port, one.weight)).collect();
        assert_eq!(shown, [("10.0.0.1", 80, 3), ("10.0.0.2", 81, 5)]);
        assert_eq!(&*all[0].metadata["v"], "2");
    }

    #[test]
    fn faulty_entries_are_left_out_with_reason() {
        let good = r#"{"Service": {"Address": "10.0.0.9", "Port": 80}}"#;
        let service = |port: &str| format!(r#"{{"Service": {{"Address": "a", "Port": {port}}}}}"#);
        let entries = [
            ("{}".to_owned(), "cannot be read"),
            ("null".to_owned(), "cannot be read"),
            (r#"{"Service": 3}"#.to_owned(), "cannot be read"),
            (r#"{"Service": {}}"#.to_owned(), "it has no address"),
            (r#"{"Service": {"Address": "a b", "Port": 80}}"#.to_owned(), "is no host"),
            (service("\"x\""), "cannot be read"),
            (service("-1"), "its port is no number from 1 to 65535"),
            (service("0"), "its port is no number from 1 to 65535"),
            (service("65536"), "its port is no number from 1 to 65535"),
        ];
        for (entry, expected) in entries {
            let (all, reason) = read_consul_instances(format!("[{entry},{good}]").as_bytes(), 1).unwrap();
            assert_eq!((all.len(), &*all[0].host), (1, "10.0.0.9"), "{entry}");
            assert!(reason.as_ref().is_some_and(|reason| reason.contains(expected)), "{entry}: {reason:?}");
            assert!(read_consul_instances(format!("[{entry}]").as_bytes(), 1).is_err(), "{entry}");
        }
        let odd = br#"[{"Service": {"Address": "a", "Weights": {"Passing": -1}}}]"#;
        let (all, _) = read_consul_instances(odd, 4).unwrap();
        assert_eq!((all[0].port, all[0].weight), (0, 4));
    }

    #[test]
    fn hostile_answers_are_refused_unread() {
        let flat = format!("[{}0]", "[0],".repeat(2_000_000));
        let inside = format!(r#"[{{"Service": {{"Meta": {{"a": {flat}}}}}}}]"#);
        for body in [&flat, &inside] {
            let error = read_consul_instances(body.as_bytes(), 1).unwrap_err();
            assert!(error.contains("more than 4000000 values"), "{error}");
        }
        let one = format!("[[{}0]]", "[0],".repeat(60_000));
        let error = read_consul_instances(one.as_bytes(), 1).unwrap_err();
        assert!(error.contains("an element of more than 100000 values"), "{error}");
    }

    #[test]
    fn garbage_is_refused() {
        for body in ["", "{}", "[", "<html>", "[1,", "nul"] {
            assert!(
                read_consul_instances(body.as_bytes(), 1).unwrap_err().starts_with("no list of JSON"),
                "{body}"
            );
            assert!(has_entries(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!((has_entries(b"[]"), has_entries(b"[1]")), (Ok(false), Ok(true)));
    }
}
