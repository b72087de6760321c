//! The operations of a document: method and path, the name, what it asks of a caller, and what `x-weir-`
//! fields say of its route.

use std::collections::HashMap;

use serde_json::Value;

use crate::document::{ContractDocument, DocumentFault, pointer_step};

/// Operations of one contract; a public document has at most some 10,000.
pub const OPERATIONS_MAX: usize = 20_000;
/// Bytes of the name of an operation; it is a part of the name of its route.
const OPERATION_ID_BYTES_MAX: usize = 200;

/// The methods of a path item, in the order of the specification.
pub const PATH_ITEM_METHODS: [(&str, &str); 8] = [
    ("get", "GET"),
    ("put", "PUT"),
    ("post", "POST"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
    ("head", "HEAD"),
    ("patch", "PATCH"),
    ("trace", "TRACE"),
];

/// One operation of a document.
#[derive(Debug)]
pub struct ContractOperation<'d> {
    /// Its `operationId`, or one made of method and path (`get_pets_petId`).
    pub id: Box<str>,
    /// `GET`.
    pub method: &'static str,
    /// The template as written: `/pets/{petId}`.
    pub path: &'d str,
    /// The JSON pointer to the operation.
    pub place: String,
    /// The operation as written.
    pub written: &'d Value,
    /// The path item, references followed.
    pub item: &'d Value,
    /// The credentials of a caller: one of these, each a set of schemes with scopes. Empty: none.
    pub security: Vec<Vec<SchemeUse<'d>>>,
}

/// Where an operation is.
#[derive(Debug)]
pub struct OperationPlace {
    /// `GET`.
    pub method: &'static str,
    /// The template as written.
    pub path: Box<str>,
    /// The JSON pointer to the operation.
    pub place: Box<str>,
}

/// A security scheme that an operation asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeUse<'d> {
    /// Its name in the document.
    pub name: &'d str,
    /// The scopes or roles.
    pub scopes: Vec<&'d str>,
}

impl ContractDocument {
    /// All operations, in the order written. Paths that begin with `x-` are none.
    ///
    /// # Errors
    /// The first fault: a path that is none, two operations with one name, two templates that match the same
    /// paths with one method, a reference that leads nowhere.
    pub fn operations(&self) -> Result<Vec<ContractOperation<'_>>, DocumentFault> {
        let paths = match self.value.get("paths") {
            Some(Value::Object(paths)) => Some(paths),
            None | Some(Value::Null) => None,
            Some(_) => return Err(self.fault("/paths", "`paths` is an object")),
        };
        let mut operations = Vec::new();
        let mut ids: HashMap<Box<str>, String> = HashMap::new();
        let mut forms: HashMap<(String, &str), &str> = HashMap::new();
        for (path, item) in paths.into_iter().flatten() {
            if path.starts_with("x-") {
                continue;
            }
            let place = format!("/paths/{}", pointer_step(path));
            if !path.starts_with('/') {
                return Err(self.fault(&place, "a path begins with `/`"));
            }
            if path.contains(['?', '#']) {
                return Err(self.fault(&place, "a path has no `?` and no `#`; write a parameter `in: query`"));
            }
            let (item, item_place) = self.resolve(item, &place)?;
            for (field, method) in PATH_ITEM_METHODS {
                let Some(written) = item.get(field) else { continue };
                let at = format!("{item_place}/{field}");
                let operation = self.operation(path, item, method, written, at)?;
                if let Some(other) = forms.insert((form_of(path), method), path) {
                    let reason = format!("{method} {path} matches the same requests as {method} {other}");
                    return Err(self.fault(&operation.place, reason));
                }
                if let Some(other) = ids.insert(operation.id.clone(), operation.place.clone()) {
                    let reason = format!("operationId {:?} is also at {other}", operation.id);
                    return Err(self.fault(&operation.place, reason));
                }
                operations.push(operation);
                if operations.len() > OPERATIONS_MAX {
                    let reason = format!("there are more than {OPERATIONS_MAX} operations");
                    return Err(self.fault("/paths", reason));
                }
            }
        }
        Ok(operations)
    }

    fn operation<'d>(
        &'d self,
        path: &'d str,
        item: &'d Value,
        method: &'static str,
        written: &'d Value,
        place: String,
    ) -> Result<ContractOperation<'d>, DocumentFault> {
        if !written.is_object() {
            return Err(self.fault(&place, "an operation is an object"));
        }
        let id: Box<str> = match written.get("operationId") {
            Some(Value::String(id)) if is_operation_id(id) => id.as_str().into(),
            Some(_) => {
                let reason = format!(
                    "operationId is a text of 1 to {OPERATION_ID_BYTES_MAX} characters without spaces, slashes and control characters"
                );
                return Err(self.fault(&place, reason));
            }
            None => implied_id(method, path),
        };
        let security = match written.get("security").or_else(|| self.value.get("security")) {
            None => Vec::new(),
            Some(list) => self.requirements(list, &place)?,
        };
        Ok(ContractOperation { id, method, path, place, written, item, security })
    }

    fn requirements<'d>(
        &self,
        list: &'d Value,
        place: &str,
    ) -> Result<Vec<Vec<SchemeUse<'d>>>, DocumentFault> {
        let faulty = || self.fault(&format!("{place}/security"), "`security` is a list of objects of lists");
        let list = list.as_array().ok_or_else(faulty)?;
        let one = |requirement: &'d Value| {
            let schemes = requirement.as_object()?.iter().map(|(name, scopes)| {
                let scopes = scopes.as_array()?.iter().map(Value::as_str).collect::<Option<Vec<&str>>>()?;
                Some(SchemeUse { name, scopes })
            });
            schemes.collect::<Option<Vec<_>>>()
        };
        list.iter().map(|requirement| one(requirement).ok_or_else(faulty)).collect()
    }
}

impl ContractOperation<'_> {
    /// The value of an `x-weir-` field, which the operation has, else its path, else the document.
    #[must_use]
    pub fn extension<'d>(&self, document: &'d ContractDocument, name: &str) -> Option<&'d Value>
    where
        Self: 'd,
    {
        let of_item = document.value.pointer(&self.place).and_then(|written| written.get(name));
        let item_place = self.place.rsplit_once('/').map_or("", |(item, _)| item);
        of_item
            .or_else(|| document.value.pointer(item_place).and_then(|item| item.get(name)))
            .or_else(|| document.value.get(name))
    }
}

/// A path with all names of parameters left out: two templates with the same form match the same paths.
fn form_of(path: &str) -> String {
    let mut form = String::with_capacity(path.len());
    let mut is_name = false;
    for character in path.chars() {
        match character {
            '{' => is_name = true,
            '}' => is_name = false,
            _ if is_name => continue,
            _ => {}
        }
        form.push(character);
    }
    form
}

fn is_operation_id(id: &str) -> bool {
    let is_plain =
        |character: char| !(character.is_whitespace() || character.is_control() || character == '/');
    (1..=OPERATION_ID_BYTES_MAX).contains(&id.len()) && id.chars().all(is_plain)
}

/// The name of an operation that has none: `get_pets_petId` of `GET /pets/{petId}`.
fn implied_id(method: &str, path: &str) -> Box<str> {
    let mut id = method.to_ascii_lowercase();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        id.push('_');
        id.extend(segment.chars().map(|letter| match letter {
            '{' | '}' => ' ',
            letter if letter.is_ascii_alphanumeric() || "-.~_".contains(letter) => letter,
            _ => '-',
        }));
    }
    id.retain(|letter| letter != ' ');
    id.truncate(OPERATION_ID_BYTES_MAX);
    id.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Result<Vec<String>, String> {
        let document = ContractDocument::read(text).map_err(|fault| fault.to_string())?;
        let operations = document.operations().map_err(|fault| fault.to_string())?;
        Ok(operations
            .iter()
            .map(|operation| format!("{} {} {}", operation.id, operation.method, operation.path))
            .collect())
    }

    #[test]
    fn operations_are_listed_with_names() {
        let text = "openapi: 3.1.0\npaths:\n  /pets/{id}:\n    get: {operationId: getPet}\n    delete: {}\n  \
                    x-note: 1\n  /a.b/{c}:d: {$ref: '#/components/pathItems/X'}\n\
                    components: {pathItems: {X: {post: {}}}}";
        let expected =
            ["getPet GET /pets/{id}", "delete_pets_id DELETE /pets/{id}", "post_a.b_c-d POST /a.b/{c}:d"];
        assert_eq!(listed(text).unwrap(), expected);
    }

    #[test]
    fn faulty_operations_are_refused() {
        let check = |paths: &str, expected: &str| {
            let fault = listed(&format!("openapi: 3.0.0\npaths:\n  {paths}")).unwrap_err();
            assert!(fault.contains(expected), "{paths}: {fault}");
        };
        check("pets: {}", "line 3 /paths/pets: a path begins with `/`");
        check("/a?b: {}", "a path has no `?`");
        check("/a: {get: 1}", "an operation is an object");
        check("/a: {get: {operationId: 'a b'}}", "operationId is a text");
        check(
            "/a: {get: {operationId: x}}\n  /b: {get: {operationId: x}}",
            "line 4 /paths/~1b/get: operationId \"x\" is also at",
        );
        check("/a/{x}: {get: {}}\n  /a/{y}: {get: {}}", "GET /a/{y} matches the same requests as GET /a/{x}");
        check("/a: {get: {security: {}}}", "`security` is a list");
        check("/a: {$ref: '#/nope'}", "leads nowhere");
    }

    #[test]
    fn security_of_operation_wins() {
        let text = "openapi: 3.0.0\nsecurity: [{key: []}]\npaths:\n  /a:\n    get: {security: []}\n    put: {}\n    \
                    post: {security: [{o: [r, w], k: []}, {}]}";
        let document = ContractDocument::read(text).unwrap();
        let operations = document.operations().unwrap();
        let counts: Vec<usize> = operations.iter().map(|operation| operation.security.len()).collect();
        assert_eq!(counts, [0, 1, 2]);
        assert_eq!(operations[2].security[0][0], SchemeUse { name: "o", scopes: vec!["r", "w"] });
    }

    #[test]
    fn nearest_extension_wins() {
        let text = "openapi: 3.0.0\nx-weir-timeout: 1\npaths:\n  /a:\n    x-weir-timeout: 2\n    \
                    get: {x-weir-timeout: 3}\n    put: {}\n  /b: {get: {}}";
        let document = ContractDocument::read(text).unwrap();
        let operations = document.operations().unwrap();
        let found: Vec<_> = operations
            .iter()
            .map(|one| one.extension(&document, "x-weir-timeout").cloned().unwrap())
            .collect();
        assert_eq!(found, [3, 2, 1]);
    }
}
