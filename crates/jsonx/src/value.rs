//! A tree of JSON in which numbers keep their text.

use std::fmt;

use crate::Number;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number, as it was sent.
    Number(Number),
    /// A string.
    Text(Box<str>),
    /// An array.
    List(Vec<Value>),
    /// An object.
    Object(Object),
}

/// The members of an object in the order in which their names came first. No name is there twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    members: Vec<(Box<str>, Value)>,
}

impl Object {
    /// Takes members with different names.
    pub(crate) fn from_distinct(members: Vec<(Box<str>, Value)>) -> Object {
        Object { members }
    }

    /// The value of the member with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Takes the member with this name out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let place = self.members.iter().position(|(known, _)| **known == *name)?;
        Some(self.members.remove(place).1)
    }

    /// Adds a value; values of one name become a list, as the arguments of forms do.
    pub fn append(&mut self, name: &str, value: Value) {
        match self.members.iter_mut().find(|(known, _)| **known == *name).map(|(_, value)| value) {
            None => self.members.push((name.into(), value)),
            Some(Value::List(values)) => values.push(value),
            Some(single) => *single = Value::List(vec![std::mem::replace(single, Value::Null), value]),
        }
    }

    /// The members with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the object has no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl FromIterator<(Box<str>, Value)> for Object {
    /// Of members with the same name the last one counts.
    fn from_iter<I: IntoIterator<Item = (Box<str>, Value)>>(members: I) -> Object {
        crate::reader::distinct(members.into_iter().collect()).0
    }
}

impl Value {
    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// The members of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Object> {
        if let Value::Object(object) = self { Some(object) } else { None }
    }

    /// The member of an object with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    /// The value for readers of `serde_json`: numbers are integers of 64 bits or doubles there, so that
    /// digits may be lost (see [`Number::to_serde`]).
    #[must_use]
    pub fn to_serde(&self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Boolean(value) => (*value).into(),
            Value::Number(number) => serde_json::Value::Number(number.to_serde()),
            Value::Text(text) => (&**text).into(),
            Value::List(items) => items.iter().map(Value::to_serde).collect(),
            Value::Object(object) => {
                object.iter().map(|(name, value)| (name.to_owned(), value.to_serde())).collect()
            }
        }
    }

    /// This value as `changed`, which was made of [`Value::to_serde`] of it, with the digits of all numbers
    /// that are there unchanged. A list of another length takes its numbers from `changed`.
    #[must_use]
    pub fn with_changes(&self, changed: &serde_json::Value) -> Value {
        match (self, changed) {
            (Value::Number(number), serde_json::Value::Number(new)) if number.to_serde() == *new => {
                self.clone()
            }
            (Value::List(items), serde_json::Value::Array(new)) if items.len() == new.len() => {
                Value::List(items.iter().zip(new).map(|(item, new)| item.with_changes(new)).collect())
            }
            (Value::Object(object), serde_json::Value::Object(new)) => {
                let member = |(name, new): (&String, &serde_json::Value)| {
                    let value = object.get(name).map_or_else(|| new.into(), |value| value.with_changes(new));
                    (name.as_str().into(), value)
                };
                Value::Object(Object::from_distinct(new.iter().map(member).collect()))
            }
            _ => changed.into(),
        }
    }

    /// Appends the value as JSON without white space.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Boolean(true) => out.extend_from_slice(b"true"),
            Value::Boolean(false) => out.extend_from_slice(b"false"),
            Value::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
            Value::Text(text) => write_text(text, out),
            Value::List(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write_to(out);
                }
                out.push(b']');
            }
            Value::Object(object) => {
                out.push(b'{');
                for (index, (name, value)) in object.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_text(name, out);
                    out.push(b':');
                    value.write_to(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The value as JSON without white space.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a vector takes every write");
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Boolean(*value),
            serde_json::Value::Number(number) => Value::Number(number.into()),
            serde_json::Value::String(text) => Value::Text(text.as_str().into()),
            serde_json::Value::Array(items) => Value::List(items.iter().map(Value::from).collect()),
            serde_json::Value::Object(fields) => Value::Object(Object::from_distinct(
                fields.iter().map(|(name, value)| (name.as_str().into(), value.into())).collect(),
            )),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.to_json()))
    }
}
