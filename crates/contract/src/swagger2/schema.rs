//! Schemas: nullable types, files, discriminators and references.

use serde_json::{Value, json};

use super::place::SwaggerPlace;
use super::{SwaggerObject, SwaggerTranslation};

impl SwaggerTranslation<'_> {
    /// A schema. Fields stand in the order of the source.
    pub(super) fn schema(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        if value.is_boolean() {
            return self.copy(value, place);
        }
        let source = place.object(value)?;
        self.charge(1 + source.len(), place)?;
        if let Some(reference) = source.get("$ref") {
            return self.schema_reference(source, reference, place);
        }
        let mut written = SwaggerObject::new();
        let mut is_nullable = source.get("x-nullable") == Some(&Value::Bool(true));
        for (field, value) in source {
            let place = place.field(field);
            let value = match &**field {
                "x-nullable" => continue,
                "type" => self.schema_type(value, &mut written, &mut is_nullable, &place)?,
                "discriminator" => match value.as_str() {
                    Some(property) => json!({ "propertyName": property }),
                    None => return Err(place.fault("`discriminator` must be the name of a property")),
                },
                "properties" => Value::Object(self.schemas_of_object(value, &place)?),
                "items" | "additionalProperties" | "not" if !value.is_boolean() => {
                    if value.is_array() {
                        return Err(place.fault("Swagger 2.0 allows one schema here, not a list of schemas"));
                    }
                    self.schema(value, &place)?
                }
                "allOf" | "anyOf" | "oneOf" => self.schemas_of_array(value, &place)?,
                _ => self.copy(value, &place)?,
            };
            written.insert(field.clone(), value);
        }
        if is_nullable {
            make_nullable(&mut written);
        }
        Ok(Value::Object(written))
    }

    /// A reference. Fields beside it have no effect in OpenAPI 3.0, so a nullable one is wrapped.
    fn schema_reference(
        &self,
        source: &SwaggerObject,
        reference: &Value,
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        let place = place.field("$ref");
        let reference = reference.as_str().ok_or_else(|| place.fault("a reference must be a text"))?;
        let target = json!({ "$ref": self.schema_pointer(reference, &place)? });
        match source.get("x-nullable") {
            Some(Value::Bool(true)) => Ok(json!({ "nullable": true, "allOf": [target] })),
            _ => Ok(target),
        }
    }

    /// The type; `file` becomes the format `binary`, and a list with `null` a nullable type.
    fn schema_type(
        &self,
        value: &Value,
        written: &mut SwaggerObject,
        is_nullable: &mut bool,
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        let name = match value {
            Value::String(name) => &**name,
            Value::Array(names) => {
                let mut others = names.iter().filter(|name| *name != "null").filter_map(Value::as_str);
                *is_nullable |= names.iter().any(|name| name == "null");
                match (others.next(), others.next()) {
                    (Some(name), None) => name,
                    _ => return Err(place.fault("Swagger 2.0 allows one type, and `null` beside it")),
                }
            }
            _ => return Err(place.fault("`type` must be a text")),
        };
        if name == "file" {
            written.insert("format".to_owned(), json!("binary"));
            return Ok(json!("string"));
        }
        Ok(json!(name))
    }

    fn schemas_of_object(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<SwaggerObject, String> {
        let entries = place.object(value)?.iter();
        entries.map(|(name, entry)| Ok((name.clone(), self.schema(entry, &place.field(name))?))).collect()
    }

    fn schemas_of_array(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let entries = place.array(value)?.iter().enumerate();
        entries.map(|(index, entry)| self.schema(entry, &place.item(index))).collect()
    }
}

/// Allows null. OpenAPI 3.0.3 demands that a list of values names null as well.
fn make_nullable(schema: &mut SwaggerObject) {
    schema.insert("nullable".to_owned(), json!(true));
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}
