//! A value for readers of `serde_json` that is sent on with all digits of its numbers.

use std::ops::Deref;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Bounds, ReadError, Value, parse};

/// A value that is read as one of `serde_json` and written by its text. It is serialized as its text too,
/// without a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    value: serde_json::Value,
    text: Box<str>,
}

impl Exact {
    /// Reads a text within bounds.
    ///
    /// # Errors
    /// The text is beyond a bound, or no JSON.
    pub fn parse(text: &[u8], bounds: Bounds) -> Result<Exact, ReadError> {
        Ok(Exact::from(&parse(text, bounds)?.value))
    }

    /// The value as JSON without white space.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value for readers; digits of numbers may be lost in it.
    #[must_use]
    pub fn into_value(self) -> serde_json::Value {
        self.value
    }
}

impl From<&Value> for Exact {
    fn from(value: &Value) -> Exact {
        Exact { value: value.to_serde(), text: value.to_string().into() }
    }
}

impl From<serde_json::Value> for Exact {
    fn from(value: serde_json::Value) -> Exact {
        Exact { text: value.to_string().into(), value }
    }
}

impl Deref for Exact {
    type Target = serde_json::Value;

    fn deref(&self) -> &serde_json::Value {
        &self.value
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: &RawValue = serde_json::from_str(&self.text).map_err(serde::ser::Error::custom)?;
        text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Exact, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Exact::parse(text.get().as_bytes(), Bounds::DEFAULT).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Login {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<Exact>,
    }

    #[test]
    fn digits_survive_storage() {
        let text = r#"{"user":{"big":18446744073709551616,"x":[1.50,1E400]}}"#;
        let login: Login = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&login).unwrap(), text);
        let user = login.user.unwrap();
        assert_eq!(user.text(), r#"{"big":18446744073709551616,"x":[1.50,1E400]}"#);
        assert_eq!(user["x"][0], 1.5);
        assert_eq!(serde_json::from_str::<Login>("{}").unwrap(), Login { user: None });
    }
}
