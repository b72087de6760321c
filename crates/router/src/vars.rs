//! Request variables, the expressions over them that routes and plugins are filtered with, and text templates.
//!
//! Refuses to know how a request is stored: [`VariableSource`] answers for one variable at a time. Names are parsed
//! when the configuration is compiled, so that a request costs a `match`, not a search by name.

mod backtracking;
mod builtin;
mod compile;
mod expression;
mod json_path;
mod pattern;
mod proxy_tlv;
mod template;
mod value;
mod variable;

pub use backtracking::{BacktrackingOptions, BacktrackingRegex, GaveUp, GroupPlaces, TEXT_BYTES_MAX};
pub use builtin::BuiltinVariable;
pub use compile::ExpressionError;
pub use expression::Expression;
pub use json_path::{JsonPath, JsonPathError};
pub use pattern::{Pattern, PatternEngine, PatternError};
pub use proxy_tlv::ProxyTlv;
pub use template::{Template, TemplateError};
pub use value::{Value, to_number};
pub use variable::{GraphqlVariable, Variable, VariableError};

/// A source of the values of variables: a request in progress, or a test.
pub trait VariableSource {
    /// The value now, or none where nginx would have an unset variable.
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>>;

    /// A search for a pattern was given up, so that it is not known whether an expression holds. A source that serves
    /// requests refuses this one: neither the expression nor its negation may be taken for true.
    fn search_gave_up(&self, _reason: GaveUp) {}
}
