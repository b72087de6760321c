//! YAML or JSON text into a value, with the line of every node. It refuses to know what the value means.
//!
//! The value is built from the parser's events on a stack of its own, so that depth, number of nodes and what
//! aliases expand to are bounded before memory or the call stack is spent on them.

mod builder;

use std::collections::HashMap;
use std::fmt;

use saphyr::ScanError;
use saphyr_parser::Parser;
use serde_json::{Map, Value};

use builder::{Builder, Node, Tree};

/// A parsed text.
#[derive(Debug)]
pub(super) struct Marked {
    pub(super) value: Value,
    lines: Lines,
}

/// Why a text is not one document of plain values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Line of the text, from 1.
    pub(super) line: usize,
    pub(super) reason: String,
}

/// Lines of nodes by JSON pointer.
type Lines = HashMap<String, usize>;

impl Marked {
    /// The line of the node at `pointer` (RFC 6901), or of the nearest node above it that exists.
    pub(super) fn line(&self, pointer: &str) -> usize {
        let mut pointer = pointer;
        loop {
            if let Some(line) = self.lines.get(pointer) {
                return *line;
            }
            match pointer.rsplit_once('/') {
                Some((above, _)) => pointer = above,
                None => return 1,
            }
        }
    }
}

/// Reads one document; an empty text is `null`.
///
/// # Errors
/// The first fault of syntax, a duplicate key, a key that is no scalar, or a limit.
pub(super) fn parse(text: &str) -> Result<Marked, Malformed> {
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
    let value = builder.document.unwrap_or(Tree { line: 1, node: Node::Scalar(Value::Null) });
    let mut lines = Lines::new();
    let value = flatten(value, &mut String::new(), &mut lines);
    Ok(Marked { value, lines })
}

/// JSON has escapes that YAML has not (surrogate pairs), so the values of a JSON text come from a JSON parser and
/// only the lines from the YAML one; none when it is not JSON (YAML's flow style starts the same way).
fn parse_json(text: &str) -> Option<Marked> {
    let body = text.trim_end();
    let body = body.strip_suffix(END_MARK).unwrap_or(body);
    let value = serde_json::from_str::<Value>(body).ok()?;
    let mut builder = Builder::default();
    for event in Parser::new_from_str(body) {
        let Ok((event, span)) = event else { break };
        if builder.event(event, span).is_err() {
            // A duplicate key or a limit: let the YAML path say so.
            return None;
        }
    }
    let mut lines = Lines::new();
    if let Some(tree) = builder.document {
        flatten(tree, &mut String::new(), &mut lines);
    }
    Some(Marked { value, lines })
}

/// The tree as a plain value; `lines` gets the place of every node. Depth is bounded by `MAX_DEPTH` twice over
/// (an alias may hang one bounded tree into another once it is inside the limit).
fn flatten(tree: Tree, pointer: &mut String, lines: &mut Lines) -> Value {
    lines.insert(pointer.clone(), tree.line);
    let length = pointer.len();
    match tree.node {
        Node::Scalar(value) => value,
        Node::Sequence(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                fmt::write(pointer, format_args!("/{index}")).expect("writing to a string");
                values.push(flatten(item, pointer, lines));
                pointer.truncate(length);
            }
            Value::Array(values)
        }
        Node::Mapping(entries) => {
            let mut values = Map::with_capacity(entries.len());
            for (key, item) in entries {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                values.insert(key, flatten(item, pointer, lines));
                pointer.truncate(length);
            }
            Value::Object(values)
        }
    }
}

fn malformed(fault: &ScanError) -> Malformed {
    at(fault.marker().line().max(1), fault.info())
}

fn at(line: usize, reason: &str) -> Malformed {
    Malformed { line, reason: reason.to_owned() }
}

/// What closes a file that was written completely.
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
    fn values() {
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
    fn bombs_are_refused() {
        check(&"- ".repeat(100_000), Err((1, "deeper than 64")));
        check(&"[".repeat(100_000), Err((1, "recursion limit")));
        check(&format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200)), Err((1, "deeper than 64")));
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..10 {
            let before = format!("*a{}", level - 1);
            laughs.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
        }
        assert!(parse(&laughs).unwrap_err().reason.contains("counting what aliases repeat"));
    }

    #[test]
    fn lines_of_nodes() {
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
