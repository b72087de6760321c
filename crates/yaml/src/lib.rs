//! Reads YAML or JSON text into a value, with the line of every node. It does not know the meaning of the
//! value.
//!
//! The value is built from the parser's events on an explicit stack, so that depth, number of nodes and the
//! expansion of aliases are limited before memory or the call stack is used up.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod builder;

use saphyr::ScanError;
use saphyr_parser::Parser;
use serde_json::{Map, Value};

use builder::{Builder, Node, Tree};

/// A parsed text.
#[derive(Debug)]
pub struct Marked {
    /// Its value.
    pub value: Value,
    shape: Shape,
}

/// The line of a node and of all nodes below it; the rest of the tree becomes the value.
#[derive(Debug)]
struct Shape {
    line: usize,
    below: Below,
}

/// The shapes below a node.
#[derive(Debug)]
enum Below {
    Nothing,
    Items(Box<[Shape]>),
    Fields(Box<[(Box<str>, Shape)]>),
}

/// The reason why a text is not one document of plain values.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Line of the text, from 1.
    pub line: usize,
    /// The fault, a sentence.
    pub reason: String,
}

impl Marked {
    /// The line of the node at `pointer` (RFC 6901), or of the nearest node above it that exists.
    pub fn line(&self, pointer: &str) -> usize {
        let mut shape = &self.shape;
        for step in pointer.split('/').skip(1) {
            match shape.step(&step.replace("~1", "/").replace("~0", "~")) {
                Some(below) => shape = below,
                None => break,
            }
        }
        shape.line
    }
}

impl Shape {
    fn step(&self, step: &str) -> Option<&Shape> {
        match &self.below {
            Below::Nothing => None,
            Below::Items(items) => items.get(step.parse::<usize>().ok()?),
            Below::Fields(fields) => fields.iter().find(|(name, _)| **name == *step).map(|(_, shape)| shape),
        }
    }
}

/// Reads one document; an empty text is `null`.
///
/// # Errors
/// The first fault of syntax, a duplicate key, a key that is no scalar, or an exceeded limit.
pub fn parse(text: &str) -> Result<Marked, Malformed> {
    if text.trim_start().starts_with('{')
        && let Some(marked) = parse_json(text)
    {
        return Ok(marked);
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|fault| malformed(&fault))?;
        builder.event(event, span)?;
    }
    let (value, shape) = split(builder.document.unwrap_or_else(Tree::empty));
    Ok(Marked { value, shape })
}

/// JSON has escapes that YAML has not (surrogate pairs), so the values of a JSON text come from a JSON parser
/// and only the lines from the YAML parser. None when the text is no JSON (YAML's flow style begins with the
/// same character).
fn parse_json(text: &str) -> Option<Marked> {
    let body = text.trim_end();
    let body = body.strip_suffix(END_MARK).unwrap_or(body);
    let value = serde_json::from_str::<Value>(body).ok()?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(body) {
        let Ok((event, span)) = event else { break };
        if builder.event(event, span).is_err() {
            // A duplicate key or an exceeded limit; the YAML parser reports it.
            return None;
        }
    }
    let (_, shape) = split(builder.document.unwrap_or_else(Tree::empty));
    Some(Marked { value, shape })
}

/// The tree as a plain value and its lines. The builder limits the depth of this recursion.
fn split(tree: Tree) -> (Value, Shape) {
    let (value, below) = match tree.node {
        Node::Scalar(value) => (value, Below::Nothing),
        Node::Sequence(items) => {
            let (values, shapes): (Vec<Value>, Vec<Shape>) = items.into_iter().map(split).unzip();
            (Value::Array(values), Below::Items(shapes.into()))
        }
        Node::Mapping(entries) => {
            let mut values = Map::with_capacity(entries.len());
            let mut shapes = Vec::with_capacity(entries.len());
            for (name, item) in entries {
                let (value, shape) = split(item);
                shapes.push((name.as_str().into(), shape));
                values.insert(name, value);
            }
            (Value::Object(values), Below::Fields(shapes.into()))
        }
    };
    (value, Shape { line: tree.line, below })
}

fn malformed(fault: &ScanError) -> Malformed {
    at(fault.marker().line().max(1), fault.info())
}

fn at(line: usize, reason: &str) -> Malformed {
    Malformed { line, reason: reason.to_owned() }
}

/// The line that closes a completely written file.
const END_MARK: &str = "#END";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(text: &str, expected: Result<Value, (usize, &str)>) {
        let start: String = text.chars().take(80).collect();
        match (parse(text), expected) {
            (Ok(marked), Ok(value)) => assert_eq!(marked.value, value, "{start}"),
            (Err(fault), Err((line, part))) => {
                assert!(fault.line == line && fault.reason.contains(part), "{start}\n{fault:?}");
            }
            (found, _) => panic!("{start}\n{found:?}"),
        }
    }

    #[test]
    fn yaml_and_json_values_are_read() {
        check("", Ok(Value::Null));
        check("#END", Ok(Value::Null));
        check(
            "a: 1\nb: 1.5\nc: true\nd: ~\ne: x\nf: '1'",
            Ok(json!({"a":1,"b":1.5,"c":true,"d":null,"e":"x","f":"1"})),
        );
        check(
            "nodes: {127.0.0.1:80: 1, \"[::1]:80\": 2}",
            Ok(json!({"nodes":{"127.0.0.1:80":1,"[::1]:80":2}})),
        );
        check("1: x", Ok(json!({"1":"x"})));
        let large = "a: 9223372036854775808\nb: 18446744073709551615\nc: '18446744073709551615'";
        check(large, Ok(json!({"a":1_u64 << 63,"b":u64::MAX,"c":"18446744073709551615"})));
        check("{\"a\": \"\\ud83d\\ude00\"}\n#END\n", Ok(json!({"a":"😀"})));
        check(
            "base: &b {x: 1, y: 2}\nmore:\n  <<: *b\n  y: 3",
            Ok(json!({"base":{"x":1,"y":2},"more":{"y":3,"x":1}})),
        );
        check("a: &l [1]\nb: [*l, *l]", Ok(json!({"a":[1],"b":[[1],[1]]})));
    }

    #[test]
    fn faults_name_their_line() {
        check("a: 1\nb: [1\nc: 2", Err((3, "")));
        check("a: 1\nb: 2\na: 3", Err((3, "`a` is there twice")));
        check("{\"a\": 1,\n\"a\": 2}", Err((2, "`a` is there twice")));
        check("a: 1\n? [x]\n: 1", Err((2, "a key must be a plain value")));
        check("a: .inf", Err((1, "infinity")));
        check("a: &x [*x]", Err((1, "inside its own anchor")));
        check("a: 1\n---\nb: 1", Err((2, "second document")));
        check("a: !!int x", Err((1, "does not fit its tag")));
    }

    #[test]
    fn alias_bombs_are_refused() {
        check(&"- ".repeat(100_000), Err((1, "deeper than 64")));
        check(&"[".repeat(100_000), Err((1, "recursion limit")));
        check(&format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200)), Err((1, "deeper than 64")));
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..10 {
            let before = format!("*a{}", level - 1);
            laughs.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
        }
        assert!(parse(&laughs).unwrap_err().reason.contains("counting what aliases repeat"));
        let mut tower = format!("a0: &a0 {}x{}\n", "[".repeat(40), "]".repeat(40));
        for level in 1..400 {
            tower.push_str(&format!(
                "a{level}: &a{level} {}*a{}{}\n",
                "[".repeat(40),
                level - 1,
                "]".repeat(40)
            ));
        }
        check(&tower, Err((2, "deeper than 64")));
    }

    #[test]
    fn many_keys_are_read_within_limits() {
        let text: String = (0..50_000).map(|number| format!("k{number}: {number}\n")).collect();
        assert_eq!(parse(&text).unwrap().value.as_object().unwrap().len(), 50_000);
        let merging = format!("base: &b\n{}more:\n  <<: [*b, *b]\n", text.replace('k', "  k"));
        assert_eq!(parse(&merging).unwrap().value["more"].as_object().unwrap().len(), 50_000);
    }

    #[test]
    fn quoted_merge_key_is_an_ordinary_key() {
        for quoted in [r#"{"<<": null}"#, "'<<':\n", "\"<<\": ~\n"] {
            assert_eq!(parse(quoted).unwrap().value, json!({"<<": null}), "{quoted}");
        }
    }

    #[test]
    fn each_node_has_its_line() {
        let marked =
            parse("routes:\n  - id: 1\n    plugins:\n      a/b:\n        count: x\n  - id: 2\n").unwrap();
        let lines = [
            "",
            "/routes",
            "/routes/0/id",
            "/routes/0/plugins/a~1b/count",
            "/routes/0/none",
            "/routes/1",
            "/x",
        ];
        assert_eq!(lines.map(|pointer| marked.line(pointer)), [1, 2, 2, 5, 2, 6, 1]);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[a-c:\\-\\[\\]\\{\\}&*<'\", \n#!|>?1.]{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn json_is_read_as_json(text in "[ -~]{0,20}") {
            let document = serde_json::to_string_pretty(&json!({"a": [text.clone(), 1], text: null})).unwrap();
            prop_assert_eq!(parse(&document).unwrap().value, serde_json::from_str::<Value>(&document).unwrap());
        }
    }
}
