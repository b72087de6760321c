//! One operation of an OpenAPI document, compiled: its parameters and the schemas of its body. Every fault
//! is a sentence with its place, a JSON pointer.

use contract::document::pointer_step;
use serde_json::Value;

use super::body::{BodyRule, MediaRule};
use super::parameters::{Parameter, ParameterLocation, Style};
use super::schemas::{Schemas, fault};

/// Parameters of one operation.
const PARAMETERS_MAX: usize = 512;
/// Media types of one body.
const MEDIA_TYPES_MAX: usize = 64;

/// An operation.
pub(crate) struct OasOperation {
    pub(crate) parameters: Box<[Parameter]>,
    pub(crate) body: Option<BodyRule>,
}

/// Compiles the operations of one document; equal schemas are compiled once.
pub(crate) struct OasCompiler<'d> {
    schemas: Schemas<'d>,
}

impl<'d> OasCompiler<'d> {
    /// For operations of `document`, of which `is_31` says that its schemas are of JSON Schema 2020-12.
    pub(crate) fn new(document: &'d Value, is_31: bool) -> OasCompiler<'d> {
        OasCompiler { schemas: Schemas::new(document, is_31) }
    }

    /// For responses instead of requests.
    pub(crate) fn for_responses(self) -> OasCompiler<'d> {
        OasCompiler { schemas: self.schemas.for_responses() }
    }

    /// Follows a reference at `written`; the place of what it leads to is given as well.
    ///
    /// # Errors
    /// It leads nowhere, out of the document, or in a circle.
    pub(crate) fn resolve(&self, written: &'d Value, place: &str) -> Result<(&'d Value, String), String> {
        self.schemas.resolve(written, place)
    }

    /// Compiles the operation at `place`, which `item` holds.
    ///
    /// # Errors
    /// The fault, with its place.
    pub(crate) fn operation(
        &mut self,
        item: &'d Value,
        written: &'d Value,
        place: &str,
    ) -> Result<OasOperation, String> {
        if !written.is_object() {
            return Err(fault(place, "an operation is an object"));
        }
        let mut parameters: Vec<Parameter> = Vec::new();
        // Those of the operation replace those of its path.
        for owner in [item, written] {
            let Some(list) = owner.get("parameters") else { continue };
            let at = format!("{place}/parameters");
            let list = list.as_array().ok_or_else(|| fault(&at, "it is an array"))?;
            for (index, written) in list.iter().enumerate() {
                let Some(parameter) = self.parameter(written, &format!("{at}/{index}"))? else { continue };
                parameters.retain(|known| known.name != parameter.name || known.place != parameter.place);
                parameters.push(parameter);
            }
            if parameters.len() > PARAMETERS_MAX {
                return Err(fault(&at, &format!("there are more than {PARAMETERS_MAX} parameters")));
            }
        }
        let body = written.get("requestBody");
        let body = body.map(|body| self.body(body, &format!("{place}/requestBody"))).transpose()?;
        Ok(OasOperation { parameters: parameters.into(), body })
    }

    /// A parameter; none for a field that OpenAPI leaves to other parts of the document.
    fn parameter(&mut self, written: &'d Value, place: &str) -> Result<Option<Parameter>, String> {
        let (written, place) = self.schemas.resolve(written, place)?;
        let text = |field: &str| written.get(field).and_then(Value::as_str);
        let name = text("name").ok_or_else(|| fault(&place, "the parameter has no name"))?;
        let at = match text("in") {
            Some("path") => ParameterLocation::Path,
            Some("query") => ParameterLocation::Query,
            Some("header") => ParameterLocation::Header,
            Some("cookie") => ParameterLocation::Cookie,
            _ => return Err(fault(&place, "`in` is path, query, header or cookie")),
        };
        let ignored = ["accept", "content-type", "authorization"];
        if at == ParameterLocation::Header && ignored.iter().any(|ignored| name.eq_ignore_ascii_case(ignored))
        {
            return Ok(None);
        }
        let content = written.get("content").and_then(Value::as_object).and_then(|all| all.iter().next());
        let (schema, style) = match content {
            Some((media_type, media)) => {
                let at = format!("{place}/content/{}", pointer_step(media_type));
                let schema = media.get("schema").map(|schema| (schema, format!("{at}/schema")));
                (schema, if is_json(media_type) { Style::Json } else { Style::Commas })
            }
            None => {
                let schema = written.get("schema").map(|schema| (schema, format!("{place}/schema")));
                (schema, style(at, text("style"), written.get("explode").and_then(Value::as_bool), &place)?)
            }
        };
        let schema = schema.map(|(schema, place)| self.schemas.compile(schema, &place)).transpose()?;
        let is_required =
            at == ParameterLocation::Path || written.get("required") == Some(&Value::Bool(true));
        Ok(Some(Parameter { name: name.into(), place: at, is_required, style, schema }))
    }

    /// Compiles the content of a request or response body.
    ///
    /// # Errors
    /// The fault, with its place.
    pub(crate) fn body(&mut self, written: &'d Value, place: &str) -> Result<BodyRule, String> {
        let (written, place) = self.schemas.resolve(written, place)?;
        let no_content = || fault(&place, "`content` is missing");
        let content = written.get("content").and_then(Value::as_object).ok_or_else(no_content)?;
        if content.len() > MEDIA_TYPES_MAX {
            return Err(fault(&place, &format!("there are more than {MEDIA_TYPES_MAX} media types")));
        }
        let mut media = Vec::new();
        for (media_type, written) in content {
            let at = format!("{place}/content/{}/schema", pointer_step(media_type));
            let schema = written.get("schema").map(|schema| self.schemas.compile(schema, &at)).transpose()?;
            media.push(MediaRule::new(media_type, schema));
        }
        let is_required = written.get("required") == Some(&Value::Bool(true));
        Ok(BodyRule { is_required, media: media.into() })
    }
}

/// The style of a parameter, by its place where it is not written.
fn style(
    at: ParameterLocation,
    written: Option<&str>,
    explode: Option<bool>,
    place: &str,
) -> Result<Style, String> {
    let default =
        if matches!(at, ParameterLocation::Query | ParameterLocation::Cookie) { "form" } else { "simple" };
    Ok(match written.unwrap_or(default) {
        "simple" => Style::Commas,
        "form" if explode == Some(false) => Style::Commas,
        "form" => Style::Repeated,
        "spaceDelimited" => Style::Spaces,
        "pipeDelimited" => Style::Pipes,
        "deepObject" => Style::Deep,
        "label" | "matrix" => {
            return Err(fault(place, "the styles label and matrix are not supported; write `simple`"));
        }
        _ => return Err(fault(place, "the style is unknown")),
    })
}

/// Whether a media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name == "application/json" || name == "text/json" || name.ends_with("+json")
}
