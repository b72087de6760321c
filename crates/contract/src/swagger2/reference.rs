//! References: pointers of schemas as they are in the translated document, and entries found in the source.

use crate::document::pointer_step;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::place::SwaggerPlace;
use super::{HOPS_MAX, JSON_ONLY, SwaggerTranslation, media_types};

impl<'d> SwaggerTranslation<'d> {
    /// The pointer of a schema after the translation. References to other documents stay as they are.
    pub(super) fn schema_pointer(&self, reference: &str, place: &SwaggerPlace<'_>) -> Result<String, String> {
        let Some(pointer) = reference.strip_prefix("#/") else { return Ok(reference.to_owned()) };
        let steps: Vec<&str> = pointer.split('/').collect();
        let moved = match *steps {
            ["definitions", ..] => Some(format!("components/schemas/{}", steps[1..].join("/"))),
            ["responses", name, "schema", ..] => {
                let content = content_of(&self.produces);
                Some(format!("components/responses/{name}/{content}{}", rest(&steps[2..])))
            }
            ["parameters", name, "schema", ..] => {
                let content = content_of(&self.consumes);
                Some(format!("components/requestBodies/{name}/{content}{}", rest(&steps[2..])))
            }
            ["paths", path, method, "responses", code, "schema", ..] => {
                let content = content_of(&self.types_of_operation(path, method, "produces"));
                Some(format!("paths/{path}/{method}/responses/{code}/{content}{}", rest(&steps[5..])))
            }
            ["paths", path, method, "parameters", _, "schema", ..] => {
                let content = content_of(&self.types_of_operation(path, method, "consumes"));
                Some(format!("paths/{path}/{method}/requestBody/{content}{}", rest(&steps[5..])))
            }
            _ => None,
        };
        moved.map(|pointer| format!("#/{pointer}")).ok_or_else(|| {
            place.fault(&format!(
                "the reference {reference:?} leads to no schema; write the schema under `/definitions`"
            ))
        })
    }

    /// The media types of an operation that a pointer names; steps are as they stand in the pointer.
    fn types_of_operation(&self, path: &str, method: &str, field: &str) -> Vec<&'d str> {
        let operation = self.find(&format!("#/paths/{path}/{method}")).and_then(Value::as_object);
        // A list that is no list is refused where the operation is translated.
        let own = operation.and_then(|object| media_types(object, field, &SwaggerPlace::root()).ok()?);
        let general = if field == "produces" { &self.produces } else { &self.consumes };
        own.unwrap_or_else(|| general.clone())
    }

    /// The value in the source that a reference names.
    fn find(&self, reference: &str) -> Option<&'d Value> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.document.pointer(&pointer)
    }

    /// Follows the references of a parameter or a response in the source.
    pub(super) fn follow<'v>(&self, value: &'v Value, place: &SwaggerPlace<'_>) -> Result<&'v Value, String>
    where
        'd: 'v,
    {
        let mut target = value;
        for _ in 0..HOPS_MAX {
            let Some(reference) = reference_of(target) else { return Ok(target) };
            if !reference.starts_with('#') {
                return Err(place.fault(&format!(
                    "the reference {reference:?} leads to another document; write its target into this one"
                )));
            }
            target = self
                .find(reference)
                .ok_or_else(|| place.fault(&format!("the reference {reference:?} leads nowhere")))?;
        }
        Err(place.fault("references lead to each other in a circle"))
    }
}

/// The text of a reference.
pub(super) fn reference_of(value: &Value) -> Option<&str> {
    value.get("$ref").and_then(Value::as_str)
}

/// The name of a shared entry, as it stands in the pointer, if the value is a reference to one of `section`.
pub(super) fn shared_name<'v>(value: &'v Value, section: &str) -> Option<&'v str> {
    let name = reference_of(value)?.strip_prefix("#/")?.strip_prefix(section)?.strip_prefix('/')?;
    (!name.contains('/')).then_some(name)
}

/// The steps to the schema of the first media type.
fn content_of(types: &[&str]) -> String {
    let first = types.first().copied().unwrap_or(JSON_ONLY[0]);
    format!("content/{}", pointer_step(first))
}

/// The steps from `schema` on.
fn rest(steps: &[&str]) -> String {
    steps.iter().map(|step| format!("/{step}")).collect()
}
