//! The body of a request: which of the media types of an operation it has, and whether its schema accepts it.

use std::sync::Arc;

use jsonx::Bounds;
use model::validate::SchemaSteps;
use serde_json::{Map, Value};

use super::document::is_json;
use super::parameters::{coerced, decoded_arguments};
use super::schemas::{TypedSchema, ValueTypes};

/// Values in a body, those inside lists and objects included: they take about a hundred megabytes while it is
/// checked.
const VALUES_MAX: usize = 1_000_000;

/// The bounds of a body of JSON. Its length is bounded where it is read.
const BOUNDS: Bounds = Bounds::BODY.with_values(VALUES_MAX);

/// The rule for the bodies of an operation.
pub(super) struct BodyRule {
    pub(super) is_required: bool,
    pub(super) media: Box<[MediaRule]>,
}

/// The rule for one media type.
pub(super) struct MediaRule {
    /// In lower case, without parameters; it may end in `/*`.
    name: Box<str>,
    schema: Option<Arc<TypedSchema>>,
}

impl MediaRule {
    pub(super) fn new(media_type: &str, schema: Option<Arc<TypedSchema>>) -> MediaRule {
        MediaRule { name: plain(media_type).into(), schema }
    }

    /// How exactly the rule is for a type: 0 not at all.
    fn fits(&self, media_type: &str) -> u8 {
        match self.name.strip_suffix('*') {
            None => 3 * u8::from(*self.name == *media_type),
            Some("*/") => 1,
            Some(start) => 2 * u8::from(media_type.starts_with(start)),
        }
    }
}

/// A media type without parameters, in lower case.
fn plain(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl BodyRule {
    /// The first fault of a body.
    pub(super) fn fault(
        &self,
        content_type: Option<&[u8]>,
        body: &[u8],
        steps: &mut SchemaSteps,
    ) -> Option<String> {
        if body.is_empty() {
            return self.is_required.then(|| "request body is required".to_owned());
        }
        let media_type = match content_type {
            Some(text) => plain(&String::from_utf8_lossy(text)),
            None => "application/json".to_owned(),
        };
        let rule = self.media.iter().filter(|rule| rule.fits(&media_type) > 0);
        let Some(rule) = rule.max_by_key(|rule| rule.fits(&media_type)) else {
            return Some(format!("content type {media_type} is not in the document"));
        };
        let schema = rule.schema.as_ref()?;
        let value = match &*media_type {
            name if is_json(name) => match jsonx::parse(body, BOUNDS) {
                // The upstream could read the other one.
                Ok(parsed) if parsed.repeats_names => {
                    return Some("the body has two members with one name".to_owned());
                }
                Ok(parsed) => parsed.value.to_serde(),
                Err(error) if error.is_excess() => return Some(format!("the body has {error}")),
                Err(error) => return Some(format!("the body is not JSON: {error}")),
            },
            "application/x-www-form-urlencoded"
                if body.iter().filter(|byte| **byte == b'&').count() >= VALUES_MAX =>
            {
                return Some(format!("the body has more than {VALUES_MAX} values"));
            }
            "application/x-www-form-urlencoded" => form(body, &schema.types),
            name if name.starts_with("text/") => String::from_utf8_lossy(body).into_owned().into(),
            // Of other types nothing is known that a schema could check.
            _ => return None,
        };
        schema.schema.fault(&value, steps).map(|fault| format!("body: {fault}"))
    }
}

/// A form as an object; the schema says which values are lists and numbers.
fn form(body: &[u8], types: &ValueTypes) -> Value {
    let properties = types.properties.as_deref().unwrap_or_default();
    let plain = ValueTypes::default();
    let mut object = Map::new();
    for (name, text) in decoded_arguments(body) {
        let types = properties.iter().find(|(known, _)| *known == name).map(|(_, types)| types);
        let items = types.and_then(|types| types.items.as_deref());
        let value = coerced(&text, items.or(types).unwrap_or(&plain));
        match object.get_mut(&name) {
            None if items.is_some() => {
                object.insert(name, vec![value].into());
            }
            None => {
                object.insert(name, value);
            }
            Some(Value::Array(all)) => all.push(value),
            // A list, which the schema of a single value refuses.
            Some(single) => *single = Value::Array(vec![single.take(), value]),
        }
    }
    object.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oas_validator::schemas::Schemas;

    #[test]
    fn body_is_checked_by_its_media_type() {
        let document = json!({});
        let mut schemas = Schemas::new(&document, false);
        let object = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}});
        let text = json!({"type": "string", "maxLength": 3});
        let compiled = schemas.compile(&object, "/x").unwrap();
        let rule = BodyRule {
            is_required: true,
            media: [
                MediaRule::new("Application/JSON; charset=utf-8", Some(compiled.clone())),
                MediaRule::new("application/x-www-form-urlencoded", Some(compiled)),
                MediaRule::new("text/*", Some(schemas.compile(&text, "/y").unwrap())),
                MediaRule::new("text/free", None),
                MediaRule::new("image/png", Some(schemas.compile(&text, "/y").unwrap())),
            ]
            .into(),
        };
        let check = |content_type: Option<&str>, body: &str, expected: Option<&str>| {
            let mut steps = SchemaSteps::on_worker();
            let fault = rule.fault(content_type.map(str::as_bytes), body.as_bytes(), &mut steps);
            match expected {
                None => assert_eq!(fault, None, "{content_type:?} {body}"),
                Some(part) => {
                    assert!(fault.as_ref().is_some_and(|fault| fault.contains(part)), "{body}: {fault:?}")
                }
            }
        };
        check(Some("application/json"), r#"{"n":1}"#, None);
        check(Some("application/json;x=y"), r#"{"n":"1"}"#, Some("body: property \"n\""));
        let many = format!(r#"{{"n":1,"other":[{}0]}}"#, "0,".repeat(VALUES_MAX));
        check(None, &many, Some("the body has more than 1000000 values"));
        check(Some("application/x-www-form-urlencoded"), &"&".repeat(VALUES_MAX), Some("more than 1000000"));
        check(None, r#"{}"#, Some("body: property \"n\" is required"));
        check(None, "", Some("request body is required"));
        check(Some("application/json"), "{", Some("the body is not JSON"));
        check(Some("application/x-www-form-urlencoded"), "n=1&tags=a&tags=b", None);
        check(Some("application/x-www-form-urlencoded"), "n=1&tags=a", None);
        check(Some("application/x-www-form-urlencoded"), "n=1&n=2", Some("wrong type"));
        check(Some("text/plain"), "abc", None);
        check(Some("text/plain"), "abcd", Some("body: "));
        check(Some("text/free"), "abcd", None);
        check(Some("image/png"), "long enough", None);
        check(Some("application/xml"), "<a/>", Some("content type application/xml is not in the document"));
    }
}
