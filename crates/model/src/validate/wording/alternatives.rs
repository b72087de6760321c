//! The words for values that fit none, or more than one, of the alternatives of a schema: `anyOf`, `oneOf`,
//! `enum`, conditional clauses and patterns. Knows no schema of ours; sentences come from `$comment`.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;
use stdx::nearest::nearest;

use super::{characters, keyword, lua_type, place, plain, segments};
use crate::validate::{Clarity, SchemaFault};

/// The alternative that was meant: the only one of the value's type, or of several the only one with a
/// matching pattern.
pub(super) fn meant<'e>(
    alternatives: &'e [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<&'e [ValidationError<'static>]> {
    let here = |error: &ValidationError<'_>| error.instance_path().as_str() == pointer;
    let of_another_type =
        |error: &ValidationError<'_>| matches!(error.kind(), Kind::Type { .. }) && here(error);
    let of_another_form =
        |error: &ValidationError<'_>| matches!(error.kind(), Kind::Pattern { .. }) && here(error);
    let fitting: Vec<_> = alternatives.iter().filter(|errors| !errors.iter().any(of_another_type)).collect();
    if let [only] = *fitting {
        return (alternatives.len() > 1).then_some(only);
    }
    let mut formed = fitting.iter().filter(|errors| !errors.iter().any(of_another_form));
    let (first, second) = (formed.next(), formed.next());
    let patterns = fitting.iter().any(|errors| errors.iter().any(of_another_form));
    match (first, second) {
        (Some(only), None) if patterns => Some(only),
        _ => None,
    }
}

/// Whether all alternatives are of one type: APISIX has no alternatives there, and the words of the one that
/// was meant.
pub(super) fn is_of_one_type(error: &ValidationError<'_>, schema: &Value) -> bool {
    let Some(Value::Array(branches)) = keyword(error, schema) else { return false };
    let first = branches.first().and_then(|branch| branch.get("type"));
    first.is_some() && branches.iter().all(|branch| branch.get("type") == first)
}

/// A value that fits no alternative.
pub(super) fn none(fault: SchemaFault, error: &ValidationError<'_>, schema: &Value) -> SchemaFault {
    let contract = format!("{}{}", fault.way, fault.reason);
    let sentence = sentence(place(error, schema));
    let branches = branches(error, schema);
    let names: Option<Vec<Vec<&str>>> = branches.iter().map(required).collect();
    if let Some(names) = names.filter(|names| !names.is_empty()) {
        if let Some(sentence) = sentence {
            return said(fault, sentence, &contract);
        }
        let list: Vec<String> = names.iter().map(|names| together(names)).collect();
        let reason = match list.len() {
            1..=MOST_LISTED => format!("needs {}", list.join(" or ")),
            _ => format!("needs one of {} alternatives, among them {}", list.len(), list[0]),
        };
        let contract = Some(format!("{contract}; {reason}"));
        return SchemaFault { reason, contract, clarity: Clarity::Listed, ..fault };
    }
    let types: Option<Vec<&str>> =
        branches.iter().map(|branch| branch.get("type").and_then(Value::as_str)).collect();
    let instance = error.instance();
    if let Some(mut types) = types.filter(|types| !types.iter().any(|name| is_type(name, instance))) {
        types.dedup();
        let reason = format!("wrong type: expected {}, got {}", types.join(" or "), lua_type(instance));
        return SchemaFault { contract: Some(format!("{contract}; {reason}")), reason, ..fault };
    }
    if let Some(form) = sentence {
        let reason = format!("{} is not {form}", shown(instance));
        return SchemaFault { reason, contract: Some(contract), clarity: Clarity::Vague, ..fault };
    }
    let titles: Option<Vec<&str>> =
        branches.iter().map(|branch| branch.get("title").and_then(Value::as_str)).collect();
    match titles.filter(|titles| !titles.is_empty()) {
        Some(titles) => {
            let reason = format!("{} is none of {}", shown(instance), titles.join(", "));
            SchemaFault { reason, contract: Some(contract), clarity: Clarity::Vague, ..fault }
        }
        None => SchemaFault { clarity: Clarity::Vague, ..fault },
    }
}

/// A value that fits several alternatives of which only one may fit.
pub(super) fn several(
    fault: SchemaFault,
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    schema: &Value,
) -> SchemaFault {
    let fitting = branches(error, schema).iter().zip(context).filter(|(_, errors)| errors.is_empty());
    let names: Option<Vec<Vec<&str>>> = fitting.map(|(branch, _)| required(branch)).collect();
    let Some(names) = names.filter(|names| names.len() > 1) else { return fault };
    let list: Vec<String> = names.iter().map(|names| together(names)).collect();
    let reason = format!("only one may be written: {}", list.join(" or "));
    let contract = Some(format!("{}{}; {reason}", fault.way, fault.reason));
    SchemaFault { reason, contract, ..fault }
}

/// A value that is not in a list.
pub(super) fn enumeration(fault: SchemaFault, error: &ValidationError<'_>, schema: &Value) -> SchemaFault {
    let options = keyword(error, schema).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let shown_options: Vec<String> = options.iter().take(MOST_OPTIONS).map(plain).collect();
    let more = if options.len() > MOST_OPTIONS { ", …" } else { "" };
    let list = format!("{}{more}", shown_options.join(", "));
    let near =
        error.instance().as_str().and_then(|text| nearest(text, options.iter().filter_map(Value::as_str)));
    let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let contract = Some(format!("{}{}; allowed are {list}", fault.way, fault.reason));
    let reason = format!("{} is none of {list}{hint}", shown(error.instance()));
    SchemaFault { reason, contract, ..fault }
}

/// A text of another form.
pub(super) fn pattern(fault: SchemaFault, error: &ValidationError<'_>, schema: &Value) -> SchemaFault {
    let Some(form) = sentence(place(error, schema)) else {
        return SchemaFault { clarity: Clarity::Vague, ..fault };
    };
    let contract = Some(format!("{}{}", fault.way, fault.reason));
    let reason = format!("{} is not {form}", shown(error.instance()));
    SchemaFault { reason, contract, clarity: Clarity::Vague, ..fault }
}

/// A conditional clause that failed; APISIX's validator does not say what of it.
pub(super) fn clause(
    clause: &str,
    pointer: String,
    way: String,
    error: &ValidationError<'_>,
    schema: &Value,
) -> SchemaFault {
    let contract = format!("{way}{clause}");
    let mut place = schema;
    for step in segments(error.schema_path()) {
        if step == "then" || step == "else" {
            break;
        }
        place = place.get(&step).unwrap_or(place);
    }
    let fault = SchemaFault { way, ..SchemaFault::at(pointer, clause) };
    match sentence(Some(place)) {
        Some(sentence) => said(fault, sentence, &contract),
        None => fault,
    }
}

/// Where the schema itself says what an object needs.
pub(super) fn place_of_sentence(fault: &SchemaFault) -> Option<String> {
    fault.says_what_is_needed.then(|| fault.pointer.clone())
}

/// The sentence first, because it is what a user needs; APISIX's words behind it, for clients that look for
/// them.
fn said(fault: SchemaFault, sentence: &str, contract: &str) -> SchemaFault {
    SchemaFault {
        reason: sentence.to_owned(),
        contract: Some(format!("{sentence} ({contract})")),
        says_what_is_needed: true,
        ..fault
    }
}

fn sentence(place: Option<&Value>) -> Option<&str> {
    place?.get("$comment")?.as_str()
}

fn branches<'s>(error: &ValidationError<'_>, schema: &'s Value) -> &'s [Value] {
    keyword(error, schema).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The names that an alternative requires; none if it says anything else.
fn required(branch: &Value) -> Option<Vec<&str>> {
    let fields = branch.as_object()?;
    let names = fields.get("required")?.as_array()?;
    (fields.len() == 1).then(|| names.iter().filter_map(Value::as_str).collect())
}

/// Names that belong together.
fn together(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(" with ")
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" | "integer" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => value.is_null(),
    }
}

/// A value as JSON, cut where it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if characters(&Value::String(text.clone())) <= SHOWN_CHARACTERS {
        return text;
    }
    let start: String = text.chars().take(SHOWN_CHARACTERS).collect();
    format!("{start}…")
}

/// Alternatives listed in one line; more would hide the answer.
const MOST_LISTED: usize = 6;
/// Values of an enumeration listed in one line; the longest list of the schemas has 15.
const MOST_OPTIONS: usize = 24;
/// Characters of a faulty value that are shown.
const SHOWN_CHARACTERS: usize = 80;
