//! A Swagger 2.0 document as an OpenAPI 3.0.3 document.
//!
//! Properties, parameters, responses and definitions keep their order, because the numbers of the fields of a
//! Highway message follow from it. Vendor extensions (`x-*`) are kept. Names of definitions are kept even
//! where OpenAPI 3 allows fewer characters, because clients and discriminators name them.
//!
//! The depth of the source is checked once with an explicit stack. All recursive functions below descend
//! along the source, so [`DEPTH_MAX`] bounds them as well.

mod body;
mod operation;
mod parameter;
mod place;
mod reference;
mod response;
mod schema;
mod security;
mod server;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use serde_json::{Map, Value, json};

use place::SwaggerPlace;

/// Levels of arrays and objects in a document.
const DEPTH_MAX: usize = 100;
/// Values in the translated document. The limit is needed because a shared response or body is written once
/// for each operation that has media types of its own, and each schema once for each media type.
const VALUES_MAX: usize = 2_000_000;
/// References that lead to each other before something else is found.
const HOPS_MAX: usize = 16;
/// Media types where a document names none.
const JSON_ONLY: [&str; 1] = ["application/json"];

/// An object of a document.
type SwaggerObject = Map<String, Value>;

/// The document that is translated, and the state of the translation.
struct SwaggerTranslation<'d> {
    document: &'d Value,
    root: &'d SwaggerObject,
    /// Media types of request bodies, unless an operation names its own.
    consumes: Vec<&'d str>,
    /// Media types of response bodies, unless an operation names its own.
    produces: Vec<&'d str>,
    /// Values that may still be written.
    values_left: Cell<usize>,
}

/// Translates a document of Swagger 2.0.
///
/// # Errors
/// One sentence that begins with the JSON pointer of the fault: `/paths/~1a/get: ...`.
pub(crate) fn from_swagger2(document: &Value) -> Result<Value, String> {
    let place = SwaggerPlace::root();
    check_depth(document)?;
    let root = document.as_object().ok_or("a Swagger document must be an object")?;
    let translation = SwaggerTranslation {
        document,
        root,
        consumes: media_types(root, "consumes", &place)?.unwrap_or_else(|| JSON_ONLY.to_vec()),
        produces: media_types(root, "produces", &place)?.unwrap_or_else(|| JSON_ONLY.to_vec()),
        values_left: Cell::new(VALUES_MAX),
    };
    translation.document(&place).map(Value::Object)
}

impl<'d> SwaggerTranslation<'d> {
    /// The whole document. Fields of the root stand in the order in which OpenAPI documents are written.
    fn document(&self, place: &SwaggerPlace<'_>) -> Result<SwaggerObject, String> {
        let mut written = SwaggerObject::new();
        written.insert("openapi".to_owned(), json!("3.0.3"));
        self.copy_fields(&["info", "externalDocs"], self.root, &mut written, place)?;
        if let Some(servers) = server::of_root(self.root, place)? {
            written.insert("servers".to_owned(), servers);
        }
        self.copy_fields(&["tags"], self.root, &mut written, place)?;
        written.insert("paths".to_owned(), Value::Object(self.paths(place)?));
        self.copy_fields(&["security"], self.root, &mut written, place)?;
        let components = self.components(place)?;
        if !components.is_empty() {
            written.insert("components".to_owned(), Value::Object(components));
        }
        self.copy_extensions(self.root, &mut written, place)?;
        Ok(written)
    }

    fn components(&self, place: &SwaggerPlace<'_>) -> Result<SwaggerObject, String> {
        let mut components = SwaggerObject::new();
        let mut add = |name: &str, entries: SwaggerObject| {
            if !entries.is_empty() {
                components.insert(name.to_owned(), Value::Object(entries));
            }
        };
        add("schemas", self.each("definitions", place, |value, place| self.schema(value, place))?);
        let (parameters, bodies) = self.shared_parameters(place)?;
        add("parameters", parameters);
        add("requestBodies", bodies);
        let produces = &self.produces;
        add(
            "responses",
            self.each("responses", place, |value, place| self.response(value, produces, place))?,
        );
        add(
            "securitySchemes",
            self.each("securityDefinitions", place, |value, place| self.scheme(value, place))?,
        );
        Ok(components)
    }

    /// Translates each entry of an object at the root.
    fn each(
        &self,
        field: &str,
        place: &SwaggerPlace<'_>,
        translate: impl Fn(&Value, &SwaggerPlace<'_>) -> Result<Value, String>,
    ) -> Result<SwaggerObject, String> {
        let place = place.field(field);
        let mut written = SwaggerObject::new();
        let Some(entries) = self.root.get(field) else { return Ok(written) };
        for (name, entry) in place.object(entries)? {
            let entry = match name.starts_with("x-") {
                true => self.copy(entry, &place.field(name))?,
                false => translate(entry, &place.field(name))?,
            };
            written.insert(name.clone(), entry);
        }
        Ok(written)
    }

    /// Takes `count` values from those that may still be written.
    fn charge(&self, count: usize, place: &SwaggerPlace<'_>) -> Result<(), String> {
        let left = self.values_left.get().checked_sub(count).ok_or_else(|| {
            place.fault(&format!("the document has more than {VALUES_MAX} values in OpenAPI 3"))
        })?;
        self.values_left.set(left);
        Ok(())
    }

    /// A value as it is, for examples, defaults and extensions.
    fn copy(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        self.charge(count_values(value), place)?;
        Ok(value.clone())
    }

    fn copy_fields(
        &self,
        fields: &[&str],
        from: &SwaggerObject,
        to: &mut SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<(), String> {
        for field in fields {
            if let Some(value) = from.get(*field) {
                to.insert((*field).to_owned(), self.copy(value, &place.field(field))?);
            }
        }
        Ok(())
    }

    fn copy_extensions(
        &self,
        from: &SwaggerObject,
        to: &mut SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<(), String> {
        for (field, value) in from.iter().filter(|(field, _)| field.starts_with("x-")) {
            to.insert(field.clone(), self.copy(value, &place.field(field))?);
        }
        Ok(())
    }
}

/// A list of media types, or nothing where the field is missing or the list is empty.
fn media_types<'d>(
    object: &'d SwaggerObject,
    field: &str,
    place: &SwaggerPlace<'_>,
) -> Result<Option<Vec<&'d str>>, String> {
    let place = place.field(field);
    let Some(list) = object.get(field) else { return Ok(None) };
    let mut types = Vec::new();
    for (index, entry) in place.array(list)?.iter().enumerate() {
        let text = entry.as_str().ok_or_else(|| place.item(index).fault("a media type must be a text"))?;
        if !types.contains(&text) {
            types.push(text);
        }
    }
    Ok(Some(types).filter(|types| !types.is_empty()))
}

/// Refuses a document with more than [`DEPTH_MAX`] levels.
fn check_depth(document: &Value) -> Result<(), String> {
    let mut open = vec![(document, 0_usize)];
    while let Some((value, depth)) = open.pop() {
        if depth > DEPTH_MAX {
            return Err(format!("the document has more than {DEPTH_MAX} levels of objects and arrays"));
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// The number of values in a value, itself included.
fn count_values(value: &Value) -> usize {
    let (mut open, mut count) = (vec![value], 0);
    while let Some(value) = open.pop() {
        count += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    count
}
