//! The text of a contract as a document of OpenAPI 3: read within limits, of any of the three versions, with
//! the line of each place for messages.

use std::any::Any;
use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::operation::{ContractOperation, OperationPlace};
use crate::swagger2;

/// Bytes of a document: the largest public ones (Stripe, GitHub, Microsoft Graph) have 5 to 30 MB, and one of
/// this size takes about ten times as much while it is read.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// References that lead to each other before something else is found.
const HOPS_MAX: usize = 16;

/// A fault of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentFault {
    /// The JSON pointer to the place in the document; empty for the whole.
    pub pointer: String,
    /// The line of the place, from 1.
    pub line: usize,
    /// The fault, a sentence without the place.
    pub reason: String,
}

impl std::fmt::Display for DocumentFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "line {}", self.line)?;
        if !self.pointer.is_empty() {
            write!(formatter, " {}", self.pointer)?;
        }
        write!(formatter, ": {}", self.reason)
    }
}

/// A document of OpenAPI 3.0 or 3.1; one of Swagger 2 was translated.
pub struct ContractDocument {
    /// The document.
    pub value: Value,
    /// The version as written: `2.0`, `3.0.3`, `3.1.0`.
    pub version: Box<str>,
    /// The operations by their names, made when they are first looked for.
    index: OnceLock<HashMap<Box<str>, OperationPlace>>,
    /// The form into which the plugin that serves contracts has compiled the document.
    compiled: OnceLock<Box<dyn Any + Send + Sync>>,
    /// As read, for the lines; places of a translated document are not in it.
    marked: yaml::Marked,
}

impl std::fmt::Debug for ContractDocument {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ContractDocument").field("version", &self.version).finish_non_exhaustive()
    }
}

impl ContractDocument {
    /// Reads a document in YAML or JSON.
    ///
    /// # Errors
    /// It is too long, no document of plain values, or of no known version of OpenAPI.
    pub fn read(text: &str) -> Result<ContractDocument, DocumentFault> {
        let general = |line: usize, reason: String| DocumentFault { pointer: String::new(), line, reason };
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(general(1, format!("the document has more than {DOCUMENT_BYTES_MAX} bytes")));
        }
        let mut marked = yaml::parse(text).map_err(|fault| general(fault.line, fault.reason))?;
        let value = std::mem::take(&mut marked.value);
        let name = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        let (version, is_swagger) = match (name("openapi"), name("swagger")) {
            (Some(version), _) if version.starts_with("3.") => (version, false),
            (None, Some(version)) if version == "2.0" => (version, true),
            (Some(version), _) => {
                let reason = format!("`openapi` is {version:?}; the versions 3.0 and 3.1 can be read");
                return Err(fault_at(&marked, "/openapi", reason));
            }
            (None, Some(version)) => {
                let reason = format!("`swagger` is {version:?}; the version \"2.0\" can be read");
                return Err(fault_at(&marked, "/swagger", reason));
            }
            (None, None) => {
                let reason = "this is no OpenAPI document: write the text `openapi: \"3.1.0\"` (or \"3.0.3\", or \
                              `swagger: \"2.0\"`) at the top";
                return Err(general(1, reason.to_owned()));
            }
        };
        let value = if is_swagger {
            swagger2::from_swagger2(&value).map_err(|text| {
                let (pointer, reason) = match text.split_once(": ") {
                    Some((pointer, reason)) if pointer.starts_with('/') => (pointer, reason),
                    _ => ("", &*text),
                };
                fault_at(&marked, pointer, reason.to_owned())
            })?
        } else {
            value
        };
        Ok(ContractDocument {
            value,
            version: version.into(),
            index: OnceLock::new(),
            compiled: OnceLock::new(),
            marked,
        })
    }

    /// The operation of that name; none as well for a document with a fault.
    #[must_use]
    pub fn find_operation(&self, id: &str) -> Option<&OperationPlace> {
        let index = || {
            let operations = self.operations().unwrap_or_default().into_iter();
            let place = |operation: ContractOperation<'_>| {
                let place = OperationPlace {
                    method: operation.method,
                    path: operation.path.into(),
                    place: operation.place.into(),
                };
                (operation.id, place)
            };
            operations.map(place).collect()
        };
        self.index.get_or_init(index).get(id)
    }

    /// The form into which the plugin that serves contracts compiles the document, made once.
    ///
    /// # Errors
    /// That of `make`.
    pub fn compiled<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Option<&T>, E> {
        if self.compiled.get().is_none() {
            // Of two threads that make it at once, one has made it in vain.
            let _ = self.compiled.set(Box::new(make()?));
        }
        Ok(self.compiled.get().and_then(|compiled| compiled.downcast_ref()))
    }

    /// Whether schemas are those of JSON Schema 2020-12 (OpenAPI 3.1 and later).
    #[must_use]
    pub fn is_31(&self) -> bool {
        !(self.version.starts_with("3.0") || self.version.starts_with('2'))
    }

    /// A fault at a place of the document.
    #[must_use]
    pub fn fault(&self, pointer: &str, reason: impl Into<String>) -> DocumentFault {
        fault_at(&self.marked, pointer, reason.into())
    }

    /// The path of the first server, without a slash at its end; empty where there is none or it has
    /// variables.
    #[must_use]
    pub fn server_path(&self) -> &str {
        let url = self.value.pointer("/servers/0/url").and_then(Value::as_str).unwrap_or_default();
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
            None => url,
        };
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        if path.starts_with('/') && !path.contains(['{', '*']) { path } else { "" }
    }

    /// Follows references at `written` inside the document; with the pointer to the place where they lead.
    ///
    /// # Errors
    /// A reference leads nowhere, out of the document, or in a circle.
    pub fn resolve<'d>(
        &'d self,
        written: &'d Value,
        place: &str,
    ) -> Result<(&'d Value, String), DocumentFault> {
        let (mut target, mut at) = (written, place.to_owned());
        for _ in 0..HOPS_MAX {
            let Some(reference) = target.get("$ref").and_then(Value::as_str) else { return Ok((target, at)) };
            let Some(pointer) = reference.strip_prefix('#') else {
                let reason = format!("$ref {reference:?} leads to another document; write it into this one");
                return Err(self.fault(&at, reason));
            };
            let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned();
            let missing = || self.fault(&at, format!("$ref {reference:?} leads nowhere"));
            target = self.value.pointer(&pointer).ok_or_else(missing)?;
            at = pointer;
        }
        Err(self.fault(place, "references lead to each other in a circle"))
    }
}

fn fault_at(marked: &yaml::Marked, pointer: &str, reason: String) -> DocumentFault {
    DocumentFault { pointer: pointer.to_owned(), line: marked.line(pointer), reason }
}

/// A step of a JSON pointer (RFC 6901).
#[must_use]
pub fn pointer_step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_line_and_place() {
        for (text, expected) in [
            ("a: 1", "line 1: this is no OpenAPI document"),
            ("info: {}\nopenapi: 2.1.0", "line 2 /openapi: `openapi` is \"2.1.0\""),
            ("x: 1\nswagger: '1.2'", "line 2 /swagger: `swagger` is \"1.2\""),
            ("openapi: 3.0.0\na: [", "line 3: while parsing"),
            ("openapi: 3.0.0\na: 1\na: 2", "line 3: the key `a` is there twice"),
        ] {
            let fault = ContractDocument::read(text).unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{text:?}: {fault}");
        }
    }

    #[test]
    fn server_path_is_plain() {
        for (servers, expected) in [
            ("[{url: 'https://a.test/v2/'}]", "/v2"),
            ("[{url: /v3}]", "/v3"),
            ("[{url: 'https://a.test'}]", ""),
            ("[{url: 'https://a.test/{v}'}]", ""),
            ("[]", ""),
        ] {
            let document = ContractDocument::read(&format!("openapi: 3.0.0\nservers: {servers}")).unwrap();
            assert_eq!(document.server_path(), expected, "{servers}");
        }
    }

    #[test]
    fn references_are_followed_inside() {
        let document = ContractDocument::read(
            "openapi: 3.0.0\na: {$ref: '#/b~1c'}\nb/c: {x: 1}\nl: {$ref: '#/l'}\no: {$ref: 'o.yaml'}",
        )
        .unwrap();
        let resolve = |name: &str| {
            let place = format!("/{name}");
            document.resolve(&document.value[name], &place).map(|(value, at)| (value.clone(), at))
        };
        assert_eq!(resolve("a").unwrap(), (serde_json::json!({"x": 1}), "/b~1c".to_owned()));
        assert!(resolve("l").unwrap_err().to_string().contains("in a circle"));
        assert_eq!(resolve("o").unwrap_err().line, 5);
    }
}
