//! Refusals as problem details (RFC 9457).

use exchange::plugin::BufferedReply;
use model::validate::SchemaFault;
use serde_json::{Value, json};

/// Errors that one refusal lists.
pub(super) const ERRORS_MAX: usize = 20;
/// Rules of which the words of a fault would repeat the schema: lists of values and patterns.
const SILENT_RULES: [&str; 6] = ["pattern", "enum", "const", "anyOf", "oneOf", "not"];

/// A fault of a message: its place, and what is wrong there.
pub(super) struct MessageFault {
    /// `path`, `query`, `header`, `cookie`, `body`, `status`.
    pub(super) location: &'static str,
    /// The name of the parameter; empty for others.
    pub(super) name: Box<str>,
    pub(super) fault: SchemaFault,
}

impl MessageFault {
    /// As a client sees it, without texts of the schema.
    fn shown(&self) -> Value {
        let mut shown = json!({ "in": self.location });
        if !self.name.is_empty() {
            shown["name"] = json!(self.name);
        }
        if self.location == "body" || !self.fault.pointer.is_empty() {
            shown["pointer"] = json!(self.fault.pointer);
        }
        let rule = &*self.fault.rule;
        shown["rule"] = json!(rule);
        shown["detail"] = match SILENT_RULES.contains(&rule) {
            true => json!(format!("the value does not obey the rule `{rule}`")),
            false => json!(self.fault.reason),
        };
        shown
    }

    /// As the log has it.
    pub(super) fn line(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" {}", self.name) };
        format!("{}{name} {}: {}", self.location, self.fault.pointer, self.fault.reason)
    }
}

/// A refusal of a request with these faults.
pub(super) fn contract_refusal(status: u16, title: &str, faults: &[MessageFault]) -> BufferedReply {
    let errors = faults.iter().take(ERRORS_MAX).map(MessageFault::shown).collect();
    problem(status, title, None, errors)
}

/// Problem details.
pub(super) fn problem(status: u16, title: &str, detail: Option<&str>, errors: Vec<Value>) -> BufferedReply {
    let mut body = json!({ "type": "about:blank", "title": title, "status": status });
    if let Some(detail) = detail {
        body["detail"] = json!(detail);
    }
    if !errors.is_empty() {
        body["errors"] = Value::Array(errors);
    }
    BufferedReply::status(status)
        .with_header("Content-Type", "application/problem+json")
        .with_body(format!("{body}\n").into_bytes())
}
