//! Builds a tree of nodes from the parser's events, with limits on everything that a text may use up. It
//! knows no text.

use std::collections::{HashMap, HashSet};

use saphyr::Scalar;
use saphyr_parser::{Event, ScalarStyle, Span};
use serde_json::{Number, Value};

use super::{Malformed, at};

/// A node and its first line.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Tree {
    /// The tree of an empty text.
    pub(super) fn empty() -> Tree {
        Tree { line: 1, node: Node::Scalar(Value::Null) }
    }
}

/// The content of a node.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Scalar(Value),
    Sequence(Vec<Tree>),
    Mapping(Vec<(String, Tree)>),
}

/// A collection that is still open.
#[derive(Debug)]
struct Open {
    anchor: usize,
    line: usize,
    node: Node,
    /// The key that the next value belongs to, in a mapping.
    key: Option<MapKey>,
    /// In a mapping, the keys so far.
    keys: HashSet<String>,
    /// The entries that `<<` brought in, in order; own keys win over it, then the first (YAML 1.1 merge).
    merged: Vec<(String, Tree)>,
}

/// Collects events until the document is complete.
#[derive(Debug, Default)]
pub(super) struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Tree>,
    nodes: usize,
    /// The document, once it is complete.
    pub(super) document: Option<Tree>,
    documents: usize,
}

impl Builder {
    /// Takes the next event.
    ///
    /// # Errors
    /// A second document, a key that is repeated or no scalar, or an exceeded limit.
    pub(super) fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Malformed> {
        let line = span.start.line();
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    Err(at(line, "a second document begins here; a resource file is one document"))
                } else {
                    Ok(())
                }
            }
            Event::Alias(anchor) => {
                let tree = self
                    .anchors
                    .get(&anchor)
                    .ok_or_else(|| at(line, "the alias stands inside its own anchor"))?;
                let extent = Extent::of(tree);
                if self.open.len() + extent.depth > MAX_DEPTH {
                    return Err(too_deep(line));
                }
                let tree = tree.clone();
                self.count(extent.nodes, line)?;
                self.place(0, tree)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, line)?;
                let expects_key = self
                    .open
                    .last()
                    .is_some_and(|open| matches!(open.node, Node::Mapping(_)) && open.key.is_none());
                if expects_key {
                    let is_merge = style == ScalarStyle::Plain && text == MERGE_KEY;
                    return self.key(text.into_owned(), is_merge, line);
                }
                if style == ScalarStyle::Plain
                    && tag.is_none()
                    && let Some(number) = text.parse::<u64>().ok().filter(|number| *number > i64::MAX as u64)
                {
                    // The parser has signed integers only, and would make a double of it.
                    return self.place(anchor, Tree { line, node: Node::Scalar(number.into()) });
                }
                let scalar = Scalar::parse_from_cow_and_metadata(text, style, tag.as_ref())
                    .ok_or_else(|| at(line, "the value does not fit its tag"))?;
                self.place(anchor, Tree { line, node: Node::Scalar(scalar_value(scalar, line)?) })
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, line, Node::Sequence(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(anchor, line, Node::Mapping(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser pairs starts and ends");
                let anchor = open.anchor;
                self.place(anchor, open.close())
            }
        }
    }

    fn begin(&mut self, anchor: usize, line: usize, node: Node) -> Result<(), Malformed> {
        self.count(1, line)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(line));
        }
        if let Some(open) = self.open.last()
            && matches!(open.node, Node::Mapping(_))
            && open.key.is_none()
        {
            return Err(at(line, "a key must be a plain value, not a list or a mapping"));
        }
        self.open.push(Open { anchor, line, node, key: None, keys: HashSet::new(), merged: Vec::new() });
        Ok(())
    }

    fn key(&mut self, key: String, is_merge: bool, line: usize) -> Result<(), Malformed> {
        let open = self.open.last_mut().expect("a key is only expected in an open mapping");
        if is_merge {
            open.key = Some(MapKey::Merge);
            return Ok(());
        }
        if !open.keys.insert(key.clone()) {
            return Err(at(line, &format!("the key `{key}` is there twice")));
        }
        open.key = Some(MapKey::Name(key));
        Ok(())
    }

    /// Adds a finished node to its parent.
    fn place(&mut self, anchor: usize, tree: Tree) -> Result<(), Malformed> {
        if anchor != 0 {
            self.count(Extent::of(&tree).nodes, tree.line)?;
            self.anchors.insert(anchor, tree.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.document = Some(tree);
            return Ok(());
        };
        match &mut open.node {
            Node::Sequence(items) => items.push(tree),
            Node::Mapping(entries) => match open.key.take() {
                Some(MapKey::Merge) => merge(&mut open.merged, tree)?,
                Some(MapKey::Name(key)) => entries.push((key, tree)),
                None => return Err(at(tree.line, "a key must be a plain value, not an alias")),
            },
            Node::Scalar(_) => unreachable!("only collections are opened"),
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), Malformed> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(at(line, &format!("more than {MAX_NODES} values, counting what aliases repeat")));
        }
        Ok(())
    }
}

/// A key that waits for its value.
#[derive(Debug)]
enum MapKey {
    /// A key of the mapping.
    Name(String),
    /// [`MERGE_KEY`].
    Merge,
}

impl Open {
    /// The finished node, with its merged entries.
    fn close(mut self) -> Tree {
        if let Node::Mapping(entries) = &mut self.node {
            let keys = &mut self.keys;
            entries.extend(self.merged.into_iter().filter(|(key, _)| keys.insert(key.clone())));
        }
        Tree { line: self.line, node: self.node }
    }
}

/// The size of a tree.
struct Extent {
    nodes: usize,
    /// Depth of nested collections; 0 for a scalar.
    depth: usize,
}

impl Extent {
    fn of(tree: &Tree) -> Extent {
        let start = Extent { nodes: 1, depth: 0 };
        let add = |sum: Extent, below: Extent| Extent {
            nodes: sum.nodes.saturating_add(below.nodes),
            depth: sum.depth.max(below.depth + 1),
        };
        match &tree.node {
            Node::Scalar(_) => start,
            Node::Sequence(items) => items.iter().map(Extent::of).fold(Extent { depth: 1, ..start }, add),
            Node::Mapping(entries) => {
                entries.iter().map(|(_, item)| Extent::of(item)).fold(Extent { depth: 1, ..start }, add)
            }
        }
    }
}

fn merge(merged: &mut Vec<(String, Tree)>, tree: Tree) -> Result<(), Malformed> {
    match tree.node {
        Node::Mapping(entries) => {
            merged.extend(entries);
            Ok(())
        }
        Node::Sequence(items) => items.into_iter().try_for_each(|item| merge(merged, item)),
        Node::Scalar(_) => Err(at(tree.line, "`<<` takes a mapping or a list of mappings")),
    }
}

fn too_deep(line: usize) -> Malformed {
    at(line, &format!("nested deeper than {MAX_DEPTH} levels"))
}

fn scalar_value(scalar: Scalar<'_>, line: usize) -> Result<Value, Malformed> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(value) => Value::Bool(value),
        Scalar::Integer(value) => Value::Number(value.into()),
        Scalar::FloatingPoint(value) => Number::from_f64(*value)
            .map(Value::Number)
            .ok_or_else(|| at(line, "infinity and not-a-number have no place in a configuration"))?,
        Scalar::String(text) => Value::String(text.into_owned()),
    })
}

/// Limit of nesting: deeper than any object that a schema allows. It limits recursion over the value.
const MAX_DEPTH: usize = 64;
/// Limit of nodes: 100,000 routes of thirty values each. An alias bomb reaches it within the first megabytes.
const MAX_NODES: usize = 5_000_000;
/// YAML 1.1's key for merging another mapping; in quotes it is a key like others.
const MERGE_KEY: &str = "<<";
