//! The schemas of a document as schemas of JSON: references are followed inside the document, and the forms
//! that only OpenAPI 3.0 has are translated. Each schema becomes one that stands alone, with the parts that
//! it refers to.

mod forms;
mod types;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use contract::document::pointer_step;
use model::validate::UserSchema;
use serde_json::{Map, Value, json};

use forms::{allow_null, insert, without_required};

pub(crate) use types::ValueTypes;

/// Parts that one schema may refer to, all together.
const PARTS_MAX: usize = 2_000;
/// The same for all schemas of a document: each is compiled with the parts that it refers to.
const ALL_PARTS_MAX: usize = 50_000;
/// Levels of a schema.
const LEVELS_MAX: usize = 100;
/// References that lead to each other before something else stands there.
const HOPS_MAX: usize = 16;
/// Texts of faults that a message repeats of the document, in bytes.
const PLACE_BYTES_MAX: usize = 200;

/// Keywords with a schema.
const ONE: &[&str] = &[
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with a list of schemas.
const LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords with schemas by name.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords about documentation, which may hold anything.
const NOTES: &[&str] =
    &["example", "examples", "xml", "externalDocs", "discriminator", "nullable", "readOnly"];

/// Compiles the schemas of one document; equal ones are compiled once.
pub(crate) struct Schemas<'d> {
    document: &'d Value,
    /// OpenAPI 3.1, which has the schemas of JSON Schema 2020-12.
    is_31: bool,
    /// Properties with this mark need not be there.
    optional_mark: &'static str,
    compiled: HashMap<String, Arc<TypedSchema>>,
    /// Parts that the schemas so far refer to.
    parts: usize,
    /// Schemas that are still looked at for types.
    types_left: Cell<usize>,
}

/// A schema, and the types of a value that obeys it.
pub(crate) struct TypedSchema {
    pub(crate) schema: UserSchema,
    pub(crate) types: ValueTypes,
}

impl<'d> Schemas<'d> {
    pub(crate) fn new(document: &'d Value, is_31: bool) -> Schemas<'d> {
        Schemas {
            document,
            is_31,
            optional_mark: "readOnly",
            compiled: HashMap::new(),
            parts: 0,
            types_left: Cell::new(0),
        }
    }

    /// For values of responses instead of requests.
    pub(crate) fn for_responses(self) -> Schemas<'d> {
        Schemas { optional_mark: "writeOnly", ..self }
    }

    /// Follows a reference at `written`, if there is one; the place of what it leads to is given as well.
    ///
    /// # Errors
    /// It leads nowhere, out of the document, or in a circle.
    pub(crate) fn resolve(&self, written: &'d Value, place: &str) -> Result<(&'d Value, String), String> {
        let (mut target, mut at) = (written, place.to_owned());
        for _ in 0..HOPS_MAX {
            let Some(reference) = target.get("$ref").and_then(Value::as_str) else { return Ok((target, at)) };
            (target, at) = self.look_up(reference, &at)?;
        }
        Err(fault(place, "references lead to each other"))
    }

    fn look_up(&self, reference: &str, place: &str) -> Result<(&'d Value, String), String> {
        let outside = || fault(place, &format!("$ref `{reference}` is not inside the document"));
        let pointer = reference.strip_prefix('#').ok_or_else(outside)?;
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned();
        if pointer.starts_with('/') {
            let missing = || fault(place, &format!("$ref `{reference}` leads nowhere"));
            return Ok((self.document.pointer(&pointer).ok_or_else(missing)?, pointer));
        }
        // An anchor: its schema is looked for among the named ones.
        let named = self.document.pointer("/components/schemas").and_then(Value::as_object);
        let is_it = |schema: &Value| {
            ["$anchor", "$dynamicAnchor"]
                .iter()
                .any(|key| schema.get(key).and_then(Value::as_str) == Some(&pointer))
        };
        let found = named.into_iter().flatten().find(|(_, schema)| is_it(schema));
        let (name, schema) =
            found.ok_or_else(|| fault(place, &format!("$ref `{reference}` leads nowhere")))?;
        Ok((schema, format!("/components/schemas/{}", pointer_step(name))))
    }

    /// Compiles the schema at `place`.
    ///
    /// # Errors
    /// The fault, with its place.
    pub(crate) fn compile(&mut self, written: &'d Value, place: &str) -> Result<Arc<TypedSchema>, String> {
        let key = written.to_string();
        if let Some(known) = self.compiled.get(&key) {
            return Ok(known.clone());
        }
        let mut parts = SchemaReferences { open: Vec::new(), known: Map::new() };
        let body = self.translate(written, place, 0, &mut parts)?;
        let mut alone = match body {
            Value::Bool(false) => json!({ "not": {} }),
            Value::Object(_) => body,
            _ => json!({}),
        };
        if self.is_31 {
            alone["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        }
        // A schema of 3.0 is of draft 7, or of draft 4 where `exclusiveMinimum` is a boolean, as `UserSchema`
        // tries them.
        while let Some((pointer, target)) = parts.open.pop() {
            let translated = self.translate(target, &pointer, 0, &mut parts)?;
            insert(&mut alone, &pointer, translated);
        }
        self.parts += parts.known.len();
        if self.parts > ALL_PARTS_MAX {
            return Err(fault(
                place,
                &format!("the schemas refer to more than {ALL_PARTS_MAX} others in all"),
            ));
        }
        let schema = UserSchema::compile(&alone).map_err(|reason| fault(place, &reason))?;
        let types = self.types_of(written, place)?;
        let compiled = Arc::new(TypedSchema { schema, types });
        self.compiled.insert(key, compiled.clone());
        Ok(compiled)
    }

    /// The schema in the form of its draft. The parts that it refers to are noted in `parts`.
    fn translate(
        &self,
        written: &'d Value,
        place: &str,
        level: usize,
        parts: &mut SchemaReferences<'d>,
    ) -> Result<Value, String> {
        if level > LEVELS_MAX {
            return Err(fault(place, &format!("the schema has more than {LEVELS_MAX} levels")));
        }
        let Some(fields) = written.as_object() else {
            return match written {
                Value::Bool(_) if self.is_31 => Ok(written.clone()),
                // 3.0 has no schema that is a boolean.
                Value::Bool(true) => Ok(json!({})),
                Value::Bool(false) => Ok(json!({ "not": {} })),
                _ => Err(fault(place, "a schema is an object")),
            };
        };
        let mut translated = Map::new();
        for (name, value) in fields {
            let at = format!("{place}/{}", pointer_step(name));
            let mut inner = |value: &'d Value, at: &str| self.translate(value, at, level + 1, parts);
            let value = match (&**name, value) {
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    let (target, pointer) = self.look_up(reference, place)?;
                    parts.note(&pointer, target, place)?;
                    match name.as_str() {
                        "$ref" => format!("#{}", uri_escaped(&pointer)).into(),
                        _ => value.clone(),
                    }
                }
                // These two may be booleans in every draft.
                ("additionalProperties" | "additionalItems", Value::Bool(_)) => value.clone(),
                (name, Value::Object(_) | Value::Bool(_)) if ONE.contains(&name) => inner(value, &at)?,
                ("items", Value::Array(items)) => list(items, &at, &mut inner)?,
                (name, Value::Array(items)) if LISTS.contains(&name) => list(items, &at, &mut inner)?,
                (name, Value::Object(schemas)) if MAPS.contains(&name) => {
                    let mut map = Map::new();
                    for (name, schema) in schemas {
                        map.insert(name.clone(), inner(schema, &format!("{at}/{}", pointer_step(name)))?);
                    }
                    Value::Object(map)
                }
                (name, _) if NOTES.contains(&name) => continue,
                _ => value.clone(),
            };
            translated.insert(name.clone(), value);
        }
        without_required(self.optional_mark, fields, &mut translated);
        if !self.is_31 && fields.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut translated);
        }
        Ok(Value::Object(translated))
    }
}

/// The parts that a schema refers to, found one by one.
struct SchemaReferences<'d> {
    open: Vec<(String, &'d Value)>,
    known: Map<String, Value>,
}

impl<'d> SchemaReferences<'d> {
    fn note(&mut self, pointer: &str, target: &'d Value, place: &str) -> Result<(), String> {
        if self.known.insert(pointer.to_owned(), Value::Null).is_some() {
            return Ok(());
        }
        if self.known.len() > PARTS_MAX {
            return Err(fault(place, &format!("the schema refers to more than {PARTS_MAX} others")));
        }
        self.open.push((pointer.to_owned(), target));
        Ok(())
    }
}

fn list<'d>(
    items: &'d [Value],
    at: &str,
    inner: &mut dyn FnMut(&'d Value, &str) -> Result<Value, String>,
) -> Result<Value, String> {
    items.iter().enumerate().map(|(index, item)| inner(item, &format!("{at}/{index}"))).collect()
}

/// A pointer as the fragment of a URI.
fn uri_escaped(pointer: &str) -> String {
    const SET: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
        .add(b' ')
        .add(b'%')
        .add(b'"')
        .add(b'<')
        .add(b'>')
        .add(b'`')
        .add(b'{')
        .add(b'}')
        .add(b'#')
        .add(b'^')
        .add(b'|')
        .add(b'\\');
    percent_encoding::utf8_percent_encode(pointer, SET).to_string()
}

/// A fault with its place.
pub(crate) fn fault(place: &str, reason: &str) -> String {
    let mut end = place.len().min(PLACE_BYTES_MAX);
    while !place.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}: {reason}", &place[..end])
}

#[cfg(test)]
mod tests;
