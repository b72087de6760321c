//! The parts that several plugins share: substitution by regular expression, attributes, operations on fields, percent-encoding,
//! the entries and queues of loggers. It is no plugin and knows none.

pub(crate) mod attributes;
pub(crate) mod batch;
pub(crate) mod config;
pub(crate) mod consumer;
pub(crate) mod fields;
pub(crate) mod log_entry;
pub(crate) mod patterns;
pub(crate) mod query;
#[cfg(feature = "casbin")]
pub(crate) mod side_thread;
pub(crate) mod substitution;
pub(crate) mod uri;
