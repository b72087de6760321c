//! The destinations of an upstream of the type `original_dst`: its sessions go where their clients wanted to
//! go, as far as this list allows it. An extension of Weir.

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::route::AddressOrNetwork;
use crate::number;

/// The destinations that are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginalDestination {
    /// The networks of allowed addresses.
    #[serde(deserialize_with = "networks")]
    pub allow: Box<[IpNet]>,
    /// The allowed ports; empty: all.
    #[serde(default)]
    pub ports: Box<[PortRange]>,
}

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}

impl PortRange {
    /// The range as written: a number, or a text `FIRST-LAST`.
    ///
    /// # Errors
    /// A sentence about the fault.
    pub fn parse(written: &Value) -> Result<PortRange, String> {
        let number =
            || written.as_f64().and_then(number::integer_of).and_then(|port| u16::try_from(port).ok());
        let bounds = match written.as_str() {
            Some(text) => text.split_once('-').and_then(|(first, last)| Some((port(first)?, port(last)?))),
            None => number().map(|port| (port, port)),
        };
        match bounds {
            Some((first, last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
            _ => {
                Err(format!("{written} is neither a port from 1 to 65535 nor a range such as \"8000-8099\""))
            }
        }
    }
}

/// A port of decimal digits alone; the parser of numbers takes a sign too.
fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortRange, D::Error> {
        PortRange::parse(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[IpNet]>, D::Error> {
    let written = Vec::<AddressOrNetwork>::deserialize(deserializer)?;
    Ok(written.into_iter().map(|address| address.0).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_numbers_or_ranges() {
        let range = |first, last| Some(PortRange { first, last });
        let cases = [
            (json!(80), range(80, 80)),
            (json!("8000-8099"), range(8000, 8099)),
            (json!("1-65535"), range(1, 65_535)),
            (json!(0), None),
            (json!(65_536), None),
            (json!(80.5), None),
            (json!("0-1"), None),
            (json!("9-8"), None),
            (json!("+1-8"), None),
            (json!("1-2-3"), None),
            (json!("80"), None),
            (json!([80]), None),
        ];
        for (written, expected) in cases {
            assert_eq!(PortRange::parse(&written).ok(), expected, "{written}");
        }
    }
}
