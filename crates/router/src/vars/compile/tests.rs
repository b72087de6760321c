//! Tables of expressions: true, false and refused ones.

use super::*;
use crate::vars::{Value, VariableSource};
use serde_json::json;

/// Longer than a costly search can finish.
static LONG: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "a".repeat(4_000));

/// A request with a few arguments and one list.
struct Request(Vec<(&'static str, Value<'static>)>);

impl VariableSource for Request {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        let Variable::Arg(name) = variable else { return None };
        self.0.iter().find(|(other, _)| *other == &**name).map(|(_, value)| value.clone())
    }
}

fn check(expression: Json, expected: bool) {
    let request = Request(vec![
        ("k", Value::from("v")),
        ("n", Value::from("11")),
        ("ip", Value::from("127.0.0.1")),
        ("number", Value::Number(80.0)),
        ("yes", Value::Boolean(true)),
        ("list", Value::List(vec![Value::from("a"), Value::from("b"), Value::Number(1.0)])),
    ]);
    let compiled = Expression::compile(&expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    assert_eq!(compiled.evaluate(&request), expected, "{expression}");
}

fn refused(expression: Json, message: &str) {
    let error = Expression::compile(&expression).unwrap_err().to_string();
    assert!(error.contains(message), "{expression}: {error}");
}

#[test]
fn equality() {
    check(json!([]), true);
    check(json!([["arg_k", "==", "v"]]), true);
    check(json!([["arg_k", "v"]]), true);
    check(json!([["arg_k", "V"]]), false);
    check(json!([["arg_n", 11]]), true);
    check(json!([["arg_n", "==", 11]]), true);
    check(json!([["arg_n", "==", "11"]]), true);
    check(json!([["arg_n", "==", "11.0"]]), false);
    check(json!([["arg_n", "==", 11.0]]), true);
    check(json!([["arg_k", "==", 11]]), false);
    check(json!([["arg_k", "~=", 11]]), true);
    check(json!([["arg_n", "~=", 11]]), false);
    check(json!([["arg_missing", "~=", "jack"]]), true);
    check(json!([["arg_missing", "=="]]), true);
    check(json!([["arg_k", "==", null]]), false);
    check(json!([["arg_k", "~=", null]]), true);
    check(json!([["arg_missing", "~=", null]]), false);
    check(json!([["arg_number", "==", "80"]]), true);
    check(json!([["arg_yes", "==", true]]), true);
    check(json!([["arg_yes", "==", "true"]]), false);
    check(json!([["arg_list", "==", ["a"]]]), false);
    check(json!([["no_such_variable", "==", "x"]]), false);
}

#[test]
fn order() {
    check(json!([["arg_n", ">", 10]]), true);
    check(json!([["arg_n", ">", "10"]]), true);
    check(json!([["arg_n", "<", 10]]), false);
    check(json!([["arg_n", ">=", 11]]), true);
    check(json!([["arg_n", "<=", "11"]]), true);
    check(json!([["arg_k", ">", 1]]), false);
    check(json!([["arg_k", "<", 1]]), false);
    check(json!([["arg_n", ">", "x"]]), false);
    check(json!([["arg_missing", "<", 1]]), false);
    check(json!([["arg_n", "!", ">", 15]]), true);
}

#[test]
fn numbers_are_compared_by_their_digits() {
    let check = |body: &str, operator: &str, right: Json, expected: bool| {
        let json = jsonx::parse(body.as_bytes(), jsonx::Bounds::SMALL).unwrap().value;
        let request = Request(vec![("n", Value::from_json(Box::leak(Box::new(json))).unwrap())]);
        let holds = |operator: &str| {
            Expression::compile(&json!([["arg_n", operator, right]])).unwrap().evaluate(&request)
        };
        assert_eq!(holds(operator), expected, "{body} {operator} {right}");
        if operator == "==" {
            assert_eq!(holds("~="), !expected, "{body} ~= {right}");
        }
    };
    // A number on both sides, and a text on either one.
    let large = 1_152_921_504_606_846_977_u64;
    check("1152921504606846977", "==", json!(large), true);
    check("1152921504606846976", "==", json!(large), false);
    check("\"1152921504606846977\"", "==", json!(large), true);
    check("\"1152921504606846976\"", "==", json!(large), false);
    check("1152921504606846977", "==", json!("1152921504606846977"), true);
    check("1152921504606846977.0", "==", json!("1152921504606846977"), true);
    check("1152921504606846976", "==", json!("1152921504606846977"), false);
    check("9007199254740993", "==", json!(9_007_199_254_740_992_u64), false);
    check("9007199254740992", "==", json!(9_007_199_254_740_993_u64), false);
    check("18446744073709551616", "==", json!("18446744073709551616"), true);
    check("18446744073709551617", "==", json!("18446744073709551616"), false);
    check("18446744073709551616.0", "==", json!("18446744073709551616"), true);
    check("1e2", "==", json!(100), true);
    check("1e2", "==", json!("100"), true);
    check("5.0", "==", json!("5"), true);
    check("5", "==", json!("5.0"), false);
    check("1.50", "==", json!(1.5), true);
    check("1.50", "==", json!("1.5"), true);
    check("0.1000000000000000055511151231257827", "==", json!(0.1), false);
    check("-0", "==", json!(0), true);
    check("1E400", "==", json!(1e308), false);
    check("9007199254740993", ">", json!(9_007_199_254_740_992_u64), true);
    check("9007199254740992", "<", json!("9007199254740993"), true);
    check("18446744073709551616", ">", json!(u64::MAX), true);
    check("18446744073709551615", ">=", json!(u64::MAX), true);
    check("1E400", ">", json!(1e308), true);
    check("-1E400", "<", json!(i64::MIN), true);
    check("1e-400", ">", json!(0), true);
    check("\"0x10\"", "==", json!(16), true);
    check("9007199254740993", "in", json!([9_007_199_254_740_992_u64]), false);
    check("9007199254740993", "in", json!([1, 9_007_199_254_740_993_u64]), true);
    check("9007199254740993", "in", json!(["9007199254740993"]), true);
    check("[1,\"a\",9007199254740993]", "has", json!(9_007_199_254_740_993_u64), true);
    check("[1,\"a\",9007199254740993]", "has", json!(9_007_199_254_740_992_u64), false);
    check("[1,\"a\",9007199254740993]", "has", json!("9007199254740993"), true);
    check("9007199254740993", "~~", json!("^9007199254740993$"), true);
    // A configured number that has lost digits is refused.
    for number in ["18446744073709551617", "-9223372036854775809", "1234567890123456789012"] {
        let expression: Json = serde_json::from_str(&format!("[[\"arg_n\",\"==\",{number}]]")).unwrap();
        refused(expression.clone(), "write it in quotation marks");
        refused(json!([["arg_n", "in", [expression[0][2]]]]), "write it in quotation marks");
        refused(json!([["arg_n", "<", expression[0][2]]]), "write it in quotation marks");
    }
    check("1e30", "==", json!(1e30), true);
}

#[test]
fn patterns() {
    check(json!([["arg_k", "~~", "^[a-z]$"]]), true);
    check(json!([["arg_k", "~~", "V"]]), false);
    check(json!([["arg_k", "~*", "V"]]), true);
    check(json!([["arg_k", "!", "~~", "V"]]), true);
    check(json!([["arg_missing", "~~", ".*"]]), false);
    check(json!([["arg_number", "~~", "^8"]]), true);
    check(json!([["arg_k", "~~", "^(?!x)"]]), true);
}

#[test]
fn lists_and_networks() {
    check(json!([["arg_k", "in", ["u", "v"]]]), true);
    check(json!([["arg_k", "IN", ["u"]]]), false);
    check(json!([["arg_n", "in", [11]]]), false);
    check(json!([["arg_k", "in", "v"]]), false);
    check(json!([["arg_missing", "in", ["v"]]]), false);
    check(json!([["arg_k", "!", "in", ["u"]]]), true);
    check(json!([["arg_list", "has", "a"]]), true);
    check(json!([["arg_list", "has", 1]]), true);
    check(json!([["arg_list", "has", "1"]]), true);
    check(json!([["arg_list", "has", "c"]]), false);
    check(json!([["arg_k", "has", "v"]]), false);
    check(json!([["arg_ip", "ipmatch", "127.0.0.0/8"]]), true);
    check(json!([["arg_ip", "ipmatch", ["10.0.0.0/8", "::1"]]]), false);
    check(json!([["arg_ip", "!", "ipmatch", "10.0.0.1"]]), true);
    check(json!([["arg_k", "ipmatch", "127.0.0.1"]]), false);
    check(json!([["arg_missing", "ipmatch", "127.0.0.1"]]), false);
}

#[test]
fn logic_nests() {
    let (yes, no) = (json!(["arg_k", "==", "v"]), json!(["arg_k", "==", "w"]));
    check(json!([yes, yes]), true);
    check(json!([yes, no]), false);
    check(json!(["AND", yes, yes]), true);
    check(json!(["and", yes, no]), false);
    check(json!(["OR", no, yes]), true);
    check(json!(["or", no, no]), false);
    check(json!(["!AND", yes, no]), true);
    check(json!(["!AND", yes, yes]), false);
    check(json!(["!OR", no, no]), true);
    check(json!(["!or", no, yes]), false);
    check(json!(["OR", ["AND", yes, no], ["!OR", no, no]]), true);
    check(json!([["OR", no, yes], yes]), true);
    check(json!(["AND", [yes, ["OR", no, no]], yes]), false);
}

#[test]
fn refusals_say_where() {
    refused(json!("x"), "expression: must be an array");
    refused(json!(["arg_k", "==", "v"]), "inside brackets of its own");
    refused(json!([["arg_k", "is", "v"]]), "[0]: invalid operator 'is'");
    refused(json!([["arg_k", "==", "v"], ["arg_k"]]), "[1]: a comparison has two to four elements");
    refused(json!([["arg_k", "not", "==", "v"]]), "[0]: bad 'not' expression");
    refused(json!([["arg_k", "!", "v"]]), "[0]: invalid operator '!'");
    refused(json!([["arg_k", null]]), "[0]: invalid expression");
    refused(json!([["", "==", 1]]), "[0]: a variable needs a name");
    refused(json!([[1, "==", 1]]), "[0]: the first element must be the name of a variable");
    refused(json!([["arg_k", 1, 1]]), "[0]: invalid operator '1'; the operator must be a string");
    refused(json!(["OR", ["arg_k", "v"]]), "expression: a logical operator needs at least two operands");
    refused(
        json!(["OR", ["arg_k", "v"], ["AND", []]]),
        "[2]: a logical operator needs at least two operands",
    );
    refused(json!([[]]), "[0]: is empty");
    refused(json!(["OR", ["arg_k", "v"], 1]), "[2]: must be an array");
    refused(json!([["arg_k", "~~", "("]]), "not a usable regular expression");
    refused(json!([["arg_k", "~~", []]]), "must be a regular expression");
    refused(json!([["arg_k", "ipmatch", ""]]), "invalid ip address");
    refused(json!([["arg_k", "ipmatch", []]]), "invalid ip address");
    refused(json!([["arg_k", "ipmatch", null]]), "invalid ip address");
    refused(json!([["arg_k", "ipmatch", ["1.2.3"]]]), "invalid ip address");
    refused(json!([["post_arg.a[", "==", "1"]]), "`post_arg.a[`: at byte");
    let deep = (0..40).fold(json!(["arg_k", "v"]), |inner, _| json!([inner]));
    refused(deep, "nested deeper");
}

#[test]
fn abandoned_search_makes_no_expression_true() {
    use crate::vars::GaveUp;
    let request = Request(vec![("long", Value::from(LONG.as_str())), ("k", Value::from("v"))]);
    let check = |expression: Json, verdict: Result<bool, GaveUp>| {
        let compiled = Expression::compile(&expression).unwrap();
        assert_eq!(compiled.verdict(&request), verdict, "{expression}");
        assert_eq!(compiled.evaluate(&request), verdict == Ok(true), "{expression}");
    };
    let unknown = json!(["arg_long", "~~", "(?<!q)[a-z]+Z$"]);
    let negated = json!(["arg_long", "!", "~~", "(?<!q)[a-z]+Z$"]);
    let (yes, no) = (json!(["arg_k", "==", "v"]), json!(["arg_k", "==", "w"]));
    let gave_up = Err(GaveUp::TooManySteps);
    check(json!([unknown]), gave_up);
    check(json!([negated]), gave_up);
    check(json!([yes, unknown]), gave_up);
    check(json!([unknown, no]), Ok(false));
    check(json!(["OR", unknown, no]), gave_up);
    check(json!(["OR", unknown, yes]), Ok(true));
    check(json!(["!OR", unknown, no]), gave_up);
    check(json!(["!OR", unknown, yes]), Ok(false));
    check(json!(["!AND", unknown, yes]), gave_up);
    check(json!(["!AND", unknown, no]), Ok(true));
}

#[test]
fn backtracking_pattern_over_body_is_refused() {
    refused(json!([["request_body", "~~", "(?<!q)[a-z]+Z$"]]), "[0]: `(?<!q)[a-z]+Z$` uses look-around");
    refused(json!(["OR", ["request_body", "!", "~*", "(a)\\1"], ["arg_k", "v"]]), "[1]: `(a)\\1` uses");
    for fits in [json!([["request_body", "~~", "[a-z]+Z$"]]), json!([["post_arg_x", "~~", "(?<!q)a"]])] {
        assert!(Expression::compile(&fits).is_ok(), "{fits}");
    }
}

#[test]
fn body_variables_and_engines_are_reported() {
    let compiled = Expression::compile(&json!([
        ["arg_k", "~~", "^(?!x)"],
        ["OR", ["uri", "~~", "a"], ["post_arg_x", "1"]]
    ]));
    let compiled = compiled.unwrap();
    assert!(compiled.uses_request_body());
    let engines: Vec<_> = compiled.patterns().into_iter().map(Pattern::engine).collect();
    assert_eq!(engines, [crate::vars::PatternEngine::Backtracking, crate::vars::PatternEngine::Linear]);
    assert!(!Expression::compile(&json!([["arg_k", "v"]])).unwrap().uses_request_body());
}
