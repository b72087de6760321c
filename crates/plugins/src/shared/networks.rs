//! Addresses and networks as configurations write them. It matches none.

use serde_json::{Value, json};

/// The JSON Schema of an address or a network.
pub(crate) fn schema() -> Value {
    json!({"anyOf": [
        {"title": "IPv4", "type": "string", "format": "ipv4"},
        {"title": "IPv4/CIDR", "type": "string", "pattern": IPV4_NETWORK},
        {"title": "IPv6", "type": "string", "format": "ipv6"},
        {"title": "IPv6/CIDR", "type": "string", "pattern": IPV6_NETWORK},
    ]})
}

/// Four decimal bytes and a prefix of at most 32 bits.
const IPV4_NETWORK: &str = r"^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}/(3[0-2]|[12]?\d)$";
/// Roughly an IPv6 address and a prefix; the plugin's own check reads it exactly.
const IPV6_NETWORK: &str = r"^[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/\d{1,3}$";
