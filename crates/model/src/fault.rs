//! Faults of objects and their places: single faults, and the refusal made of all faults of one object. Knows
//! no schema and no rule; it orders and words the findings of the checks.

use std::collections::HashMap;
use std::fmt;

use crate::ObjectKey;
use crate::check::UnknownFields;
use crate::check::unknown::UnknownField;
use crate::validate::{Clarity, SchemaFault};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The object it is in; none when it concerns the whole text.
    pub key: Option<ObjectKey>,
    /// The JSON pointer (RFC 6901) to the faulty place within the object; empty for the object itself.
    pub pointer: String,
    /// Why it is refused, as a sentence without the place.
    pub reason: String,
    /// Whether an earlier good form of the object stays in force.
    pub kept: bool,
}

impl ConfigFault {
    /// A fault of no object in particular: a text that does not parse, a whole file.
    #[must_use]
    pub fn general(reason: impl Into<String>) -> ConfigFault {
        ConfigFault { key: None, pointer: String::new(), reason: reason.into(), kept: false }
    }
}

impl fmt::Display for ConfigFault {
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

/// Something in an object that has no effect, or not the one that was probably meant. The object is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The JSON pointer (RFC 6901) to the place within the object.
    pub pointer: String,
    /// Why it has no effect, and what to write instead where that is known.
    pub reason: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(formatter, "{}: ", self.pointer)?;
        }
        formatter.write_str(&self.reason)
    }
}

/// Why an object is refused: every fault, and the one line that the Admin API answers as `error_msg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRefusal {
    contract_message: String,
    faults: Vec<ConfigFault>,
}

impl ObjectRefusal {
    /// A refusal for one reason; the contract's line is the reason.
    #[must_use]
    pub fn single(
        key: Option<ObjectKey>,
        pointer: impl Into<String>,
        reason: impl Into<String>,
    ) -> ObjectRefusal {
        let reason = reason.into();
        let fault = ConfigFault { key, pointer: pointer.into(), reason: reason.clone(), kept: false };
        ObjectRefusal { contract_message: reason, faults: vec![fault] }
    }

    /// A refusal for these faults, of which there is one at least; the contract's line is the reason of the
    /// first.
    pub(crate) fn of(faults: &[ConfigFault]) -> ObjectRefusal {
        let contract_message = faults.first().map(|fault| fault.reason.clone()).unwrap_or_default();
        ObjectRefusal { contract_message, faults: faults.to_vec() }
    }

    /// The first fault in APISIX's wording (`invalid configuration: property "uri" validation failed: ...`).
    #[must_use]
    pub fn contract_message(&self) -> &str {
        &self.contract_message
    }

    /// Every fault, in the order in which APISIX would meet them.
    #[must_use]
    pub fn faults(&self) -> &[ConfigFault] {
        &self.faults
    }

    /// The faults, with the object they belong to and whether an earlier form of it stays in force.
    #[must_use]
    pub fn into_faults(self, key: &ObjectKey, kept: bool) -> Vec<ConfigFault> {
        let own = |fault: ConfigFault| ConfigFault { key: Some(key.clone()), kept, ..fault };
        self.faults.into_iter().map(own).collect()
    }
}

impl fmt::Display for ObjectRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.contract_message)
    }
}

impl std::error::Error for ObjectRefusal {}

/// The step of the check that found a fault. APISIX stops at the first step that fails, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckStage {
    /// Before the schema: alternatives that exclude each other.
    Alternatives,
    /// The JSON Schema.
    Schema,
    /// A rule of upstreams that a schema cannot express.
    Upstream,
    /// Objects it refers to.
    Reference,
    /// Plugin configurations.
    Plugins,
    /// Expressions and the rest.
    Expressions,
    /// A feature that Weir does not have.
    Unsupported,
}

/// Collects what the checks of one object find.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    warnings: Vec<Warning>,
    /// Warnings beyond [`WARNINGS_MAX`].
    further_warnings: usize,
    /// The places of unknown fields that are accepted and not read.
    ignored: Vec<String>,
}

#[derive(Debug)]
struct Finding {
    stage: CheckStage,
    pointer: String,
    reason: String,
    contract: Option<String>,
    is_vague: bool,
}

/// The results of the checks of an object without a fault.
#[derive(Debug, Default)]
pub(crate) struct CheckRemarks {
    /// See [`Warning`].
    pub(crate) warnings: Box<[Warning]>,
    /// The places of unknown fields that are accepted and not read.
    pub(crate) ignored: Vec<String>,
}

impl Findings {
    /// A fault with its reason as the contract's line.
    pub(crate) fn add(&mut self, stage: CheckStage, pointer: impl Into<String>, reason: impl Into<String>) {
        self.put(stage, pointer.into(), reason.into(), None, false);
    }

    /// A fault that the contract words differently.
    pub(crate) fn add_worded(
        &mut self,
        stage: CheckStage,
        pointer: impl Into<String>,
        reason: impl Into<String>,
        contract: String,
    ) {
        self.put(stage, pointer.into(), reason.into(), Some(contract), false);
    }

    /// A fault that a schema found below `pointer`, with what precedes the contract's line.
    pub(crate) fn add_schema_fault(
        &mut self,
        stage: CheckStage,
        pointer: &str,
        fault: &SchemaFault,
        contract: String,
    ) {
        let is_vague = fault.clarity() == Clarity::Vague;
        let place = format!("{pointer}{}", fault.pointer);
        self.put(stage, place, fault.full_reason(), Some(contract), is_vague);
    }

    fn put(
        &mut self,
        stage: CheckStage,
        pointer: String,
        reason: String,
        contract: Option<String>,
        is_vague: bool,
    ) {
        self.found.push(Finding { stage, pointer, reason, contract, is_vague });
    }

    /// Something that has no effect. Beyond [`WARNINGS_MAX`] warnings are only counted.
    pub(crate) fn warn(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        if self.warnings.len() == WARNINGS_MAX {
            self.further_warnings += 1;
            return;
        }
        let (mut pointer, mut reason) = (pointer.into(), reason.into());
        shorten(&mut pointer, WARNING_BYTES_MAX);
        shorten(&mut reason, WARNING_BYTES_MAX);
        self.warnings.push(Warning { pointer, reason });
    }

    /// An unknown field, below `pointer`, that is accepted and not read.
    pub(crate) fn accept_unknown(&mut self, pointer: &str, field: &UnknownField, policy: UnknownFields) {
        let place = format!("{pointer}{}", field.pointer);
        if policy == UnknownFields::Warn {
            self.warn(place.clone(), field.warning());
        }
        self.ignored.push(place);
    }

    /// Nothing was found, or the refusal.
    pub(crate) fn into_result(self) -> Result<(), ObjectRefusal> {
        self.finish().map(drop)
    }

    /// The warnings, or the refusal.
    pub(crate) fn finish(mut self) -> Result<CheckRemarks, ObjectRefusal> {
        self.found.sort_by_key(|finding| finding.stage);
        let Some(first) = self.found.first() else {
            if self.further_warnings > 0 {
                let reason = format!("and {} more warnings", self.further_warnings);
                self.warnings.push(Warning { pointer: String::new(), reason });
            }
            return Ok(CheckRemarks { warnings: self.warnings.into(), ignored: self.ignored });
        };
        let mut contract_message = first.contract.clone().unwrap_or_else(|| first.reason.clone());
        // A vague fault is dropped where another one of the same place says more.
        let clear: HashMap<&str, &str> = self
            .found
            .iter()
            .rev()
            .filter(|finding| !finding.is_vague)
            .map(|finding| (&*finding.pointer, &*finding.reason))
            .collect();
        if let Some(reason) = clear.get(&*first.pointer).filter(|_| first.is_vague) {
            contract_message = format!("{contract_message}; {reason}");
        }
        let kept: Vec<bool> =
            self.found.iter().map(|found| !found.is_vague || !clear.contains_key(&*found.pointer)).collect();
        let fault = |(finding, _): (Finding, bool)| ConfigFault {
            key: None,
            pointer: finding.pointer,
            reason: finding.reason,
            kept: false,
        };
        let faults = self.found.into_iter().zip(kept).filter(|(_, kept)| *kept).map(fault).collect();
        Err(ObjectRefusal { contract_message, faults })
    }
}

/// Cuts a text at a character boundary and marks the cut.
fn shorten(text: &mut String, most_bytes: usize) {
    if text.len() > most_bytes {
        text.truncate(text.floor_char_boundary(most_bytes));
        text.push('…');
    }
}

/// Warnings kept for one object: twenty tell a user what the next thousand would, and every instance holds
/// them.
const WARNINGS_MAX: usize = 20;
/// Bytes of a warning's place, and of its text: names in it come from users and may be as long as a request
/// body.
const WARNING_BYTES_MAX: usize = 320;

/// A JSON pointer one step further down (RFC 6901 escapes `~` and `/`).
pub(crate) fn extend_pointer(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_names_the_fault_of_the_earliest_step() {
        let mut findings = Findings::default();
        findings.add(CheckStage::Plugins, "/plugins/x", "unknown plugin [x]");
        findings.add_worded(
            CheckStage::Schema,
            "/uri",
            "too short",
            "invalid configuration: short".to_owned(),
        );
        let refusal = findings.into_result().unwrap_err();
        assert_eq!(refusal.contract_message(), "invalid configuration: short");
        assert_eq!(refusal.faults().len(), 2);
        assert_eq!(refusal.faults()[0].pointer, "/uri");
    }

    #[test]
    fn vague_fault_gives_way_to_a_clear_one() {
        let vague = |pointer: &str| Finding {
            stage: CheckStage::Schema,
            pointer: pointer.to_owned(),
            reason: "matches no pattern".to_owned(),
            contract: Some("invalid configuration: no pattern".to_owned()),
            is_vague: true,
        };
        let mut findings = Findings { found: vec![vague("/host"), vague("/id")], ..Findings::default() };
        findings.add(CheckStage::Expressions, "/host", "the host is empty");
        let refusal = findings.into_result().unwrap_err();
        assert_eq!(refusal.contract_message(), "invalid configuration: no pattern; the host is empty");
        let reasons: Vec<&str> = refusal.faults().iter().map(|fault| &*fault.reason).collect();
        assert_eq!(reasons, ["matches no pattern", "the host is empty"]);
        assert_eq!(refusal.faults()[0].pointer, "/id");
    }

    #[test]
    fn warnings_are_bounded_in_number_and_length() {
        let mut findings = Findings::default();
        for number in 0..1_000 {
            findings.warn(format!("/{}", "ü".repeat(1_000)), format!("{number}{}", "x".repeat(100_000)));
        }
        let warnings = findings.finish().unwrap().warnings;
        assert_eq!(warnings.len(), WARNINGS_MAX + 1);
        assert!(warnings.iter().all(|warning| warning.reason.len() <= WARNING_BYTES_MAX + 3));
        assert!(warnings.iter().all(|warning| warning.pointer.len() <= WARNING_BYTES_MAX + 3));
        assert_eq!(warnings[WARNINGS_MAX].reason, "and 980 more warnings");
    }

    #[test]
    fn pointers_are_escaped() {
        assert_eq!(extend_pointer("/a", "b/c~d"), "/a/b~1c~0d");
    }
}
