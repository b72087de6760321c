//! The wording and order of schema faults, as users of APISIX's Lua validator know them. Knows no schema of
//! ours.
//!
//! `$comment` beside alternatives of required names, `then` or `else` says in one sentence what an object
//! needs; beside `pattern` and other alternatives it completes "… is not".

mod alternatives;

use std::collections::{HashMap, HashSet};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;
use stdx::nearest::nearest;

use super::user_schema::COUNTED_PATTERN;
use super::{Clarity, SchemaFault};

/// The faults of a value, first the one at which the Lua validator stops.
pub(super) fn faults<'a>(
    errors: impl Iterator<Item = ValidationError<'a>>,
    schema: &Value,
    value: &Value,
) -> Vec<SchemaFault> {
    let mut ranked: Vec<(Vec<u8>, SchemaFault)> = errors
        .flat_map(|error| {
            let rank = rank(error.schema_path());
            let rule = rule(&error);
            let with_rule = move |mut fault: SchemaFault| {
                if fault.rule.is_empty() {
                    fault.rule = rule.clone();
                }
                (rank.clone(), fault)
            };
            worded(&error, schema, value).into_iter().map(with_rule)
        })
        .collect();
    ranked.sort_by(|left, right| left.0.cmp(&right.0));
    let mut faults: Vec<SchemaFault> = ranked.into_iter().map(|(_, fault)| fault).collect();
    let mut seen = HashSet::new();
    faults.retain(|fault| seen.insert((fault.pointer.clone(), fault.reason.clone())));
    // A sentence of the schema says what lists of alternatives at the same place would say.
    let said: HashSet<String> = faults.iter().filter_map(alternatives::place_of_sentence).collect();
    faults.retain(|fault| fault.clarity != Clarity::Listed || !said.contains(&fault.pointer));
    faults
}

/// The keyword that failed.
fn rule(error: &ValidationError<'_>) -> Box<str> {
    let keyword = error.schema_path().as_str().rsplit('/').next().unwrap_or_default();
    if keyword == COUNTED_PATTERN { "pattern".into() } else { keyword.into() }
}

/// Where along the Lua validator's walk a fault is met: a rank for each step down the schema.
fn rank(path: &Location) -> Vec<u8> {
    let rank = |segment: LocationSegment<'_>| match segment {
        LocationSegment::Index(_) => None,
        LocationSegment::Property(name) => keyword_rank(&name),
    };
    path.into_iter().filter_map(rank).collect()
}

/// The order in which the Lua validator looks at the keywords of one schema.
fn keyword_rank(keyword: &str) -> Option<u8> {
    Some(match keyword {
        "type" => 0,
        "properties" | "required" | "dependencies" => 1,
        "patternProperties" | "additionalProperties" => 2,
        "minProperties" | "maxProperties" => 3,
        "minItems" | "maxItems" => 4,
        "items" | "additionalItems" => 5,
        "uniqueItems" => 6,
        "minLength" | "maxLength" => 7,
        "pattern" => 8,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => 9,
        "enum" => 10,
        "allOf" => 11,
        "anyOf" => 12,
        "oneOf" => 13,
        "if" | "then" | "else" => 14,
        "not" => 15,
        "format" => 16,
        "const" => 17,
        _ => return None,
    })
}

/// One fault for each thing an error of the library names.
fn worded(error: &ValidationError<'_>, schema: &Value, value: &Value) -> Vec<SchemaFault> {
    let pointer = error.instance_path().to_string();
    let (way, clause) = way(error, value);
    if let Some(clause) = clause {
        return vec![alternatives::clause(clause, pointer, way, error, schema)];
    }
    let at = |reason: String| SchemaFault { way: way.clone(), ..SchemaFault::at(pointer.clone(), reason) };
    let forbidden = |name: &String| {
        let meant_name = meant_name(name, error, schema);
        SchemaFault {
            pointer: crate::fault::extend_pointer(&pointer, name),
            hint: meant_name.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?")),
            meant_name,
            ..at(format!("additional properties forbidden, found {name}"))
        }
    };
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            match alternatives::meant(context, &pointer) {
                Some(branch) => {
                    let own_words = alternatives::is_of_one_type(error, schema);
                    let contract = format!("{way}{}", reason(error, schema));
                    inside(branch, schema, value, (!own_words).then_some(&contract))
                }
                None => vec![alternatives::none(at(reason(error, schema)), error, schema)],
            }
        }
        Kind::OneOfMultipleValid { context } => {
            vec![alternatives::several(at(reason(error, schema)), context, error, schema)]
        }
        Kind::Enum { .. } => vec![alternatives::enumeration(at(reason(error, schema)), error, schema)],
        Kind::Pattern { .. } => vec![alternatives::pattern(at(reason(error, schema)), error, schema)],
        Kind::Custom { keyword, .. } if keyword == COUNTED_PATTERN => {
            let way = way_of_place(error, value);
            let fault = SchemaFault { way, ..at(reason(error, schema)) };
            vec![alternatives::pattern(fault, error, schema)]
        }
        Kind::AdditionalProperties { unexpected } => unexpected.iter().map(forbidden).collect(),
        // The library reports a false schema when the schema names no property at all: every property is
        // unknown.
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            let object = value.pointer(&pointer).and_then(Value::as_object);
            object.into_iter().flat_map(|fields| fields.keys()).map(forbidden).collect()
        }
        _ => vec![at(reason(error, schema))],
    }
}

/// The known property that was probably meant by an unknown one, of those that the same schema names.
fn meant_name(name: &str, error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let known = place(error, schema).and_then(|place| place.get("properties")).and_then(Value::as_object);
    known.and_then(|known| nearest(name, known.keys().map(String::as_str))).map(str::to_owned)
}

/// The schema that has the keyword that failed.
fn place<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Option<&'s Value> {
    let (place, _) = error.schema_path().as_str().rsplit_once('/')?;
    schema.pointer(place)
}

/// The faults within one alternative, each with its own place; APISIX's validator has one line for all of
/// them, if any.
fn inside(
    errors: &[ValidationError<'static>],
    schema: &Value,
    value: &Value,
    contract: Option<&String>,
) -> Vec<SchemaFault> {
    let has_own_words = contract.is_none();
    let faults = |error: &ValidationError<'_>| {
        let range = range(error, schema).unwrap_or_default();
        let with_range = move |fault: SchemaFault| {
            let reason = format!("{}{range}", fault.reason);
            let contract = contract.map(|contract| format!("{contract}; {reason}")).or(fault.contract);
            // Where the alternatives are of one type, the checks behind the schema say more.
            let clarity = if has_own_words { Clarity::Vague } else { fault.clarity };
            SchemaFault { reason, contract, clarity, ..fault }
        };
        worded(error, schema, value).into_iter().map(with_range).collect::<Vec<_>>()
    };
    errors.iter().flat_map(faults).collect()
}

/// The range of a number that the schema bounds on both sides.
fn range(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let place = place(error, schema)?;
    let (least, most) = (place.get("minimum")?, place.get("maximum")?);
    let number = if place.get("type")? == "integer" { "whole number" } else { "number" };
    let name = place.get("title").and_then(Value::as_str).map(str::to_owned);
    let name = name.or_else(|| segments(error.instance_path()).pop())?;
    Some(format!("; the {name} is a {number} from {least} to {most}"))
}

/// Why, without the place.
fn reason(error: &ValidationError<'_>, schema: &Value) -> String {
    let instance = error.instance();
    match error.kind() {
        Kind::Required { property } => required(error, schema, property),
        Kind::Type { .. } => {
            let expected = keyword(error, schema).map(expected_type).unwrap_or_default();
            format!("wrong type: expected {expected}, got {}", lua_type(instance))
        }
        Kind::Enum { .. } => "matches none of the enum values".to_owned(),
        Kind::Pattern { pattern } | Kind::Custom { message: pattern, .. } => {
            format!("failed to match pattern {} with {}", lua_quoted(pattern), lua_quoted(&plain(instance)))
        }
        Kind::MinLength { limit } => {
            format!("string too short, expected at least {limit}, got {}", characters(instance))
        }
        Kind::MaxLength { limit } => {
            format!("string too long, expected at most {limit}, got {}", characters(instance))
        }
        Kind::MinItems { limit } => format!("expect array to have at least {limit} items"),
        Kind::MaxItems { limit } => format!("expect array to have at most {limit} items"),
        Kind::MinProperties { limit } => format!("expect object to have at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("expect object to have at most {limit} properties"),
        Kind::Minimum { limit } => format!("expected {instance} to be at least {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("expected {instance} to be greater than {limit}"),
        Kind::Maximum { limit } => format!("expected {instance} to be at most {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("expected {instance} to be smaller than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("expected {instance} to be a multiple of {multiple_of}"),
        Kind::UniqueItems => {
            let (first, second) = equal_items(instance);
            format!("expected unique items but items {first} and {second} are equal")
        }
        Kind::AnyOf { .. } => {
            format!(
                "object matches none of the required{}",
                keyword(error, schema).map(alternatives).unwrap_or_default()
            )
        }
        Kind::OneOfNotValid { .. } => "value should match only one schema, but matches none".to_owned(),
        Kind::OneOfMultipleValid { context } => {
            let mut valid = context.iter().enumerate().filter(|(_, errors)| errors.is_empty());
            let mut next = || valid.next().map_or(0, |(index, _)| index + 1);
            let (first, second) = (next(), next());
            format!("value should match only one schema, but matches both schemas {first} and {second}")
        }
        Kind::Not { .. } => "value wasn't supposed to match schema".to_owned(),
        Kind::Constant { .. } => "failed to check const value".to_owned(),
        Kind::FalseSchema => "expect false always".to_owned(),
        Kind::AdditionalItems { .. } => "found unexpected extra items in array".to_owned(),
        Kind::Format { format } => format!("expect valid {format} address but got: {}", plain(instance)),
        _ => error.to_string(),
    }
}

/// A missing property: required outright, or because another one is there.
fn required(error: &ValidationError<'_>, schema: &Value, property: &Value) -> String {
    let name = plain(property);
    let dependencies = keyword(error, schema).and_then(Value::as_object);
    let cause = dependencies.into_iter().flatten().find(|(cause, needed)| {
        let needed = needed.as_array().is_some_and(|needed| needed.contains(property));
        needed && error.instance().get(cause.as_str()).is_some()
    });
    match cause {
        Some((cause, _)) => format!("property \"{name}\" is required when \"{cause}\" is set"),
        None => format!("property \"{name}\" is required"),
    }
}

/// The way from the root to the fault in the Lua validator's words; and where it ends early because that
/// validator does not look into a conditional clause, the words it says there.
fn way(error: &ValidationError<'_>, value: &Value) -> (String, Option<&'static str>) {
    // The evaluation path goes through `$ref`, so that it matches the way through the value.
    let schema_path = segments(error.evaluation_path());
    let mut instance_path = segments(error.instance_path()).into_iter();
    let mut place = value;
    let mut way = String::new();
    let mut index = 0;
    while index + 1 < schema_path.len() {
        let next = &schema_path[index + 1];
        match schema_path[index].as_str() {
            "properties" => {
                way.push_str(&format!("property \"{next}\" validation failed: "));
                place = descend(place, instance_path.next().as_deref());
                index += 2;
            }
            "patternProperties" => {
                let name = instance_path.next().unwrap_or_default();
                way.push_str(&format!("failed to validate {name} (matching \"{next}\"): "));
                place = descend(place, Some(&name));
                index += 2;
            }
            "additionalProperties" => {
                let name = instance_path.next().unwrap_or_default();
                way.push_str(&format!("failed to validate additional property {name}: "));
                place = descend(place, Some(&name));
                index += 1;
            }
            "items" if place.is_array() => {
                let item = instance_path.next().unwrap_or_default();
                let number = item.parse::<usize>().map_or(0, |item| item + 1);
                way.push_str(&format!("failed to validate item {number}: "));
                place = descend(place, Some(&item));
                index += 1;
            }
            "allOf" => {
                let number = next.parse::<usize>().map_or(0, |item| item + 1);
                way.push_str(&format!("allOf {number} failed: "));
                index += 2;
            }
            "dependencies" if index + 2 < schema_path.len() => {
                way.push_str(&format!("failed to validate dependent schema for \"{next}\": "));
                index += 2;
            }
            "then" => return (way, Some("then clause did not match")),
            "else" => return (way, Some("else clause did not match")),
            _ => index += 1,
        }
    }
    (way, None)
}

/// The way of a pattern that is searched with a count: the library does not tell through which references it
/// came, so that the place in the value tells the way.
fn way_of_place(error: &ValidationError<'_>, value: &Value) -> String {
    let mut place = value;
    let mut way = String::new();
    for step in segments(error.instance_path()) {
        way.push_str(&match (place, step.parse::<usize>()) {
            (Value::Array(_), Ok(index)) => format!("failed to validate item {}: ", index + 1),
            _ => format!("property \"{step}\" validation failed: "),
        });
        place = descend(place, Some(&step));
    }
    way
}

fn descend<'a>(place: &'a Value, step: Option<&str>) -> &'a Value {
    let Some(step) = step else {
        return place;
    };
    match place {
        Value::Object(fields) => fields.get(step).unwrap_or(place),
        Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)).unwrap_or(place),
        _ => place,
    }
}

fn segments(path: &Location) -> Vec<String> {
    path.into_iter()
        .map(|segment| match segment {
            LocationSegment::Property(name) => name.to_string(),
            LocationSegment::Index(index) => index.to_string(),
        })
        .collect()
}

/// The value of the schema at the keyword that failed.
fn keyword<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Option<&'a Value> {
    schema.pointer(error.schema_path().as_str())
}

fn expected_type(keyword: &Value) -> String {
    match keyword {
        Value::Array(types) => format!("one of {}", types.iter().map(plain).collect::<Vec<_>>().join(", ")),
        single => plain(single),
    }
}

/// The requirements of the alternatives of an `anyOf`, as the Lua validator lists them.
fn alternatives(any_of: &Value) -> String {
    let required: Vec<String> = any_of
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|alternative| alternative.get("required"))
        .map(Value::to_string)
        .collect();
    if required.is_empty() { String::new() } else { format!(": {}", required.join(" or ")) }
}

/// The name Lua has for a value's type.
fn lua_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "userdata",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "table",
    }
}

/// A string without its JSON quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A string as Lua's `%q` writes it.
fn lua_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\\n"))
}

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

/// The first two items that are equal, counted from one. By hash, because a list may have a hundred thousand
/// items.
fn equal_items(value: &Value) -> (usize, usize) {
    let mut seen: HashMap<&Value, usize> = HashMap::new();
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(first) = seen.insert(item, index) {
            return (first + 1, index + 1);
        }
    }
    (0, 0)
}

#[cfg(test)]
mod tests;
