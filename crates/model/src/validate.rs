//! JSON Schema validation: the one place that knows the schema library. Callers see validators and faults.

mod wording;

use serde_json::Value;

/// A compiled schema (draft 7).
pub struct Validator {
    compiled: jsonschema::Validator,
    /// The schema, for the parts of it that the wording of a fault quotes.
    schema: Value,
}

impl Validator {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The library's words, when it is no JSON Schema or refers to something outside itself.
    pub fn new(schema: &Value) -> Result<Validator, String> {
        let compiled = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft7)
            .should_validate_formats(true)
            .build(schema)
            .map_err(|error| error.to_string())?;
        Ok(Validator { compiled, schema: schema.clone() })
    }

    /// Whether the value obeys the schema.
    #[must_use]
    pub fn accepts(&self, value: &Value) -> bool {
        self.compiled.is_valid(value)
    }

    /// Every fault, in the order in which APISIX's validator would meet them.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Vec<SchemaFault> {
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        wording::faults(self.compiled.iter_errors(value), &self.schema, value)
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
}

impl SchemaFault {
    /// A fault of the value as a whole.
    pub(crate) fn at_root(reason: impl Into<String>) -> SchemaFault {
        SchemaFault { pointer: String::new(), reason: reason.into(), way: String::new() }
    }

    /// The fault in APISIX's wording: the way to the place, then the reason.
    #[must_use]
    pub fn contract_message(&self) -> String {
        format!("{}{}", self.way, self.reason)
    }
}
