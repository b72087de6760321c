//! The data of a node of ZooKeeper: an instance in the form of Curator's service discovery, which Spring
//! Cloud writes. It does not ask.

use model::discovery::ServiceInstance;
use serde::Deserialize;
use serde_json::Value;

use crate::parts::{metadata, parse_host, parse_weight, port, read_message};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ZooKeeperNode {
    address: Option<String>,
    port: Option<Value>,
    ssl_port: Option<Value>,
    enabled: Option<bool>,
    payload: Option<Value>,
}

/// The instance of a node; none if it is out of service. `is_secure` chooses the port with TLS where there is
/// one.
///
/// # Errors
/// The data is no instance.
pub(super) fn read_zookeeper_instance(
    data: &[u8],
    is_secure: bool,
    default_weight: u32,
) -> Result<Option<ServiceInstance>, String> {
    let node: ZooKeeperNode =
        read_message(data).map_err(|error| format!("the data of a node is no instance: {error}"))?;
    let mut facts = metadata(node.payload.as_ref().and_then(|payload| payload.get("metadata")));
    let status = facts.remove("instance_status");
    if node.enabled == Some(false) || status.is_some_and(|status| &*status != "UP") {
        return Ok(None);
    }
    let is_set = |port: &Option<Value>| port.as_ref().is_some_and(|port| !port.is_null());
    let chosen = match (is_secure, is_set(&node.ssl_port), is_set(&node.port)) {
        (true, true, _) | (false, true, false) => node.ssl_port.as_ref(),
        _ => node.port.as_ref(),
    };
    let written = facts.remove("weight").map(|weight| Value::String(weight.into()));
    Ok(Some(ServiceInstance {
        host: parse_host(node.address.as_deref().ok_or("it has no address")?)?,
        port: port(chosen)?,
        weight: parse_weight(written.as_ref(), default_weight)?,
        metadata: facts,
        ..ServiceInstance::default()
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::show_instances;

    fn read(node: &Value, is_secure: bool) -> Result<Option<ServiceInstance>, String> {
        read_zookeeper_instance(node.to_string().as_bytes(), is_secure, 100)
    }

    #[test]
    fn nodes_of_curator_are_read() {
        let node = json!({"name": "orders", "id": "7", "address": "10.0.0.1", "port": 80, "sslPort": 443,
            "payload": {"@class": "x", "metadata": {"instance_status": "UP", "weight": "3", "zone": "a"}},
            "registrationTimeUTC": 1, "serviceType": "DYNAMIC", "uriSpec": {"parts": []}});
        let plain = read(&node, false).unwrap().unwrap();
        assert_eq!(plain.metadata.len(), 1);
        assert_eq!(show_instances(&[plain]), ["10.0.0.1:80 3"]);
        assert_eq!(show_instances(&[read(&node, true).unwrap().unwrap()]), ["10.0.0.1:443 3"]);
        let secure_only = json!({"address": "h", "port": null, "sslPort": 443, "payload": null});
        assert_eq!(show_instances(&[read(&secure_only, false).unwrap().unwrap()]), ["h:443 100"]);
    }

    #[test]
    fn instances_out_of_service_get_no_traffic() {
        let status = json!({"address": "h", "port": 80, "payload": {"metadata": {"instance_status": "OUT_OF_SERVICE"}}});
        assert_eq!(read(&status, false), Ok(None));
        assert_eq!(read(&json!({"address": "h", "port": 80, "enabled": false}), false), Ok(None));
    }

    #[test]
    fn faulty_nodes_have_a_reason() {
        assert_eq!(read(&json!({"address": "h"}), false).unwrap_err(), "it has no port");
        assert_eq!(read(&json!({"port": 80}), false).unwrap_err(), "it has no address");
        assert!(read(&json!({"address": "a b", "port": 80}), false).is_err());
        for text in ["", "x", "[]", "{\"address\":7}"] {
            assert!(read_zookeeper_instance(text.as_bytes(), false, 1).is_err(), "{text}");
        }
    }
}
