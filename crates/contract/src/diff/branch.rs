//! Changes of the branches of `oneOf`, `anyOf` and `allOf`, and of `discriminator`.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::DiffLimit;
use super::engine::clip_text;
use super::equivalence::{are_equivalent, restricts_nothing};
use super::reference::SchemaView;
use super::schema_site::SchemaPair;
use super::schema_walk::SchemaWalk;
use super::transition::BranchTransition;

/// Most pairs of branches that are compared to find equal ones in one list; beyond it, branches are paired by
/// name and position only, because the search is quadratic.
const MAX_BRANCH_PAIRS: usize = 4096;

/// Branches of two lists by index.
#[derive(Default)]
struct BranchMatch {
    paired: Vec<(usize, usize)>,
    added: Vec<usize>,
    removed: Vec<usize>,
}

impl<'a> SchemaWalk<'_, 'a> {
    pub(super) fn compare_branches(
        &mut self,
        pair: &SchemaPair<'a>,
        transition: &BranchTransition<'a>,
    ) -> Result<(), DiffLimit> {
        self.compare_discriminator(pair)?;
        for (keyword, edit) in [("oneOf", "one-of"), ("anyOf", "any-of"), ("allOf", "all-of")] {
            let old = self.engine.old.schema_list(&pair.old, keyword);
            let new = self.engine.new.schema_list(&pair.new, keyword);
            if old.is_empty() && new.is_empty() {
                continue;
            }
            let matched = self.match_branches(&old, &new)?;
            if !transition.explains_types() || keyword == "allOf" {
                for index in matched.added {
                    self.report_branch(
                        pair,
                        keyword,
                        &format!("{edit}-added"),
                        &new[index],
                        "got the branch",
                    )?;
                }
                for index in matched.removed {
                    self.report_branch(
                        pair,
                        keyword,
                        &format!("{edit}-removed"),
                        &old[index],
                        "lost the branch",
                    )?;
                }
            }
            for (old_index, new_index) in matched.paired {
                let name = format!("{keyword}[{}]", branch_name(&new[new_index], new_index));
                let mut child = pair.descend(&name, old[old_index].clone(), new[new_index].clone());
                child.is_under_all_of |= keyword == "allOf";
                self.visit(child);
            }
        }
        Ok(())
    }

    fn report_branch(
        &mut self,
        pair: &SchemaPair<'a>,
        keyword: &str,
        edit: &str,
        branch: &SchemaView<'a>,
        verb: &str,
    ) -> Result<(), DiffLimit> {
        let is_annotation = keyword == "allOf" && restricts_nothing(branch, &[]);
        let edit = if is_annotation { format!("{edit}-annotation-only") } else { edit.to_owned() };
        let name = branch.reference.or(branch.text("title")).unwrap_or(&branch.pointer);
        let predicate = format!("{verb} `{}` of `{keyword}`", clip_text(name));
        self.emit(pair, &edit, &branch.pointer, &predicate)
    }

    /// Pairs branches by reference, then by title, by equal restrictions, and the only two that remain.
    fn match_branches(
        &mut self,
        old: &[SchemaView<'a>],
        new: &[SchemaView<'a>],
    ) -> Result<BranchMatch, DiffLimit> {
        let mut matched = BranchMatch {
            removed: (0..old.len()).collect(),
            added: (0..new.len()).collect(),
            ..Default::default()
        };
        matched.pair_by_reference(old, new);
        if matched.removed.len() * matched.added.len() <= MAX_BRANCH_PAIRS {
            let title = |schema: &SchemaView<'a>| schema.text("title").unwrap_or("");
            let is_inline = |schema: &SchemaView<'_>| schema.reference.is_none();
            let engine = &mut *self.engine;
            matched.pair_by(|left, right| {
                let (left, right) = (&old[left], &new[right]);
                let is_candidate = is_inline(left) && is_inline(right) && title(left) == title(right);
                Ok(is_candidate && are_equivalent(engine, left, right, None)?)
            })?;
            matched.pair_by(|left, right| {
                let (left, right) = (&old[left], &new[right]);
                let is_candidate = is_inline(left) && is_inline(right);
                Ok(is_candidate && !title(left).is_empty() && title(left) == title(right))
            })?;
            matched.pair_only_inline(old, new);
            matched.pair_by(|left, right| {
                let (left, right) = (&old[left], &new[right]);
                Ok(is_inline(left) != is_inline(right) && are_equivalent(engine, left, right, None)?)
            })?;
        }
        matched.paired.sort_unstable();
        Ok(matched)
    }

    fn compare_discriminator(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        const KEYWORD: &str = "discriminator";
        let (old, new) = match (pair.old.get(KEYWORD), pair.new.get(KEYWORD)) {
            (None, Some(_)) => {
                return self.emit_at(pair, "discriminator-added", KEYWORD, "got a discriminator");
            }
            (Some(_), None) => {
                return self.emit_at(pair, "discriminator-removed", KEYWORD, "lost its discriminator");
            }
            (Some(old), Some(new)) => (old, new),
            (None, None) => return Ok(()),
        };
        let property = |value: &Value| value.get("propertyName").cloned();
        if property(old) != property(new) {
            let predicate = "changed the property of its discriminator";
            self.emit_at(pair, "discriminator-property-name-changed", KEYWORD, predicate)?;
        }
        let mapping = |value: &'a Value| value.get("mapping").and_then(Value::as_object);
        let (old, new) = (mapping(old), mapping(new));
        let lookup =
            |map: Option<&'a serde_json::Map<String, Value>>, key: &str| map.and_then(|map| map.get(key));
        let keys =
            |map: Option<&'a serde_json::Map<String, Value>>| map.into_iter().flat_map(|map| map.keys());
        let is_added = keys(new).any(|key| lookup(old, key).is_none());
        let is_deleted = keys(old).any(|key| lookup(new, key).is_none());
        let is_changed =
            keys(old).any(|key| lookup(new, key).is_some_and(|value| lookup(old, key) != Some(value)));
        let edits = [
            (is_added, "discriminator-mapping-added", "got values of its discriminator"),
            (is_deleted, "discriminator-mapping-deleted", "lost values of its discriminator"),
            (is_changed, "discriminator-mapping-changed", "changed schemas of its discriminator"),
        ];
        for (_, edit, predicate) in edits.into_iter().filter(|(is_edit, _, _)| *is_edit) {
            self.emit_at(pair, edit, KEYWORD, predicate)?;
        }
        Ok(())
    }
}

impl BranchMatch {
    /// Pairs branches with the same `$ref`. A map, because lists of references can be long.
    fn pair_by_reference(&mut self, old: &[SchemaView<'_>], new: &[SchemaView<'_>]) {
        let mut by_reference: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for index in &self.added {
            if let Some(reference) = new[*index].reference {
                by_reference.entry(reference).or_default().push_back(*index);
            }
        }
        let mut taken = HashSet::new();
        let paired = &mut self.paired;
        self.removed.retain(|index| {
            let candidates = old[*index].reference.and_then(|reference| by_reference.get_mut(reference));
            match candidates.and_then(VecDeque::pop_front) {
                Some(partner) => {
                    taken.insert(partner);
                    paired.push((*index, partner));
                    false
                }
                None => true,
            }
        });
        self.added.retain(|index| !taken.contains(index));
    }

    /// Moves each pair that `is_pair` accepts from the open branches to the pairs; the first match wins.
    fn pair_by(
        &mut self,
        mut is_pair: impl FnMut(usize, usize) -> Result<bool, DiffLimit>,
    ) -> Result<(), DiffLimit> {
        let mut removed = Vec::new();
        for left in std::mem::take(&mut self.removed) {
            let mut found = None;
            for (position, right) in self.added.iter().enumerate() {
                if is_pair(left, *right)? {
                    found = Some(position);
                    break;
                }
            }
            match found {
                Some(position) => self.paired.push((left, self.added.remove(position))),
                None => removed.push(left),
            }
        }
        self.removed = removed;
        Ok(())
    }

    /// Pairs one removed and one added branch without names, which are most likely the same branch, edited.
    fn pair_only_inline(&mut self, old: &[SchemaView<'_>], new: &[SchemaView<'_>]) {
        let is_unnamed =
            |schema: &SchemaView<'_>| schema.reference.is_none() && schema.text("title").is_none();
        let count_inline = |list: &[usize], schemas: &[SchemaView<'_>]| {
            list.iter().filter(|index| schemas[**index].reference.is_none()).count()
        };
        if count_inline(&self.removed, old) != 1 || count_inline(&self.added, new) != 1 {
            return;
        }
        let left = self.removed.iter().position(|index| is_unnamed(&old[*index]));
        let right = self.added.iter().position(|index| is_unnamed(&new[*index]));
        if let (Some(left), Some(right)) = (left, right) {
            self.paired.push((self.removed.remove(left), self.added.remove(right)));
        }
    }
}

/// The name of a branch in paths: that of its reference, its title, or its position.
pub(super) fn branch_name(branch: &SchemaView<'_>, index: usize) -> String {
    let name = branch.reference.and_then(|reference| reference.rsplit('/').next());
    name.or(branch.text("title")).map_or_else(|| index.to_string(), ToOwned::to_owned)
}
