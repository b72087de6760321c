//! The data plane: workers that accept connections, decide requests by a compiled configuration and forward them.
//! It knows plugins only as a trait, configuration only as snapshots of the model, and nothing of the control side.
#![cfg_attr(any(test, feature = "simulation"), allow(clippy::unwrap_used))]

pub mod body;
pub mod client_address;
pub mod compile;
mod context;
mod deadline;
pub mod engine;
pub mod env;
mod evict;
pub mod exchange;
pub mod explain;
pub mod failure;
pub mod forward;
mod h1;
mod idle;
pub mod listener;
mod local;
pub mod observe;
pub mod options;
pub mod overload;
mod pipeline;
pub mod plugin;
mod reason;
pub mod runtime;
#[cfg(feature = "simulation")]
#[doc(hidden)]
#[cfg_attr(not(test), allow(dead_code, reason = "the seeded simulation is run by tests only"))]
pub mod simulation;
#[doc(hidden)]
pub mod testing;
pub mod upstream;
mod worker;

pub use exchange::Exchange;
pub use idle::{IdleCounts, IdleState};
pub use local::Local;
