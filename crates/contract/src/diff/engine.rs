//! State of one comparison: the documents, the options, the list of changes and the counters of the limits.

use std::collections::HashSet;

use serde_json::Value;

use super::lifecycle::current_day;
use super::pair_graph::PairGraph;
use super::reference::DiffDocument;
use super::rules::find_rule;
use super::{ChangeLevel, ContractChange, DiffLimit, DiffOptions, MAX_CHANGES, MAX_COMPARED_SCHEMAS};

/// Longest rendering of a value inside a sentence, in bytes.
const MAX_VALUE_BYTES: usize = 60;

pub(super) struct DiffEngine<'a> {
    pub(super) old: DiffDocument<'a>,
    pub(super) new: DiffDocument<'a>,
    pub(super) options: &'a DiffOptions,
    /// Days since 1970-01-01 that sunset dates are compared with.
    pub(super) today: i64,
    /// Method and path of the operation that is compared; empty outside of operations.
    pub(super) operation: Box<str>,
    pub(super) operation_id: Option<Box<str>>,
    /// All pairs of schemas that were met.
    pub(super) pairs: PairGraph<'a>,
    /// Pairs of schemas below which an earlier body had no change, by number and kind of walk. They are not
    /// walked again, so that a large document with shared schemas costs one walk per schema.
    pub(super) unchanged: HashSet<(u32, u8)>,
    changes: Vec<ContractChange>,
    compared: usize,
}

impl<'a> DiffEngine<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value, options: &'a DiffOptions) -> Self {
        Self {
            old: DiffDocument::new(old),
            new: DiffDocument::new(new),
            options,
            today: options.today.unwrap_or_else(current_day),
            operation: Box::default(),
            operation_id: None,
            pairs: PairGraph::default(),
            unchanged: HashSet::new(),
            changes: Vec::new(),
            compared: 0,
        }
    }

    pub(super) fn into_changes(self) -> Vec<ContractChange> {
        self.changes
    }

    pub(super) fn change_count(&self) -> usize {
        self.changes.len()
    }

    /// Counts a pair of schemas with its cost in pairs of the same text.
    pub(super) fn count_schema(&mut self, weight: usize) -> Result<(), DiffLimit> {
        self.compared += weight;
        if self.compared > MAX_COMPARED_SCHEMAS { Err(DiffLimit::Schemas) } else { Ok(()) }
    }

    /// Adds a change with the rule's level.
    pub(super) fn report(&mut self, rule: &str, place: &str, text: String) -> Result<(), DiffLimit> {
        self.report_capped(rule, ChangeLevel::Breaking, place, text)
    }

    /// Adds a change with the rule's level, but not more severe than `ceiling`. An override of the user is
    /// not lowered. A name that is no rule adds nothing: some edits have no rule in some places.
    pub(super) fn report_capped(
        &mut self,
        rule: &str,
        ceiling: ChangeLevel,
        place: &str,
        text: String,
    ) -> Result<(), DiffLimit> {
        let Some((rule, default_level)) = find_rule(rule) else {
            return Ok(());
        };
        let level = match self.options.levels.get(rule) {
            Some(None) => return Ok(()),
            Some(Some(level)) => *level,
            None => default_level.max(ceiling),
        };
        if self.changes.len() >= MAX_CHANGES {
            return Err(DiffLimit::Changes);
        }
        self.changes.push(ContractChange {
            rule,
            level,
            operation: self.operation.clone(),
            operation_id: self.operation_id.clone(),
            place: place.to_owned(),
            text,
        });
        Ok(())
    }
}

/// A value as JSON for a sentence, cut after [`MAX_VALUE_BYTES`].
pub(super) fn show_value(value: &Value) -> String {
    match value {
        // Large values are not rendered, because the text of a whole document may be behind them.
        Value::Array(items) => format!("a list of {} values", items.len()),
        Value::Object(members) => format!("an object with {} members", members.len()),
        Value::String(text) => format!("`{}`", clip_text(text)),
        other => format!("`{other}`"),
    }
}

/// The beginning of a text, cut at a character.
pub(super) fn clip_text(text: &str) -> String {
    if text.len() <= MAX_VALUE_BYTES {
        return text.to_owned();
    }
    let end = (0..=MAX_VALUE_BYTES).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0);
    format!("{}…", &text[..end])
}
