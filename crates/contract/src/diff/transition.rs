//! Edits of an author that change several keywords at once: a schema that moved into a branch of `oneOf` or
//! `anyOf`.

use super::DiffLimit;
use super::equivalence::{are_equivalent, are_equivalent_except, restricts_nothing};
use super::reference::{SchemaView, extend_pointer};
use super::schema_site::{SchemaPair, SiteKind};
use super::schema_walk::SchemaWalk;
use super::typing::{NullAcceptance, TypeChange, covers, schema_types};

/// One edit of an author that changes several keywords at once. Its parts are not reported one by one.
pub(super) enum BranchTransition<'a> {
    None,
    /// `X` became `oneOf: [X, {type: "null"}]`, or the reverse.
    NullBranch {
        is_added: bool,
    },
    /// An object became a `oneOf` of objects.
    Wrapped {
        is_original_kept: bool,
        moved: Vec<&'a str>,
    },
    /// A type became a `oneOf` or `anyOf` of types, or the reverse.
    TypeList {
        added: Vec<&'a str>,
        removed: Vec<&'a str>,
    },
}

impl BranchTransition<'_> {
    /// Whether a change of `type` is part of the edit.
    pub(super) fn explains_types(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether a property is declared in a branch now.
    pub(super) fn has_moved(&self, property: &str) -> bool {
        matches!(self, Self::Wrapped { moved, .. } if moved.contains(&property))
    }
}

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn find_transition(
        &mut self,
        pair: &SchemaPair<'a>,
    ) -> Result<BranchTransition<'a>, DiffLimit> {
        let has_branches =
            |schema: &SchemaView<'_>| schema.get("oneOf").is_some() || schema.get("anyOf").is_some();
        if !has_branches(&pair.old) && !has_branches(&pair.new) {
            return Ok(BranchTransition::None);
        }
        for keyword in ["oneOf", "anyOf"] {
            if self.is_null_branch(&pair.old, &pair.new, keyword, false)? {
                return Ok(BranchTransition::NullBranch { is_added: true });
            }
            if self.is_null_branch(&pair.new, &pair.old, keyword, true)? {
                return Ok(BranchTransition::NullBranch { is_added: false });
            }
        }
        if let Some(wrapped) = self.find_wrapping(pair)? {
            return Ok(wrapped);
        }
        Ok(self.find_type_list(pair).unwrap_or(BranchTransition::None))
    }

    /// Whether `wrapped` is `plain` with a branch for null. `is_reversed`: `wrapped` is of the old document.
    fn is_null_branch(
        &mut self,
        plain: &SchemaView<'a>,
        wrapped: &SchemaView<'a>,
        keyword: &str,
        is_reversed: bool,
    ) -> Result<bool, DiffLimit> {
        let is_composed =
            ["oneOf", "anyOf", "allOf", "not"].iter().any(|keyword| plain.get(keyword).is_some());
        if is_composed
            || schema_types(plain).null != NullAcceptance::No
            || !restricts_nothing(wrapped, &[keyword])
        {
            return Ok(false);
        }
        let document = if is_reversed { self.engine.old } else { self.engine.new };
        let branches = document.schema_list(wrapped, keyword);
        let is_null = |schema: &SchemaView<'_>| {
            schema_types(schema).names == ["null"] && restricts_nothing(schema, &["type", "nullable"])
        };
        let payload = match branches.as_slice() {
            [first, second] if is_null(first) && !is_null(second) => second,
            [first, second] if is_null(second) && !is_null(first) => first,
            _ => return Ok(false),
        };
        if is_reversed {
            are_equivalent(self.engine, payload, plain, Some((wrapped, plain)))
        } else {
            are_equivalent(self.engine, plain, payload, Some((plain, wrapped)))
        }
    }

    fn find_wrapping(&mut self, pair: &SchemaPair<'a>) -> Result<Option<BranchTransition<'a>>, DiffLimit> {
        let properties = self.engine.old.schema_map(&pair.old, "properties");
        let branches = self.engine.new.schema_list(&pair.new, "oneOf");
        let is_wrapper =
            !branches.is_empty() && pair.new.get("properties").is_none() && pair.new.get("type").is_none();
        if properties.is_empty() || pair.old.get("oneOf").is_some() || !is_wrapper {
            return Ok(None);
        }
        let has_property = |branch: &SchemaView<'_>, name: &str| {
            branch.get("properties").is_some_and(|properties| properties.get(name).is_some())
        };
        let names = properties.iter().map(|(name, _)| *name);
        let moved: Vec<&str> =
            names.filter(|name| branches.iter().any(|branch| has_property(branch, name))).collect();
        if moved.is_empty() {
            return Ok(None);
        }
        let mut is_original_kept = false;
        for branch in &branches {
            is_original_kept |= are_equivalent(self.engine, &pair.old, branch, Some((&pair.old, &pair.new)))?;
        }
        Ok(Some(BranchTransition::Wrapped { is_original_kept, moved }))
    }

    fn find_type_list(&self, pair: &SchemaPair<'a>) -> Option<BranchTransition<'a>> {
        let (old, is_old_list) = type_pattern(&self.engine.old.schema_list(&pair.old, "oneOf"), &pair.old)
            .or_else(|| type_pattern(&self.engine.old.schema_list(&pair.old, "anyOf"), &pair.old))?;
        let (new, is_new_list) = type_pattern(&self.engine.new.schema_list(&pair.new, "oneOf"), &pair.new)
            .or_else(|| type_pattern(&self.engine.new.schema_list(&pair.new, "anyOf"), &pair.new))?;
        let missing = |from: &[&'a str], other: &[&'a str]| {
            from.iter().copied().filter(|name| !other.contains(name)).collect::<Vec<_>>()
        };
        let (added, removed) = (missing(&new, &old), missing(&old, &new));
        let is_change = !added.is_empty() || !removed.is_empty();
        (is_change && (is_old_list || is_new_list)).then_some(BranchTransition::TypeList { added, removed })
    }

    /// Reports an edit as one change. Returns whether the edit explains the whole pair.
    pub(super) fn report_transition(
        &mut self,
        pair: &SchemaPair<'a>,
        transition: &BranchTransition<'a>,
    ) -> Result<bool, DiffLimit> {
        match transition {
            BranchTransition::None => Ok(false),
            BranchTransition::NullBranch { is_added: true } => {
                self.emit(pair, "became-nullable", &pair.new.pointer, "accepts null now")?;
                Ok(true)
            }
            BranchTransition::NullBranch { is_added: false } => {
                self.emit(pair, "became-not-nullable", &pair.new.pointer, "no longer accepts null")?;
                Ok(true)
            }
            BranchTransition::Wrapped { is_original_kept, .. } => {
                self.report_wrapping(pair, *is_original_kept)?;
                Ok(false)
            }
            BranchTransition::TypeList { added, removed } => {
                let narrows = if self.site.is_request() { !removed.is_empty() } else { added.is_empty() };
                let edit = if narrows { "list-of-types-narrowed" } else { "list-of-types-widened" };
                let predicate = format!("accepts {}", describe_types(added, removed));
                self.emit(pair, edit, &pair.new.pointer, &predicate)?;
                Ok(false)
            }
        }
    }

    fn report_wrapping(&mut self, pair: &SchemaPair<'a>, is_original_kept: bool) -> Result<(), DiffLimit> {
        let is_body = matches!(self.site.kind, SiteKind::RequestBody | SiteKind::ResponseBody);
        if !is_body || !pair.is_root() {
            return self.emit_at(pair, "one-of-added", "oneOf", "became one of several objects");
        }
        let (edit, predicate) = match is_original_kept {
            true => (
                "wrapped-in-one-of-original-preserved",
                "became one of several objects, the former among them",
            ),
            false => ("wrapped-in-one-of", "became one of several objects, none of which is the former"),
        };
        let place = extend_pointer(&pair.new.pointer, "oneOf");
        self.emit(pair, edit, &place, predicate)
    }

    /// Whether a parameter became a list with items that accept all that the parameter accepted, in a
    /// serialization where one value and a list of one value are the same text.
    pub(super) fn is_list_of_old(
        &mut self,
        pair: &SchemaPair<'a>,
        change: &TypeChange<'_>,
    ) -> Result<bool, DiffLimit> {
        let old_types = &change.old.names;
        let is_candidate = self.site.is_form_exploded
            && change.new.names == ["array"]
            && !old_types.is_empty()
            && !old_types.contains(&"array");
        if !is_candidate {
            return Ok(false);
        }
        let Some(items) = self.engine.new.sub_schema(&pair.new, "items") else {
            return Ok(false);
        };
        let item_types = schema_types(&items).names;
        let accepts_types =
            item_types.is_empty() || item_types.contains(&"string") || covers(&item_types, old_types);
        Ok(accepts_types && are_equivalent_except(self.engine, &pair.old, &items, &["type", "nullable"])?)
    }
}

/// The types of a schema that is one type or a list of branches with one type each, and whether it is a list.
fn type_pattern<'a>(branches: &[SchemaView<'a>], schema: &SchemaView<'a>) -> Option<(Vec<&'a str>, bool)> {
    let is_composed = ["not", "allOf", "properties"].iter().any(|keyword| schema.get(keyword).is_some());
    if is_composed {
        return None;
    }
    let own = listed_types(schema);
    if !own.is_empty() {
        return Some((own, false));
    }
    let mut types = Vec::new();
    for branch in branches {
        let is_composed =
            ["properties", "oneOf", "anyOf", "allOf"].iter().any(|keyword| branch.get(keyword).is_some());
        match listed_types(branch).as_slice() {
            [name] if !is_composed => types.push(*name),
            _ => return None,
        }
    }
    (!types.is_empty()).then_some((types, true))
}

/// The types of a schema, null included.
fn listed_types<'a>(schema: &SchemaView<'a>) -> Vec<&'a str> {
    let types = schema_types(schema);
    let mut names = types.names;
    if types.null != NullAcceptance::No && !names.is_empty() && !names.contains(&"null") {
        names.push("null");
    }
    names
}

fn describe_types(added: &[&str], removed: &[&str]) -> String {
    match (added, removed) {
        (added, []) => format!("the types {} too", added.join(", ")),
        ([], removed) => format!("the types {} no longer", removed.join(", ")),
        (added, removed) => format!("the types {} instead of {}", added.join(", "), removed.join(", ")),
    }
}
