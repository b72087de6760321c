//! A schema that a user wrote for their own data, such as request bodies. It is of the draft that its `$schema` names, refers
//! to nothing outside itself, and its patterns have limits. Knows no schema of ours.

use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use super::wording;

/// A compiled schema of a user.
pub struct UserSchema {
    compiled: jsonschema::Validator,
    schema: Value,
}

impl UserSchema {
    /// Compiles `schema`. Without `$schema` it is of draft 7, or of draft 4 if it is faulty as draft 7: a boolean
    /// `exclusiveMinimum` is common in schemas that do not name their draft, and APISIX accepts it.
    ///
    /// # Errors
    /// The reason why it is no schema, a sentence. References to other documents are refused.
    pub fn compile(schema: &Value) -> Result<UserSchema, String> {
        let drafts: &[Option<Draft>] = match schema.get("$schema") {
            Some(_) => &[None],
            None => &[Some(Draft::Draft7), Some(Draft::Draft4)],
        };
        let mut first_reason = None;
        for draft in drafts {
            match build(schema, *draft) {
                Ok(compiled) => return Ok(UserSchema { compiled, schema: schema.clone() }),
                Err(reason) => first_reason = first_reason.or(Some(reason)),
            }
        }
        Err(first_reason.unwrap_or_default())
    }

    /// The first fault of `value`, in the words of APISIX's validator; none if it obeys the schema.
    #[must_use]
    pub fn fault(&self, value: &Value) -> Option<String> {
        self.fault_unless(value, |_| false)
    }

    /// As [`Self::fault`], without the faults of values that `is_exempt`, such as references to values elsewhere.
    #[must_use]
    pub fn fault_unless(&self, value: &Value, is_exempt: impl Fn(&Value) -> bool) -> Option<String> {
        if self.compiled.is_valid(value) {
            return None;
        }
        let faults = wording::faults(self.compiled.iter_errors(value), &self.schema, value);
        if faults.is_empty() {
            return Some(UNNAMED.to_owned());
        }
        let is_real = |fault: &&super::SchemaFault| !value.pointer(&fault.pointer).is_some_and(&is_exempt);
        faults.iter().find(is_real).map(super::SchemaFault::contract_message)
    }
}

fn build(schema: &Value, draft: Option<Draft>) -> Result<jsonschema::Validator, String> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACKS_MAX)
        .size_limit(PROGRAM_BYTES_MAX)
        .dfa_size_limit(CACHE_BYTES_MAX);
    let mut options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(true);
    if let Some(draft) = draft {
        options = options.with_draft(draft);
    }
    options.build(schema).map_err(|error| match error.instance_path().as_str() {
        "" => error.to_string(),
        place => format!("{place}: {error}"),
    })
}

/// The words for a value that breaks the schema without an error of its own.
const UNNAMED: &str = "the value does not match the schema";
/// Steps back of one search of a pattern with look-around or back-references; a value that needs more breaks the schema.
/// At about 20 ns a step a search takes less than 1 ms.
const BACKTRACKS_MAX: usize = 50_000;
/// Memory of one compiled pattern.
const PROGRAM_BYTES_MAX: usize = 1024 * 1024;
/// Memory of the cache of one pattern.
const CACHE_BYTES_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn draft_is_the_one_that_the_schema_names() {
        let fault = |schema: Value, value: Value| UserSchema::compile(&schema).unwrap().fault(&value);
        let tuple = |draft: &str, keyword: &str| json!({"$schema": draft, "type": "array", keyword: [{"type": "integer"}]});
        let newest = "https://json-schema.org/draft/2020-12/schema";
        assert!(fault(tuple(newest, "prefixItems"), json!(["a"])).is_some());
        let seventh = "http://json-schema.org/draft-07/schema#";
        assert!(fault(tuple(seventh, "items"), json!(["a"])).is_some());
        assert_eq!(fault(tuple(seventh, "prefixItems"), json!(["a"])), None, "draft 7 has no prefixItems");
        let fourth = json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1,
            "exclusiveMinimum": true});
        assert!(fault(fourth, json!(1)).is_some());
        assert!(
            fault(json!({"minimum": 1, "exclusiveMinimum": true}), json!(1)).is_some(),
            "unnamed draft 4"
        );
        assert!(fault(json!({"exclusiveMinimum": 1}), json!(1)).is_some(), "unnamed draft 7");
    }

    #[test]
    fn faulty_or_remote_schema_is_refused() {
        let refused = |schema: Value, part: &str| {
            let reason = UserSchema::compile(&schema).err().unwrap_or_else(|| panic!("accepted: {schema}"));
            assert!(reason.contains(part), "{schema}: {reason}");
        };
        refused(json!({"type": "test"}), "/type: ");
        refused(json!({"properties": {"a": {"enum": "b"}}}), "/properties/a/enum: ");
        refused(json!({"$ref": "https://example.com/s.json"}), "https://example.com/s.json");
        refused(json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd");
        refused(json!({"pattern": "("}), "(");
        refused(json!({"pattern": "(a{1000}){1000}"}), "");
    }

    #[test]
    fn fault_has_the_words_of_apisix() {
        let schema = json!({
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "age": {"$ref": "#/definitions/age"}},
            "definitions": {"age": {"type": "integer", "minimum": 0}}
        });
        let schema = UserSchema::compile(&schema).unwrap();
        let cases = [
            (json!({"name": "a", "age": 1}), None),
            (json!({}), Some("property \"name\" is required")),
            (json!([]), Some("wrong type: expected object, got table")),
            (
                json!({"name": 1}),
                Some("property \"name\" validation failed: wrong type: expected string, got number"),
            ),
            (
                json!({"name": "a", "age": "old"}),
                Some("property \"age\" validation failed: wrong type: expected integer, got string"),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(schema.fault(&value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn pattern_that_backtracks_too_long_is_a_fault() {
        let schema = UserSchema::compile(&json!({"pattern": "^(?=(a+)+$)(a|aa)+b$"})).unwrap();
        let started = std::time::Instant::now();
        assert!(schema.fault(&json!("a".repeat(4_000))).is_some());
        assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    }
}
