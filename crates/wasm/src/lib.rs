//! Plugins of users in WebAssembly, by proxy-wasm: the filters that run in Envoy run here. A module is
//! compiled once for the process; each worker has an instance of it, in which each configuration and each
//! request has a context. It knows no connection.
//!
//! ```text
//! language   module ── engine, cache, functions (what guests import)
//! plugin     phases of a request ── pool, cell, vm (what guests export)
//! host       the state of an instance ── memory, fields, properties, outgoing, timers, shared, metrics
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod abi;
mod cache;
mod cell;
mod compile;
mod engine;
mod exports;
mod fault;
mod fields;
mod functions;
mod host;
mod language;
pub mod limits;
mod memory;
mod metrics;
mod module;
mod outgoing;
mod plugin;
mod pool;
mod properties;
mod shared;
#[cfg(test)]
mod tests;
mod timers;
mod vm;

pub use language::{Language, PluginOptions, RequestPhase};
