//! Example values of schemas, and the responses of an operation that is mocked.
//!
//! Values are the same for the same document, unless a request asks for random ones. The rules for the choice
//! of a response are those of Stoplight's Prism, because clients select mocks with its `Prefer` header.

mod accept;
mod body_text;
mod flatten;
mod generate;
mod merge;
mod mock;
mod number_value;
mod pattern;
mod prefer;
mod string_value;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use mock::{MockResponse, mock_response};
pub use prefer::{MockChoice, MockFault};

use generate::ExampleMaker;

/// Levels of arrays and objects in an example.
pub const EXAMPLE_DEPTH_MAX: usize = 24;
/// Values in an example, together with those that were tried and dropped.
pub const EXAMPLE_VALUES_MAX: usize = 10_000;

/// An example of a schema, as a response has it: properties that are `writeOnly` are left out.
///
/// The first of `example`, `examples`, `default`, `const` and `enum` is taken as it is written. Otherwise the
/// value is made of the other keywords. It is null where no value was found: the constraints contradict each
/// other, required properties lead back to the schema, or a limit was reached. `not`, `if`,
/// `dependentSchemas`, `propertyNames` and `unevaluated*` have no influence; of `oneOf` and `anyOf` the first
/// branch that has a value counts, and it is not checked that the value matches no other branch.
#[must_use]
pub fn example_of(document: &Value, schema: &Value) -> Value {
    ExampleMaker::new(document, None).make_whole(schema).unwrap_or(Value::Null)
}
