//! The parameters of an operation: where each is in a request, how its text becomes a value, and the schema of the value.

use std::borrow::Cow;
use std::sync::Arc;

use message::Headers;
use serde_json::{Map, Value};

use super::schemas::{Compiled, Types};
use crate::shared::query::{arguments, decode};

/// Values of one list in a parameter.
const ITEMS_MAX: usize = 10_000;

/// Where a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

/// How a list or an object is written as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
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
pub(super) struct Parameter {
    pub(super) name: Box<str>,
    pub(super) place: Place,
    pub(super) is_required: bool,
    pub(super) style: Style,
    pub(super) schema: Option<Arc<Compiled>>,
}

/// The parts of a request that parameters are read from.
pub(super) struct Parts<'r> {
    pub(super) path: &'r [(&'r str, &'r str)],
    /// The arguments, decoded.
    pub(super) query: &'r [(String, String)],
    pub(super) headers: &'r Headers,
}

/// The arguments of a query, decoded.
pub(super) fn decoded_arguments(query: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&decode(bytes)).into_owned();
    arguments(query).map(|(_, name, value)| (text(name), text(value))).collect()
}

impl Parameter {
    /// The first fault of the parameter in a request.
    pub(super) fn fault(&self, parts: &Parts<'_>) -> Option<String> {
        let texts = self.texts(parts);
        let Some(value) = self.value(&texts, parts) else {
            return self.is_required.then(|| format!("{} is required", self.label()));
        };
        let fault = match (value, &self.schema) {
            (Err(fault), _) => Some(fault),
            (Ok(value), Some(schema)) => schema.schema.fault(&value),
            (Ok(_), None) => None,
        };
        fault.map(|fault| format!("{}: {fault}", self.label()))
    }

    fn label(&self) -> String {
        let place = match self.place {
            Place::Path => "path parameter",
            Place::Query => "query parameter",
            Place::Header => "header",
            Place::Cookie => "cookie",
        };
        format!("{place} {}", self.name)
    }

    /// The texts under the name of the parameter.
    fn texts<'r>(&self, parts: &Parts<'r>) -> Vec<Cow<'r, str>> {
        match self.place {
            Place::Path => {
                let values = parts.path.iter().filter(|(name, _)| *name == &*self.name);
                values.map(|(_, value)| Cow::Borrowed(*value)).collect()
            }
            Place::Query => {
                // A list is often written as `name[]`.
                let is_it = |name: &str| name == &*self.name || name.strip_suffix("[]") == Some(&self.name);
                let values = parts.query.iter().filter(|(name, _)| is_it(name));
                values.map(|(_, value)| Cow::Borrowed(&**value)).collect()
            }
            Place::Header => parts.headers.get_all(&self.name).map(String::from_utf8_lossy).collect(),
            Place::Cookie => parts
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

    /// The value; none if the request has none.
    fn value(&self, texts: &[Cow<'_, str>], parts: &Parts<'_>) -> Option<Result<Value, String>> {
        let types = self.schema.as_ref().map(|schema| &schema.types);
        let properties = types.and_then(|types| types.properties.as_deref());
        match (self.style, properties) {
            (Style::Json, _) => {
                let text = texts.first()?;
                return Some(serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}")));
            }
            (Style::Deep, _) => {
                return deep(&self.name, properties.unwrap_or_default(), parts.query).map(Ok);
            }
            (Style::Repeated, Some(properties)) if self.place == Place::Query => {
                return exploded(properties, parts.query).map(Ok);
            }
            _ => {}
        }
        let first = texts.first()?;
        let Some(types) = types else { return Some(Ok(first.as_ref().into())) };
        if let Some(properties) = properties.filter(|_| !types.number && !types.text) {
            return Some(Ok(pairs(first, properties)));
        }
        let Some(items) = &types.items else { return Some(self.single(texts, types)) };
        let separator = match self.style {
            Style::Repeated if self.place == Place::Query => None,
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
    fn single(&self, texts: &[Cow<'_, str>], types: &Types) -> Result<Value, String> {
        if texts.len() > 1 && self.place != Place::Header {
            // The upstream may take another one of them.
            return Err("it is there more than once".to_owned());
        }
        let text = texts[0].as_ref();
        let value = coerced(text, types);
        let is_unnamed = *types == Types::default();
        let schema = self.schema.as_ref().filter(|_| is_unnamed || types.text);
        let Some(schema) = schema else { return Ok(value) };
        let everything = Types { number: true, boolean: true, ..Types::default() };
        let fits = |value: &Value| schema.schema.fault(value).is_none();
        let others = [Value::from(text), coerced(text, if is_unnamed { &everything } else { types })];
        Ok(if fits(&value) { value } else { others.into_iter().find(fits).unwrap_or(value) })
    }
}

/// The value of a text by the types that it may have; a text that is none of them stays one.
pub(super) fn coerced(text: &str, types: &Types) -> Value {
    if types.number {
        // Only a number of JSON, so that the upstream reads the same.
        if let Ok(Value::Number(number)) = serde_json::from_str(text) {
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

fn type_of<'t>(properties: &'t [(String, Types)], name: &str) -> Option<&'t Types> {
    properties.iter().find(|(known, _)| known == name).map(|(_, types)| types)
}

/// An object as `a,1,b,2` or `a=1,b=2`.
fn pairs(text: &str, properties: &[(String, Types)]) -> Value {
    let mut object = Map::new();
    let mut parts = text.split(',').take(ITEMS_MAX);
    while let Some(part) = parts.next() {
        let (name, value) = match part.split_once('=') {
            Some(pair) => pair,
            None => (part, parts.next().unwrap_or_default()),
        };
        object
            .insert(name.to_owned(), coerced(value, type_of(properties, name).unwrap_or(&Types::default())));
    }
    object.into()
}

/// An object of which each property is an argument of its own.
fn exploded(properties: &[(String, Types)], query: &[(String, String)]) -> Option<Value> {
    let found = query.iter().filter_map(|(name, value)| Some((name, value, type_of(properties, name)?)));
    let object: Map<String, Value> =
        found.map(|(name, value, types)| (name.clone(), coerced(value, types))).collect();
    (!object.is_empty()).then(|| object.into())
}

/// An object as `name[a]=1&name[b]=2`.
fn deep(of: &str, properties: &[(String, Types)], query: &[(String, String)]) -> Option<Value> {
    let mut object = Map::new();
    for (name, value) in query {
        let property = name.strip_prefix(of).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
        let Some(property) = property else { continue };
        let types = type_of(properties, property);
        let list = types.and_then(|types| types.items.as_deref());
        let value = coerced(value, list.or(types).unwrap_or(&Types::default()));
        match (list, object.get_mut(property)) {
            (Some(_), Some(Value::Array(all))) => all.push(value),
            (Some(_), _) => {
                object.insert(property.to_owned(), vec![value].into());
            }
            (None, _) => {
                object.insert(property.to_owned(), value);
            }
        }
    }
    (!object.is_empty()).then(|| object.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oas_validator::schemas::Schemas;

    fn parameter(place: Place, style: Style, schema: Value) -> Parameter {
        let document = json!({});
        let schema: &Value = Box::leak(Box::new(schema));
        let mut schemas = Schemas::new(Box::leak(Box::new(document)), true);
        let schema = Some(schemas.compile(schema, "/x").unwrap());
        Parameter { name: "p".into(), place, is_required: true, style, schema }
    }

    fn check(parameter: &Parameter, input: &str, expected: Option<&str>) {
        let query = decoded_arguments(input.as_bytes());
        let mut headers = Headers::new();
        for line in input.lines().filter(|_| parameter.place != Place::Query) {
            let (name, value) = line.split_once(": ").unwrap_or(("p", line));
            headers.append(name, value.as_bytes()).unwrap();
        }
        let path = [("p", input)];
        let parts = Parts { path: &path, query: &query, headers: &headers };
        let fault = parameter.fault(&parts);
        match expected {
            None => assert_eq!(fault, None, "{input}"),
            Some(part) => {
                assert!(fault.as_ref().is_some_and(|fault| fault.contains(part)), "{input}: {fault:?}")
            }
        }
    }

    #[test]
    fn texts_become_values_by_their_schema() {
        let id = parameter(Place::Path, Style::Commas, json!({"type": "integer", "minimum": 1}));
        check(&id, "7", None);
        check(&id, "0", Some("path parameter p: "));
        check(&id, "seven", Some("wrong type: expected integer"));
        check(&id, "07", Some("wrong type"));
        check(&id, "1.5", Some("wrong type"));
        let flag = parameter(Place::Query, Style::Repeated, json!({"type": "boolean"}));
        check(&flag, "p=true", None);
        check(&flag, "p=1", Some("query parameter p: "));
        check(&flag, "", Some("query parameter p is required"));
        check(&flag, "p=true&p=false", Some("more than once"));
        let code = parameter(Place::Query, Style::Repeated, json!({"type": "string", "pattern": "^[0-9]+$"}));
        check(&code, "p=12", None);
        let either = parameter(Place::Query, Style::Repeated, json!({"enum": [1, "one"]}));
        check(&either, "p=1", None);
        check(&either, "p=one", None);
        check(&either, "p=2", Some("enum"));
        let header = parameter(Place::Header, Style::Commas, json!({"type": "integer"}));
        check(&header, "P: 5", None);
        check(&header, "P: five", Some("header p: "));
        let cookie = parameter(Place::Cookie, Style::Repeated, json!({"type": "integer"}));
        check(&cookie, "Cookie: a=x; p=5", None);
        check(&cookie, "Cookie: a=5", Some("cookie p is required"));
    }

    #[test]
    fn lists_and_objects_are_read_by_their_style() {
        let list = json!({"type": "array", "maxItems": 3, "items": {"type": "integer"}});
        let of = |style: Style| parameter(Place::Query, style, list.clone());
        check(&of(Style::Repeated), "p=1&p=2", None);
        check(&of(Style::Repeated), "p%5B%5D=1&p%5B%5D=2", None);
        check(&of(Style::Repeated), "p=1,2", Some("wrong type"));
        check(&of(Style::Commas), "p=1,2", None);
        check(&of(Style::Commas), "p=1,2,3,4", Some("query parameter p: "));
        check(&of(Style::Spaces), "p=1%202", None);
        check(&of(Style::Pipes), "p=1%7Cx", Some("wrong type"));
        check(
            &of(Style::Commas),
            &format!("p={}", "1,".repeat(ITEMS_MAX + 1)),
            Some("more than 10000 values"),
        );
        let object = json!({"type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}}});
        let of = |style: Style| parameter(Place::Query, style, object.clone());
        check(&of(Style::Deep), "p[a]=1&p[b]=x&p[b]=y&other=1", None);
        check(&of(Style::Deep), "p[b]=x", Some("property \"a\" is required"));
        check(&of(Style::Deep), "p[a]=1&p[c]=1", Some("additional"));
        check(&of(Style::Repeated), "a=1&z=2", None);
        check(&of(Style::Repeated), "a=x", Some("wrong type"));
        check(&of(Style::Commas), "p=a,1", None);
        check(&of(Style::Json), "p=%7B%22a%22:1%7D", None);
        check(&of(Style::Json), "p=%7B", Some("it is not JSON"));
    }
}
