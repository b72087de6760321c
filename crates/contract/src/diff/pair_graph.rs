//! Pairs of schemas of the two documents, numbered, with the pairs that their references lead to. It is
//! shared by all bodies: a schema that is the same text in both documents is read once, and then only its
//! links are walked.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value;

use super::branch::branch_name;
use super::reference::{DiffDocument, SchemaView};

/// Keywords that hold one schema.
pub(super) const SINGLE_SCHEMAS: [&str; 11] = [
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "if",
    "then",
    "else",
    "not",
    "contentSchema",
];

/// Keywords that hold schemas by name, apart from `properties`.
pub(super) const NAMED_SCHEMAS: [&str; 2] = ["patternProperties", "dependentSchemas"];

/// Keywords that hold lists of schemas.
const LISTED_SCHEMAS: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];

/// A schema inside a schema that is the same text in both documents.
pub(super) struct PairLink {
    pub(super) name: Rc<str>,
    pub(super) target: u32,
    pub(super) is_all_of: bool,
    pub(super) is_read_only: bool,
    pub(super) is_write_only: bool,
}

/// Result of comparing the texts of a pair.
#[derive(Clone)]
enum PairTexts {
    Unread,
    Different,
    Same(Rc<[PairLink]>),
}

struct PairNode<'a> {
    old: SchemaView<'a>,
    new: SchemaView<'a>,
    texts: PairTexts,
}

#[derive(Default)]
pub(super) struct PairGraph<'a> {
    numbers: HashMap<(usize, usize), u32>,
    nodes: Vec<PairNode<'a>>,
}

impl<'a> PairGraph<'a> {
    /// The number of a pair.
    pub(super) fn intern(&mut self, old: SchemaView<'a>, new: SchemaView<'a>) -> u32 {
        // The number of schemas that are compared is limited far below 2^32.
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry((old.identity(), new.identity())).or_insert(next);
        if number == next {
            self.nodes.push(PairNode { old, new, texts: PairTexts::Unread });
        }
        number
    }

    pub(super) fn schemas(&self, number: u32) -> (SchemaView<'a>, SchemaView<'a>) {
        let node = &self.nodes[number as usize];
        (node.old.clone(), node.new.clone())
    }

    /// The links of a pair of the same text, or `None` if its texts differ.
    pub(super) fn links(
        &mut self,
        number: u32,
        documents: (DiffDocument<'a>, DiffDocument<'a>),
    ) -> Option<Rc<[PairLink]>> {
        if let PairTexts::Unread = self.nodes[number as usize].texts {
            let (old, new) = self.schemas(number);
            let texts = match old.has_same_text(&new) {
                true => PairTexts::Same(self.read_links(&old, &new, documents).into()),
                false => PairTexts::Different,
            };
            self.nodes[number as usize].texts = texts;
        }
        match &self.nodes[number as usize].texts {
            PairTexts::Same(links) => Some(Rc::clone(links)),
            PairTexts::Unread | PairTexts::Different => None,
        }
    }

    /// Lists the schemas inside that contain a reference. Anything else is the same in both documents.
    fn read_links(
        &mut self,
        old: &SchemaView<'a>,
        new: &SchemaView<'a>,
        documents: (DiffDocument<'a>, DiffDocument<'a>),
    ) -> Vec<PairLink> {
        let mut links = Vec::new();
        let (old_document, new_document) = documents;
        let is_open = |keyword: &str| old.get(keyword).is_some_and(contains_reference);
        if is_open("properties") {
            let new: HashMap<&str, SchemaView<'a>> =
                new_document.schema_map(new, "properties").into_iter().collect();
            for (name, old) in old_document.schema_map(old, "properties") {
                links.extend(new.get(name).and_then(|new| self.link(name, old, new.clone())));
            }
        }
        for keyword in LISTED_SCHEMAS.into_iter().filter(|keyword| is_open(keyword)) {
            let new = new_document.schema_list(new, keyword);
            for (index, (old, new)) in old_document.schema_list(old, keyword).into_iter().zip(new).enumerate()
            {
                let link = self.link(&format!("{keyword}[{}]", branch_name(&new, index)), old, new);
                links.extend(link.map(|link| PairLink { is_all_of: keyword == "allOf", ..link }));
            }
        }
        for keyword in SINGLE_SCHEMAS.into_iter().filter(|keyword| is_open(keyword)) {
            let pair = (old_document.sub_schema(old, keyword), new_document.sub_schema(new, keyword));
            if let (Some(old), Some(new)) = pair {
                links.extend(self.link(keyword, old, new));
            }
        }
        for keyword in NAMED_SCHEMAS.into_iter().filter(|keyword| is_open(keyword)) {
            let new: HashMap<&str, SchemaView<'a>> =
                new_document.schema_map(new, keyword).into_iter().collect();
            for (name, old) in old_document.schema_map(old, keyword) {
                let link =
                    new.get(name).and_then(|new| self.link(&format!("{keyword}[{name}]"), old, new.clone()));
                links.extend(link);
            }
        }
        links
    }

    fn link(&mut self, name: &str, old: SchemaView<'a>, new: SchemaView<'a>) -> Option<PairLink> {
        if old.reference.is_none() && !contains_reference(old.value) {
            return None;
        }
        let (is_read_only, is_write_only) = (new.is_true("readOnly"), new.is_true("writeOnly"));
        let target = self.intern(old, new);
        Some(PairLink { name: name.into(), target, is_all_of: false, is_read_only, is_write_only })
    }
}

/// Whether a reference is somewhere inside a value.
fn contains_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(contains_reference),
        Value::Object(members) => members.contains_key("$ref") || members.values().any(contains_reference),
        _ => false,
    }
}
