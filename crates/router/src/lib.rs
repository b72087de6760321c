//! Chooses a route for a request: the canonical path, expressions over request variables, and the routing
//! table.
//!
//! It knows no sockets, clocks, randomness, configuration files or actions of a route: a route is a [`Rule`]
//! and the caller's `u32` slot. All functions depend only on their arguments.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cidr;
mod hash_trie;
pub mod hosts;
pub mod methods;
pub mod params;
pub mod path;
mod path_pattern;
mod prefix_tree;
pub mod router;
pub mod rule;
mod table;
mod template;
pub mod vars;

pub use cidr::{CidrError, CidrSet};
pub use methods::MethodSet;
pub use params::Params;
pub use router::{Considered, Match, Mode, RequestView, Router, Verdict};
pub use rule::{Rule, RuleError, RuleField, RuleInput};
pub use template::PathTemplate;
