//! JSON of a client as a value, with a bound on the values in it: one takes about a hundred bytes of memory, and may be two
//! bytes of the text. It knows no request.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a text of JSON with at most `values_max` values, those inside lists and objects included. Of members with the same
/// name the last one counts.
///
/// # Errors
/// The text is not JSON, or has more values; the error is one of data (`is_data`) in the second case only.
pub(crate) fn read(text: &[u8], values_max: usize) -> serde_json::Result<Value> {
    let mut left = values_max;
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Counted { left: &mut left, values_max }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads one value and all in it.
struct Counted<'l> {
    left: &'l mut usize,
    values_max: usize,
}

impl Counted<'_> {
    fn inner(&mut self) -> Counted<'_> {
        Counted { left: self.left, values_max: self.values_max }
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let values_max = self.values_max;
        let more = || D::Error::custom(format_args!("more than {values_max} values"));
        *self.left = self.left.checked_sub(1).ok_or_else(more)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner())? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            object.insert(name, members.next_value_seed(self.inner())?);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_at_all_levels() {
        let text = br#"{"a":[1,-2,2.5e1,"x\n",null,true],"b":{"c":{}},"a":[0]}"#;
        let expected: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(read(text, 12).unwrap(), expected);
        let error = read(text, 11).unwrap_err();
        assert!(error.is_data() && error.to_string().starts_with("more than 11 values"), "{error}");
        for bad in ["", "{", "[1,]", "1 2", "{\"a\"}", &"[".repeat(200)] {
            let error = read(bad.as_bytes(), 1_000).unwrap_err();
            assert!(!error.is_data(), "{bad}: {error}");
        }
    }
}
