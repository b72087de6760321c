//! The operations of a document, compiled once for all routes of a contract.

use std::collections::HashMap;
use std::sync::Arc;

use contract::{ContractDocument, ContractOperation, DocumentFault};
use router::PathTemplate;
use serde_json::Value;

use crate::shared::openapi::body::BodyRule;
use crate::shared::openapi::operation::{OasCompiler, OasOperation};

/// Everything that a message of one operation is checked by.
pub(super) struct CompiledOperation {
    /// Its path in the document.
    pub(super) path: PathTemplate,
    /// The JSON pointer to it in the document.
    pub(super) place: Box<str>,
    pub(super) request: OasOperation,
    pub(super) responses: Box<[(StatusRule, ResponseRule)]>,
}

/// The statuses that a response of a document stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusRule {
    Exact(u16),
    /// `4XX`: all that begin with the digit.
    Class(u16),
    Default,
}

/// A response of a document.
pub(super) struct ResponseRule {
    /// None: the document says nothing about a body.
    pub(super) body: Option<BodyRule>,
}

/// All operations by their names.
type CompiledOperations = HashMap<Box<str>, Arc<CompiledOperation>>;

/// Checks a document as [`PluginKind::checking_contracts`](exchange::plugin::PluginKind::checking_contracts)
/// says. What is compiled here is kept for the routes.
pub(super) fn check_document(document: &ContractDocument) -> Result<(), DocumentFault> {
    compiled(document).map(drop)
}

/// The operation of that name; none if there is none.
///
/// # Errors
/// The first fault of the document.
pub(super) fn operation_of(
    document: &ContractDocument,
    name: &str,
) -> Result<Option<Arc<CompiledOperation>>, DocumentFault> {
    Ok(compiled(document)?.and_then(|operations| operations.get(name).cloned()))
}

fn compiled(document: &ContractDocument) -> Result<Option<&CompiledOperations>, DocumentFault> {
    document.compiled(|| {
        let mut requests = OasCompiler::new(&document.value, document.is_31());
        let mut responses = OasCompiler::new(&document.value, document.is_31()).for_responses();
        let mut operations = CompiledOperations::new();
        for operation in document.operations()? {
            let compiled = compile(document, &mut requests, &mut responses, &operation)
                .map_err(|text| with_place(document, &operation.place, &text))?;
            operations.insert(operation.id.clone(), Arc::new(compiled));
        }
        Ok(operations)
    })
}

/// The compilers say the place in front of a fault.
fn with_place(document: &ContractDocument, place: &str, text: &str) -> DocumentFault {
    match text.split_once(": ") {
        Some((pointer, reason)) if pointer.starts_with('/') => document.fault(pointer, reason),
        _ => document.fault(place, text),
    }
}

fn compile<'d>(
    document: &'d ContractDocument,
    requests: &mut OasCompiler<'d>,
    responses: &mut OasCompiler<'d>,
    operation: &ContractOperation<'d>,
) -> Result<CompiledOperation, String> {
    let path = PathTemplate::parse(operation.path)
        .map_err(|reason| format!("{}: the path {reason}", operation.place))?;
    let request = requests.operation(operation.item, operation.written, &operation.place)?;
    let mut rules = Vec::new();
    let written = operation.written.get("responses").and_then(Value::as_object);
    for (status, written) in written.into_iter().flatten() {
        let Some(status) = status_rule(status) else {
            if status.starts_with("x-") {
                continue;
            }
            return Err(format!(
                "{}/responses: {status:?} is no status, no class such as 4XX, and not default",
                operation.place
            ));
        };
        let place = format!("{}/responses", operation.place);
        let (resolved, place) = document
            .resolve(written, &place)
            .map_err(|fault| format!("{}: {}", fault.pointer, fault.reason))?;
        let has_content =
            resolved.get("content").and_then(Value::as_object).is_some_and(|content| !content.is_empty());
        let body = if has_content { Some(responses.body(resolved, &place)?) } else { None };
        rules.push((status, ResponseRule { body }));
    }
    rules.sort_by_key(|(status, _)| match status {
        StatusRule::Exact(_) => 0,
        StatusRule::Class(_) => 1,
        StatusRule::Default => 2,
    });
    Ok(CompiledOperation { path, place: operation.place.as_str().into(), request, responses: rules.into() })
}

impl CompiledOperation {
    /// The most exact rule for a status.
    pub(super) fn response(&self, status: u16) -> Option<&ResponseRule> {
        let fits = |rule: StatusRule| match rule {
            StatusRule::Exact(exact) => exact == status,
            StatusRule::Class(class) => status / 100 == class,
            StatusRule::Default => true,
        };
        self.responses.iter().find(|(rule, _)| fits(*rule)).map(|(_, rule)| rule)
    }
}

fn status_rule(written: &str) -> Option<StatusRule> {
    if written == "default" {
        return Some(StatusRule::Default);
    }
    if let [class @ b'1'..=b'5', b'X' | b'x', b'X' | b'x'] = written.as_bytes() {
        return Some(StatusRule::Class(u16::from(class - b'0')));
    }
    written.parse().ok().filter(|status| (100..=599).contains(status)).map(StatusRule::Exact)
}
