//! The parameter `body` and the fields of a form as a request body.

use serde_json::{Value, json};

use super::place::SwaggerPlace;
use super::{SwaggerObject, SwaggerTranslation};

const FORM_URLENCODED: &str = "application/x-www-form-urlencoded";
const FORM_MULTIPART: &str = "multipart/form-data";

impl SwaggerTranslation<'_> {
    /// The request body of a parameter in `body`. Its name is kept as the extension that code generators
    /// read, because a Highway message has a field of this name.
    pub(super) fn body(
        &self,
        source: &SwaggerObject,
        consumes: &[&str],
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        let mut written = SwaggerObject::new();
        self.copy_fields(&["description"], source, &mut written, place)?;
        let mut content = SwaggerObject::new();
        for media_type in consumes {
            let mut entry = SwaggerObject::new();
            if let Some(schema) = source.get("schema") {
                entry.insert("schema".to_owned(), self.schema(schema, &place.field("schema"))?);
            }
            content.insert((*media_type).to_owned(), Value::Object(entry));
        }
        written.insert("content".to_owned(), Value::Object(content));
        self.copy_fields(&["required"], source, &mut written, place)?;
        if let Some(name) = source.get("name") {
            let name = self.copy(name, &place.field("name"))?;
            written.insert("x-codegen-request-body-name".to_owned(), name);
        }
        self.copy_extensions(source, &mut written, place)?;
        Ok(Value::Object(written))
    }

    /// The request body of the fields of a form, each with its place in the source.
    pub(super) fn form(
        &self,
        fields: &[(&SwaggerObject, SwaggerPlace<'_>)],
        consumes: &[&str],
    ) -> Result<Value, String> {
        let (mut properties, mut encoding) = (SwaggerObject::new(), SwaggerObject::new());
        let mut required = Vec::new();
        for (source, place) in fields {
            let name = place.text(source, "name")?;
            properties.insert(name.to_owned(), self.form_field(source, place)?);
            if let Some((style, explode)) = self.array_style(source, "formData", place)? {
                encoding.insert(name.to_owned(), json!({ "style": style, "explode": explode }));
            }
            if source.get("required") == Some(&Value::Bool(true)) {
                required.push(name);
            }
        }
        let is_required = !required.is_empty();
        let mut schema = SwaggerObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if is_required {
            schema.insert("required".to_owned(), json!(required));
        }
        let mut entry = SwaggerObject::new();
        entry.insert("schema".to_owned(), Value::Object(schema));
        if !encoding.is_empty() {
            entry.insert("encoding".to_owned(), Value::Object(encoding));
        }
        let has_file = fields.iter().any(|(source, _)| is_file(source));
        let mut content = SwaggerObject::new();
        for media_type in form_types(has_file, consumes) {
            content.insert(media_type.to_owned(), Value::Object(entry.clone()));
        }
        Ok(match is_required {
            true => json!({ "content": content, "required": true }),
            false => json!({ "content": content }),
        })
    }

    /// The schema of a field of a form, with the description of the field.
    fn form_field(&self, source: &SwaggerObject, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let mut schema = self.inline_schema(source, place)?;
        if let Value::Object(schema) = &mut schema {
            self.copy_fields(&["description"], source, schema, place)?;
            self.copy_other_extensions(source, schema, place)?;
        }
        Ok(schema)
    }
}

/// Whether a parameter, a header or a schema is a file.
pub(super) fn is_file(source: &SwaggerObject) -> bool {
    source.get("type").is_some_and(|name| name == "file")
}

/// The media types of a form: those of the operation that a form can have, otherwise the one that fits.
fn form_types<'c>(has_file: bool, consumes: &[&'c str]) -> Vec<&'c str> {
    let fits = |media_type: &&str| {
        media_type.eq_ignore_ascii_case(FORM_MULTIPART)
            || (!has_file && media_type.eq_ignore_ascii_case(FORM_URLENCODED))
    };
    let named: Vec<&str> = consumes.iter().copied().filter(fits).collect();
    match (named.is_empty(), has_file) {
        (false, _) => named,
        (true, true) => vec![FORM_MULTIPART],
        (true, false) => vec![FORM_URLENCODED],
    }
}
