//! Oracle of expressions, templates and variable names: faults have a place in the text, and accepted texts
//! have the same meaning as in a naive implementation.

use router::vars::{Expression, JsonPath, Template, Value, Variable, VariableSource, to_number};
use serde_json::{Value as Json, json};

use super::expression_twin;

/// The input is text: JSON is an expression, any other text is a template and a name.
pub fn check(data: &[u8]) {
    let Some(text) = std::str::from_utf8(data).ok().filter(|text| text.len() <= TEXT_BYTES_MAX) else {
        return;
    };
    let request = Request {
        body: jsonx::Value::from(
            &json!({"a": {"b": [{"c": 1}, {"c": "2"}, 3]}, "list": [[1], ["x", true]], "k": "v"}),
        ),
    };
    if let Ok(json) = serde_json::from_str::<Json>(text) {
        expression(&json, &request);
    } else {
        template(text, &request);
        name(text, &request);
    }
}

fn expression(json: &Json, request: &Request) {
    let expression = match Expression::compile(json) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(!error.reason.is_empty());
            let place = error.path.replace("expression", "").replace('[', "/").replace(']', "");
            assert!(json.pointer(&place).is_some(), "no {} in {json}", error.path);
            return;
        }
    };
    let Ok(holds) = expression.verdict(request) else {
        // The search for a pattern reached its limit, so the expression must be false.
        assert!(!expression.evaluate(request), "{json}");
        return;
    };
    assert_eq!(holds, expression.evaluate(request), "{json}");
    assert_eq!(holds, expression_twin::holds(json, request), "{json}");
    assert_eq!(holds, expression.evaluate(request), "a second time: {json}");
    let _ = (expression.uses_request_body(), expression.patterns());
    if json.as_array().is_some_and(Vec::is_empty) {
        return;
    }
    for (operator, expected) in [("AND", holds), ("or", holds), ("!and", !holds), ("!OR", !holds)] {
        // Inside another expression, only too deep nesting is refused.
        if let Ok(outer) = Expression::compile(&json!([operator, json, json])) {
            assert_eq!(outer.evaluate(request), expected, "{operator} {json}");
        }
    }
}

fn template(text: &str, request: &Request) {
    let constant = Template::compile(&text.replace('$', "\\$")).expect("no variable is left");
    assert_eq!(constant.as_constant(), Some(text), "with its dollar signs escaped");
    let template = match Template::compile(text) {
        Ok(template) => template,
        Err(error) => {
            assert!(text[error.offset..].starts_with('$') && !error.reason.is_empty());
            return;
        }
    };
    let mut out = Vec::new();
    let set = template.render(request, &mut out);
    assert!(set <= template.variables().count());
    let mut marked = Vec::new();
    let again = template.render_with(request, &mut marked, UNSET, |value, out| value.write_to(out));
    assert_eq!(again, set);
    let values = template.variables().zip(template.defaults()).map(|(variable, default)| {
        match (request.variable(variable), default) {
            (Some(value), _) => value.text().into_owned(),
            (None, Some(default)) => default.as_bytes().to_vec(),
            (None, None) => UNSET.to_vec(),
        }
    });
    let values: Vec<Vec<u8>> = values.collect();
    // The values must occur in order.
    let mut rest = &marked[..];
    for value in &values {
        let at = find(rest, value).expect("each value is there, in order");
        rest = &rest[at + value.len()..];
    }
    assert_eq!(template.as_constant().is_some(), values.is_empty());
    assert_eq!(template.uses_request_body(), template.variables().any(Variable::uses_request_body));
    if let Some(text) = template.as_constant() {
        assert_eq!(out, text.as_bytes());
    }
}

fn name(text: &str, request: &Request) {
    assert_eq!(Variable::parse(text).is_err(), text.is_empty() || is_bad_path(text), "{text}");
    match JsonPath::parse(text) {
        Ok(path) => assert!(path.select(&request.body).len() <= FOUND_MAX),
        Err(error) => assert!(text.is_char_boundary(error.offset), "{error}"),
    }
    if let Some(number) = to_number(text.as_bytes()) {
        assert!(!number.is_nan(), "{text}");
        let spaced = format!(" {text}\n");
        assert_eq!(to_number(spaced.as_bytes()), Some(number), "{text}");
    }
}

fn is_bad_path(text: &str) -> bool {
    text.strip_prefix("post_arg.").is_some_and(|path| JsonPath::parse(path).is_err())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    (0..=text.len()).find(|at| text[*at..].starts_with(part))
}

/// A request with a value of each kind.
struct Request {
    body: jsonx::Value,
}

impl VariableSource for Request {
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>> {
        match variable {
            Variable::Arg(name) => Some(match &**name {
                "k" => Value::from("v"),
                "n" => Value::from("11"),
                "hex" => Value::from("0x10"),
                "empty" => Value::from(""),
                "bytes" => Value::from(&b"\xff\x00a"[..]),
                "ip" => Value::from("127.0.0.1"),
                "six" => Value::from("fe80::1"),
                "number" => Value::Number(80.0),
                "yes" => Value::Boolean(true),
                "list" => Value::List(vec![Value::from("a"), Value::Number(1.0), Value::Boolean(false)]),
                _ => return None,
            }),
            Variable::Builtin(builtin) => Some(Value::from(builtin.name())),
            Variable::PostArgPath(path) => path.value(&self.body),
            _ => None,
        }
    }
}

/// Limit of the input, because the cost of a regular expression grows with its repetitions and not with its
/// length.
const TEXT_BYTES_MAX: usize = 512;
/// Limit of values that one path finds.
const FOUND_MAX: usize = 256;
/// Replaces an unset variable; it has a byte that no template has.
const UNSET: &[u8] = b"\xfe-";
