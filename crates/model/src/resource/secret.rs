//! A secret manager. Its fields are the manager's; the schema of each manager says which.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Where a secret manager is and how to log in there; the first part of its id names the manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    /// The manager's fields.
    pub value: Value,
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        Ok(Secret { value: Value::Object(Map::deserialize(deserializer)?) })
    }
}
