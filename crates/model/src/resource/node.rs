//! The nodes of an upstream, in both forms users write them. Knows no health and no resolving.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::number;

/// An origin server.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfig {
    /// A name or an address; an IPv6 address stands here without brackets.
    pub host: Box<str>,
    /// The port; 80 or 443 by the scheme when none was written.
    pub port: u16,
    /// Its share of the requests; 0: none.
    pub weight: u32,
    /// Nodes of a lower priority serve when those of a higher one are all down.
    pub priority: i32,
    /// Free marks.
    pub metadata: Option<Box<Value>>,
}

impl NodeConfig {
    /// Host and port as in a URL: IPv6 in brackets.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Nodes as read, before the scheme gives those without a port one.
#[derive(Debug, Default)]
pub(super) struct WrittenNodes(Vec<(NodeConfig, bool)>);

impl WrittenNodes {
    /// The nodes, with that port where none was written.
    pub(super) fn with_port(self, default_port: u16) -> Box<[NodeConfig]> {
        let fill = |(node, has_port): (NodeConfig, bool)| NodeConfig {
            port: if has_port { node.port } else { default_port },
            ..node
        };
        self.0.into_iter().map(fill).collect()
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`.
///
/// # Errors
/// A sentence, when there is a scheme, the port is not 1 to 65535, a bracket is open, or an IPv6 address has
/// no brackets.
pub(crate) fn split_authority(text: &str) -> Result<(&str, Option<u16>), String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        return Err(format!(
            "{text:?}: a node is HOST:PORT, without a scheme: write {authority:?}, and `scheme: {scheme}` beside \
             `nodes`"
        ));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| format!("{text:?}: the bracket is not closed"))?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("{text:?}: no IPv6 address between the brackets"));
            }
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("{text:?}: only a port may follow the brackets")),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("{text:?}: an IPv6 address is written in brackets, [{text}]:PORT"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(format!("{text:?} has no host"));
    }
    // The host is sent in headers and asked of DNS: nothing but what a name or an address has.
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if !text.starts_with('[') && !host.bytes().all(named) {
        return Err(format!("{text:?}: a host has letters, digits, '-', '.' and '_'"));
    }
    let port = port.map(|digits| port_of(text, digits)).transpose()?;
    Ok((host, port))
}

fn port_of(text: &str, digits: &str) -> Result<u16, String> {
    match digits.parse::<u16>() {
        Ok(port) if port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(format!("{text:?}: a port is 1 to 65535")),
    }
}

impl<'de> Deserialize<'de> for WrittenNodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenNodes, D::Error> {
        deserializer.deserialize_any(NodesVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeForm {
    host: Box<str>,
    #[serde(default, deserialize_with = "number::optional_integer")]
    port: Option<u16>,
    #[serde(deserialize_with = "number::deserialize_integer")]
    weight: u32,
    #[serde(default, deserialize_with = "number::deserialize_integer")]
    priority: i32,
    metadata: Option<Box<Value>>,
}

/// A weight as the value of a map of nodes.
struct Weight(u32);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
        number::deserialize_integer(deserializer).map(Weight)
    }
}

struct NodesVisitor;

impl<'de> Visitor<'de> for NodesVisitor {
    type Value = WrittenNodes;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("nodes: {\"host:port\": weight} or [{\"host\", \"port\", \"weight\"}]")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenNodes, A::Error> {
        let mut nodes = Vec::with_capacity(map.size_hint().unwrap_or(0));
        while let Some((authority, Weight(weight))) =
            map.next_entry::<std::borrow::Cow<'de, str>, Weight>()?
        {
            let (host, port) = split_authority(&authority).map_err(de::Error::custom)?;
            let node = NodeConfig {
                host: host.into(),
                port: port.unwrap_or(0),
                weight,
                priority: 0,
                metadata: None,
            };
            nodes.push((node, port.is_some()));
        }
        Ok(WrittenNodes(nodes))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<WrittenNodes, A::Error> {
        let mut nodes = Vec::with_capacity(sequence.size_hint().unwrap_or(0));
        while let Some(form) = sequence.next_element::<NodeForm>()? {
            let (host, inline_port) = split_authority(&form.host).map_err(de::Error::custom)?;
            let port = form.port.or(inline_port);
            if port == Some(0) {
                return Err(de::Error::custom("a port is 1 to 65535"));
            }
            let node = NodeConfig {
                host: host.into(),
                port: port.unwrap_or(0),
                weight: form.weight,
                priority: form.priority,
                metadata: form.metadata,
            };
            nodes.push((node, port.is_some()));
        }
        Ok(WrittenNodes(nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<&[(&str, u16, u32)]>) {
        let nodes = serde_json::from_str::<WrittenNodes>(json).ok().map(|nodes| nodes.with_port(80));
        let found = nodes
            .as_deref()
            .map(|nodes| nodes.iter().map(|node| (&*node.host, node.port, node.weight)).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expected, "{json}");
    }

    #[test]
    fn both_forms() {
        check(r#"{"a:8080":1,"b":2}"#, Some(&[("a", 8080, 1), ("b", 80, 2)]));
        check(r#"{"[::1]:81":1,"[fd00::1]":0}"#, Some(&[("::1", 81, 1), ("fd00::1", 80, 0)]));
        check(r#"[{"host":"a","port":81,"weight":3}]"#, Some(&[("a", 81, 3)]));
        check(r#"[{"host":"[::1]","weight":1}]"#, Some(&[("::1", 80, 1)]));
        check("{}", Some(&[]));
        check("[]", Some(&[]));
    }

    #[test]
    fn refused() {
        for json in [
            r#"{"::1":1}"#,
            r#"{"[::1":1}"#,
            r#"{"[x]:80":1}"#,
            r#"{"a:0":1}"#,
            r#"{"a:65536":1}"#,
            r#"{"a:+8":1}"#,
            r#"{":80":1}"#,
            r#"{"a b:80":1}"#,
            r#"{"a\r\nx: y":1}"#,
            r#"[{"host":"a[","weight":1}]"#,
            r#"{"a:80":-1}"#,
            r#"{"a:80":1.5}"#,
            r#"[{"host":"a"}]"#,
            r#"[{"host":"a","port":0,"weight":1}]"#,
            r#"[{"host":"a","weight":1,"color":"red"}]"#,
            "1",
        ] {
            check(json, None);
        }
    }

    #[test]
    fn an_ipv6_authority_has_brackets() {
        let nodes = serde_json::from_str::<WrittenNodes>(r#"{"[::1]:81":1}"#).unwrap().with_port(80);
        assert_eq!(nodes[0].authority(), "[::1]:81");
    }
}
