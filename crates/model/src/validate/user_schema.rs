//! A schema that a user wrote for their own data, such as request bodies. It is of the draft that its
//! `$schema` names, refers to nothing outside itself, and its check has a budget: the schema is refused where
//! it is written if one value meets too many of its parts, and a value that takes too many steps to
//! check breaks it. Knows no schema of ours.

mod expansion;
mod patterns;

use std::sync::{Arc, LazyLock};

use jsonschema::Draft;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::metered::{BudgetSpent, CheckBudget, MeteredJson, MeteredNode, within};
use super::{SchemaFault, wording};

pub(super) use patterns::KEYWORD as COUNTED_PATTERN;

/// A compiled schema of a user.
pub struct UserSchema {
    compiled: jsonschema::Validator<MeteredJson>,
    /// The schema as it was compiled, to which the places of faults refer.
    schema: Arc<Value>,
    /// The cost of names of properties.
    budget: CheckBudget,
}

/// The steps that the checks of one request may take together. A step takes about 10 ns.
#[derive(Debug)]
pub struct SchemaSteps {
    left: u64,
    used: u64,
}

impl SchemaSteps {
    /// For checks on a worker, which serves no other request meanwhile.
    #[must_use]
    pub fn on_worker() -> SchemaSteps {
        SchemaSteps { left: WORKER_STEPS, used: 0 }
    }

    /// For checks on a thread beside the workers, which all plugins share.
    #[must_use]
    pub fn beside_workers() -> SchemaSteps {
        SchemaSteps { left: SIDE_STEPS, used: 0 }
    }

    /// For the check of an object that is written, with all its plugins.
    #[must_use]
    pub fn of_a_write() -> SchemaSteps {
        SchemaSteps { left: WRITE_STEPS, used: 0 }
    }

    /// The steps that were taken so far.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
        self.used = self.used.saturating_add(steps);
    }
}

impl UserSchema {
    /// Compiles `schema`. Without `$schema` it is of draft 7, or of draft 4 if it is faulty as draft 7: a
    /// boolean `exclusiveMinimum` is common in schemas that do not name their draft, and APISIX accepts it.
    ///
    /// # Errors
    /// The reason why it is no schema or too large, a sentence. References to other documents are refused.
    pub fn compile(schema: &Value) -> Result<UserSchema, String> {
        expansion::check_expansion(schema)?;
        let mut counted = schema.clone();
        let patterns = patterns::count_patterns(&mut counted)?;
        let drafts: &[Option<Draft>] = match schema.get("$schema") {
            Some(_) => &[None],
            None => &[Some(Draft::Draft7), Some(Draft::Draft4)],
        };
        let mut first_reason = None;
        for draft in drafts {
            match build(&counted, *draft, patterns.engine) {
                Ok(compiled) => {
                    return Ok(UserSchema { compiled, schema: counted.into(), budget: patterns.budget });
                }
                Err(reason) => first_reason = first_reason.or(Some(reason)),
            }
        }
        Err(first_reason.unwrap_or_default())
    }

    /// Compiles `schema` of that draft, whatever its `$schema` says.
    ///
    /// # Errors
    /// As for [`UserSchema::compile`].
    pub(super) fn compile_as(schema: &Value, draft: Draft) -> Result<UserSchema, String> {
        expansion::check_expansion(schema)?;
        let mut counted = schema.clone();
        let patterns = patterns::count_patterns(&mut counted)?;
        let compiled = build(&counted, Some(draft), patterns.engine)?;
        Ok(UserSchema { compiled, schema: counted.into(), budget: patterns.budget })
    }

    /// Compiles a schema of ours, of draft 7: it needs no limits, and its values have those of a write.
    ///
    /// # Errors
    /// The library's words, when it is no JSON Schema or refers to something outside itself.
    pub(super) fn trusted(schema: &Arc<Value>) -> Result<UserSchema, String> {
        let options = jsonschema::options_for::<MeteredJson>().with_draft(Draft::Draft7);
        let compiled = options.should_validate_formats(true).build(schema);
        let compiled = compiled.map_err(|error| error.to_string())?;
        Ok(UserSchema { compiled, schema: schema.clone(), budget: CheckBudget::default() })
    }

    /// Whether `value` obeys the schema.
    pub(super) fn accepts(&self, value: &Value, steps: &mut SchemaSteps) -> bool {
        self.check(value, steps) == Ok(true)
    }

    /// The first fault of `value`, in the words of APISIX's validator; none if it obeys the schema. A value
    /// that needs more than the remaining steps breaks the schema.
    #[must_use]
    pub fn fault(&self, value: &Value, steps: &mut SchemaSteps) -> Option<String> {
        self.fault_unless(value, steps, |_| false)
    }

    /// As [`Self::fault`], without the faults of values that `is_exempt`, such as references to values
    /// elsewhere.
    #[must_use]
    pub fn fault_unless(
        &self,
        value: &Value,
        steps: &mut SchemaSteps,
        is_exempt: impl Fn(&Value) -> bool,
    ) -> Option<String> {
        let faults = self.faults(value, steps);
        // A fault without a place may be any, so that it is none of an exempt value.
        let is_real = |fault: &&SchemaFault| {
            fault.pointer.is_empty() || !value.pointer(&fault.pointer).is_some_and(&is_exempt)
        };
        faults.iter().find(is_real).map(SchemaFault::contract_message)
    }

    /// All faults of `value`, first the one at which APISIX's validator stops; none if it obeys the schema.
    #[must_use]
    pub fn faults(&self, value: &Value, steps: &mut SchemaSteps) -> Vec<SchemaFault> {
        match self.check(value, steps) {
            Ok(true) => return Vec::new(),
            Ok(false) => {}
            Err(BudgetSpent) => return vec![SchemaFault::at_root(TOO_MANY_STEPS)],
        }
        let budget = CheckBudget { steps: steps.left.max(ERROR_STEPS), ..self.budget };
        let errors = || self.compiled.iter_errors(MeteredNode(value)).collect::<Vec<_>>();
        let (errors, used) = within(budget, errors);
        steps.take(used);
        let faults = errors.map(|errors| wording::faults(errors.into_iter(), &self.schema, value));
        match faults {
            Ok(faults) if !faults.is_empty() => faults,
            _ => vec![SchemaFault::at_root(UNNAMED)],
        }
    }

    fn check(&self, value: &Value, steps: &mut SchemaSteps) -> Result<bool, BudgetSpent> {
        let budget = CheckBudget { steps: steps.left, ..self.budget };
        let (is_valid, used) = within(budget, || self.compiled.is_valid(MeteredNode(value)));
        steps.take(used);
        is_valid
    }
}

fn build(
    schema: &Value,
    draft: Option<Draft>,
    engine: patterns::NameEngine,
) -> Result<jsonschema::Validator<MeteredJson>, String> {
    let mut options = patterns::with_engine(jsonschema::options_for::<MeteredJson>(), engine)
        .should_validate_formats(true)
        .with_keyword(patterns::KEYWORD, patterns::make_pattern_keyword)
        .with_format("regex", is_short_pattern)
        .with_content_media_type("application/json", is_json);
    if let Some(draft) = draft {
        options = options.with_draft(draft);
    }
    options.build(schema).map_err(|error| match error.instance_path().as_str() {
        "" => error.to_string(),
        place => format!("{place}: {error}"),
    })
}

/// The format `regex` for a text of a client: the library's own check compares each name of a group with all
/// others.
fn is_short_pattern(text: &str) -> bool {
    text.len() <= CLIENT_PATTERN_BYTES_MAX && REGEX_FORMAT.is_valid(MeteredNode(&Value::from(text)))
}

/// Whether a text is JSON. The library's own check holds all its values.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The schema of the library's own format `regex`.
static REGEX_FORMAT: LazyLock<jsonschema::Validator<MeteredJson>> = LazyLock::new(|| {
    let options = jsonschema::options_for::<MeteredJson>().with_draft(Draft::Draft7);
    options.build(&serde_json::json!({"format": "regex"})).expect("the schema is valid")
});

/// Steps of the checks of one request on a worker: about 20 ms.
const WORKER_STEPS: u64 = 2_000_000;
/// Steps of the checks of one request beside the workers: about 200 ms.
const SIDE_STEPS: u64 = 20_000_000;
/// Steps of the check of an object that is written: about a second. One of 16 MiB takes a tenth of them.
const WRITE_STEPS: u64 = 100_000_000;
/// Steps for the words of a fault, even where the check itself has taken all others.
const ERROR_STEPS: u64 = 500_000;
/// The longest text of the format `regex`, in bytes.
const CLIENT_PATTERN_BYTES_MAX: usize = 4 * 1024;
/// The words for a value that breaks the schema without an error of its own.
const UNNAMED: &str = "the value does not match the schema";
/// The words for a value that was not checked to its end.
const TOO_MANY_STEPS: &str = "the check of the value takes too many steps (a pattern with look-around or \
    back-references is searched in 4096 bytes at most)";

#[cfg(test)]
mod tests;
