//! Whether an expression over variables compiles. The one place of the checks that knows the router's compiler.

use serde_json::Value;

use crate::fault::{Findings, Stage};

/// Checks an expression; `pointer` is where it stands.
pub(super) fn check(expression: &Value, pointer: &str, findings: &mut Findings) {
    if let Err(reason) = compile(expression) {
        let contract = format!("failed to validate the 'vars' expression: {reason}");
        findings.add_worded(Stage::Expressions, pointer, reason, contract);
    }
}

fn compile(expression: &Value) -> Result<(), String> {
    if expression.is_array() { Ok(()) } else { Err("an expression is a list".to_owned()) }
}
