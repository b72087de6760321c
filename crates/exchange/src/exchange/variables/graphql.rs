//! The GraphQL operation of a request: its kind, its name and its top-level fields. Pure: from a document's
//! text, under limits on nesting and tokens, so that no document costs a worker more than a few milliseconds
//! or overflows its stack.

use std::collections::{HashMap, HashSet};
use std::panic::catch_unwind;

use apollo_parser::Parser;
use apollo_parser::cst::{
    Definition, Document, FragmentDefinition, OperationDefinition, Selection, SelectionSet,
};

/// Levels of selections, lists and objects. Queries have a dozen; the parser and the release of its tree
/// recurse.
const DEPTH_MAX: usize = 100;
/// Tokens of a document, white space included: what is parsed on a worker is parsed within milliseconds.
const TOKENS_MAX: usize = 15_000;

/// The values of variables about a GraphQL request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GraphqlSummary {
    /// `query`, `mutation` or `subscription`.
    pub operation: &'static str,
    /// Its name; empty if it has none.
    pub name: String,
    /// The names of its top-level fields, each once, in order; those that fragments bring included.
    pub root_fields: Vec<String>,
}

impl GraphqlSummary {
    /// The operation called `wanted`, else the first. Nothing if the document is malformed, beyond a limit or
    /// holds no operation.
    pub fn parse(document: &str, wanted: Option<&str>) -> Option<GraphqlSummary> {
        // The parser asserts invariants of its own. None is known to break, and none may cost the worker if
        // one does.
        catch_unwind(|| GraphqlSummary::parse_unguarded(document, wanted)).ok().flatten()
    }

    fn parse_unguarded(document: &str, wanted: Option<&str>) -> Option<GraphqlSummary> {
        let tree = Parser::new(document).recursion_limit(DEPTH_MAX).token_limit(TOKENS_MAX).parse();
        if tree.errors().len() > 0 {
            return None;
        }
        let document = tree.document();
        let operation = chosen(&document, wanted)?;
        Some(GraphqlSummary {
            operation: match operation.operation_type() {
                None => "query",
                Some(kind) if kind.mutation_token().is_some() => "mutation",
                Some(kind) if kind.subscription_token().is_some() => "subscription",
                Some(_) => "query",
            },
            name: operation.name().map(|name| name.text().to_string()).unwrap_or_default(),
            root_fields: root_fields(&document, operation.selection_set()?),
        })
    }
}

fn chosen(document: &Document, wanted: Option<&str>) -> Option<OperationDefinition> {
    let operations = || {
        document.definitions().filter_map(|definition| match definition {
            Definition::OperationDefinition(operation) => Some(operation),
            _ => None,
        })
    };
    let is_wanted = |operation: &OperationDefinition| {
        wanted.is_some_and(|wanted| operation.name().is_some_and(|name| name.text() == wanted))
    };
    operations().find(is_wanted).or_else(|| operations().next())
}

/// Walks the top level; a fragment's fields count as if they stood in its place, so that a condition on a
/// field cannot be evaded by wrapping it up. Each fragment is opened once, whatever circle they form.
fn root_fields(document: &Document, selections: SelectionSet) -> Vec<String> {
    let mut fields = Vec::new();
    let mut seen = HashSet::new();
    let mut opened = HashSet::new();
    let fragments = fragments(document);
    // The last one is looked at first, so that order is kept.
    let mut open: Vec<Selection> = reversed(&selections);
    while let Some(selection) = open.pop() {
        match selection {
            Selection::Field(field) => {
                let name = field.name().map(|name| name.text().to_string()).unwrap_or_default();
                if seen.insert(name.clone()) {
                    fields.push(name);
                }
            }
            Selection::InlineFragment(fragment) => {
                open.extend(fragment.selection_set().iter().flat_map(reversed));
            }
            Selection::FragmentSpread(spread) => {
                let name = spread.fragment_name().and_then(|name| name.name());
                let name = name.map(|name| name.text().to_string()).unwrap_or_default();
                if opened.insert(name.clone()) {
                    let fragment = fragments.get(&name);
                    let selections = fragment.and_then(FragmentDefinition::selection_set);
                    open.extend(selections.iter().flat_map(reversed));
                }
            }
        }
    }
    fields
}

fn reversed(selections: &SelectionSet) -> Vec<Selection> {
    let mut all: Vec<Selection> = selections.selections().collect();
    all.reverse();
    all
}

fn fragments(document: &Document) -> HashMap<String, FragmentDefinition> {
    let named = document.definitions().filter_map(|definition| match definition {
        Definition::FragmentDefinition(fragment) => {
            let name = fragment.fragment_name()?.name()?.text().to_string();
            Some((name, fragment))
        }
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(document: &str, wanted: Option<&str>, expected: Option<(&str, &str, &str)>) {
        let found = GraphqlSummary::parse(document, wanted);
        let found = found.as_ref().map(|call| (call.operation, &*call.name, call.root_fields.join(" ")));
        let expected = expected.map(|(operation, name, fields)| (operation, name, fields.to_owned()));
        assert_eq!(found, expected, "{document}");
    }

    #[test]
    fn operations() {
        check("{ a b }", None, Some(("query", "", "a b")));
        check("query Q { owner { id } repo }", None, Some(("query", "Q", "owner repo")));
        check("mutation M($x: [Int!] = [1]) { add(x: $x) }", None, Some(("mutation", "M", "add")));
        check("subscription { tick }", None, Some(("subscription", "", "tick")));
        check("query A { a } query B { b }", None, Some(("query", "A", "a")));
        check("query A { a } query B { b }", Some("B"), Some(("query", "B", "b")));
        check("query A { a }", Some("Z"), Some(("query", "A", "a")));
        check("{ alias: real a real }", None, Some(("query", "", "real a")));
        check("# c\n{ a @skip(if: true), b(s: \"}\") }", None, Some(("query", "", "a b")));
    }

    #[test]
    fn fragments_count_where_they_stand() {
        let fragments = "fragment F on Q { b ...G } fragment G on Q { c ...F }";
        check(
            &format!("{{ a ...F ... on Q {{ d }} ... {{ e }} f }} {fragments}"),
            None,
            Some(("query", "", "a b c d e f")),
        );
        check(&format!("{fragments} mutation {{ ...G }}"), None, Some(("mutation", "", "c b")));
        check("{ ...Nowhere a }", None, Some(("query", "", "a")));
    }

    #[test]
    fn what_is_no_operation_is_nothing() {
        for document in [
            "",
            " ",
            "hello",
            "{",
            "{}",
            "query",
            "query {",
            "fragment F on Q { a }",
            "type T { a: Int }",
            "{ a } }",
            "\u{0}",
        ] {
            check(document, None, None);
        }
    }

    proptest! {
        /// Unguarded, so that a panic of the parser is seen.
        #[test]
        fn garbage_never_panics(words in proptest::collection::vec(0..WORDS.len(), 0..60), noise in ".{0,8}") {
            let text: String = words.iter().map(|word| WORDS[*word]).collect();
            let _ = GraphqlSummary::parse_unguarded(&text, None);
            let _ = GraphqlSummary::parse_unguarded(&format!("{text}{noise}{text}"), Some("a"));
        }

        /// A document that ends early is no operation, or the same one with fewer definitions behind it.
        #[test]
        fn a_cut_document_never_panics(length in 0..DOCUMENT.len()) {
            if let Some(cut) = DOCUMENT.get(..length) {
                let _ = GraphqlSummary::parse_unguarded(cut, None);
            }
        }
    }

    const DOCUMENT: &str = "query Q($a: [Int!]! = [1] @d) @x(y: {z: \"\\u00e9\"}) { a: b(c: $a) @i { ...F ... on T { d } } } \
        fragment F on T { e } # end\n extend type T { f: Int }";
    const WORDS: [&str; 32] = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "...",
        "$",
        "@",
        ":",
        "=",
        "!",
        "|",
        "&",
        "\"",
        "\"\"\"",
        "#",
        "\n",
        " ",
        ",",
        "query ",
        "mutation ",
        "subscription ",
        "fragment ",
        " on ",
        "extend ",
        "type ",
        "a ",
        "1",
        "-1.5e",
        "é",
        "null ",
    ];

    /// The stack of a worker is 2 MiB, as that of a test's thread; a thread with less shows that there is
    /// room.
    #[test]
    fn bombs_end_at_a_limit() {
        let nested =
            |open: &str, close: &str, times: usize| format!("{}{}", open.repeat(times), close.repeat(times));
        let bombs = [
            nested("{a", "}", 100_000),
            "{a".repeat(100_000),
            format!("{{ a(x: {}) }}", nested("[", "]", 100_000)),
            format!("{{ a(x: {}) }}", nested("{k:", "}", 100_000)),
            format!("query ($x: {}) {{ a }}", nested("[", "]", 100_000)),
            format!("{{ {} }}", nested("...{", "}", 100_000)),
            format!("{{ a {} }}", "@d(x: [".repeat(50_000)),
            format!("{{ {} }}", "a ".repeat(200_000)),
            "{ a } ".repeat(100_000),
            "\"".repeat(100_000),
            "\u{1}".repeat(100_000),
            "\u{fc}".repeat(100_000),
            format!("{{ a(x: \"{}\") }}", "\\u".repeat(100_000)),
        ];
        std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || {
                for bomb in &bombs {
                    assert_eq!(GraphqlSummary::parse(bomb, None), None, "{}…", &bomb[..16]);
                }
            })
            .unwrap()
            .join()
            .unwrap();
        let deep = format!("{{ {} {} }}", "a {".repeat(DEPTH_MAX - 2) + "a", "}".repeat(DEPTH_MAX - 2));
        check(&deep, None, Some(("query", "", "a")));
    }
}
