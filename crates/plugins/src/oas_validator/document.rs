//! An OpenAPI document, compiled: its paths, the parameters of each operation and the schemas of its bodies.
//! Every fault of the document is told with its place, a JSON pointer.

use contract::document::pointer_step;
use std::sync::Arc;

use jsonx::Bounds;
use message::Method;
use model::lenient_json;
use serde_json::{Map, Value};

use super::paths::Paths;
use crate::shared::openapi::operation::{OasCompiler, OasOperation};
use crate::shared::openapi::schemas::fault;

/// Bytes of a document.
pub(super) const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Values of a document, those inside lists and objects included: it takes about a hundred megabytes while it
/// is read.
const VALUES_MAX: usize = 1_000_000;

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
        let mut compiler = OasCompiler::new(document, !version.starts_with("3.0"));
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
            let place = format!("/paths/{}", pointer_step(template));
            let operations = of_item(&mut compiler, item, &place)?;
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

/// The operations of a path.
fn of_item<'d>(
    compiler: &mut OasCompiler<'d>,
    written: &'d Value,
    place: &str,
) -> Result<Vec<(Method, Arc<OasOperation>)>, String> {
    let (item, place) = compiler.resolve(written, place)?;
    let mut operations = Vec::new();
    for (name, method) in METHODS {
        if let Some(operation) = item.get(name) {
            let place = format!("{place}/{name}");
            operations.push((method, Arc::new(compiler.operation(item, operation, &place)?)));
        }
    }
    Ok(operations)
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
