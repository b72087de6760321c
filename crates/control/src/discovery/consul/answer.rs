//! The answers of Consul's health and catalog endpoints. It asks nothing.

use std::collections::BTreeMap;

use model::discovery::Instance;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: Option<Node>,
    service: Registered,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
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

/// The instances of an answer of the health endpoint. `weight` is that of instances that have none of their own. An entry
/// that cannot be read becomes an instance without a host, which is left out with the reason.
///
/// # Errors
/// The answer is no list.
pub(super) fn instances(body: &[u8], weight: u32) -> Result<Vec<Instance>, String> {
    let entries: Vec<Value> =
        serde_json::from_slice(body).map_err(|error| format!("no list of JSON: {error}"))?;
    Ok(entries.into_iter().map(|entry| instance(entry, weight)).collect())
}

fn instance(entry: Value, weight: u32) -> Instance {
    let Ok(Entry { node, service }) = serde_json::from_value::<Entry>(entry) else {
        return Instance::default();
    };
    let own = service.address.filter(|address| !address.is_empty());
    let host = own.or(node.and_then(|node| node.address)).unwrap_or_default();
    let passing = service.weights.and_then(|weights| weights.passing).filter(|passing| *passing != 1);
    let text = |(name, value): (Box<str>, Value)| match value {
        Value::String(text) => (name, text.into()),
        other => (name, other.to_string().into()),
    };
    Instance {
        host,
        port: service.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        weight: passing.and_then(|passing| u32::try_from(passing).ok()).unwrap_or(weight),
        priority: 0,
        metadata: service.meta.unwrap_or_default().into_iter().map(text).collect(),
    }
}

/// Whether a list has entries.
///
/// # Errors
/// The answer is no list.
pub(super) fn has_entries(body: &[u8]) -> Result<bool, String> {
    let entries: Vec<serde::de::IgnoredAny> =
        serde_json::from_slice(body).map_err(|error| format!("no list of JSON: {error}"))?;
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
        let all = instances(body, 3).unwrap();
        let shown: Vec<(&str, u16, u32)> = all.iter().map(|one| (&*one.host, one.port, one.weight)).collect();
        assert_eq!(shown, [("10.0.0.1", 80, 3), ("10.0.0.2", 81, 5)]);
        assert_eq!(&*all[0].metadata["v"], "2");
    }

    #[test]
    fn faulty_entries_have_no_host() {
        for entry in
            ["{}", "null", r#"{"Service": 3}"#, r#"{"Service": {"Port": "x"}}"#, r#"{"Service": {}}"#]
        {
            let all = instances(format!("[{entry}]").as_bytes(), 1).unwrap();
            assert_eq!(&*all[0].host, "", "{entry}");
        }
        let odd = br#"[{"Service": {"Address": "a", "Port": 70000, "Weights": {"Passing": -1}}}]"#;
        let all = instances(odd, 4).unwrap();
        assert_eq!((all[0].port, all[0].weight), (0, 4));
    }

    #[test]
    fn garbage_is_refused() {
        for body in ["", "{}", "[", "<html>", "[1,", "nul"] {
            assert!(instances(body.as_bytes(), 1).unwrap_err().starts_with("no list of JSON"), "{body}");
            assert!(has_entries(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!((has_entries(b"[]"), has_entries(b"[1]")), (Ok(false), Ok(true)));
    }
}
