//! Parsers of configuration text: any input gives a value or an error, never a panic.

use proptest::prelude::*;
use router::hosts::HostPattern;
use router::vars::{Expression, JsonPath, Template, Variable, to_number};
use router::{CidrSet, Rule, RuleInput};
use serde_json::{Value, json};

/// JSON that is similar to expressions, and other JSON.
fn expression() -> impl Strategy<Value = Value> {
    let words = ["AND", "!or", "arg_a", "post_arg.a", "==", "~~", "in", "ipmatch", "!", "1.2.3.4", "(", ""];
    let leaf = prop_oneof![
        prop::sample::select(words.to_vec()).prop_map(|word| json!(word)),
        any::<i32>().prop_map(|number| json!(number)),
        Just(Value::Null),
        Just(json!({"a": 1})),
        any::<bool>().prop_map(|value| json!(value)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| prop::collection::vec(inner, 0..5).prop_map(Value::Array))
}

/// Text with many of the characters that have a meaning in some notation.
const TEXT: &str = "[a-z$\\{}.\\[\\]*:/%0-9é'\" ]{0,24}";

proptest! {
    #[test]
    fn expressions(json in expression()) {
        if let Ok(expression) = Expression::compile(&json) {
            let request = crate::request::Request::get("a", "/");
            let _ = (expression.evaluate(&request), expression.uses_request_body(), expression.patterns());
        }
    }

    #[test]
    fn texts(text in TEXT) {
        let _ = Template::compile(&text);
        let _ = Variable::parse(&text);
        let _ = to_number(text.as_bytes());
        let _ = HostPattern::parse(&text);
        let _ = CidrSet::parse(&[&text]);
        let _ = Rule::new(RuleInput { paths: vec![text.clone()], ..RuleInput::default() });
        if let Ok(path) = JsonPath::parse(&text) {
            let _ = path.value(&jsonx::Value::from(&json!({"a": [{"b": 1}]})));
        }
    }
}
