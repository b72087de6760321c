//! JSON Schema validation: the one place that knows the schema library. Callers see validators and faults.

mod wording;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A schema (draft 7), compiled when it is first asked: a node that uses a few kinds and plugins holds the compiled form,
/// a megabyte for some, of those alone.
pub struct Validator {
    compiled: OnceLock<Result<jsonschema::Validator, String>>,
    schema: Arc<Value>,
}

impl Validator {
    /// For this schema.
    #[must_use]
    pub fn new(schema: impl Into<Arc<Value>>) -> Validator {
        Validator { compiled: OnceLock::new(), schema: schema.into() }
    }

    /// The schema.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Compiles the schema, if that was not done yet.
    ///
    /// # Errors
    /// The library's words, when it is no JSON Schema or refers to something outside itself.
    pub fn compile(&self) -> Result<(), &str> {
        self.compiled().as_ref().map(drop).map_err(String::as_str)
    }

    fn compiled(&self) -> &Result<jsonschema::Validator, String> {
        self.compiled.get_or_init(|| {
            jsonschema::options()
                .with_draft(jsonschema::Draft::Draft7)
                .should_validate_formats(true)
                .build(&self.schema)
                .map_err(|error| error.to_string())
        })
    }

    /// Whether the value obeys the schema; a schema that is none accepts nothing.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        self.compiled().as_ref().is_ok_and(|compiled| compiled.is_valid(value))
    }

    /// Every fault, in the order in which APISIX's validator would meet them.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Vec<SchemaFault> {
        match self.compiled() {
            Ok(compiled) if compiled.is_valid(value) => Vec::new(),
            Ok(compiled) => wording::faults(compiled.iter_errors(value), &self.schema, value),
            // What cannot be checked is not let through.
            Err(reason) => vec![SchemaFault::at_root(format!("its schema is faulty itself: {reason}"))],
        }
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Validator")
    }
}

/// One place where a value breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// The JSON pointer to the place.
    pub pointer: String,
    /// Why, without the place.
    pub reason: String,
    /// How APISIX words the way to the place (`property "a" validation failed: `).
    way: String,
    /// The whole line of APISIX, where its validator says less than `reason`.
    contract: Option<String>,
    /// What was probably meant, in words to put behind the line; empty if nobody can tell.
    hint: String,
}

impl SchemaFault {
    /// A fault of the value as a whole.
    pub(crate) fn at_root(reason: impl Into<String>) -> SchemaFault {
        SchemaFault {
            pointer: String::new(),
            reason: reason.into(),
            way: String::new(),
            contract: None,
            hint: String::new(),
        }
    }

    /// The fault in APISIX's wording: the way to the place, then the reason.
    #[must_use]
    pub fn contract_message(&self) -> String {
        self.contract.clone().unwrap_or_else(|| format!("{}{}", self.way, self.reason))
    }

    /// As [`Self::contract_message`], with what was probably meant where a plugin's own attribute is unknown: APISIX has no
    /// words for most of those, since it lets them through.
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
