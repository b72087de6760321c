//! The body of a request: which of the media types of an operation it has, and whether its schema accepts it.

use std::sync::Arc;

use jsonx::Bounds;
use model::validate::{SchemaFault, SchemaSteps};
use serde_json::{Map, Value};

use super::operation::is_json;
use super::parameters::{coerced, decoded_arguments};
use super::schemas::{TypedSchema, ValueTypes};

/// Values in a body, those inside lists and objects included: they take about a hundred megabytes while it is
/// checked.
const VALUES_MAX: usize = 1_000_000;

/// The bounds of a body of JSON. Its length is bounded where it is read.
const BOUNDS: Bounds = Bounds::BODY.with_values(VALUES_MAX);

/// The rule for the bodies of an operation.
pub(crate) struct BodyRule {
    pub(crate) is_required: bool,
    pub(crate) media: Box<[MediaRule]>,
}

/// The rule for one media type.
pub(crate) struct MediaRule {
    /// In lower case, without parameters; it may end in `/*`.
    name: Box<str>,
    schema: Option<Arc<TypedSchema>>,
}

impl MediaRule {
    pub(crate) fn new(media_type: &str, schema: Option<Arc<TypedSchema>>) -> MediaRule {
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
    pub(crate) fn fault(
        &self,
        content_type: Option<&[u8]>,
        body: &[u8],
        steps: &mut SchemaSteps,
    ) -> Option<String> {
        match self.read(content_type, body) {
            Ok(None) => None,
            Ok(Some((schema, value))) => {
                schema.schema.fault(&value, steps).map(|fault| format!("body: {fault}"))
            }
            Err(fault) => Some(fault),
        }
    }

    /// All faults of a body.
    pub(crate) fn faults(
        &self,
        content_type: Option<&[u8]>,
        body: &[u8],
        steps: &mut SchemaSteps,
    ) -> Vec<SchemaFault> {
        match self.read(content_type, body) {
            Ok(None) => Vec::new(),
            Ok(Some((schema, value))) => schema.schema.faults(&value, steps),
            Err(reason) => vec![SchemaFault::of_rule("content", reason)],
        }
    }

    /// Whether a body of this media type has a schema that says something about it.
    pub(crate) fn checks(&self, content_type: Option<&[u8]>) -> bool {
        let media_type = content_type.map(|text| plain(&String::from_utf8_lossy(text)));
        let media_type = media_type.as_deref().unwrap_or("application/json");
        let rule = self.rule(media_type);
        rule.is_none_or(|rule| {
            rule.schema.is_some() && (is_json(media_type) || media_type.starts_with("text/"))
        })
    }

    /// The most exact rule for a media type.
    fn rule(&self, media_type: &str) -> Option<&MediaRule> {
        let rules = self.media.iter().filter(|rule| rule.fits(media_type) > 0);
        rules.max_by_key(|rule| rule.fits(media_type))
    }

    /// The value of a body with the schema that it has to obey; none where nothing is known of it.
    ///
    /// # Errors
    /// The body cannot be read, or the document has no such body.
    fn read(
        &self,
        content_type: Option<&[u8]>,
        body: &[u8],
    ) -> Result<Option<(&TypedSchema, Value)>, String> {
        if body.is_empty() {
            return match self.is_required {
                true => Err("request body is required".to_owned()),
                false => Ok(None),
            };
        }
        let media_type = match content_type {
            Some(text) => plain(&String::from_utf8_lossy(text)),
            None => "application/json".to_owned(),
        };
        let Some(rule) = self.rule(&media_type) else {
            return Err(format!("content type {media_type} is not in the document"));
        };
        let Some(schema) = rule.schema.as_deref() else { return Ok(None) };
        let value = match &*media_type {
            name if is_json(name) => match jsonx::parse(body, BOUNDS) {
                // The upstream could read the other one.
                Ok(parsed) if parsed.repeats_names => {
                    return Err("the body has two members with one name".to_owned());
                }
                Ok(parsed) => parsed.value.to_serde(),
                Err(error) if error.is_excess() => return Err(format!("the body has {error}")),
                Err(error) => return Err(format!("the body is not JSON: {error}")),
            },
            "application/x-www-form-urlencoded"
                if body.iter().filter(|byte| **byte == b'&').count() >= VALUES_MAX =>
            {
                return Err(format!("the body has more than {VALUES_MAX} values"));
            }
            "application/x-www-form-urlencoded" => form(body, &schema.types),
            name if name.starts_with("text/") => String::from_utf8_lossy(body).into_owned().into(),
            // Of other types nothing is known that a schema could check.
            _ => return Ok(None),
        };
        Ok(Some((schema, value)))
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
    use crate::shared::openapi::schemas::Schemas;

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
