//! The data plane: workers that accept connections, decide requests by a compiled configuration and forward
//! them. It knows plugins only as a trait, configuration only as snapshots of the model, and nothing of the
//! control side.
#![cfg_attr(any(test, feature = "simulation"), allow(clippy::unwrap_used))]

pub mod body;
mod command;
pub mod compile;
mod context;
mod downstream;
pub mod engine;
mod evict;
pub mod explain;
pub mod forward;
mod h1;
mod h2;
mod idle;
pub mod observe;
mod pipeline;
pub mod runtime;
#[cfg(feature = "simulation")]
#[doc(hidden)]
#[cfg_attr(not(test), allow(dead_code, reason = "the seeded simulation is run by tests only"))]
pub mod simulation;
#[doc(hidden)]
pub mod testing;
mod tunnel;
pub mod upstream;
mod worker;

pub use observe::idle_counts::{IdleCounts, IdleState};
