//! Walks two schemas in parallel and reports the differences of each pair of sub-schemas. The files
//! `keyword`, `enumeration`, `object` and `branch` hold the comparisons of a single pair.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::engine::DiffEngine;
use super::pair_graph::{NAMED_SCHEMAS, PairLink, SINGLE_SCHEMAS};
use super::reference::{SchemaView, extend_pointer};
use super::schema_site::{MAX_PATH_BYTES, SchemaPair, SchemaSite, SiteKind};
use super::{ChangeLevel, DIFFERENT_TEXT_WEIGHT, DiffLimit, MAX_SCHEMA_DEPTH, is_change_rule};

/// Number of a pair and the facts that decide rules.
type PairKey = (u32, u8);

/// A pair that was met in a body.
struct WalkStep {
    key: PairKey,
    /// Index of the step that led here; the root has its own.
    parent: usize,
    name: Rc<str>,
    depth: usize,
}

pub(super) struct SchemaWalk<'e, 'a> {
    pub(super) engine: &'e mut DiffEngine<'a>,
    pub(super) site: &'e SchemaSite,
    /// Whether the root has `allOf`: then its branches may say the same as any part of it.
    has_root_all_of: bool,
    /// Pairs in the order of their distance from the root, so that a shared schema is named by its shortest
    /// path. A queue and no recursion, because paths through a large cyclic document are long.
    steps: Vec<WalkStep>,
    /// Steps by key. Cycles end here, and shared schemas are reported once per body.
    seen: HashMap<PairKey, usize>,
    /// Steps and the steps inside them.
    edges: Vec<(usize, usize)>,
    /// Index of the step under comparison.
    current: usize,
}

/// Bits of a [`PairKey`]; the lowest three are the kind of the site.
const IS_STRICT: u8 = 1 << 3;
const IS_ROOT: u8 = 1 << 4;
const IS_UNDER_ALL_OF: u8 = 1 << 5;
const IS_HIDDEN: u8 = 1 << 6;

/// Compares the schemas of one message part.
pub(super) fn compare_schemas<'a>(
    engine: &mut DiffEngine<'a>,
    site: &SchemaSite,
    old: SchemaView<'a>,
    new: SchemaView<'a>,
) -> Result<(), DiffLimit> {
    let has_root_all_of = old.get("allOf").is_some() || new.get("allOf").is_some();
    let root = engine.pairs.intern(old, new);
    let (steps, seen, edges) = (Vec::new(), HashMap::new(), Vec::new());
    let mut walk = SchemaWalk { engine, site, has_root_all_of, steps, seen, edges, current: 0 };
    let strictness = if site.is_strict { IS_STRICT } else { 0 };
    walk.visit_key((root, site.kind as u8 | strictness | IS_ROOT), "".into());
    let mut changed = Vec::new();
    while walk.current < walk.steps.len() {
        let changes_before = walk.engine.change_count();
        walk.compare_step()?;
        if walk.engine.change_count() != changes_before {
            changed.push(walk.current);
        }
        walk.current += 1;
    }
    if site.is_body() {
        walk.remember_unchanged(changed);
    }
    Ok(())
}

impl<'a> SchemaWalk<'_, 'a> {
    /// Adds a pair inside the current one to the queue, unless it was met in this body or has no change
    /// below.
    pub(super) fn visit(&mut self, pair: SchemaPair<'a>) {
        let mut flags = self.steps[self.current].key.1 & !(IS_ROOT | IS_UNDER_ALL_OF | IS_HIDDEN);
        flags |= if pair.is_under_all_of { IS_UNDER_ALL_OF } else { 0 };
        flags |= if pair.is_hidden { IS_HIDDEN } else { 0 };
        let number = self.engine.pairs.intern(pair.old, pair.new);
        self.visit_key((number, flags), pair.name);
    }

    fn visit_key(&mut self, key: PairKey, name: Rc<str>) {
        if self.engine.unchanged.contains(&key) {
            return;
        }
        let index = self.steps.len();
        match self.seen.entry(key) {
            Entry::Occupied(known) => self.edges.push((self.current, *known.get())),
            Entry::Vacant(entry) => {
                entry.insert(index);
                self.edges.push((self.current, index));
                let depth = self.steps.get(self.current).map_or(0, |parent| parent.depth + 1);
                self.steps.push(WalkStep { key, parent: self.current, name, depth });
            }
        }
    }

    fn compare_step(&mut self) -> Result<(), DiffLimit> {
        self.engine.count_schema(1)?;
        let WalkStep { key: (number, flags), depth, .. } = self.steps[self.current];
        if depth >= MAX_SCHEMA_DEPTH {
            return Err(DiffLimit::Depth);
        }
        if !self.engine.options.property_order_is_wire {
            let documents = (self.engine.old, self.engine.new);
            if let Some(links) = self.engine.pairs.links(number, documents) {
                links.iter().for_each(|link| self.visit_link(link, flags));
                return Ok(());
            }
        }
        self.engine.count_schema(DIFFERENT_TEXT_WEIGHT)?;
        let (old, new) = self.engine.pairs.schemas(number);
        let pair = SchemaPair {
            old,
            new,
            name: Rc::clone(&self.steps[self.current].name),
            path: self.current_path(),
            depth,
            is_under_all_of: flags & IS_UNDER_ALL_OF != 0,
            is_hidden: flags & IS_HIDDEN != 0,
        };
        self.compare_pair(&pair)
    }

    fn visit_link(&mut self, link: &PairLink, flags: u8) {
        let mut flags = flags & !IS_ROOT;
        if link.is_all_of {
            flags |= IS_UNDER_ALL_OF;
        }
        if self.site.hides(link.is_read_only, link.is_write_only) {
            flags |= IS_HIDDEN;
        }
        self.visit_key((link.target, flags), Rc::clone(&link.name));
    }

    /// Names from the root to the current step, joined with `/`.
    fn current_path(&self) -> String {
        let mut names = Vec::new();
        let (mut index, mut length) = (self.current, 0);
        while index != 0 {
            let name = &*self.steps[index].name;
            length += name.len() + 1;
            if length > MAX_PATH_BYTES {
                names.push("…");
                break;
            }
            names.push(name);
            index = self.steps[index].parent;
        }
        names.reverse();
        names.join("/")
    }

    /// Records the pairs from which no changed pair is reached, so that other bodies skip them.
    fn remember_unchanged(self, changed: Vec<usize>) {
        let mut parents: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for (parent, child) in self.edges {
            parents[child].push(parent);
        }
        let mut is_affected = vec![false; self.steps.len()];
        let mut open = changed;
        while let Some(number) = open.pop() {
            if !std::mem::replace(&mut is_affected[number], true) {
                open.append(&mut parents[number]);
            }
        }
        let unaffected = self.steps.iter().zip(is_affected).filter(|(_, is_affected)| !is_affected);
        self.engine.unchanged.extend(unaffected.map(|(step, _)| step.key));
    }

    fn compare_pair(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        if pair.old.is_false() || pair.new.is_false() {
            return self.compare_false_schemas(pair);
        }
        let transition = self.find_transition(pair)?;
        if self.report_transition(pair, &transition)? {
            return Ok(());
        }
        if !transition.explains_types() {
            self.compare_types(pair)?;
        }
        self.compare_null(pair)?;
        self.compare_keywords(pair)?;
        self.compare_enumeration(pair)?;
        self.compare_properties(pair, &transition)?;
        self.compare_branches(pair, &transition)?;
        self.compare_sub_schemas(pair);
        Ok(())
    }

    fn compare_false_schemas(&mut self, pair: &SchemaPair<'a>) -> Result<(), DiffLimit> {
        match (pair.old.is_false(), pair.new.is_false()) {
            (false, true) => {
                self.emit(pair, "schema-became-false", &pair.new.pointer, "no longer accepts any value")
            }
            (true, false) => {
                self.emit(pair, "schema-became-not-false", &pair.new.pointer, "accepts values now")
            }
            _ => Ok(()),
        }
    }

    /// Compares the keywords that hold one schema or schemas by name, properties and branches left out.
    fn compare_sub_schemas(&mut self, pair: &SchemaPair<'a>) {
        for keyword in SINGLE_SCHEMAS {
            let old = self.engine.old.sub_schema(&pair.old, keyword);
            let new = self.engine.new.sub_schema(&pair.new, keyword);
            if let (Some(old), Some(new)) = (old, new)
                && old.value.is_object()
                && new.value.is_object()
            {
                self.visit(pair.descend(keyword, old, new));
            }
        }
        for keyword in NAMED_SCHEMAS {
            let old = self.engine.old.schema_map(&pair.old, keyword);
            let new = self.engine.new.schema_map(&pair.new, keyword);
            let new: HashMap<&str, SchemaView<'a>> = new.into_iter().collect();
            for (name, old) in old {
                if let Some(new) = new.get(name) {
                    self.visit(pair.descend(&format!("{keyword}[{name}]"), old, new.clone()));
                }
            }
        }
    }

    /// Part of the rule name for this place; `None` if there are no rules for it.
    fn rule_prefix(&self, pair: &SchemaPair<'_>) -> Option<&'static str> {
        match (self.site.kind, pair.is_root()) {
            (SiteKind::RequestBody, true) => Some("request-body"),
            (SiteKind::RequestBody, false) => Some("request-property"),
            (SiteKind::Parameter, true) => Some("request-parameter"),
            (SiteKind::Parameter, false) => Some("request-parameter-property"),
            (SiteKind::ResponseBody, true) => Some("response-body"),
            (SiteKind::ResponseBody, false) => Some("response-property"),
            (SiteKind::ResponseHeader, true) => Some("response-header"),
            (SiteKind::ResponseHeader, false) => None,
        }
    }

    /// Reports an edit of this pair under the rule `<place>-<edit>`.
    pub(super) fn emit(
        &mut self,
        pair: &SchemaPair<'a>,
        edit: &str,
        place: &str,
        predicate: &str,
    ) -> Result<(), DiffLimit> {
        let Some(prefix) = self.rule_prefix(pair) else {
            return Ok(());
        };
        // A branch that was added to `allOf` restricts for certain, whatever its siblings say.
        let is_added_branch = edit.starts_with("all-of-") && edit != "all-of-removed";
        let ceiling = match is_added_branch {
            true if pair.is_hidden => ChangeLevel::Info,
            true => ChangeLevel::Breaking,
            false => self.ceiling(pair.is_under_all_of || pair.has_all_of(), pair.is_hidden),
        };
        let text = self.sentence(&pair.path, predicate);
        let rule = hidden_rule(self.site.kind, pair, edit).unwrap_or_else(|| format!("{prefix}-{edit}"));
        self.engine.report_capped(&rule, ceiling, place, text)
    }

    /// Reports a keyword's edit at the keyword in the new document, or in the old one for a removal.
    pub(super) fn emit_at(
        &mut self,
        pair: &SchemaPair<'a>,
        edit: &str,
        keyword: &str,
        predicate: &str,
    ) -> Result<(), DiffLimit> {
        let holder = if pair.new.raw(keyword).is_some() { &pair.new } else { &pair.old };
        let place = extend_pointer(&holder.pointer, keyword);
        self.emit(pair, edit, &place, predicate)
    }

    /// Reports a rule with a name that does not begin with the place, about the property at `path`.
    pub(super) fn emit_rule(
        &mut self,
        rule: &str,
        ceiling: ChangeLevel,
        place: &str,
        path: &str,
        predicate: &str,
    ) -> Result<(), DiffLimit> {
        let text = self.sentence(path, predicate);
        self.engine.report_capped(rule, ceiling, place, text)
    }

    /// The most severe level that a change may have at such a place.
    pub(super) fn ceiling(&self, is_under_all_of: bool, is_hidden: bool) -> ChangeLevel {
        match (is_hidden, (is_under_all_of || self.has_root_all_of) && self.site.is_body()) {
            (true, _) => ChangeLevel::Info,
            (false, true) => ChangeLevel::Warning,
            (false, false) => ChangeLevel::Breaking,
        }
    }

    fn sentence(&self, path: &str, predicate: &str) -> String {
        let subject = &self.site.subject;
        if !path.is_empty() {
            return format!("Property `{path}` of {subject} {predicate}.");
        }
        let mut characters = subject.chars();
        let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        format!("{first}{} {predicate}.", characters.as_str())
    }
}

/// The own name that some edits of properties have which are not part of the message.
fn hidden_rule(kind: SiteKind, pair: &SchemaPair<'_>, edit: &str) -> Option<String> {
    let rule = match kind {
        SiteKind::RequestBody if pair.new.is_true("readOnly") => format!("request-read-only-property-{edit}"),
        SiteKind::ResponseBody if pair.new.is_true("writeOnly") => {
            format!("response-write-only-property-{edit}")
        }
        _ => return None,
    };
    (!pair.is_root() && is_change_rule(&rule)).then_some(rule)
}
