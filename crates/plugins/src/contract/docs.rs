//! Answers made of the document: the page for readers, the document itself, and mocked responses.

use std::sync::Arc;

use contract::ContractDocument;
use contract::example::{MockChoice, MockFault, mock_response};
use contract::page::{PAGE_POLICY, PageOptions, html_page};
use exchange::Exchange;
use exchange::plugin::BufferedReply;

use serde_json::Value;

use super::problem::problem;

/// The page of a contract.
pub(super) struct ContractDocs {
    path: String,
    page: String,
    document: String,
}

impl ContractDocs {
    /// The page at `path`. Its calls go to `base_path`.
    pub(super) fn new(document: &Arc<ContractDocument>, path: String, base_path: String) -> ContractDocs {
        let options =
            PageOptions { base_path, document_path: Some(format!("{path}/openapi.json")), has_try_it: true };
        ContractDocs {
            page: html_page(&document.value, &options),
            document: public_form(&document.value).to_string(),
            path,
        }
    }

    pub(super) fn reply(&self, exchange: &Exchange) -> BufferedReply {
        let path = exchange.path();
        let is_page = path.strip_suffix(b"/").unwrap_or(path) == self.path.as_bytes();
        let (media_type, body) = match is_page {
            true => ("text/html; charset=utf-8", &self.page),
            false => ("application/json", &self.document),
        };
        BufferedReply::status(200)
            .with_header("Content-Type", media_type)
            .with_header("Content-Security-Policy", PAGE_POLICY)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_body(body.clone().into_bytes())
    }
}

/// The document without the fields that are for the gateway: they may hold secrets of plugins.
fn public_form(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let shown = fields.iter().filter(|(name, _)| !name.starts_with(GATEWAY_FIELDS));
            Value::Object(shown.map(|(name, field)| (name.clone(), public_form(field))).collect())
        }
        Value::Array(items) => items.iter().map(public_form).collect(),
        value => value.clone(),
    }
}

/// The beginning of the names of fields that are for the gateway.
const GATEWAY_FIELDS: &str = "x-weir-";

/// The response that the document describes for the operation at `place`.
pub(super) fn mocked_reply(
    document: &ContractDocument,
    place: &str,
    prefer: Option<&str>,
    accept: Option<&str>,
) -> BufferedReply {
    let choice = match prefer.map(MockChoice::from_prefer).transpose() {
        Ok(choice) => MockChoice { accept, ..choice.unwrap_or_default() },
        Err(fault) => return fault_reply(&fault),
    };
    let Some(operation) = document.value.pointer(place) else {
        return problem(500, "The operation is not in the document", None, Vec::new());
    };
    match mock_response(&document.value, operation, &choice) {
        Ok(response) => {
            let reply = BufferedReply::status(response.status);
            let reply = response
                .headers
                .into_iter()
                .fold(reply, |reply, (name, value)| reply.with_header(name, value));
            match response.media_type.is_empty() {
                true => reply,
                false => reply.with_header("Content-Type", response.media_type).with_body(response.body),
            }
        }
        Err(fault) => fault_reply(&fault),
    }
}

fn fault_reply(fault: &MockFault) -> BufferedReply {
    problem(fault.status(), fault.title(), Some(&fault.to_string()), Vec::new())
}
