//! Request variables, text templates, and the expressions over variables by which routes and plugins are
//! filtered.
//!
//! It does not know how a request is stored: a [`VariableSource`] returns one variable at a time. Names are
//! parsed when the configuration is compiled, so that a request costs a `match`, not a search by name.

mod backtracking;
mod builtin;
mod compile;
mod expression;
mod json_path;
mod line_end;
mod pattern;
mod proxy_tlv;
mod template;
mod value;
mod variable;

pub use backtracking::{BacktrackingOptions, BacktrackingRegex, GaveUp, GroupPlaces, TEXT_BYTES_MAX};
pub use builtin::BuiltinVariable;
pub use compile::ExpressionError;
pub use expression::Expression;
pub use json_path::{JsonPath, JsonPathError, JsonTree};
pub use line_end::{LineEndPattern, own_groups, rewrite_line_ends};
pub use pattern::{Pattern, PatternEngine, PatternError};
pub use proxy_tlv::ProxyTlv;
pub use template::{Template, TemplateError, TemplatePart};
pub use value::{Value, to_number};
pub use variable::{GraphqlVariable, Variable, VariableError};

/// A source of the values of variables: a request in progress, or a test.
pub trait VariableSource {
    /// The present value; `None` if the variable is unset in nginx's sense.
    fn variable<'a>(&'a self, variable: &Variable) -> Option<Value<'a>>;

    /// Called if a search for a pattern was given up, so that it is undecided whether an expression holds. A
    /// source that serves requests refuses the request, because neither the expression nor its negation may
    /// be taken for true.
    fn search_gave_up(&self, _reason: GaveUp) {}
}
