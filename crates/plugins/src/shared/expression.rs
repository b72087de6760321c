//! Expressions over variables in configurations of plugins, refused in the words of the contract. It
//! evaluates none.

use model::check::contract_reason;
use router::vars::Expression;
use serde_json::Value;

/// Compiles the expression `written` in the field `field`.
///
/// # Errors
/// The fault and its place, as a sentence.
pub(crate) fn compile_expression(field: &str, written: &Value) -> Result<Expression, String> {
    Expression::compile(written).map_err(|error| {
        let reason = contract_reason(&error);
        format!("failed to validate the '{field}' expression: {reason}")
    })
}
