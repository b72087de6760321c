//! GraphQL documents and requests: a document as a tree of what plugins count, parsed within limits so that
//! no document costs a worker more than a few milliseconds or overflows its stack. It knows no plugin.

mod read;
pub(crate) mod request;

use std::collections::HashMap;
use std::panic::catch_unwind;

/// Levels of selections, lists and objects. Queries have a dozen; the parser and the release of its tree
/// recurse.
const DEPTH_MAX: usize = 100;
/// Tokens of a document, white space included: that many are parsed within milliseconds.
const TOKENS_MAX: usize = 15_000;

/// A parsed document.
#[derive(Debug, Default)]
pub(crate) struct GraphqlDocument {
    pub(crate) operations: Vec<GraphqlOperation>,
    /// The fragments by name.
    pub(crate) fragments: HashMap<Box<str>, Fragment>,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Query,
    Mutation,
    Subscription,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct GraphqlOperation {
    pub(crate) kind: OperationKind,
    pub(crate) name: Option<Box<str>>,
    /// The variables that have a default, with it.
    pub(crate) defaults: Vec<(Box<str>, Literal)>,
    pub(crate) selections: Vec<GraphqlSelection>,
}

/// A named fragment.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) on: Option<Box<str>>,
    pub(crate) selections: Vec<GraphqlSelection>,
}

/// One entry of a selection set.
#[derive(Debug)]
pub(crate) enum GraphqlSelection {
    Field(GraphqlField),
    Inline(Fragment),
    /// The spread of the fragment with this name.
    Spread(Box<str>),
}

/// A selected field.
#[derive(Debug)]
pub(crate) struct GraphqlField {
    pub(crate) name: Box<str>,
    pub(crate) arguments: Vec<(Box<str>, Literal)>,
    pub(crate) selections: Vec<GraphqlSelection>,
}

/// The value of an argument, as far as counting needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Literal {
    /// The variable with this name.
    Variable(Box<str>),
    /// A scalar, and its number if it is one or a text of one.
    Scalar(Option<f64>),
    /// A list, an object or null.
    #[default]
    Other,
}

/// The fault of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentFault {
    /// It is malformed near this line, counted from 1.
    Syntax(usize),
    /// It has more tokens or levels than are parsed.
    TooLarge,
}

impl std::fmt::Display for DocumentFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DocumentFault::Syntax(line) => write!(formatter, "Syntax error near line {line}"),
            DocumentFault::TooLarge => {
                write!(formatter, "it has more than {TOKENS_MAX} tokens or {DEPTH_MAX} levels")
            }
        }
    }
}

impl GraphqlDocument {
    /// Parses an executable document. Definitions of types are passed over.
    ///
    /// # Errors
    /// It is malformed or beyond a limit.
    pub(crate) fn parse(text: &str) -> Result<GraphqlDocument, DocumentFault> {
        // The parser asserts invariants of its own. None is known to break, and none may cost the worker if
        // one does.
        catch_unwind(|| read::document(text)).unwrap_or(Err(DocumentFault::Syntax(1)))
    }

    /// The depth of the deepest operation: how many selection sets stand inside each other. Fragments count
    /// where they are spread, and add no level of their own.
    ///
    /// # Errors
    /// Fragments spread each other in a circle.
    pub(crate) fn depth(&self, operations: &[&GraphqlOperation]) -> Result<usize, FragmentCycle> {
        let mut walk = DepthWalk { document: self, known: HashMap::new() };
        let mut depth = 1;
        for operation in operations {
            depth = depth.max(1 + walk.below(&operation.selections)?);
        }
        Ok(depth)
    }
}

/// Fragments spread each other in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentCycle;

/// The walk that finds the depth; each fragment is measured once.
struct DepthWalk<'d> {
    document: &'d GraphqlDocument,
    /// The depths of fragments; none while one is measured.
    known: HashMap<&'d str, Option<usize>>,
}

impl<'d> DepthWalk<'d> {
    /// How many further selection sets stand inside each other below these selections.
    fn below(&mut self, selections: &'d [GraphqlSelection]) -> Result<usize, FragmentCycle> {
        let mut depth = 0;
        for selection in selections {
            let below = match selection {
                GraphqlSelection::Field(field) if field.selections.is_empty() => 0,
                GraphqlSelection::Field(field) => 1 + self.below(&field.selections)?,
                GraphqlSelection::Inline(fragment) => self.below(&fragment.selections)?,
                GraphqlSelection::Spread(name) => self.of_fragment(name)?,
            };
            depth = depth.max(below);
        }
        Ok(depth)
    }

    fn of_fragment(&mut self, name: &'d str) -> Result<usize, FragmentCycle> {
        match self.known.get(name) {
            Some(Some(depth)) => return Ok(*depth),
            Some(None) => return Err(FragmentCycle),
            None => {}
        }
        let document = self.document;
        let Some(fragment) = document.fragments.get(name) else { return Ok(0) };
        self.known.insert(name, None);
        let depth = self.below(&fragment.selections)?;
        self.known.insert(name, Some(depth));
        Ok(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(document: &str) -> Option<usize> {
        let document = GraphqlDocument::parse(document).unwrap();
        document.depth(&document.operations.iter().collect::<Vec<_>>()).ok()
    }

    #[test]
    fn depth_counts_nested_selection_sets() {
        let check = |document: &str, expected: Option<usize>| {
            assert_eq!(depth(document), expected, "{document}");
        };
        check("{ a }", Some(1));
        check("query { foo { bar { baz { id } } } }", Some(4));
        check("{ a b { c } d { e { f } g } }", Some(3));
        check("query A { a } query B { b { c } }", Some(2));
        check("{ a { ...F } } fragment F on T { b { c } }", Some(3));
        check("{ ... on T { a { b } } ... { c } }", Some(2));
        check("{ ...Nowhere }", Some(1));
        check("{ a { ...F ...F } } fragment F on T { b ...G } fragment G on T { c { d } }", Some(3));
        check("{ ...F } fragment F on T { a { ...G } } fragment G on T { ...F }", None);
        check("{ ...F } fragment F on T { ...F }", None);
    }

    #[test]
    fn arguments_and_defaults_are_read() {
        let document = GraphqlDocument::parse(
            "query Q($n: Int = 10, $m: Int) { users(first: $n, skip: 5, of: \"7\", by: NAME, all: [1]) { id } }",
        )
        .unwrap();
        let operation = &document.operations[0];
        assert_eq!((operation.kind, operation.name.as_deref()), (OperationKind::Query, Some("Q")));
        assert_eq!(operation.defaults, [("n".into(), Literal::Scalar(Some(10.0)))]);
        let GraphqlSelection::Field(users) = &operation.selections[0] else { panic!("{document:?}") };
        let expected = [
            ("first", Literal::Variable("n".into())),
            ("skip", Literal::Scalar(Some(5.0))),
            ("of", Literal::Scalar(Some(7.0))),
            ("by", Literal::Scalar(None)),
            ("all", Literal::Other),
        ];
        assert_eq!(users.arguments, expected.map(|(name, value)| (name.into(), value)));
    }

    #[test]
    fn faulty_documents_are_told_by_line() {
        let check = |text: &str, expected: DocumentFault| {
            assert_eq!(GraphqlDocument::parse(text).unwrap_err(), expected, "{text:.20}");
        };
        check("uery {}", DocumentFault::Syntax(1));
        check("query {\n  a\n  }}", DocumentFault::Syntax(3));
        check("{ a(", DocumentFault::Syntax(1));
        check("{\n a(b) }", DocumentFault::Syntax(2));
        check(&format!("{{ {} }}", "a ".repeat(TOKENS_MAX)), DocumentFault::TooLarge);
        check(&format!("{}a{}", "{a".repeat(200), "}".repeat(200)), DocumentFault::TooLarge);
        assert!(GraphqlDocument::parse("").unwrap().operations.is_empty());
        assert!(GraphqlDocument::parse("type T { a: Int }").unwrap().operations.is_empty());
    }

    const WORDS: [&str; 30] = [
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
        "\"",
        "\"\"\"",
        "#",
        "\n",
        " ",
        ",",
        "query ",
        "mutation ",
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

    /// Unguarded, so that a panic of the parser or of the reader is seen.
    #[test]
    fn garbage_never_panics() {
        let whole = "query Q($a: [Int!]! = [1] @d) @x(y: {z: \"\\u00e9\"}) { a: b(c: $a) @i { ...F ... on T { d } } } \
            fragment F on T { e } # end\n extend type T { f: Int }";
        let mut random = fastrand::Rng::with_seed(7);
        let garbage = (0..3_000)
            .map(|_| (0..random.usize(..60)).map(|_| WORDS[random.usize(..WORDS.len())]).collect::<String>());
        let cut = (0..=whole.len()).map(|end| whole[..end].to_owned());
        for text in garbage.collect::<Vec<_>>().into_iter().chain(cut) {
            if let Ok(document) = read::document(&text) {
                let _ = document.depth(&document.operations.iter().collect::<Vec<_>>());
            }
        }
        assert_eq!(read::document(whole).unwrap().operations.len(), 1);
    }

    #[test]
    fn chain_of_fragments_fits_the_stack() {
        let chain: String =
            (0..1_000).map(|number| format!("fragment F{number} on T{{a{{...F{}}}}}", number + 1)).collect();
        assert_eq!(depth(&format!("{{...F0}}{chain}fragment F1000 on T{{a}}")), Some(1_001));
    }
}
