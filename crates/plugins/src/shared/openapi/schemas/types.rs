//! The types that a schema names, by which a text becomes a value.

use serde_json::Value;

use super::{LISTS, Schemas};

/// Schemas inside each other that are looked at: a list of an object's values is the deepest that a text can
/// hold.
const LEVELS_MAX: usize = 3;
/// Schemas that are looked at for one: objects with many properties refer to each other.
const SCHEMAS_MAX: usize = 2_000;

/// The types that a schema names, as far as a text is read by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueTypes {
    pub(crate) number: bool,
    pub(crate) boolean: bool,
    pub(crate) text: bool,
    pub(crate) null: bool,
    /// The types of items, if the value may be a list.
    pub(crate) items: Option<Box<ValueTypes>>,
    /// The types of properties, if the value may be an object.
    pub(crate) properties: Option<Vec<(String, ValueTypes)>>,
    /// The types of other properties, if the value may be an object that has such.
    pub(crate) others: Option<Box<ValueTypes>>,
}

impl<'d> Schemas<'d> {
    /// The types that the schema names.
    pub(crate) fn types_of(&self, written: &'d Value, place: &str) -> Result<ValueTypes, String> {
        self.types_left.set(SCHEMAS_MAX);
        self.types(written, place, 0)
    }

    fn types(&self, written: &'d Value, place: &str, level: usize) -> Result<ValueTypes, String> {
        let mut types = ValueTypes::default();
        let left = self.types_left.get();
        if level > LEVELS_MAX || left == 0 {
            return Ok(types);
        }
        self.types_left.set(left - 1);
        let (schema, place) = self.resolve(written, place)?;
        let named = |name: &str| match &schema["type"] {
            Value::String(own) => own == name,
            Value::Array(own) => own.iter().any(|own| own == name),
            _ => false,
        };
        types.number = named("integer") || named("number");
        types.boolean = named("boolean");
        types.text = named("string");
        types.null = named("null") || schema.get("nullable") == Some(&Value::Bool(true));
        if named("array") {
            let items = schema.get("items").filter(|items| items.is_object());
            let items = items.map(|items| self.types(items, &place, level + 1)).transpose()?;
            types.items = Some(Box::new(items.unwrap_or_default()));
        }
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let mut all = Vec::new();
            for (name, property) in properties {
                all.push((name.clone(), self.types(property, &place, level + 1)?));
            }
            types.properties = Some(all);
        } else if named("object") {
            types.properties = Some(Vec::new());
        }
        if types.properties.is_some() {
            types.others = match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => None,
                Some(others @ Value::Object(_)) => Some(Box::new(self.types(others, &place, level + 1)?)),
                _ => Some(Box::default()),
            };
        }
        for list in LISTS.iter().take(3) {
            for part in schema.get(*list).and_then(Value::as_array).into_iter().flatten() {
                types.join(self.types(part, &place, level + 1)?);
            }
        }
        Ok(types)
    }
}

impl ValueTypes {
    fn join(&mut self, other: ValueTypes) {
        self.number |= other.number;
        self.boolean |= other.boolean;
        self.text |= other.text;
        self.null |= other.null;
        self.items = self.items.take().or(other.items);
        self.others = self.others.take().or(other.others);
        match (&mut self.properties, other.properties) {
            (Some(own), Some(more)) => own.extend(more),
            (own, more) => *own = own.take().or(more),
        }
    }
}
