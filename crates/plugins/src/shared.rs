//! The parts that several plugins share: substitution by regular expression, attributes, operations on
//! fields, percent-encoding, signed tokens, the entries and queues of loggers, the keys and tables of limits,
//! clients for Redis and Kafka. It is no plugin and knows none. signed tokens, the entries and queues of
//! loggers, the keys and tables of limits, codings of bodies, a client for Redis. It is no plugin and knows
//! none.

pub(crate) mod api_call;
pub(crate) mod attributes;
pub(crate) mod authentication;
pub(crate) mod batch;
pub(crate) mod config;
pub(crate) mod config_file;
pub(crate) mod consumer;
pub(crate) mod encoding;
pub(crate) mod event_stream;
pub(crate) mod expression;
pub(crate) mod fetched;
pub(crate) mod fields;
pub(crate) mod graphql;
pub(crate) mod jwt;
pub(crate) mod kafka;
pub(crate) mod limits;
pub(crate) mod log_entry;
pub(crate) mod logger;
#[cfg(test)]
mod nesting;
pub(crate) mod networks;
pub(crate) mod openapi;
pub(crate) mod outages;
pub(crate) mod patterns;
pub(crate) mod redis;
pub(crate) mod reply_fields;
pub(crate) mod runner;
#[cfg(feature = "lua")]
pub(crate) mod serverless;
pub(crate) mod side_thread;
pub(crate) mod substitution;
pub(crate) mod tracing;
pub(crate) mod uri;
pub(crate) mod uri_template;
pub(crate) mod weighted_turns;
