//! Whether a plugin's configuration depends on the request's body. A plugin does not declare this, so its
//! texts are searched for variables. The search may report a text that is no variable, and then a body is
//! read needlessly; it never misses one.

use router::vars::{Template, Variable};
use serde_json::Value;

/// Whether a text in `config` names, alone or in a template, a variable that lies in the request's body.
pub(super) fn names_body(config: &Value) -> bool {
    match config {
        Value::String(text) if BODY_VARIABLES.iter().any(|name| text.contains(name)) => {
            let alone = Variable::parse(text).is_ok_and(|variable| variable.uses_request_body());
            let template = Template::compile(text);
            alone || template.is_ok_and(|text| text.variables().any(Variable::uses_request_body))
        }
        Value::Array(items) => items.iter().any(names_body),
        Value::Object(fields) => fields.values().any(names_body),
        _ => false,
    }
}

/// How the names of such variables begin; most texts hold none and are compiled no second time.
const BODY_VARIABLES: [&str; 3] = ["post_arg", "graphql_", "request_body"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn body_variables_are_found_at_any_depth() {
        let check = |config: Value, expected: bool| assert_eq!(names_body(&config), expected, "{config}");
        check(json!({"key": "post_arg_user", "count": 1}), true);
        check(json!({"key": "$remote_addr $post_arg_user"}), true);
        check(json!({"headers": {"set": {"X-Op": "${graphql_operation}"}}}), true);
        check(json!({"_meta": {"filter": [["post_arg.a.b[*]", "==", "x"]]}}), true);
        check(json!(["$request_body"]), true);
        check(json!({"key": "a post_arg_user", "request_body": "$remote_addr"}), false);
        check(json!({"key": "graphql_other"}), false);
    }
}
