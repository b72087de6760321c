//! Makes a value of a schema: the choice of its type, arrays and objects.

use serde_json::{Map, Value, json};

use super::{EXAMPLE_DEPTH_MAX, EXAMPLE_VALUES_MAX, number_value, string_value};

/// Levels of objects that have their optional properties. Deeper ones have the required ones only, so that
/// documents with many references give readable examples.
const OPTIONAL_DEPTH_MAX: usize = 8;
/// How often a reference may be open for a value that cannot be left out. A schema that is required inside
/// itself may still end, at a branch or at null.
const REOPEN_MAX: usize = 2;
/// Tries for each item of a list without duplicates.
const UNIQUE_TRIES: u64 = 4;
/// Characters of the names that are made for objects with free keys.
const FREE_NAME: &str = "property";

/// Whether a value may be missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueNeed {
    Required,
    Optional,
}

/// Makes values of the schemas of one document.
pub(super) struct ExampleMaker<'d> {
    pub(super) document: &'d Value,
    /// References that are being followed, the outermost first.
    pub(super) open: Vec<String>,
    /// Values that may still be made.
    values_left: usize,
    /// Selects among the values of a schema; 0 is the plain one.
    variant: u64,
    /// The state of the generator of random numbers, if values are random.
    random: Option<u64>,
}

impl<'d> ExampleMaker<'d> {
    /// A maker of plain values, or of random ones by a seed.
    pub(super) fn new(document: &'d Value, seed: Option<u64>) -> ExampleMaker<'d> {
        ExampleMaker {
            document,
            open: Vec::new(),
            values_left: EXAMPLE_VALUES_MAX,
            variant: 0,
            // Xorshift stays at zero.
            random: seed.map(|seed| seed | 1),
        }
    }

    /// The value of a schema, or nothing where none was found.
    pub(super) fn make_whole(&mut self, schema: &Value) -> Option<Value> {
        self.make(schema, ValueNeed::Required, 0)
    }

    fn make(&mut self, schema: &Value, need: ValueNeed, depth: usize) -> Option<Value> {
        if depth > EXAMPLE_DEPTH_MAX {
            return None;
        }
        self.charge(1)?;
        let opened = self.open.len();
        let made = self.flatten(schema, need, 0).and_then(|flat| self.make_flat(&flat, depth));
        self.open.truncate(opened);
        made.or_else(|| (need == ValueNeed::Required && allows_null(schema)).then_some(Value::Null))
    }

    /// Takes `count` from the values that may still be made.
    pub(super) fn charge(&mut self, count: usize) -> Option<()> {
        self.values_left = self.values_left.checked_sub(count)?;
        Some(())
    }

    /// Whether a reference may be followed now.
    pub(super) fn may_open(&self, reference: &str, need: ValueNeed) -> bool {
        let count = self.open.iter().filter(|open| *open == reference).count();
        count == 0 || (need == ValueNeed::Required && count <= REOPEN_MAX)
    }

    pub(super) fn is_random(&self) -> bool {
        self.random.is_some()
    }

    /// The number that selects among the values of a schema.
    fn pick(&mut self) -> u64 {
        let Some(state) = &mut self.random else { return self.variant };
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state >> 16
    }

    fn make_flat(&mut self, flat: &Map<String, Value>, depth: usize) -> Option<Value> {
        if let Some(value) = self.written_value(flat) {
            return Some(value);
        }
        match type_of(flat) {
            "object" => self.make_object(flat, depth),
            "array" => self.make_array(flat, depth),
            "string" => string_value::make_string(flat, self.pick()).map(Value::String),
            "integer" => number_value::make_number(flat, true, self.pick()),
            "number" => number_value::make_number(flat, false, self.pick()),
            "boolean" => Some(json!(self.pick().is_multiple_of(2))),
            "null" => Some(Value::Null),
            _ => Some(json!({})),
        }
    }

    /// A value that the schema names.
    fn written_value(&mut self, flat: &Map<String, Value>) -> Option<Value> {
        if !self.is_random() && self.variant == 0 {
            let written = flat
                .get("example")
                .or_else(|| flat.get("examples").and_then(Value::as_array).and_then(|list| list.first()))
                .or_else(|| flat.get("default"));
            if let Some(value) = written {
                return Some(value.clone());
            }
        }
        if let Some(value) = flat.get("const") {
            return Some(value.clone());
        }
        let values = flat.get("enum")?.as_array().filter(|values| !values.is_empty())?;
        let index = self.pick() % values.len() as u64;
        values.get(usize::try_from(index).ok()?).cloned()
    }

    fn make_array(&mut self, flat: &Map<String, Value>, depth: usize) -> Option<Value> {
        let least = limit(flat, "minItems").unwrap_or(0);
        let most = limit(flat, "maxItems").unwrap_or(usize::MAX);
        let first = flat.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |list| list);
        let items = flat.get("items").or_else(|| flat.get("contains"));
        let usual = first.len().max(usize::from(items.is_some()));
        let wanted =
            if self.is_random() { usual + usize::from(self.pick().is_multiple_of(2)) } else { usual };
        let wanted = wanted.max(least).min(most);
        if least > most {
            return None;
        }
        let (is_unique, variant) = (flat.get("uniqueItems") == Some(&json!(true)), self.variant);
        let mut list: Vec<Value> = Vec::new();
        let mut tries_left = (wanted as u64).saturating_mul(UNIQUE_TRIES);
        let any = json!({});
        while list.len() < wanted && tries_left > 0 {
            tries_left -= 1;
            let need = if list.len() < least { ValueNeed::Required } else { ValueNeed::Optional };
            let schema = first.get(list.len()).or(items).unwrap_or(&any);
            let Some(item) = self.make(schema, need, depth + 1) else { break };
            if is_unique {
                self.variant += 1;
            }
            if !is_unique || !list.contains(&item) {
                list.push(item);
            }
        }
        self.variant = variant;
        (list.len() >= least).then_some(Value::Array(list))
    }

    fn make_object(&mut self, flat: &Map<String, Value>, depth: usize) -> Option<Value> {
        let none = Map::new();
        let properties = flat.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = flat
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let most = limit(flat, "maxProperties").unwrap_or(usize::MAX);
        let mut room = most.saturating_sub(required.len());
        let mut object = Map::new();
        for (name, schema) in properties {
            if schema.get("writeOnly") == Some(&json!(true)) {
                continue;
            }
            if required.contains(&&**name) {
                object.insert(name.clone(), self.make(schema, ValueNeed::Required, depth + 1)?);
            } else if depth < OPTIONAL_DEPTH_MAX
                && room > 0
                && let Some(value) = self.make_optional(schema, depth + 1)
            {
                object.insert(name.clone(), value);
                room -= 1;
            }
        }
        for name in required.iter().filter(|name| !properties.contains_key(**name)) {
            if !object.contains_key(*name) {
                let value = self.make(free_schema(flat)?, ValueNeed::Required, depth + 1)?;
                object.insert((*name).to_owned(), value);
            }
        }
        self.add_free_properties(flat, &mut object, room, depth)?;
        Some(Value::Object(object))
    }

    /// An optional value may use half of the values that are left, so that required ones behind it can be
    /// made.
    fn make_optional(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let kept = self.values_left / 2;
        self.values_left -= kept;
        let value = self.make(schema, ValueNeed::Optional, depth);
        self.values_left += kept;
        value
    }

    /// Adds properties with names of our own: one where a map has no other, and as many as `minProperties`
    /// asks.
    fn add_free_properties(
        &mut self,
        flat: &Map<String, Value>,
        object: &mut Map<String, Value>,
        room: usize,
        depth: usize,
    ) -> Option<()> {
        let least = limit(flat, "minProperties").unwrap_or(0);
        let is_map = flat.get("additionalProperties").is_some_and(Value::is_object);
        let usual = usize::from(is_map && object.is_empty() && depth < OPTIONAL_DEPTH_MAX);
        let wanted = least.max(usual.min(room));
        let mut number = 0_usize;
        while object.len() < wanted {
            number += 1;
            let name = format!("{FREE_NAME}{number}");
            if object.contains_key(&name) {
                self.charge(1)?;
                continue;
            }
            let need = if object.len() < least { ValueNeed::Required } else { ValueNeed::Optional };
            match free_schema(flat).and_then(|schema| self.make(schema, need, depth + 1)) {
                Some(value) => object.insert(name, value),
                None if need == ValueNeed::Optional => break,
                None => return None,
            };
        }
        Some(())
    }
}

/// The schema of properties that are not named; nothing where they are forbidden.
fn free_schema(flat: &Map<String, Value>) -> Option<&Value> {
    const ANY: &Value = &Value::Bool(true);
    match flat.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(schema) => Some(schema),
        None => Some(ANY),
    }
}

/// A limit on a number of characters, items or properties.
pub(super) fn limit(flat: &Map<String, Value>, field: &str) -> Option<usize> {
    let value = flat.get(field)?;
    let number =
        value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64));
    number.map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn allows_null(schema: &Value) -> bool {
    let types = schema.get("type");
    schema.get("nullable") == Some(&json!(true))
        || types.is_some_and(|types| types == "null")
        || types.and_then(Value::as_array).is_some_and(|types| types.contains(&json!("null")))
}

/// The type of the value: the first one that is not null, or the type to which the other keywords belong.
fn type_of(flat: &Map<String, Value>) -> &str {
    const IMPLIED: [(&str, &[&str]); 4] = [
        ("object", &["properties", "additionalProperties", "required", "minProperties", "maxProperties"]),
        ("array", &["items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"]),
        ("string", &["pattern", "minLength", "maxLength", "format"]),
        ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
    ];
    match flat.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or("null")
        }
        _ => {
            let implied =
                IMPLIED.iter().find(|(_, fields)| fields.iter().any(|field| flat.contains_key(*field)));
            implied.map_or("any", |(name, _)| name)
        }
    }
}
