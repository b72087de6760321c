//! The parameters of an operation: where each is in a request, how its text becomes a value, and the schema
//! of the value.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use jsonx::Bounds;
use message::Headers;
use model::validate::{SchemaFault, SchemaSteps};
use serde_json::{Map, Value};

use super::schemas::{TypedSchema, ValueTypes};
use message::query::{arguments, decode};

/// Values of one list in a parameter.
const ITEMS_MAX: usize = 10_000;

/// A second text, of which the upstream may take either.
const DOUBLED: &str = "it is there more than once";

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    Header,
    Cookie,
}

/// How a list or an object is written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// With commas: `simple`, and `form` that is not exploded.
    Commas,
    /// With a name for each value: `form`, exploded.
    Repeated,
    Spaces,
    Pipes,
    /// `name[property]=value`.
    Deep,
    /// The text is JSON: the parameter has `content`.
    Json,
}

/// A parameter.
pub(crate) struct Parameter {
    pub(crate) name: Box<str>,
    pub(crate) place: ParameterLocation,
    pub(crate) is_required: bool,
    pub(crate) style: Style,
    pub(crate) schema: Option<Arc<TypedSchema>>,
}

/// The parts of a request that parameters are read from.
pub(crate) struct ParameterSources<'r> {
    pub(crate) path: &'r [(&'r str, &'r str)],
    /// The arguments, decoded.
    pub(crate) query: &'r [(String, String)],
    pub(crate) headers: &'r Headers,
    /// All parameters of the operation.
    pub(crate) parameters: &'r [Parameter],
    /// The steps that the checks of all parameters may take.
    pub(crate) steps: RefCell<SchemaSteps>,
}

/// The arguments of a query, decoded.
pub(crate) fn decoded_arguments(query: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&decode(bytes)).into_owned();
    arguments(query).map(|(_, name, value)| (text(name), text(value))).collect()
}

impl ParameterLocation {
    /// As a document writes it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
            ParameterLocation::Header => "header",
            ParameterLocation::Cookie => "cookie",
        }
    }
}

impl Parameter {
    /// The first fault of the parameter in a request.
    pub(crate) fn fault(&self, parts: &ParameterSources<'_>) -> Option<String> {
        let texts = self.texts(parts);
        let Some(value) = self.value(&texts, parts) else {
            return self.is_required.then(|| format!("{} is required", self.label()));
        };
        let fault = match (value, &self.schema) {
            (Err(fault), _) => Some(fault),
            (Ok(value), Some(schema)) => schema.schema.fault(&value, &mut parts.steps.borrow_mut()),
            (Ok(_), None) => None,
        };
        fault.map(|fault| format!("{}: {fault}", self.label()))
    }

    /// All faults of the parameter in a request.
    pub(crate) fn faults(&self, parts: &ParameterSources<'_>) -> Vec<SchemaFault> {
        let of_text = |reason: String| vec![SchemaFault::of_rule("style", reason)];
        let texts = self.texts(parts);
        match (self.value(&texts, parts), &self.schema) {
            (None, _) if self.is_required => {
                vec![SchemaFault::of_rule("required", "it is required")]
            }
            (None, _) | (Some(Ok(_)), None) => Vec::new(),
            (Some(Err(fault)), _) => of_text(fault),
            (Some(Ok(value)), Some(schema)) => schema.schema.faults(&value, &mut parts.steps.borrow_mut()),
        }
    }

    fn label(&self) -> String {
        let place = match self.place {
            ParameterLocation::Path => "path parameter",
            ParameterLocation::Query => "query parameter",
            ParameterLocation::Header => "header",
            ParameterLocation::Cookie => "cookie",
        };
        format!("{place} {}", self.name)
    }

    /// The texts under the name of the parameter.
    fn texts<'r>(&self, parts: &ParameterSources<'r>) -> Vec<Cow<'r, str>> {
        match self.place {
            ParameterLocation::Path => {
                let values = parts.path.iter().filter(|(name, _)| *name == &*self.name);
                values.map(|(_, value)| Cow::Borrowed(*value)).collect()
            }
            ParameterLocation::Query => {
                // A list is often written as `name[]`.
                let is_it = |name: &str| name == &*self.name || name.strip_suffix("[]") == Some(&self.name);
                let values = parts.query.iter().filter(|(name, _)| is_it(name));
                values.map(|(_, value)| Cow::Borrowed(&**value)).collect()
            }
            ParameterLocation::Header => {
                parts.headers.get_all(&self.name).map(String::from_utf8_lossy).collect()
            }
            ParameterLocation::Cookie => parts
                .headers
                .get_all("cookie")
                .flat_map(|list| list.split(|byte| *byte == b';'))
                .filter_map(|pair| {
                    let pair = pair.trim_ascii();
                    let equals = pair.iter().position(|byte| *byte == b'=')?;
                    (&pair[..equals] == self.name.as_bytes())
                        .then(|| Cow::Owned(String::from_utf8_lossy(&pair[equals + 1..]).into_owned()))
                })
                .collect(),
        }
    }

    /// Whether an argument of this name belongs to the parameter.
    fn is_written_as(&self, name: &str) -> bool {
        match (self.style, name.strip_prefix(&*self.name)) {
            (Style::Deep, Some(rest)) => rest.starts_with('['),
            (_, Some(rest)) => rest.is_empty() || rest == "[]",
            (_, None) => false,
        }
    }

    /// The value; none if the request has none.
    fn value(&self, texts: &[Cow<'_, str>], parts: &ParameterSources<'_>) -> Option<Result<Value, String>> {
        let types = self.schema.as_ref().map(|schema| &schema.types);
        let of_object = types.filter(|types| types.properties.is_some());
        match (self.style, of_object) {
            (Style::Json, _) => {
                let text = texts.first()?;
                if texts.len() > 1 {
                    return Some(Err(DOUBLED.to_owned()));
                }
                return Some(of_json(text));
            }
            (Style::Deep, _) => {
                return deep(&self.name, types.unwrap_or(&ValueTypes::default()), parts.query).transpose();
            }
            (Style::Repeated, Some(types)) if self.place == ParameterLocation::Query => {
                return exploded(types, parts).transpose();
            }
            _ => {}
        }
        let first = texts.first()?;
        let Some(types) = types else { return Some(Ok(first.as_ref().into())) };
        if of_object.is_some() && !types.number && !types.text {
            return Some(if texts.len() > 1 { Err(DOUBLED.to_owned()) } else { pairs(first, types) });
        }
        let Some(items) = &types.items else { return Some(self.single(texts, types, parts)) };
        let separator = match self.style {
            Style::Repeated if self.place == ParameterLocation::Query => None,
            Style::Spaces => Some(' '),
            Style::Pipes => Some('|'),
            _ => Some(','),
        };
        let split = |text: &'_ str| match separator {
            None => vec![coerced(text, items)],
            Some(separator) => {
                let all = text.split(separator).take(ITEMS_MAX + 1);
                all.map(|part| coerced(part.trim_matches(' '), items)).collect()
            }
        };
        let list: Vec<Value> = texts.iter().flat_map(|text| split(text)).take(ITEMS_MAX + 1).collect();
        if list.len() > ITEMS_MAX {
            return Some(Err(format!("it has more than {ITEMS_MAX} values")));
        }
        Some(Ok(list.into()))
    }

    /// The value of a text. One that may be several things is the first of them that the schema accepts.
    fn single(
        &self,
        texts: &[Cow<'_, str>],
        types: &ValueTypes,
        parts: &ParameterSources<'_>,
    ) -> Result<Value, String> {
        if texts.len() > 1 {
            return Err(DOUBLED.to_owned());
        }
        let text = texts[0].as_ref();
        let value = coerced(text, types);
        let is_unnamed = *types == ValueTypes::default();
        let schema = self.schema.as_ref().filter(|_| is_unnamed || types.text);
        let Some(schema) = schema else { return Ok(value) };
        let everything = ValueTypes { number: true, boolean: true, ..ValueTypes::default() };
        let fits = |value: &Value| schema.schema.fault(value, &mut parts.steps.borrow_mut()).is_none();
        let others = [Value::from(text), coerced(text, if is_unnamed { &everything } else { types })];
        Ok(if fits(&value) { value } else { others.into_iter().find(fits).unwrap_or(value) })
    }
}

/// The value of a parameter that is written as JSON.
fn of_json(text: &str) -> Result<Value, String> {
    match jsonx::parse(text.as_bytes(), Bounds::SMALL) {
        // The upstream could read the other one.
        Ok(parsed) if parsed.repeats_names => Err("it has two members with one name".to_owned()),
        Ok(parsed) => Ok(parsed.value.to_serde()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// The number that a text of JSON is.
fn number_of(text: &str) -> Option<serde_json::Number> {
    match jsonx::parse(text.as_bytes(), Bounds::SMALL).ok()?.value {
        jsonx::Value::Number(number) => Some(number.to_serde()),
        _ => None,
    }
}

/// The value of a text by the types that it may have; a text that is none of them stays one.
pub(crate) fn coerced(text: &str, types: &ValueTypes) -> Value {
    if types.number {
        // Only a number of JSON, so that the upstream reads the same.
        if let Some(number) = number_of(text) {
            return number.into();
        }
    }
    match text {
        "true" if types.boolean => true.into(),
        "false" if types.boolean => false.into(),
        "null" if types.null && !types.text => Value::Null,
        _ => text.into(),
    }
}

/// The types of a property that the schema names.
fn type_of<'t>(types: &'t ValueTypes, name: &str) -> Option<&'t ValueTypes> {
    types.properties.iter().flatten().find(|(known, _)| known == name).map(|(_, types)| types)
}

/// Adds the text of a property to an object: to the list, or as a value that is there once.
fn add(object: &mut Map<String, Value>, types: &ValueTypes, name: &str, text: &str) -> Result<(), String> {
    let of_property = type_of(types, name).or(types.others.as_deref());
    let items = of_property.and_then(|types| types.items.as_deref());
    let value = coerced(text, items.or(of_property).unwrap_or(&ValueTypes::default()));
    match (items, object.get_mut(name)) {
        (Some(_), Some(Value::Array(all))) => all.push(value),
        (_, Some(_)) => return Err(format!("property \"{name}\" is there more than once")),
        (Some(_), None) => drop(object.insert(name.to_owned(), vec![value].into())),
        (None, None) => drop(object.insert(name.to_owned(), value)),
    }
    Ok(())
}

/// An object as `a,1,b,2` or `a=1,b=2`.
fn pairs(text: &str, types: &ValueTypes) -> Result<Value, String> {
    let mut object = Map::new();
    let mut parts = text.split(',').take(ITEMS_MAX);
    while let Some(part) = parts.next() {
        let (name, value) = match part.split_once('=') {
            Some(pair) => pair,
            None => (part, parts.next().unwrap_or_default()),
        };
        add(&mut object, types, name, value)?;
    }
    Ok(object.into())
}

/// An object of which each property is an argument of its own. If the schema names no property, the arguments
/// that are no other parameter are the properties.
fn exploded(types: &ValueTypes, parts: &ParameterSources<'_>) -> Result<Option<Value>, String> {
    let names_some = types.properties.iter().flatten().next().is_some();
    let is_other = |name: &str| {
        let in_query =
            parts.parameters.iter().filter(|parameter| parameter.place == ParameterLocation::Query);
        in_query.into_iter().any(|parameter| parameter.is_written_as(name))
    };
    let is_property = |name: &str| match names_some {
        true => type_of(types, name).is_some(),
        false => types.others.is_some() && !is_other(name),
    };
    let mut object = Map::new();
    for (name, text) in parts.query.iter().filter(|(name, _)| is_property(name)) {
        add(&mut object, types, name, text)?;
    }
    Ok((!object.is_empty()).then(|| object.into()))
}

/// An object as `name[a]=1&name[b]=2`.
fn deep(of: &str, types: &ValueTypes, query: &[(String, String)]) -> Result<Option<Value>, String> {
    let mut object = Map::new();
    for (name, text) in query {
        let property = name.strip_prefix(of).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
        if let Some(property) = property {
            add(&mut object, types, property, text)?;
        }
    }
    Ok((!object.is_empty()).then(|| object.into()))
}

#[cfg(test)]
mod tests;
