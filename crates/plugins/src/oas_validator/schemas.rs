//! The schemas of a document as schemas of JSON: references are followed inside the document, and the forms that only
//! OpenAPI 3.0 has are translated. Each schema becomes one that stands alone, with the parts that it refers to.

use std::collections::HashMap;
use std::sync::Arc;

use model::validate::UserSchema;
use serde_json::{Map, Value, json};

/// Parts that one schema may refer to, all together.
const PARTS_MAX: usize = 2_000;
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
pub(super) struct Schemas<'d> {
    document: &'d Value,
    /// OpenAPI 3.1, whose schemas are those of JSON Schema 2020-12.
    is_31: bool,
    compiled: HashMap<String, Arc<Compiled>>,
}

/// A schema, and the types of a value that obeys it.
pub(super) struct Compiled {
    pub(super) schema: UserSchema,
    pub(super) types: Types,
}

/// The types that a schema names, as far as a text is read by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Types {
    pub(super) number: bool,
    pub(super) boolean: bool,
    pub(super) text: bool,
    pub(super) null: bool,
    /// The types of items, if the value may be a list.
    pub(super) items: Option<Box<Types>>,
    /// The types of properties, if the value may be an object.
    pub(super) properties: Option<Vec<(String, Types)>>,
}

impl<'d> Schemas<'d> {
    pub(super) fn new(document: &'d Value, is_31: bool) -> Schemas<'d> {
        Schemas { document, is_31, compiled: HashMap::new() }
    }

    /// Follows a reference at `written`, if there is one; the place of what it leads to is given as well.
    ///
    /// # Errors
    /// It leads nowhere, out of the document, or in a circle.
    pub(super) fn resolve(&self, written: &'d Value, place: &str) -> Result<(&'d Value, String), String> {
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
        Ok((schema, format!("/components/schemas/{}", escaped(name))))
    }

    /// Compiles the schema at `place`.
    ///
    /// # Errors
    /// The fault, with its place.
    pub(super) fn compile(&mut self, written: &'d Value, place: &str) -> Result<Arc<Compiled>, String> {
        let key = written.to_string();
        if let Some(known) = self.compiled.get(&key) {
            return Ok(known.clone());
        }
        let mut parts = Parts { open: Vec::new(), known: Map::new() };
        let body = self.translate(written, place, 0, &mut parts)?;
        let dialect = match self.is_31 {
            true => "https://json-schema.org/draft/2020-12/schema",
            false => "http://json-schema.org/draft-04/schema#",
        };
        let mut alone = match body {
            Value::Bool(false) => json!({ "not": {} }),
            Value::Object(_) => body,
            _ => json!({}),
        };
        alone["$schema"] = dialect.into();
        while let Some((pointer, target)) = parts.open.pop() {
            let translated = self.translate(target, &pointer, 0, &mut parts)?;
            insert(&mut alone, &pointer, translated);
        }
        let schema = UserSchema::compile(&alone).map_err(|reason| fault(place, &reason))?;
        let compiled = Arc::new(Compiled { schema, types: self.types(written, place, 0)? });
        self.compiled.insert(key, compiled.clone());
        Ok(compiled)
    }

    /// The schema in the form of its draft. The parts that it refers to are noted in `parts`.
    fn translate(
        &self,
        written: &'d Value,
        place: &str,
        level: usize,
        parts: &mut Parts<'d>,
    ) -> Result<Value, String> {
        if level > LEVELS_MAX {
            return Err(fault(place, &format!("the schema has more than {LEVELS_MAX} levels")));
        }
        let Some(fields) = written.as_object() else {
            return match written {
                Value::Bool(_) if self.is_31 => Ok(written.clone()),
                // Draft 4 has no schema that is a boolean.
                Value::Bool(true) => Ok(json!({})),
                Value::Bool(false) => Ok(json!({ "not": {} })),
                _ => Err(fault(place, "a schema is an object")),
            };
        };
        let mut translated = Map::new();
        for (name, value) in fields {
            let at = format!("{place}/{}", escaped(name));
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
                        map.insert(name.clone(), inner(schema, &format!("{at}/{}", escaped(name)))?);
                    }
                    Value::Object(map)
                }
                (name, _) if NOTES.contains(&name) => continue,
                _ => value.clone(),
            };
            translated.insert(name.clone(), value);
        }
        without_read_only(fields, &mut translated);
        if !self.is_31 && fields.get("nullable") == Some(&Value::Bool(true)) {
            allow_null(&mut translated);
        }
        Ok(Value::Object(translated))
    }

    /// The types that the schema names.
    fn types(&self, written: &'d Value, place: &str, level: usize) -> Result<Types, String> {
        let mut types = Types::default();
        // Deeper ones have no text in a parameter.
        if level > 4 {
            return Ok(types);
        }
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
        for list in LISTS.iter().take(3) {
            for part in schema.get(*list).and_then(Value::as_array).into_iter().flatten() {
                types.join(self.types(part, &place, level + 1)?);
            }
        }
        Ok(types)
    }
}

impl Types {
    fn join(&mut self, other: Types) {
        self.number |= other.number;
        self.boolean |= other.boolean;
        self.text |= other.text;
        self.null |= other.null;
        self.items = self.items.take().or(other.items);
        match (&mut self.properties, other.properties) {
            (Some(own), Some(more)) => own.extend(more),
            (own, more) => *own = own.take().or(more),
        }
    }
}

/// The parts that a schema refers to, found one by one.
struct Parts<'d> {
    open: Vec<(String, &'d Value)>,
    known: Map<String, Value>,
}

impl<'d> Parts<'d> {
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

/// A property that is read only does not have to be in a request.
fn without_read_only(fields: &Map<String, Value>, translated: &mut Map<String, Value>) {
    let is_read_only = |name: &Value| {
        let property = fields.get("properties").and_then(|all| all.get(name.as_str()?));
        property.is_some_and(|property| property.get("readOnly") == Some(&Value::Bool(true)))
    };
    let Some(Value::Array(required)) = translated.get_mut("required") else { return };
    required.retain(|name| !is_read_only(name));
    // Draft 4 allows no empty list.
    if required.is_empty() {
        translated.remove("required");
    }
}

/// `nullable` of OpenAPI 3.0, which counts beside a `type` only.
fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(name)) = schema.get("type") {
        schema.insert("type".to_owned(), json!([name, "null"]));
        if let Some(Value::Array(allowed)) = schema.get_mut("enum")
            && !allowed.contains(&Value::Null)
        {
            allowed.push(Value::Null);
        }
    }
}

/// Puts `value` at a pointer into objects, which are made where they are missing.
fn insert(root: &mut Value, pointer: &str, value: Value) {
    let mut target = root;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if target.is_array() {
            // The part stands in one that is there already.
            return;
        }
        if !target.is_object() {
            *target = json!({});
        }
        target = &mut target[step];
    }
    match (target, value) {
        // A part of this one stands there already, because it is referred to as well.
        (Value::Object(present), Value::Object(more)) => present.extend(more),
        (target, value) => *target = value,
    }
}

/// A step of a JSON pointer.
pub(super) fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
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
pub(super) fn fault(place: &str, reason: &str) -> String {
    let mut end = place.len().min(PLACE_BYTES_MAX);
    while !place.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}: {reason}", &place[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &Value, is_31: bool, schema: &Value, good: &[Value], bad: &[Value]) {
        let mut schemas = Schemas::new(document, is_31);
        let compiled = schemas.compile(schema, "/x").unwrap_or_else(|reason| panic!("{schema}: {reason}"));
        for value in good {
            assert_eq!(compiled.schema.fault(value), None, "{schema}: {value}");
        }
        for value in bad {
            assert!(compiled.schema.fault(value).is_some(), "{schema}: {value}");
        }
    }

    #[test]
    fn circles_of_references_are_followed() {
        let document = json!({"components": {"schemas": {
            "Node": {"type": "object", "required": ["value"], "properties": {
                "value": {"$ref": "#/components/schemas/a~1b"}, "next": {"$ref": "#/components/schemas/Node"},
            }},
            "a/b": {"type": "integer"},
        }}});
        let node = json!({"$ref": "#/components/schemas/Node"});
        let nested = |last: Value| json!({"value": 1, "next": {"value": 2, "next": {"value": last}}});
        for is_31 in [true, false] {
            check(&document, is_31, &node, &[nested(json!(3))], &[nested(json!("x")), json!({})]);
        }
        let inner = json!({"$ref": "#/components/schemas/Node/properties/value"});
        check(&document, false, &inner, &[json!(1)], &[json!("a")]);
    }

    #[test]
    fn forms_of_openapi_30_are_translated() {
        let none = json!({});
        check(
            &none,
            false,
            &json!({"type": "string", "nullable": true, "enum": ["a"]}),
            &[json!("a"), Value::Null],
            &[json!("b"), json!(1)],
        );
        check(
            &none,
            false,
            &json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            &[json!(2)],
            &[json!(1)],
        );
        let id = json!({"type": "object", "required": ["id", "name"], "properties": {
            "id": {"type": "integer", "readOnly": true}, "name": {"type": "string"},
            "example": {"type": "integer"},
        }, "example": {"$ref": "nothing"}, "additionalProperties": false});
        check(
            &none,
            false,
            &id,
            &[json!({"name": "a"})],
            &[json!({"id": 1}), json!({"name": "a", "example": "b"}), json!({"name": "a", "z": 1})],
        );
        check(
            &none,
            true,
            &json!({"type": ["integer", "null"], "exclusiveMinimum": 1}),
            &[json!(2), Value::Null],
            &[json!(1)],
        );
        check(
            &none,
            true,
            &json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            &[json!(["a", 1])],
            &[json!([1])],
        );
    }

    #[test]
    fn faulty_schemas_are_told_with_their_place() {
        let document = json!({"components": {"schemas": {
            "Circle": {"$ref": "#/components/schemas/Circle"},
            "Bad": {"properties": {"a": {"type": "text"}}},
        }}});
        let check = |schema: Value, expected: &str| {
            let got = Schemas::new(&document, false).compile(&schema, "/x").err().unwrap_or_default();
            assert!(got.contains(expected), "{schema}: {got}");
        };
        check(
            json!({"$ref": "http://example.com/a.json"}),
            "/x: $ref `http://example.com/a.json` is not inside",
        );
        check(
            json!({"items": {"$ref": "#/components/schemas/No"}}),
            "/x/items: $ref `#/components/schemas/No` leads nowhere",
        );
        check(json!({"$ref": "#/components/schemas/Circle"}), "references lead to each other");
        check(json!({"type": "text"}), "/x: ");
        check(json!({"$ref": "#/components/schemas/Bad"}), "/components/schemas/Bad/properties/a/type");
        check(json!({"properties": {"a": 1}}), "/x/properties/a: a schema is an object");
        let mut deep = json!({});
        for _ in 0..LEVELS_MAX + 2 {
            deep = json!({ "items": deep });
        }
        check(deep, "more than 100 levels");
    }

    #[test]
    fn types_are_those_of_all_alternatives() {
        let document = json!({"components": {"schemas": {"Id": {"type": "integer"}}}});
        let mut schemas = Schemas::new(&document, true);
        let schema = json!({"anyOf": [{"$ref": "#/components/schemas/Id"}, {"type": ["boolean", "null"]}]});
        let types = &schemas.compile(&schema, "/x").unwrap().types;
        assert_eq!(*types, Types { number: true, boolean: true, null: true, ..Types::default() });
        let list = json!({"type": "array", "items": {"type": "number"}});
        let types = &schemas.compile(&list, "/x").unwrap().types;
        assert_eq!(types.items, Some(Box::new(Types { number: true, ..Types::default() })));
    }
}
