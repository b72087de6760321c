//! Whether an expression over variables compiles. The one place of the checks that knows the router's compiler.

use router::vars::Expression;
use serde_json::Value;

use crate::fault::{Findings, Stage};

/// Checks an expression; `pointer` is where it stands.
pub(super) fn check(expression: &Value, pointer: &str, findings: &mut Findings) {
    if let Err(error) = Expression::compile(expression) {
        let contract = format!("failed to validate the 'vars' expression: {error}");
        findings.add_worded(Stage::Expressions, pointer, error.to_string(), contract);
    }
}
