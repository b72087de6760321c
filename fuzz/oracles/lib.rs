//! What must hold of the parsers, the checks and whole exchanges, one module a fuzz target, each with a function `check`
//! that panics when it does not. The tests of the crates include the same files and run them over the committed corpora.
//!
//! It refuses to know who made an input: it takes any bytes, and bounds what work they may ask for.

pub mod admin_body;
pub mod catalog;
pub mod chunked;
pub mod exchange;
pub mod exchange_answers;
pub mod exchange_script;
pub mod exchange_tunnel;
pub mod expression_twin;
pub mod fields;
pub mod naive_head;
pub mod path;
pub mod path_twin;
pub mod request_head;
pub mod resource_file;
pub mod response_head;
pub mod router;
pub mod router_request;
pub mod router_twin;
pub mod steering;
pub mod vars;

/// The reading of requests that the hardening tests of the real binary use.
#[path = "../../crates/weir/tests/it/hardening/oracle.rs"]
mod oracle;
/// What the reading of requests needs of its surroundings.
mod stand;

pub use gateway::simulation::exchange as stage;
