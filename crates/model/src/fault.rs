//! What is wrong with an object and where: single faults, and the refusal made of all faults of one object.
//! Knows no schema and no rule; it orders and words what the checks found.

use std::fmt;

use crate::Key;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The object it is in; none when it concerns the whole text.
    pub key: Option<Key>,
    /// The JSON pointer (RFC 6901) to the faulty place within the object; empty for the object itself.
    pub pointer: String,
    /// Why it is refused, as a sentence without the place.
    pub reason: String,
    /// Whether an earlier good form of the object stays in force.
    pub kept: bool,
}

impl Fault {
    /// A fault of no object in particular: a text that does not parse, a whole file.
    #[must_use]
    pub fn general(reason: impl Into<String>) -> Fault {
        Fault { key: None, pointer: String::new(), reason: reason.into(), kept: false }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(formatter, "{key}")?;
        }
        if !self.pointer.is_empty() {
            write!(formatter, "{}", self.pointer)?;
        }
        if self.key.is_some() || !self.pointer.is_empty() {
            formatter.write_str(": ")?;
        }
        formatter.write_str(&self.reason)
    }
}

/// Why an object is refused: every fault, and the one line that the Admin API answers as `error_msg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    contract_message: String,
    faults: Vec<Fault>,
}

impl Refusal {
    /// A refusal for one reason; the contract's line is the reason.
    #[must_use]
    pub fn single(key: Option<Key>, pointer: impl Into<String>, reason: impl Into<String>) -> Refusal {
        let reason = reason.into();
        let fault = Fault { key, pointer: pointer.into(), reason: reason.clone(), kept: false };
        Refusal { contract_message: reason, faults: vec![fault] }
    }

    /// The first fault in APISIX's wording (`invalid configuration: property "uri" validation failed: ...`).
    #[must_use]
    pub fn contract_message(&self) -> &str {
        &self.contract_message
    }

    /// Every fault, in the order in which APISIX would meet them.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The faults, with the object they belong to and whether an earlier form of it stays in force.
    #[must_use]
    pub fn into_faults(self, key: &Key, kept: bool) -> Vec<Fault> {
        let own = |fault: Fault| Fault { key: Some(key.clone()), kept, ..fault };
        self.faults.into_iter().map(own).collect()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.contract_message)
    }
}

impl std::error::Error for Refusal {}

/// The step of the check that found a fault. APISIX stops at the first step that fails, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Before the schema: alternatives that exclude each other.
    Alternatives,
    /// The JSON Schema.
    Schema,
    /// What a schema cannot say, of an upstream.
    Upstream,
    /// Objects it refers to.
    Reference,
    /// Plugin configurations.
    Plugins,
    /// Expressions and the rest.
    Expressions,
    /// What Weir cannot do.
    Unsupported,
}

/// Collects what the checks of one object find.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
}

#[derive(Debug)]
struct Finding {
    stage: Stage,
    pointer: String,
    reason: String,
    contract: Option<String>,
}

impl Findings {
    /// A fault whose contract line is its reason.
    pub(crate) fn add(&mut self, stage: Stage, pointer: impl Into<String>, reason: impl Into<String>) {
        self.found.push(Finding { stage, pointer: pointer.into(), reason: reason.into(), contract: None });
    }

    /// A fault that the contract words differently.
    pub(crate) fn add_worded(
        &mut self,
        stage: Stage,
        pointer: impl Into<String>,
        reason: impl Into<String>,
        contract: String,
    ) {
        let contract = Some(contract);
        self.found.push(Finding { stage, pointer: pointer.into(), reason: reason.into(), contract });
    }

    /// Nothing was found, or the refusal.
    pub(crate) fn into_result(mut self) -> Result<(), Refusal> {
        self.found.sort_by_key(|finding| finding.stage);
        let Some(first) = self.found.first() else {
            return Ok(());
        };
        let contract_message = first.contract.clone().unwrap_or_else(|| first.reason.clone());
        let fault = |finding: Finding| Fault {
            key: None,
            pointer: finding.pointer,
            reason: finding.reason,
            kept: false,
        };
        Err(Refusal { contract_message, faults: self.found.into_iter().map(fault).collect() })
    }
}

/// A JSON pointer one step further down (RFC 6901 escapes `~` and `/`).
pub(crate) fn below(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_names_the_fault_of_the_earliest_step() {
        let mut findings = Findings::default();
        findings.add(Stage::Plugins, "/plugins/x", "unknown plugin [x]");
        findings.add_worded(Stage::Schema, "/uri", "too short", "invalid configuration: short".to_owned());
        let refusal = findings.into_result().unwrap_err();
        assert_eq!(refusal.contract_message(), "invalid configuration: short");
        assert_eq!(refusal.faults().len(), 2);
        assert_eq!(refusal.faults()[0].pointer, "/uri");
    }

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(below("/a", "b/c~d"), "/a/b~1c~0d");
    }
}
