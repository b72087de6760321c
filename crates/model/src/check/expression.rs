//! Whether an expression over variables compiles. The one place of the checks that knows the router's
//! compiler.

use router::vars::{Expression, ExpressionError};
use serde_json::Value;

use crate::fault::{CheckStage, Findings};

/// Checks the expression of a route; `pointer` is where it stands.
pub(super) fn check_expression(expression: &Value, pointer: &str, findings: &mut Findings) {
    if let Err(error) = Expression::compile(expression) {
        let contract = format!("failed to validate the 'vars' expression: {}", contract_reason(&error));
        findings.add_worded(CheckStage::Expressions, pointer, error.to_string(), contract);
    }
}

/// Checks the filter of a plugin. Of several plugins one is at fault, so the line says which.
pub(super) fn check_filter(expression: &Value, plugin: &str, pointer: &str, findings: &mut Findings) {
    if let Err(error) = Expression::compile(expression) {
        let reason = contract_reason(&error);
        let contract =
            format!("failed to validate the 'vars' expression: {reason} (_meta.filter of plugin {plugin})");
        let reason = format!("the filter of plugin {plugin}: {error}");
        findings.add_worded(CheckStage::Expressions, pointer, reason, contract);
    }
}

/// Checks the filter of a logger of calls.
pub(super) fn check_call_filter(expression: &Value, pointer: &str, findings: &mut Findings) {
    if let Err(error) = Expression::compile(expression) {
        let contract = format!("failed to validate the 'filter' expression: {}", contract_reason(&error));
        findings.add_worded(CheckStage::Expressions, pointer, error.to_string(), contract);
    }
}

/// The reason in the words of APISIX's expression library, where it has words for it. The compiler says more:
/// it begins with those words, or is found here by what it names.
#[must_use]
pub fn contract_reason(error: &ExpressionError) -> String {
    let reason = error.reason.as_str();
    if reason.contains("brackets of its own") {
        "rule should be wrapped inside brackets".to_owned()
    } else if reason == "is empty" || reason.contains("at least two operands") {
        "rule too short".to_owned()
    } else if reason.starts_with("invalid operator") {
        reason.split(';').next().unwrap_or(reason).to_owned()
    } else if reason.starts_with("bad 'not' expression") || reason.starts_with("invalid expression") {
        reason.split(':').next().unwrap_or(reason).to_owned()
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expression: Value, expected: &str) {
        let mut findings = Findings::default();
        super::check_expression(&expression, "/vars", &mut findings);
        let refusal = findings.into_result().err();
        let message = refusal.as_ref().map_or("", |refusal| refusal.contract_message());
        assert_eq!(
            message.trim_start_matches("failed to validate the 'vars' expression: "),
            expected,
            "{expression}"
        );
    }

    #[test]
    fn a_filter_names_its_plugin() {
        let mut findings = Findings::default();
        check_filter(&json!([["uri", "=", "/"]]), "cors", "/plugins/cors/_meta/filter", &mut findings);
        let refusal = findings.into_result().unwrap_err();
        assert_eq!(
            refusal.contract_message(),
            "failed to validate the 'vars' expression: invalid operator '=' (_meta.filter of plugin cors)"
        );
        assert!(refusal.faults()[0].reason.starts_with("the filter of plugin cors: [0]: invalid operator"));
    }

    #[test]
    fn the_contract_has_its_own_words() {
        check(json!([]), "");
        check(json!([["arg_a", "==", "1"], ["OR", ["arg_b", "1"], ["uri", "~~", "^/a"]]]), "");
        check(json!(["http_user_agent", "~*", "android"]), "rule should be wrapped inside brackets");
        check(json!([["remote_addr", "=", "127.0.0.1"]]), "invalid operator '='");
        check(json!([["arg_a", "?", "==", 1]]), "bad 'not' expression");
        check(json!(["OR", ["arg_a", "1"]]), "rule too short");
        check(json!([[]]), "rule too short");
    }
}
