//! Responses and their headers.

use serde_json::{Value, json};

use super::body::is_file;
use super::place::SwaggerPlace;
use super::{JSON_ONLY, SwaggerObject, SwaggerTranslation};

/// The media type of a file where a document names none.
const FILE_ONLY: [&str; 1] = ["application/octet-stream"];

impl SwaggerTranslation<'_> {
    /// A response. Each of `produces` has its schema; `examples` may name further media types.
    pub(super) fn response(
        &self,
        value: &Value,
        produces: &[&str],
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        let source = place.object(self.follow(value, place)?)?;
        self.charge(2, place)?;
        let mut written = SwaggerObject::new();
        // OpenAPI demands a description, many Swagger documents have none.
        written.insert("description".to_owned(), json!(""));
        self.copy_fields(&["description"], source, &mut written, place)?;
        if let Some(headers) = source.get("headers") {
            written
                .insert("headers".to_owned(), Value::Object(self.headers(headers, &place.field("headers"))?));
        }
        let content = self.content(source, produces, place)?;
        if !content.is_empty() {
            written.insert("content".to_owned(), Value::Object(content));
        }
        self.copy_extensions(source, &mut written, place)?;
        Ok(Value::Object(written))
    }

    fn content(
        &self,
        source: &SwaggerObject,
        produces: &[&str],
        place: &SwaggerPlace<'_>,
    ) -> Result<SwaggerObject, String> {
        let mut content = SwaggerObject::new();
        let examples = match source.get("examples") {
            Some(examples) => Some(place.field("examples").object(examples)?),
            None => None,
        };
        let schema = source.get("schema");
        let is_plain_file = produces == JSON_ONLY
            && !self.root.contains_key("produces")
            && schema.and_then(Value::as_object).is_some_and(is_file);
        let produces = if is_plain_file { &FILE_ONLY } else { produces };
        let mut media_types = if schema.is_some() { produces.to_vec() } else { Vec::new() };
        for media_type in examples.into_iter().flat_map(SwaggerObject::keys) {
            if !media_type.starts_with("x-") && !media_types.contains(&&**media_type) {
                media_types.push(media_type);
            }
        }
        for media_type in media_types {
            let mut entry = SwaggerObject::new();
            if let Some(schema) = schema {
                entry.insert("schema".to_owned(), self.schema(schema, &place.field("schema"))?);
            }
            if let Some(example) = examples.and_then(|examples| examples.get(media_type)) {
                let place = place.field("examples");
                entry.insert("example".to_owned(), self.copy(example, &place.field(media_type))?);
            }
            content.insert(media_type.to_owned(), Value::Object(entry));
        }
        Ok(content)
    }

    fn headers(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<SwaggerObject, String> {
        let mut headers = SwaggerObject::new();
        for (name, header) in place.object(value)? {
            let place = place.field(name);
            let source = place.object(header)?;
            self.charge(4, &place)?;
            let mut written = SwaggerObject::new();
            self.copy_fields(&["description"], source, &mut written, &place)?;
            // The style of headers is `simple`, which is the only one and therefore not written.
            self.array_style(source, "header", &place)?;
            written.insert("schema".to_owned(), self.inline_schema(source, &place)?);
            self.copy_other_extensions(source, &mut written, &place)?;
            headers.insert(name.clone(), Value::Object(written));
        }
        Ok(headers)
    }
}
