//! Parts of answers that all registries share: hosts, ports and weights that are checked, lists that survive
//! a faulty element, and text in queries. It does not know the registries.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use jsonx::{Bounds, ReadError};
use model::discovery::ServiceInstance;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::element::{ELEMENT_VALUES_MAX, Element};
pub(super) use super::limits::shortened;
use super::limits::{WEIGHT_MAX, bound, host_fault, order};

/// Metadata of an instance, as a registry sends it.
pub(super) type InstanceMetadata = BTreeMap<Box<str>, Box<str>>;

/// Reads an answer of a registry as any type. The pass in front of it refuses answers with more values than
/// the largest registry has, before any of them takes memory; members that the type does not name take none
/// either.
///
/// # Errors
/// The answer is beyond a bound, or not of the type.
pub(super) fn read_answer<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, ReadError> {
    jsonx::read(text, ANSWER_BOUNDS)
}

/// Reads a list of names, of which each takes memory.
///
/// # Errors
/// As for [`read_answer`].
pub(super) fn read_names<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, ReadError> {
    jsonx::read(text, ANSWER_BOUNDS.with_values(MAX_NAMES))
}

/// Reads one message or value of a registry.
///
/// # Errors
/// As for [`read_answer`].
pub(super) fn read_message<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, ReadError> {
    jsonx::read(text, ANSWER_BOUNDS.with_values(ELEMENT_VALUES_MAX))
}

/// A list with the reason of each element that cannot be read. A single object stands for a list of one
/// (Eureka writes such lists), null for an empty one.
#[derive(Debug)]
pub(super) struct Loose<T>(pub(super) Vec<Result<T, String>>);

impl<T> Default for Loose<T> {
    fn default() -> Loose<T> {
        Loose(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Loose<T>, D::Error> {
        deserializer.deserialize_any(LooseVisitor(PhantomData))
    }
}

struct LooseVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for LooseVisitor<T> {
    type Value = Loose<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Loose<T>, E> {
        Ok(Loose(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose<T>, A::Error> {
        let mut all = Vec::new();
        let (mut seen, mut faulty) = (0, 0);
        while let Some(Element(element)) = list.next_element()? {
            seen += 1;
            if seen > MAX_ELEMENTS {
                return Err(serde::de::Error::custom(format!("a list of more than {MAX_ELEMENTS} elements")));
            }
            match T::deserialize(element) {
                Ok(element) => all.push(Ok(element)),
                // A long list of faulty elements would take much more memory than its text.
                Err(_) if faulty == MAX_REASONS => {}
                Err(error) => {
                    faulty += 1;
                    all.push(Err(error.to_string()));
                }
            }
        }
        Ok(Loose(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose<T>, A::Error> {
        let Element(element) = Element::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Loose(vec![T::deserialize(element).map_err(|error| error.to_string())]))
    }
}

/// The usable instances of one service, and the reason why others were left out.
#[derive(Debug, Default)]
pub(super) struct Collected {
    instances: Vec<ServiceInstance>,
    faulty: usize,
    reason: Option<String>,
}

impl Collected {
    /// Takes one entry: an instance, one that gets no traffic (none), or a faulty one.
    pub(super) fn take(&mut self, entry: Result<Option<ServiceInstance>, String>) {
        match entry {
            Ok(Some(instance)) => self.instances.push(instance),
            Ok(None) => {}
            Err(reason) => {
                self.faulty += 1;
                self.reason.get_or_insert(reason);
            }
        }
    }

    /// The instances, in an order that does not depend on the registry's, with the reason of entries that
    /// were left out.
    ///
    /// # Errors
    /// Every entry is faulty: such an answer must not empty the service.
    pub(super) fn finish(mut self) -> Result<(Vec<ServiceInstance>, Option<String>), String> {
        let reason = self.reason.take().map(|reason| match self.faulty {
            1 => format!("an instance is left out: {reason}"),
            many => format!("{many} instances are left out, the first because {reason}"),
        });
        match reason {
            Some(reason) if self.instances.is_empty() => Err(format!("no instance is usable: {reason}")),
            reason => {
                self.instances.sort_by(order);
                Ok((self.instances, reason))
            }
        }
    }
}

/// A host that a socket can be opened to: an IP address, with or without brackets, or a name.
///
/// # Errors
/// The text is neither.
pub(super) fn parse_host(text: &str) -> Result<Box<str>, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match host_fault(bare) {
        None => Ok(bare.to_ascii_lowercase().into()),
        Some(fault) => Err(format!("`{}` is no host: it is {fault}", shortened(text))),
    }
}

/// A list that fails as a whole for one faulty element; a single object and null are read as in [`Loose`].
/// Elements are read without a copy in between, because each of them may hold a whole registry.
#[derive(Debug)]
pub(super) struct Direct<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Direct<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Direct<T>, D::Error> {
        deserializer.deserialize_any(DirectVisitor(PhantomData))
    }
}

struct DirectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for DirectVisitor<T> {
    type Value = Direct<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Direct<T>, E> {
        Ok(Direct(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Direct<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = list.next_element()? {
            all.push(element);
        }
        Ok(Direct(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Direct<T>, A::Error> {
        Ok(Direct(vec![T::deserialize(MapAccessDeserializer::new(map))?]))
    }
}

/// A port from a number or a text.
///
/// # Errors
/// The value is missing or no port.
pub(super) fn port(value: Option<&Value>) -> Result<u16, String> {
    let number = match value {
        None | Some(Value::Null) => return Err("it has no port".to_owned()),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|port| *port != 0)
        .ok_or_else(|| "its port is no number from 1 to 65535".to_owned())
}

/// A whole weight from a number or a text; a missing one is `default`.
///
/// # Errors
/// The value is no number of that range.
pub(super) fn parse_weight(value: Option<&Value>, default: u32) -> Result<u32, String> {
    let number = match value {
        None | Some(Value::Null) => return Ok(default),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    let number = number.filter(|number: &f64| (0.0..=f64::from(WEIGHT_MAX)).contains(number));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    number
        .map(|number| number.round() as u32)
        .ok_or_else(|| format!("its weight is no number from 0 to {WEIGHT_MAX}"))
}

/// Metadata from an object; values that are neither texts, numbers nor booleans, and everything beyond the
/// limits, are left out, because filters cannot name them.
pub(super) fn metadata(value: Option<&Value>) -> InstanceMetadata {
    let Some(Value::Object(fields)) = value else { return InstanceMetadata::new() };
    let fields = fields.iter().filter_map(|(name, value)| {
        let text: Box<str> = match value {
            Value::String(text) => text.as_str().into(),
            Value::Number(number) => number.to_string().into(),
            Value::Bool(flag) => flag.to_string().into(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((name.as_str().into(), text))
    });
    let mut metadata = fields.collect();
    bound(&mut metadata);
    metadata
}

/// Text as a value of a query or a segment of a path.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// All characters but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The bounds of an answer. The length is bounded where it is read; 100,000 instances have about 40 values
/// each.
const ANSWER_BOUNDS: Bounds = Bounds { bytes_max: 256 << 20, values_max: 4_000_000, depth_max: 64 };
/// Names of one list of services.
const MAX_NAMES: usize = 1_000_000;
/// Elements of one list: twice the instances of the largest registry that is supported.
const MAX_ELEMENTS: usize = 200_000;
/// Faulty elements of a list that are counted.
const MAX_REASONS: usize = 1_000;
/// Bytes of the value of a key, or of the data of a node: an instance with 64 entries of metadata. Longer
/// ones are cut.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 10;

/// The instances in one line each, for tests.
#[cfg(test)]
pub(super) fn show_instances(instances: &[ServiceInstance]) -> Vec<String> {
    instances
        .iter()
        .map(|instance| format!("{}:{} {}", instance.host, instance.port, instance.weight))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::METADATA_MAX;

    #[test]
    fn hosts_are_addresses_or_names() {
        for (text, expected) in
            [("10.0.0.1", "10.0.0.1"), ("[fe80::1]", "fe80::1"), ("::1", "::1"), ("A-1.svc_x", "a-1.svc_x")]
        {
            assert_eq!(&*parse_host(text).unwrap(), expected);
        }
        for text in ["", "a b", "a/b", "a:80", "-a", "a\r\nb", "ü", &"a".repeat(254)] {
            assert!(parse_host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_numbers_or_texts() {
        assert_eq!(port(Some(&json!(8080))), Ok(8080));
        assert_eq!(port(Some(&json!("8080"))), Ok(8080));
        for value in [json!(0), json!(65_536), json!(-1), json!("x"), json!({}), json!(80.5)] {
            assert!(port(Some(&value)).is_err(), "{value}");
        }
        assert_eq!(port(None).unwrap_err(), "it has no port");
    }

    #[test]
    fn weights_beyond_the_range_are_faults() {
        assert_eq!(parse_weight(Some(&json!(1.4)), 7), Ok(1));
        assert_eq!(parse_weight(Some(&json!("30")), 7), Ok(30));
        assert_eq!(parse_weight(Some(&Value::Null), 7), Ok(7));
        for value in [json!(-1), json!(1e18), json!("NaN"), json!(true)] {
            assert!(parse_weight(Some(&value), 7).is_err(), "{value}");
        }
    }

    #[test]
    fn faulty_elements_leave_the_others_readable() {
        let Loose(list) = serde_json::from_str::<Loose<u8>>("[1,\"x\",3]").unwrap();
        assert!(list[0] == Ok(1) && list[1].is_err() && list[2] == Ok(3));
        assert!(serde_json::from_str::<Loose<u8>>("null").unwrap().0.is_empty());
        assert!(serde_json::from_str::<Loose<u8>>("7").is_err());
        let Loose(single) = serde_json::from_str::<Loose<BTreeMap<String, u8>>>("{\"a\":1}").unwrap();
        assert_eq!(single.len(), 1);
        let Loose(list) = serde_json::from_str::<Loose<u8>>(&format!("[{}7]", "{},".repeat(5_000))).unwrap();
        assert!(list.len() == MAX_REASONS + 1 && list[MAX_REASONS] == Ok(7));
    }

    #[test]
    fn answer_of_faulty_entries_only_is_a_failure() {
        let mut collected = Collected::default();
        collected.take(Err("it has no port".to_owned()));
        collected.take(Ok(None));
        let error = collected.finish().unwrap_err();
        assert_eq!(error, "no instance is usable: an instance is left out: it has no port");
        let (none, reason) = Collected::default().finish().unwrap();
        assert!(none.is_empty() && reason.is_none());
    }

    #[test]
    fn metadata_is_bounded() {
        let mut fields = serde_json::Map::new();
        for number in 0..100 {
            fields.insert(format!("k{number:03}"), json!(number));
        }
        fields.insert("long".to_owned(), json!("x".repeat(2000)));
        fields.insert("list".to_owned(), json!([1]));
        let kept = metadata(Some(&Value::Object(fields)));
        assert_eq!(kept.len(), METADATA_MAX);
        assert_eq!(kept.get("k001").map(|text| &**text), Some("1"));
    }

    #[test]
    fn text_in_queries_is_escaped() {
        assert_eq!(encoded("a b&c=ü"), "a%20b%26c%3D%C3%BC");
    }
}
