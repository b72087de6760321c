//! An OpenAPI document, compiled: its paths, the parameters of each operation and the schemas of its bodies.
//! Every fault of the document is told with its place, a JSON pointer.

use std::sync::Arc;

use jsonx::Bounds;
use message::Method;
use model::lenient_json;
use serde_json::{Map, Value};

use super::body::{BodyRule, MediaRule};
use super::parameters::{Parameter, ParameterLocation, Style};
use super::paths::Paths;
use super::schemas::{Schemas, escape_pointer_token, fault};

/// Bytes of a document.
pub(super) const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Parameters of one operation.
const PARAMETERS_MAX: usize = 512;
/// Values of a document, those inside lists and objects included: it takes about a hundred megabytes while it
/// is read.
const VALUES_MAX: usize = 1_000_000;
/// Media types of one body.
const MEDIA_TYPES_MAX: usize = 64;

/// Methods of a path item.
const METHODS: [(&str, Method); 8] = [
    ("get", Method::Get),
    ("put", Method::Put),
    ("post", Method::Post),
    ("delete", Method::Delete),
    ("options", Method::Options),
    ("head", Method::Head),
    ("patch", Method::Patch),
    ("trace", Method::Trace),
];

/// See the module.
pub(super) struct OasDocument {
    paths: Paths<Vec<(Method, Arc<OasOperation>)>>,
    /// The paths of the servers, which paths of requests begin with.
    bases: Vec<Box<str>>,
}

/// An operation.
pub(super) struct OasOperation {
    pub(super) parameters: Box<[Parameter]>,
    pub(super) body: Option<BodyRule>,
}

/// The operation of a request, and the values of the parameters in its path by their names.
type OperationMatch<'d, 'p> = (Arc<OasOperation>, Vec<(&'d str, &'p str)>);

impl OasDocument {
    /// Reads a document in JSON.
    ///
    /// # Errors
    /// It is no JSON (in APISIX's words), or faulty.
    pub(super) fn read(text: &str) -> Result<OasDocument, String> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(format!("the document has more than {DOCUMENT_BYTES_MAX} bytes"));
        }
        jsonx::measure(text.as_bytes(), Bounds::DEFAULT.with_values(VALUES_MAX))
            .map_err(|error| format!("invalid JSON string provided, err: {error}"))?;
        let document: Value = lenient_json::from_slice(text.as_bytes())
            .map_err(|error| format!("invalid JSON string provided, err: {error}"))?;
        OasDocument::compile(&document)
    }

    fn compile(document: &Value) -> Result<OasDocument, String> {
        let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
        if !version.starts_with("3.") {
            return Err(fault("/openapi", "the version of OpenAPI has to be 3.0, 3.1 or a later 3"));
        }
        let mut compiler = OasCompiler { schemas: Schemas::new(document, !version.starts_with("3.0")) };
        let written = match document.get("paths") {
            Some(Value::Object(paths)) => paths,
            // A document of 3.1 may have none.
            None => &Map::new(),
            Some(_) => return Err(fault("/paths", "it is an object")),
        };
        let mut paths = Paths::default();
        for (template, item) in written {
            if !template.starts_with('/') {
                // An extension, or no path.
                continue;
            }
            let place = format!("/paths/{}", escape_pointer_token(template));
            let operations = compiler.item(item, &place)?;
            paths.add(template, operations).map_err(|reason| fault(&place, &reason))?;
        }
        Ok(OasDocument { paths, bases: bases(document) })
    }

    /// The operation of a request with this method and path.
    pub(super) fn find<'d, 'p>(&'d self, method: Method, path: &'p str) -> Option<OperationMatch<'d, 'p>> {
        let of = |operations: &Vec<(Method, Arc<OasOperation>)>| {
            operations.iter().find(|(known, _)| *known == method).map(|(_, operation)| operation.clone())
        };
        let based = self.bases.iter().filter_map(|base| path.strip_prefix(&**base));
        let mut candidates = based.filter(|rest| rest.starts_with('/')).chain([path]);
        candidates.find_map(|path| {
            let (operations, values) = self.paths.find(path, &|operations| of(operations).is_some())?;
            Some((of(operations)?, values))
        })
    }
}

/// The paths in the URLs of the servers.
fn bases(document: &Value) -> Vec<Box<str>> {
    let servers = document.get("servers").and_then(Value::as_array);
    let path = |server: &Value| {
        let url = server.get("url")?.as_str()?;
        let path = match url.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/')?..],
            None => url,
        };
        let path = path.trim_end_matches('/');
        (path.starts_with('/') && !path.contains('{')).then(|| path.into())
    };
    servers.into_iter().flatten().filter_map(path).collect()
}

struct OasCompiler<'d> {
    schemas: Schemas<'d>,
}

impl<'d> OasCompiler<'d> {
    fn item(&mut self, written: &'d Value, place: &str) -> Result<Vec<(Method, Arc<OasOperation>)>, String> {
        let (item, place) = self.schemas.resolve(written, place)?;
        let mut operations = Vec::new();
        for (name, method) in METHODS {
            if let Some(operation) = item.get(name) {
                let place = format!("{place}/{name}");
                operations.push((method, Arc::new(self.operation(item, operation, &place)?)));
            }
        }
        Ok(operations)
    }

    fn operation(
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
                let at = format!("{place}/content/{}", escape_pointer_token(media_type));
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

    fn body(&mut self, written: &'d Value, place: &str) -> Result<BodyRule, String> {
        let (written, place) = self.schemas.resolve(written, place)?;
        let no_content = || fault(&place, "`content` is missing");
        let content = written.get("content").and_then(Value::as_object).ok_or_else(no_content)?;
        if content.len() > MEDIA_TYPES_MAX {
            return Err(fault(&place, &format!("there are more than {MEDIA_TYPES_MAX} media types")));
        }
        let mut media = Vec::new();
        for (media_type, written) in content {
            let at = format!("{place}/content/{}/schema", escape_pointer_token(media_type));
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
pub(super) fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name == "application/json" || name == "text/json" || name.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faulty_documents_are_told_with_their_place() {
        let check = |document: Value, expected: &str| {
            let got = OasDocument::read(&document.to_string()).err().unwrap_or_default();
            assert!(got.contains(expected), "{document}: {got}");
        };
        let with = |operation: Value| json!({"openapi": "3.0.2", "paths": {"/a/b": {"post": operation}}});
        check(json!({"swagger": "2.0"}), "/openapi: the version of OpenAPI has to be 3.0");
        check(json!({"openapi": "3.0.0", "paths": []}), "/paths: it is an object");
        check(with(json!(1)), "/paths/~1a~1b/post: an operation is an object");
        check(
            with(json!({"parameters": [{"name": "a", "in": "body"}]})),
            "/paths/~1a~1b/post/parameters/0: `in` is path",
        );
        check(with(json!({"parameters": [{"in": "path"}]})), "/parameters/0: the parameter has no name");
        check(with(json!({"parameters": [{"name": "a", "in": "path", "style": "matrix"}]})), "not supported");
        check(with(json!({"parameters": [{"$ref": "#/components/parameters/No"}]})), "leads nowhere");
        check(with(json!({"requestBody": {}})), "/paths/~1a~1b/post/requestBody: `content` is missing");
        let schema = json!({"requestBody": {"content": {"application/json": {"schema": {"type": "text"}}}}});
        check(with(schema), "/paths/~1a~1b/post/requestBody/content/application~1json/schema: ");
        check(
            json!({"openapi": "3.0.0", "paths": {"/a/{": {}}}),
            "/paths/~1a~1{: a parameter has no closing brace",
        );
        let text = OasDocument::read("{").err().unwrap_or_default();
        assert!(text.starts_with("invalid JSON string provided, err: "), "{text}");
        let deep = "[".repeat(10_000);
        assert!(OasDocument::read(&deep).is_err());
    }

    #[test]
    fn operations_are_found_below_servers_and_without() {
        let document = json!({
            "openapi": "3.1.0", "servers": [{"url": "https://example.com/api/v3/"}, {"url": "/v4"}, {"url": "https://example.com"}],
            "paths": {"/pets/{id}": {"get": {}}, "/pets/mine": {"$ref": "#/components/pathItems/Mine"}},
            "components": {"pathItems": {"Mine": {"put": {}}}},
        });
        let document = OasDocument::read(&document.to_string()).unwrap();
        let check = |method: Method, path: &str, expected: Option<Option<&str>>| {
            let found =
                document.find(method, path).map(|(_, values)| values.first().map(|(_, value)| *value));
            assert_eq!(found, expected, "{path}");
        };
        check(Method::Get, "/api/v3/pets/7", Some(Some("7")));
        check(Method::Get, "/v4/pets/7", Some(Some("7")));
        check(Method::Get, "/pets/7", Some(Some("7")));
        check(Method::Get, "/pets/mine", Some(Some("mine")));
        check(Method::Put, "/pets/mine", Some(None));
        check(Method::Put, "/pets/7", None);
        check(Method::Get, "/v5/pets/7", None);
        check(Method::Get, "/api/v3pets/7", None);
    }
}
