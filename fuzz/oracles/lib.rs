//! Oracles of the parsers, the checks and whole exchanges: one module per fuzz target, each with a function
//! `check` that panics if a property does not hold. The tests of the crates include the same files and run
//! them over the committed corpora.
//!
//! An oracle accepts any bytes and bounds the work that they cause.

pub mod admin_body;
pub mod catalog;
pub mod chunked;
pub mod client_hello;
pub mod decoded_fields;
pub mod exchange;
pub mod exchange_answers;
pub mod exchange_http2;
pub mod exchange_script;
pub mod exchange_tunnel;
pub mod expression_twin;
pub mod fields;
pub mod first_protocol;
pub mod http2;
pub mod http3;
pub mod lenient_answers;
pub mod mqtt_connect;
pub mod naive_head;
pub mod path;
pub mod path_twin;
pub mod prefixes;
pub mod proxy_protocol;
pub mod request_head;
pub mod resource_file;
pub mod response_head;
pub mod router;
pub mod router_request;
pub mod router_twin;
pub mod steering;
pub mod vars;

/// The reader of requests, shared with the hardening tests of the real binary.
#[path = "../../crates/weir/tests/it/hardening/oracle.rs"]
mod oracle;
/// Items that the reader of requests imports from its surroundings.
mod stand;

pub use gateway::simulation::exchange as stage;
