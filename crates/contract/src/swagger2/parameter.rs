//! Parameters outside the body: their type becomes a schema, and `collectionFormat` a style.

use serde_json::{Value, json};

use super::place::SwaggerPlace;
use super::reference::shared_name;
use super::{SwaggerObject, SwaggerTranslation};

/// Fields of a parameter, of a header and of a form field that belong to its schema.
const SCHEMA_FIELDS: [&str; 18] = [
    "type",
    "format",
    "items",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "enum",
    "multipleOf",
    "x-nullable",
    "allOf",
];

/// A parameter of a path or an operation by its place in the request.
pub(super) enum ParameterPlace {
    /// In the path, the query or a header.
    Plain,
    /// The whole body.
    Body,
    /// A field of a form.
    Form,
}

impl SwaggerTranslation<'_> {
    /// The place of a parameter that is no reference.
    pub(super) fn parameter_place(
        &self,
        source: &SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<ParameterPlace, String> {
        match place.text(source, "in")? {
            "query" | "header" | "path" => Ok(ParameterPlace::Plain),
            "body" => Ok(ParameterPlace::Body),
            "formData" => Ok(ParameterPlace::Form),
            _ => {
                let reason = "a parameter must be in `query`, `header`, `path`, `formData` or `body`";
                Err(place.field("in").fault(reason))
            }
        }
    }

    /// The parameters that operations share: those that stay parameters, and the bodies. Fields of forms are
    /// neither; they are written into each operation.
    pub(super) fn shared_parameters(
        &self,
        place: &SwaggerPlace<'_>,
    ) -> Result<(SwaggerObject, SwaggerObject), String> {
        let (mut parameters, mut bodies) = (SwaggerObject::new(), SwaggerObject::new());
        let place = place.field("parameters");
        let Some(entries) = self.root.get("parameters") else { return Ok((parameters, bodies)) };
        for (name, entry) in place.object(entries)? {
            let place = place.field(name);
            if name.starts_with("x-") {
                parameters.insert(name.clone(), self.copy(entry, &place)?);
                continue;
            }
            let source = place.object(self.follow(entry, &place)?)?;
            match self.parameter_place(source, &place)? {
                ParameterPlace::Plain => {
                    parameters.insert(name.clone(), self.plain_parameter(source, &place)?);
                }
                ParameterPlace::Body => {
                    bodies.insert(name.clone(), self.body(source, &self.consumes, &place)?);
                }
                ParameterPlace::Form => {}
            }
        }
        Ok((parameters, bodies))
    }

    /// A parameter of an operation that stays one; a reference to a shared one stays a reference.
    pub(super) fn parameter(
        &self,
        written: &Value,
        source: &SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        if let Some(name) = shared_name(written, "parameters") {
            self.charge(2, place)?;
            return Ok(json!({ "$ref": format!("#/components/parameters/{name}") }));
        }
        self.plain_parameter(source, place)
    }

    fn plain_parameter(&self, source: &SwaggerObject, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let (name, side) = (place.text(source, "name")?, place.text(source, "in")?);
        self.charge(8, place)?;
        let mut written = SwaggerObject::new();
        written.insert("name".to_owned(), json!(name));
        written.insert("in".to_owned(), json!(side));
        self.copy_fields(&["description"], source, &mut written, place)?;
        if side == "path" {
            // OpenAPI demands it, and a path without the value would be another path.
            written.insert("required".to_owned(), json!(true));
        } else {
            self.copy_fields(&["required"], source, &mut written, place)?;
        }
        self.copy_fields(&["allowEmptyValue", "deprecated"], source, &mut written, place)?;
        if let Some((style, explode)) = self.array_style(source, side, place)? {
            written.insert("style".to_owned(), json!(style));
            written.insert("explode".to_owned(), json!(explode));
        }
        written.insert("schema".to_owned(), self.inline_schema(source, place)?);
        self.copy_other_extensions(source, &mut written, place)?;
        Ok(Value::Object(written))
    }

    /// The schema that is spread over the fields of a parameter or header.
    pub(super) fn inline_schema(
        &self,
        source: &SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        if let Some(schema) = source.get("schema") {
            return self.schema(schema, &place.field("schema"));
        }
        let fields = source.iter().filter(|(field, _)| SCHEMA_FIELDS.contains(&&***field));
        let mut schema: SwaggerObject = fields.map(|(field, value)| (field.clone(), value.clone())).collect();
        if let Some(Value::Object(items)) = schema.get_mut("items") {
            items.remove("collectionFormat");
        }
        self.schema(&Value::Object(schema), place)
    }

    /// Copies extensions, without those that are part of the schema.
    pub(super) fn copy_other_extensions(
        &self,
        source: &SwaggerObject,
        written: &mut SwaggerObject,
        place: &SwaggerPlace<'_>,
    ) -> Result<(), String> {
        self.copy_extensions(source, written, place)?;
        written.shift_remove("x-nullable");
        Ok(())
    }

    /// The style and `explode` of an array; nothing for other types.
    pub(super) fn array_style(
        &self,
        source: &SwaggerObject,
        side: &str,
        place: &SwaggerPlace<'_>,
    ) -> Result<Option<(&'static str, bool)>, String> {
        if source.get("type").and_then(Value::as_str) != Some("array") {
            return Ok(None);
        }
        if source.get("items").and_then(|items| items.get("type")).is_some_and(|name| name == "array") {
            let reason = "OpenAPI 3 has no form for an array in an array outside of a body";
            return Err(place.field("items").fault(reason));
        }
        let format = match source.get("collectionFormat") {
            Some(format) => format.as_str().unwrap_or_default(),
            None => "csv",
        };
        let is_in_query = matches!(side, "query" | "formData");
        match format {
            "csv" if is_in_query => Ok(Some(("form", false))),
            "csv" => Ok(Some(("simple", false))),
            "multi" if is_in_query => Ok(Some(("form", true))),
            "ssv" if is_in_query => Ok(Some(("spaceDelimited", false))),
            "pipes" if is_in_query => Ok(Some(("pipeDelimited", false))),
            "tsv" => Err(place.field("collectionFormat").fault(
                "OpenAPI 3 has no form for values between tabs; use `csv`, `ssv`, `pipes` or `multi`",
            )),
            "ssv" | "pipes" | "multi" => Err(place
                .field("collectionFormat")
                .fault("OpenAPI 3 has this form for `query` and `formData` only; use `csv` here")),
            _ => Err(place
                .field("collectionFormat")
                .fault("`collectionFormat` must be one of `csv`, `ssv`, `pipes`, `multi`")),
        }
    }
}

/// The name and place of a parameter, by which an operation replaces one of its path.
pub(super) fn parameter_key(source: &SwaggerObject) -> (&str, &str) {
    let text = |field: &str| source.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("in"), text("name"))
}
