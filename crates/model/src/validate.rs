//! JSON Schema validation: the one place that knows the schema library. Callers see validators and faults.

mod metered;
mod user_schema;
mod wording;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use serde_json::Value;

pub use user_schema::{SchemaSteps, UserSchema};

/// A schema (draft 7). It is compiled at its first use and dropped when it was not used for a while: the
/// compiled schemas take megabytes, and between two changes an instance has no use for them.
pub struct Validator {
    compiled: Mutex<HeldSchema>,
    schema: Arc<Value>,
    /// A user wrote the schema.
    is_of_user: bool,
}

type CompiledSchema = Arc<Result<UserSchema, String>>;

#[derive(Default)]
struct HeldSchema {
    compiled: Option<CompiledSchema>,
    /// Whether it was asked since the last [`Validator::release_unused`].
    used: bool,
}

impl Validator {
    /// For this schema, which is part of the gateway.
    #[must_use]
    pub fn new(schema: impl Into<Arc<Value>>) -> Validator {
        Validator { compiled: Mutex::default(), schema: schema.into(), is_of_user: false }
    }

    /// For a schema that a user wrote: it has the limits of a [`UserSchema`].
    #[must_use]
    pub fn of_user(schema: impl Into<Arc<Value>>) -> Validator {
        Validator { is_of_user: true, ..Validator::new(schema) }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Compiles the schema, if that is not done yet.
    ///
    /// # Errors
    /// The library's words, when it is no JSON Schema or refers to something outside itself.
    pub fn compile(&self) -> Result<(), String> {
        self.compiled().as_ref().as_ref().map(drop).map_err(String::clone)
    }

    /// Gives the compiled form up if it was not asked since the last call.
    pub fn release_unused(&self) {
        let mut held = self.held();
        if !std::mem::take(&mut held.used) {
            held.compiled = None;
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldSchema> {
        self.compiled.lock()
    }

    fn compiled(&self) -> CompiledSchema {
        let mut held = self.held();
        held.used = true;
        let compile = || {
            Arc::new(match self.is_of_user {
                true => UserSchema::compile_as(&self.schema, jsonschema::Draft::Draft7),
                false => UserSchema::trusted(&self.schema),
            })
        };
        held.compiled.get_or_insert_with(compile).clone()
    }

    /// Whether the value obeys the schema; a schema that is none accepts nothing.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        self.compiled()
            .as_ref()
            .as_ref()
            .is_ok_and(|compiled| compiled.accepts(value, &mut SchemaSteps::of_a_write()))
    }

    /// Every fault, in the order in which APISIX's validator would meet them.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Vec<SchemaFault> {
        let compiled = self.compiled();
        let mut steps = SchemaSteps::of_a_write();
        let compiled = match &*compiled {
            Ok(compiled) => compiled,
            // A value that cannot be checked is refused.
            Err(reason) => {
                return vec![SchemaFault::at_root(format!("its schema is faulty itself: {reason}"))];
            }
        };
        let faults = compiled.faults(value, &mut steps);
        let misspelt =
            faults.iter().filter_map(|fault| Some((&*fault.pointer, fault.meant_name.as_deref()?)));
        let Some(corrected) = Corrected::of(value, misspelt) else { return faults };
        // A misspelt name makes other rules fail as well (a required name is missing, alternatives do not
        // match): those faults are found with the corrected name, so that only real ones are left.
        let mut all: Vec<SchemaFault> =
            faults.into_iter().filter(|fault| fault.meant_name.is_some()).collect();
        let of_corrected = compiled.faults(&corrected.value, &mut steps);
        all.extend(of_corrected.into_iter().map(|fault| corrected.as_written(fault)));
        all
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Validator")
    }
}

/// A value with misspelt names replaced by the known ones, for checks that look for further faults.
pub(crate) struct Corrected {
    pub(crate) value: Value,
    /// Where a field is now, and where it was written.
    moved: Vec<(String, String)>,
}

impl Corrected {
    /// The value with the field at each pointer under the name beside it, or without it where that name is
    /// taken; none where there is nothing to correct.
    pub(crate) fn of<'f>(
        value: &Value,
        misspelt: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Option<Corrected> {
        let mut misspelt = misspelt.into_iter().peekable();
        misspelt.peek()?;
        let mut corrected = Corrected { value: value.clone(), moved: Vec::new() };
        for (pointer, meant) in misspelt {
            corrected.rename(pointer, meant);
        }
        Some(corrected)
    }

    fn rename(&mut self, pointer: &str, name: &str) {
        let Some((parent, step)) = pointer.rsplit_once('/') else { return };
        let Some(fields) = self.value.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
        if let Some(field) = fields.shift_remove(&step.replace("~1", "/").replace("~0", "~"))
            && !fields.contains_key(name)
        {
            fields.insert(name.to_owned(), field);
            self.moved.push((crate::fault::extend_pointer(parent, name), pointer.to_owned()));
        }
    }

    /// The fault with its place in the value as it was written.
    pub(crate) fn as_written(&self, fault: SchemaFault) -> SchemaFault {
        let written = self.moved.iter().find_map(|(now, before)| {
            let rest = fault.pointer.strip_prefix(now.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{before}{rest}"))
        });
        match written {
            Some(pointer) => SchemaFault { pointer, ..fault },
            None => fault,
        }
    }
}

/// How well a fault says what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clarity {
    /// It names the fault.
    #[default]
    Clear,
    /// It only says that no alternative or pattern fits; another fault of the same place says more.
    Vague,
    /// It lists the alternatives of an object, without a sentence from the schema.
    Listed,
}

/// One place where a value breaks its schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaFault {
    /// The JSON pointer to the place.
    pub pointer: String,
    /// Why, without the place.
    pub reason: String,
    /// The keyword of the schema that the value breaks (`maximum`); empty where no keyword does.
    pub rule: Box<str>,
    /// How APISIX words the way to the place (`property "a" validation failed: `).
    way: String,
    /// The whole line of APISIX, where its validator says less than `reason`.
    contract: Option<String>,
    /// A question with the known name that was probably meant, for the end of the line; empty where none is
    /// near.
    hint: String,
    /// The known name that an unknown one is a typing error of.
    meant_name: Option<String>,
    /// How well the reason says what to do.
    clarity: Clarity,
    /// The reason is a sentence of the schema about what an object needs.
    says_what_is_needed: bool,
}

impl SchemaFault {
    /// A fault of the value as a whole.
    pub(crate) fn at_root(reason: impl Into<String>) -> SchemaFault {
        SchemaFault::at(String::new(), reason)
    }

    /// A fault that breaks `rule`, which may be no keyword, of the value as a whole.
    #[must_use]
    pub fn of_rule(rule: &str, reason: impl Into<String>) -> SchemaFault {
        SchemaFault { rule: rule.into(), ..SchemaFault::at_root(reason) }
    }

    /// A fault at that place.
    pub(crate) fn at(pointer: String, reason: impl Into<String>) -> SchemaFault {
        SchemaFault { pointer, reason: reason.into(), ..SchemaFault::default() }
    }

    /// How well the reason says what to do.
    pub(crate) fn clarity(&self) -> Clarity {
        self.clarity
    }

    /// The fault in APISIX's wording: the way to the place, then the reason.
    #[must_use]
    pub fn contract_message(&self) -> String {
        self.contract.clone().unwrap_or_else(|| format!("{}{}", self.way, self.reason))
    }

    /// As [`Self::contract_message`], with what was probably meant where a name is unknown.
    #[must_use]
    pub fn hinted_message(&self) -> String {
        format!("{}{}", self.contract_message(), self.hint)
    }

    /// As [`Self::contract_message`], with what was probably meant where a plugin's own attribute is unknown:
    /// APISIX has no words for most of those, since it lets them through.
    #[must_use]
    pub fn plugin_message(&self) -> String {
        let own = self.pointer.matches('/').count() == 1;
        format!("{}{}", self.contract_message(), if own { &self.hint } else { "" })
    }

    /// The reason, with what was probably meant.
    #[must_use]
    pub fn full_reason(&self) -> String {
        format!("{}{}", self.reason, self.hint)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unused_counters_are_dropped_and_remade() {
        let validator = Validator::new(json!({"type": "integer"}));
        let is_held = || validator.held().compiled.is_some();
        assert!(!is_held(), "nothing is compiled before it is asked");
        assert!(validator.accepts(&json!(1)));
        validator.release_unused();
        assert!(is_held(), "it was asked since");
        validator.release_unused();
        assert!(!is_held());
        assert!(!validator.accepts(&json!("1")) && is_held());
    }
}
