//! JSON Schemas of plugins written in Lua, and values of Lua as JSON. An empty table is an array where its
//! schema says so, because Lua has one kind of table.

use std::sync::LazyLock;

use mlua::{Lua, Table, Value};
use model::validate::{SchemaSteps, UserSchema};
use serde_json::{Map, Number, Value as Json};

use super::{charge, result};
use crate::json::DEPTH_MAX;

/// Keywords of a schema with a list as value: an empty table there is a list.
const LIST_KEYWORDS: [&str; 6] = ["required", "enum", "allOf", "anyOf", "oneOf", "examples"];
/// Keywords with schemas under names that are no keywords.
const NAMED_KEYWORDS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
/// Values of one schema or configuration.
const VALUES_MAX: usize = 100_000;
/// Steps charged for the check of one value of a configuration.
const STEPS_PER_CHECK: u64 = 1_000;

/// Steps charged for each object of a schema that is compiled: some 10 µs.
const STEPS_PER_PART: u64 = 500;

pub(super) fn install_schemas(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let compile = lua.create_function(|lua, schema: Value| {
        charge(lua, STEPS_PER_CHECK)?;
        let schema = match schema_json(&schema) {
            Ok(schema) => schema,
            Err(reason) => return result::<Value>(lua, Err(reason)),
        };
        charge(lua, STEPS_PER_PART.saturating_mul(parts(&schema)))?;
        let compiled = UserSchema::compile(&schema).map(|compiled| (schema, compiled));
        let (schema, compiled) = match compiled {
            Ok(parts) => parts,
            Err(reason) => return result::<Value>(lua, Err(reason)),
        };
        let check = lua.create_function(move |lua, value: Value| {
            charge(lua, STEPS_PER_CHECK)?;
            let mut steps = SchemaSteps::on_worker();
            let fault = match to_json(&value, Some(&schema)) {
                Ok(value) => compiled.fault_unless(&value, &mut steps, is_reference),
                Err(reason) => Some(reason),
            };
            charge(lua, steps.used())?;
            Ok((fault.is_none(), fault))
        })?;
        result(lua, Ok(check))
    })?;
    native.raw_set("compile_schema", compile)
}

/// The objects of a schema.
fn parts(schema: &Json) -> u64 {
    match schema {
        Json::Array(items) => items.iter().map(parts).sum(),
        Json::Object(fields) => 1 + fields.values().map(parts).sum::<u64>(),
        _ => 0,
    }
}

/// Whether `value` refers to a secret or to the environment, so that its text is not the value itself.
fn is_reference(value: &Json) -> bool {
    value.as_str().is_some_and(|text| {
        text.starts_with("$secret://")
            || text.get(..7).is_some_and(|prefix| prefix.eq_ignore_ascii_case("$env://"))
    })
}

/// A value of Lua as JSON, with the schema that tells empty lists from empty objects.
///
/// # Errors
/// JSON cannot express it, as a sentence.
pub(crate) fn to_json(value: &Value, schema: Option<&Json>) -> Result<Json, String> {
    Converter { left: VALUES_MAX }.value(value, schema, TablePosition::Data, 0)
}

/// A schema written in Lua as JSON.
///
/// # Errors
/// JSON cannot express it, as a sentence.
pub(crate) fn schema_json(schema: &Value) -> Result<Json, String> {
    Converter { left: VALUES_MAX }.value(schema, None, TablePosition::Schema, 0)
}

/// JSON as a value of Lua. Arrays have no metatable.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn to_lua(lua: &Lua, json: &Json) -> mlua::Result<Value> {
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                table.raw_set(index + 1, to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, value) in fields {
                table.raw_set(name.as_str(), to_lua(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}

/// Where a table stands, which decides whether it is a list when it is empty.
#[derive(Clone, Copy, PartialEq)]
enum TablePosition {
    /// In a configuration.
    Data,
    /// A schema.
    Schema,
    /// An object of schemas by name.
    Named,
    /// The value of a keyword that is a list.
    List,
}

struct Converter {
    left: usize,
}

impl Converter {
    fn value(
        &mut self,
        value: &Value,
        schema: Option<&Json>,
        place: TablePosition,
        depth: usize,
    ) -> Result<Json, String> {
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("more than {VALUES_MAX} values"))?;
        Ok(match value {
            Value::Nil => Json::Null,
            value if value.is_null() => Json::Null,
            Value::Boolean(value) => Json::Bool(*value),
            Value::Integer(number) => Json::from(*number),
            Value::Number(number) => self::number(*number)?,
            Value::String(text) => Json::String(text.to_string_lossy()),
            Value::Table(table) => self.table(table, schema, place, depth)?,
            other => return Err(format!("a {} is no value of JSON", other.type_name())),
        })
    }

    fn table(
        &mut self,
        table: &Table,
        schema: Option<&Json>,
        place: TablePosition,
        depth: usize,
    ) -> Result<Json, String> {
        if depth >= DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} tables inside each other"));
        }
        let length = table.raw_len();
        let mut fields = Map::new();
        if length > 0 {
            let items = schema.and_then(|schema| schema.get("items"));
            let place = if place == TablePosition::List { TablePosition::Schema } else { place };
            let item = |index| table.raw_get::<Value>(index).map_err(|error| error.to_string());
            return (1..=length).map(|index| self.value(&item(index)?, items, place, depth + 1)).collect();
        }
        for pair in table.pairs::<Value, Value>() {
            let (key, item) = pair.map_err(|error| error.to_string())?;
            let key = match key {
                Value::String(key) => key.to_string_lossy(),
                Value::Integer(key) => key.to_string(),
                Value::Number(key) => key.to_string(),
                _ => return Err("the name of a field must be a text or a number".to_owned()),
            };
            let inner = schema.and_then(|schema| {
                schema
                    .get("properties")
                    .and_then(|known| known.get(&key))
                    .or(schema.get("additionalProperties"))
            });
            let inner_place = match place {
                TablePosition::Schema if NAMED_KEYWORDS.contains(&&*key) => TablePosition::Named,
                TablePosition::Schema if LIST_KEYWORDS.contains(&&*key) => TablePosition::List,
                TablePosition::Schema if key == "default" => TablePosition::Data,
                TablePosition::Named => TablePosition::Schema,
                place => place,
            };
            let value = self.value(&item, inner, inner_place, depth + 1)?;
            fields.insert(key, value);
        }
        let is_list = place == TablePosition::List || schema.is_some_and(takes_list) || is_marked(table);
        if fields.is_empty() && is_list {
            return Ok(Json::Array(Vec::new()));
        }
        if place == TablePosition::Schema {
            let is_list = takes_list(&Json::Object(fields.clone()));
            if let Some(default) = fields.get_mut("default")
                && is_list
                && default.as_object().is_some_and(Map::is_empty)
            {
                *default = Json::Array(Vec::new());
            }
        }
        Ok(Json::Object(fields))
    }
}

/// Whether a table has a metatable without methods, as empty arrays of JSON have.
fn is_marked(table: &Table) -> bool {
    table.metatable().is_some_and(|metatable| metatable.raw_get::<bool>(ARRAY_MARK).unwrap_or_default())
}

/// The field by which the metatable of arrays is known.
pub(crate) const ARRAY_MARK: &str = "__weir_array";

fn takes_list(schema: &Json) -> bool {
    static LIST: LazyLock<Json> = LazyLock::new(|| Json::from("array"));
    schema.get("type") == Some(&LIST)
}

/// A number of Lua: an integer of JSON where it is one, because schemas tell them apart.
fn number(number: f64) -> Result<Json, String> {
    /// The largest integer up to which doubles hold each one.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= LARGEST {
        return Ok(Json::from(number as i64));
    }
    Number::from_f64(number).map(Json::Number).ok_or_else(|| "a number must be finite".to_owned())
}
