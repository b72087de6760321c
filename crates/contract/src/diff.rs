//! Compares two OpenAPI 3.x documents and lists their differences as an API gate needs them: each change has
//! a stable rule name, a level, the operation and a place. Rule names and default levels are those of
//! oasdiff, so that lists of accepted changes and severity files written for it keep working.
//!
//! Directions: a request that the old document allowed must stay allowed, and a response of the new document
//! must be one that the old document described. Narrowing breaks requests, widening breaks responses.

mod bound;
mod branch;
mod document_walk;
mod engine;
mod enumeration;
mod equivalence;
mod keyword;
mod lifecycle;
mod object;
mod operation_rules;
mod pair_graph;
mod parameter;
mod payload;
mod reference;
mod rules;
mod schema_site;
mod schema_walk;
mod security;
mod transition;
mod type_rules;
mod typing;
mod value_set;

use std::collections::BTreeMap;

use serde_json::Value;

pub use rules::{change_rules, is_change_rule};

/// Longest shortest path from a body to a schema in it, references included. No description of an API is that
/// deep, so that a longer path is the work of a generator.
pub const MAX_SCHEMA_DEPTH: usize = 1000;

/// Most pairs of schemas that one comparison looks at. A pair of different texts counts for
/// [`DIFFERENT_TEXT_WEIGHT`] pairs. The limit is a few seconds of work; a document of 3 MB with 10,000
/// operations that all reach one changed schema needs half of it.
pub const MAX_COMPARED_SCHEMAS: usize = 20_000_000;

/// Cost of comparing two different texts, in pairs of the same text. Measured: 4 microseconds and 0.3.
pub const DIFFERENT_TEXT_WEIGHT: usize = 12;

/// Most changes that one comparison lists. Two documents with more differences are not versions of one API.
pub const MAX_CHANGES: usize = 50_000;

/// Effect of a change on existing clients. The order is the order of the list: breaking changes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeLevel {
    /// Some client that follows the old document fails (oasdiff: ERR).
    Breaking,
    /// The documents do not say whether a client fails (oasdiff: WARN).
    Warning,
    /// No client that follows the old document fails (oasdiff: INFO).
    Info,
}

/// One difference between two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractChange {
    /// Stable name of the rule, for example `request-parameter-became-required`.
    pub rule: &'static str,
    /// Effect on clients, after the overrides of [`DiffOptions::levels`].
    pub level: ChangeLevel,
    /// Method and path template as in `GET /pets/{id}`; empty for a change outside of operations.
    pub operation: Box<str>,
    /// The `operationId` of the new operation, or of the old one if it was removed.
    pub operation_id: Option<Box<str>>,
    /// JSON pointer into the new document, or into the old one for a removal.
    pub place: String,
    /// One sentence for the user.
    pub text: String,
}

/// Settings of a comparison. The default has no overrides, ignores the order of properties and uses the
/// clock.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// Level of a rule instead of its default; `None` switches the rule off. Unknown names have no effect,
    /// see [`is_change_rule`].
    pub levels: BTreeMap<Box<str>, Option<ChangeLevel>>,
    /// Whether field numbers are derived from the order of properties, parameters and enum values, as the
    /// Highway transport does. Then every change of a position is breaking.
    pub property_order_is_wire: bool,
    /// The current date in days since 1970-01-01, which sunset dates are compared with. `None` reads the
    /// clock.
    pub today: Option<i64>,
}

/// The limit that ended a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLimit {
    /// Schemas are nested deeper than [`MAX_SCHEMA_DEPTH`].
    Depth,
    /// More than [`MAX_COMPARED_SCHEMAS`] pairs of schemas had to be compared.
    Schemas,
    /// The documents differ in more than [`MAX_CHANGES`] ways.
    Changes,
}

impl std::fmt::Display for DiffLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth => write!(formatter, "schemas are nested deeper than {MAX_SCHEMA_DEPTH} levels"),
            Self::Schemas => {
                write!(formatter, "more than {MAX_COMPARED_SCHEMAS} pairs of schemas to compare")
            }
            Self::Changes => write!(formatter, "the documents differ in more than {MAX_CHANGES} ways"),
        }
    }
}

impl std::error::Error for DiffLimit {}

/// Lists the changes from `old` to `new`, ordered by level, operation and place.
///
/// Parts that break the rules of OpenAPI (a list instead of an object, a reference to nothing) are treated
/// as absent. Cyclic references end, because each pair of schemas is compared once per body.
///
/// # Errors
/// A [`DiffLimit`] if the documents are nested too deep, too large, or differ in too many ways.
pub fn diff_documents(
    old: &Value,
    new: &Value,
    options: &DiffOptions,
) -> Result<Vec<ContractChange>, DiffLimit> {
    let mut engine = engine::DiffEngine::new(old, new, options);
    document_walk::compare_roots(&mut engine)?;
    let mut changes = engine.into_changes();
    changes.sort_by(|a, b| {
        (a.level, &a.operation, &a.place, a.rule, &a.text).cmp(&(
            b.level,
            &b.operation,
            &b.place,
            b.rule,
            &b.text,
        ))
    });
    changes.dedup();
    Ok(changes)
}
