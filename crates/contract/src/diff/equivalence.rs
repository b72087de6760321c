//! Whether two schemas accept the same values by their text: annotations, references and the order of lists
//! do not count. Branches of `oneOf`, `anyOf` and `allOf` that have no name are paired by this.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::engine::DiffEngine;
use super::reference::{DiffDocument, SchemaView};
use super::typing::schema_types;
use super::value_set::missing_values;
use super::{DIFFERENT_TEXT_WEIGHT, DiffLimit};

/// Keywords that describe and do not restrict.
const ANNOTATIONS: [&str; 12] = [
    "title",
    "description",
    "example",
    "examples",
    "default",
    "externalDocs",
    "$comment",
    "deprecated",
    "xml",
    "$ref",
    "$id",
    "$anchor",
];

/// Keywords with one schema, several schemas by name, and a list of schemas.
const SCHEMA_KEYWORDS: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "if",
    "then",
    "else",
    "contentSchema",
    "additionalItems",
];
const SCHEMA_MAP_KEYWORDS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
const SCHEMA_LIST_KEYWORDS: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];

/// A pair of documents to compare schemas of; both sides may be the same document.
struct EquivalenceWalk<'e, 'a> {
    engine: &'e mut DiffEngine<'a>,
    left: DiffDocument<'a>,
    right: DiffDocument<'a>,
    /// Pairs that were met. A pair that is met again is equal unless another keyword differs.
    assumed: HashSet<(usize, usize)>,
    /// Pairs to compare. A list and no recursion, because paths through a large cyclic document are long.
    pending: Vec<(SchemaView<'a>, SchemaView<'a>)>,
}

/// Whether a schema of the old and one of the new document have the same restrictions.
///
/// The schemas of `edit` count as equal where they are met inside: a recursive schema contains the edit that
/// is under examination, which must not make it differ from itself.
pub(super) fn are_equivalent<'a>(
    engine: &mut DiffEngine<'a>,
    old: &SchemaView<'a>,
    new: &SchemaView<'a>,
    edit: Option<(&SchemaView<'a>, &SchemaView<'a>)>,
) -> Result<bool, DiffLimit> {
    let (left, right) = (engine.old, engine.new);
    let assumed = edit.map(|(old, new)| (old.identity(), new.identity())).into_iter().collect();
    EquivalenceWalk { engine, left, right, assumed, pending: Vec::new() }.compare(old, new, &[])
}

/// The same with keywords left out at the top.
pub(super) fn are_equivalent_except<'a>(
    engine: &mut DiffEngine<'a>,
    old: &SchemaView<'a>,
    new: &SchemaView<'a>,
    ignored: &[&str],
) -> Result<bool, DiffLimit> {
    let (left, right) = (engine.old, engine.new);
    EquivalenceWalk { engine, left, right, assumed: HashSet::new(), pending: Vec::new() }
        .compare(old, new, ignored)
}

/// Whether a schema has no restriction besides the `ignored` keywords.
pub(super) fn restricts_nothing(schema: &SchemaView<'_>, ignored: &[&str]) -> bool {
    !schema.is_false()
        && schema.keywords().all(|keyword| is_annotation(keyword) || ignored.contains(&keyword))
}

fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

impl<'a> EquivalenceWalk<'_, 'a> {
    fn compare(
        &mut self,
        left: &SchemaView<'a>,
        right: &SchemaView<'a>,
        ignored: &[&str],
    ) -> Result<bool, DiffLimit> {
        if !self.compare_one(left, right, ignored)? {
            return Ok(false);
        }
        while let Some((left, right)) = self.pending.pop() {
            let is_known = !self.assumed.insert((left.identity(), right.identity()));
            if !is_known && !self.compare_one(&left, &right, &[])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares a pair without the schemas inside, which are added to the list.
    fn compare_one(
        &mut self,
        left: &SchemaView<'a>,
        right: &SchemaView<'a>,
        ignored: &[&str],
    ) -> Result<bool, DiffLimit> {
        self.engine.count_schema(DIFFERENT_TEXT_WEIGHT)?;
        if left.is_false() || right.is_false() {
            return Ok(left.is_false() == right.is_false());
        }
        Ok(self.compare_keywords(left, right, ignored))
    }

    fn compare_keywords(&mut self, left: &SchemaView<'a>, right: &SchemaView<'a>, ignored: &[&str]) -> bool {
        let is_compared = |keyword: &&str| !is_annotation(keyword) && !ignored.contains(keyword);
        let mut keywords: Vec<&str> = left.keywords().chain(right.keywords()).filter(is_compared).collect();
        keywords.sort_unstable();
        keywords.dedup();
        for keyword in keywords {
            if !self.compare_keyword(keyword, left, right) {
                return false;
            }
        }
        true
    }

    fn compare_keyword(&mut self, keyword: &str, left: &SchemaView<'a>, right: &SchemaView<'a>) -> bool {
        if keyword == "type" || keyword == "nullable" {
            let (left, right) = (schema_types(left), schema_types(right));
            let is_same = same_members(&left.names, &right.names);
            return is_same && left.null.is_accepted() == right.null.is_accepted();
        }
        if SCHEMA_KEYWORDS.contains(&keyword) {
            let pair = (self.left.sub_schema(left, keyword), self.right.sub_schema(right, keyword));
            return match pair {
                (Some(left), Some(right)) => {
                    self.pending.push((left, right));
                    true
                }
                (left, right) => left.is_none() && right.is_none(),
            };
        }
        if SCHEMA_MAP_KEYWORDS.contains(&keyword) {
            return self.compare_maps(keyword, left, right);
        }
        if SCHEMA_LIST_KEYWORDS.contains(&keyword) {
            return self.compare_lists(keyword, left, right);
        }
        same_values(left.get(keyword), right.get(keyword))
    }

    fn compare_maps(&mut self, keyword: &str, left: &SchemaView<'a>, right: &SchemaView<'a>) -> bool {
        let left = self.left.schema_map(left, keyword);
        let right = self.right.schema_map(right, keyword);
        if left.len() != right.len() {
            return false;
        }
        let right: HashMap<&str, SchemaView<'a>> = right.into_iter().collect();
        for (name, schema) in left {
            let Some(other) = right.get(name) else {
                return false;
            };
            self.pending.push((schema, other.clone()));
        }
        true
    }

    fn compare_lists(&mut self, keyword: &str, left: &SchemaView<'a>, right: &SchemaView<'a>) -> bool {
        let left = self.left.schema_list(left, keyword);
        let right = self.right.schema_list(right, keyword);
        if left.len() != right.len() {
            return false;
        }
        self.pending.extend(left.into_iter().zip(right));
        true
    }
}

fn same_members(left: &[&str], right: &[&str]) -> bool {
    left.iter().all(|name| right.contains(name)) && right.iter().all(|name| left.contains(name))
}

/// Equality of two keyword values. Lists (`required`, `enum`) are sets; numbers are equal by value.
pub(super) fn same_values(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            left.len() == right.len() && missing_values(left, right).is_empty()
        }
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (left, right) => left == right,
    }
}
