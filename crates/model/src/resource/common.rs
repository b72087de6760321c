//! Field types that several kinds share. Knows no kind.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::number;

/// Free key/value marks on an object.
pub type ObjectLabels = BTreeMap<Box<str>, Box<str>>;

/// The label of a route or service that says how soon its requests are refused when not all can be served.
pub const PRIORITY_LABEL: &str = "weir.priority";
/// The values of that label, the last to be refused first.
pub const PRIORITIES: [&str; 3] = ["critical", "default", "sheddable"];

/// A list that most often has one item, written as one field or the other (`uri` or `uris`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OneOrMany<T> {
    /// Nothing was written.
    #[default]
    None,
    /// The singular field was written.
    One(T),
    /// The plural field was written.
    Many(Box<[T]>),
}

impl<T> OneOrMany<T> {
    /// From the singular and the plural field; the schema has made sure that only one of them is there.
    pub(crate) fn of(one: Option<T>, many: Option<Vec<T>>) -> OneOrMany<T> {
        match (one, many) {
            (Some(one), _) => OneOrMany::One(one),
            (None, Some(many)) => OneOrMany::Many(many.into()),
            (None, None) => OneOrMany::None,
        }
    }

    /// All items.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::None => &[],
            OneOrMany::One(item) => std::slice::from_ref(item),
            OneOrMany::Many(items) => items,
        }
    }

    /// All items, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.as_slice().iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

impl<'a, T> IntoIterator for &'a OneOrMany<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// How long the steps of talking to an origin may take. All three are given or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// To connect.
    #[serde(deserialize_with = "number::seconds")]
    pub connect: Duration,
    /// Between two successful writes.
    #[serde(deserialize_with = "number::seconds")]
    pub send: Duration,
    /// Between two successful reads.
    #[serde(deserialize_with = "number::seconds")]
    pub read: Duration,
}

/// `status` 1 or 0 as a switch; written nothing means on.
pub(crate) fn status<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match number::deserialize_integer::<D, i64>(deserializer)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(serde::de::Error::custom(format!("status is 1 or 0, not {other}"))),
    }
}

/// The default of a switch that is on unless written otherwise.
pub(crate) fn on() -> bool {
    true
}
