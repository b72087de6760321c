//! What several plugins have in common: substitution by regular expression, operations on fields, percent-encoding.
//! It is no plugin and knows none.

pub(crate) mod config;
pub(crate) mod fields;
pub(crate) mod substitution;
pub(crate) mod uri;
