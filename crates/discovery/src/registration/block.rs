//! The blocks of `registration`: their schemas, the identity of the instance that they give, and the fields
//! of the connection that the `discovery` block of the same name stands in for. It asks no registry.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use stdx::nearest::nearest;

use super::{ALL, ProxyAddresses, RegistrarKind};
use crate::BuildContext;
use crate::check::{BlockFault, schema_faults};
use crate::parts::parse_host;

/// The instance as it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistrationIdentity {
    pub(crate) service: String,
    /// Tells it from other instances of the service; the same after a restart and a binary upgrade.
    pub(crate) id: String,
    /// An address or a name, without brackets.
    pub(crate) address: String,
    /// The port without TLS; none where the proxy has only listeners with TLS.
    pub(crate) port: Option<u16>,
    pub(crate) tls_port: Option<u16>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl RegistrationIdentity {
    /// The port for registries that have one port for each instance.
    pub(crate) fn main_port(&self) -> u16 {
        self.port.or(self.tls_port).unwrap_or_default()
    }

    /// The metadata for registries that have one port for each instance: with the entry `secure` if that port
    /// has TLS, otherwise with `tls_port` where there is one.
    pub(crate) fn described(&self) -> BTreeMap<String, String> {
        let mut metadata = self.metadata.clone();
        match (self.port, self.tls_port) {
            (None, Some(_)) => metadata.entry("secure".to_owned()).or_insert("true".to_owned()),
            (Some(_), Some(port)) => metadata.entry("tls_port".to_owned()).or_insert(port.to_string()),
            (_, None) => return metadata,
        };
        metadata
    }

    /// As views show it.
    pub(super) fn shown(&self) -> Value {
        json!({"service": self.service, "id": self.id, "address": self.address, "port": self.port, "tls_port": self.tls_port})
    }
}

/// The fields of all kinds.
#[derive(Deserialize)]
struct Common {
    service: String,
    address: Option<String>,
    port: Option<u16>,
    tls_port: Option<u16>,
    id: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

fn schema(kind: &RegistrarKind) -> Value {
    let port = |description: &str| json!({"description": description, "type": "integer", "minimum": 1, "maximum": 65_535});
    let mut properties = json!({
        "service": {"description": "The name of the service.", "type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": 128},
        "address": {
            "description": "The address or name that clients connect to; without it, that of the first proxy listener.",
            "type": "string", "minLength": 1, "maxLength": 253
        },
        "port": port("The port without TLS; without it, that of the first proxy listener."),
        "tls_port": port("The port with TLS."),
        "id": {
            "description": "Tells this instance from others of the service; without it ADDRESS:SERVICE:PORT.",
            "type": "string", "pattern": "^[A-Za-z0-9_.:-]+$", "maxLength": 256
        },
        "metadata": {
            "description": "Marks of the instance.",
            "type": "object", "maxProperties": 60, "additionalProperties": {"type": "string", "maxLength": 512}
        }
    });
    let connection = (kind.registry.schema)();
    if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), (kind.properties)()) {
        all.extend(own);
        for field in kind.connection {
            all.insert((*field).to_owned(), connection["properties"][*field].clone());
        }
    }
    json!({"type": "object", "properties": properties, "required": ["service"], "additionalProperties": false})
}

/// All faults of the blocks of `registration`, each by itself.
#[must_use]
pub fn check_registration_blocks(blocks: &Map<String, Value>) -> Vec<BlockFault> {
    let faults = |(name, block): (&String, &Value)| match find(name) {
        Ok(kind) => schema_faults(name, schema(kind), block),
        Err(reason) => vec![BlockFault { pointer: format!("/{name}"), reason }],
    };
    blocks.iter().flat_map(faults).collect()
}

/// The faults of blocks that obey their schemas, together with the other settings: an address that clients
/// cannot connect to, no server to ask.
#[must_use]
pub fn faults_together(
    blocks: &Map<String, Value>,
    discovery: &Map<String, Value>,
    addresses: ProxyAddresses,
) -> Vec<BlockFault> {
    let fault = |(name, block): (&String, &Value)| {
        let built = read_registration(name, block, discovery, addresses)
            .and_then(|(kind, block, identity)| (kind.build)(&block, identity, &BuildContext::default()));
        Some(BlockFault { pointer: format!("/{name}"), reason: built.err()? })
    };
    blocks.iter().filter_map(fault).collect()
}

/// The kind of a block, the block with its connection, and the identity that it gives.
///
/// # Errors
/// A sentence with what to write.
pub(crate) fn read_registration(
    name: &str,
    block: &Value,
    discovery: &Map<String, Value>,
    addresses: ProxyAddresses,
) -> Result<(&'static RegistrarKind, Value, RegistrationIdentity), String> {
    let kind = find(name)?;
    let common = Common::deserialize(block).map_err(|error| error.to_string())?;
    let identity = identity(common, addresses)?;
    let mut block = block.clone();
    let servers = kind.connection.first().copied().unwrap_or_default();
    if block.get(servers).is_none() && discovery.get(name).and_then(|block| block.get(servers)).is_none() {
        return Err(format!("no server is named: write `{servers}` here, or a block `discovery.{name}`"));
    }
    for field in kind.connection {
        if let (Some(object), Some(value)) = (
            block.as_object_mut().filter(|object| !object.contains_key(*field)),
            discovery.get(name).and_then(|block| block.get(*field)),
        ) {
            object.insert((*field).to_owned(), value.clone());
        }
    }
    Ok((kind, block, identity))
}

fn identity(common: Common, addresses: ProxyAddresses) -> Result<RegistrationIdentity, String> {
    let Common { service, address, port, tls_port, id, metadata } = common;
    let plain = addresses.plain;
    let tls = addresses.tls.filter(|_| plain.is_none() && port.is_none());
    let port = port.or(plain.map(|listener| listener.port()));
    let tls_port = tls_port.or(tls.map(|listener| listener.port()));
    let address = match address {
        Some(address) => parse_host(&address)?.into(),
        // The host is the same with a written port, also where the only listener has TLS.
        None => own_address(plain.or(addresses.tls))?,
    };
    if port.or(tls_port).is_none() {
        return Err("the proxy has no listener to register; write `port`".to_owned());
    }
    let id = id.unwrap_or_else(|| format!("{address}:{service}:{}", port.or(tls_port).unwrap_or_default()));
    Ok(RegistrationIdentity { service, id, address, port, tls_port, metadata })
}

/// The address of a listener, if other machines can connect to it.
fn own_address(listener: Option<SocketAddr>) -> Result<String, String> {
    match listener {
        None => Err("the proxy has no listener to register; write `address` and `port`".to_owned()),
        Some(listener) if listener.ip().is_unspecified() => Err(format!(
            "the proxy listens on {listener}, which is no address to connect to; write `address: HOST`, the address \
             of this machine"
        )),
        Some(listener) => Ok(listener.ip().to_string()),
    }
}

fn find(name: &str) -> Result<&'static RegistrarKind, String> {
    let names = || ALL.iter().map(|kind| kind.registry.name);
    ALL.iter().find(|kind| kind.registry.name == name).ok_or_else(|| match nearest(name, names()) {
        Some(near) => format!("there is no registration in it; did you mean `{near}`?"),
        None => {
            format!("there is no registration in it; possible are {}", names().collect::<Vec<_>>().join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(plain: &str, tls: &str) -> ProxyAddresses {
        ProxyAddresses { plain: plain.parse().ok(), tls: tls.parse().ok() }
    }

    fn identity_of(block: Value, addresses: ProxyAddresses) -> Result<RegistrationIdentity, String> {
        identity(Common::deserialize(block).unwrap(), addresses)
    }

    #[test]
    fn identity_comes_from_block_and_listener() {
        let of = |block: Value, addresses: ProxyAddresses| {
            identity_of(block, addresses)
                .map(|found| format!("{} {:?} {:?} {}", found.address, found.port, found.tls_port, found.id))
        };
        let one = addresses("10.0.0.1:9080", "10.0.0.1:9443");
        for (block, listeners, expected) in [
            (json!({"service": "s"}), one, "10.0.0.1 Some(9080) None 10.0.0.1:s:9080"),
            (
                json!({"service": "s", "port": 80, "tls_port": 443}),
                one,
                "10.0.0.1 Some(80) Some(443) 10.0.0.1:s:80",
            ),
            (
                json!({"service": "s", "address": "gw.example", "id": "me"}),
                one,
                "gw.example Some(9080) None me",
            ),
            (
                json!({"service": "s"}),
                addresses("", "10.0.0.1:9443"),
                "10.0.0.1 None Some(9443) 10.0.0.1:s:9443",
            ),
            (
                json!({"service": "s", "port": 80}),
                addresses("", "10.0.0.1:9443"),
                "10.0.0.1 Some(80) None 10.0.0.1:s:80",
            ),
        ] {
            assert_eq!(of(block, listeners).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn wildcard_listener_without_address_is_refused() {
        let wildcard = addresses("0.0.0.0:9080", "");
        let reason = identity_of(json!({"service": "s"}), wildcard).unwrap_err();
        assert!(
            reason.contains("listens on 0.0.0.0:9080") && reason.contains("write `address: HOST`"),
            "{reason}"
        );
        assert!(identity_of(json!({"service": "s", "address": "a"}), wildcard).is_ok());
        let none = identity_of(json!({"service": "s"}), addresses("", "")).unwrap_err();
        assert!(none.contains("write `address` and `port`"), "{none}");
    }

    #[test]
    fn one_port_registries_get_tls_as_metadata() {
        let described = |port: Option<u16>, tls_port: Option<u16>| {
            let mut identity = identity_of(json!({"service": "s"}), addresses("10.0.0.1:1", "")).unwrap();
            (identity.port, identity.tls_port) = (port, tls_port);
            (identity.main_port(), serde_json::to_string(&identity.described()).unwrap())
        };
        assert_eq!(described(Some(80), None), (80, "{}".to_owned()));
        assert_eq!(described(Some(80), Some(443)), (80, r#"{"tls_port":"443"}"#.to_owned()));
        assert_eq!(described(None, Some(443)), (443, r#"{"secure":"true"}"#.to_owned()));
    }

    #[test]
    fn faulty_blocks_are_named() {
        for (blocks, expected) in [
            (
                json!({"consil": {"service": "s"}}),
                "/consil: there is no registration in it; did you mean `consul`?",
            ),
            (
                json!({"zookeeper": {}}),
                "/zookeeper: there is no registration in it; possible are consul, eureka, nacos",
            ),
            (json!({"consul": {}}), "service"),
            (json!({"consul": {"service": "a b"}}), "/consul/service: its text does not match"),
            (json!({"nacos": {"service": "a", "tags": []}}), "tags"),
        ] {
            let faults = check_registration_blocks(blocks.as_object().unwrap());
            assert_eq!(faults.len(), 1, "{blocks}");
            assert!(faults[0].to_string().contains(expected), "{}", faults[0]);
        }
    }

    #[test]
    fn discovery_stands_in_for_the_connection() {
        let block = json!({"service": "s", "token": "own"});
        let discovery = json!({"consul": {"servers": ["http://a:1"], "token": "theirs", "weight": 7}});
        let listeners = addresses("10.0.0.1:9080", "");
        let (_, merged, _) =
            read_registration("consul", &block, discovery.as_object().unwrap(), listeners).unwrap();
        assert_eq!(merged, json!({"service": "s", "token": "own", "servers": ["http://a:1"]}));
        let Err(reason) = read_registration("consul", &block, &Map::new(), listeners) else {
            panic!("no server is named")
        };
        assert_eq!(reason, "no server is named: write `servers` here, or a block `discovery.consul`");
    }
}
