//! One element of a registry's list as a value, with a bound on the values in it, so that a list is never a
//! tree as a whole. It knows no registry.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Values of one element: the endpoints of Kubernetes's largest object, 1,000 addresses with ten fields, are
/// a tenth of it.
pub(super) const ELEMENT_VALUES_MAX: usize = 100_000;

/// The element.
pub(super) struct Element(pub(super) Value);

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Element, D::Error> {
        let mut left = ELEMENT_VALUES_MAX;
        ElementVisitor { left: &mut left }.deserialize(deserializer).map(Element)
    }
}

/// Reads one value and all in it.
struct ElementVisitor<'l> {
    left: &'l mut usize,
}

impl ElementVisitor<'_> {
    fn inner(&mut self) -> ElementVisitor<'_> {
        ElementVisitor { left: self.left }
    }
}

impl<'de> DeserializeSeed<'de> for ElementVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let more = || D::Error::custom(format_args!("an element of more than {ELEMENT_VALUES_MAX} values"));
        *self.left = self.left.checked_sub(1).ok_or_else(more)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ElementVisitor<'_> {
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
    fn values_of_an_element_are_counted() {
        let text = r#"{"a":[1,-2,2.5e1,"x\n",null,true],"b":{"c":{}}}"#;
        let Element(value) = serde_json::from_str(text).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        let list = |items: usize| format!("[{}0]", "0,".repeat(items - 1));
        assert!(serde_json::from_str::<Element>(&list(ELEMENT_VALUES_MAX - 1)).is_ok());
        let error = serde_json::from_str::<Element>(&list(ELEMENT_VALUES_MAX)).err().unwrap();
        assert!(error.to_string().contains("more than 100000 values"), "{error}");
    }
}
