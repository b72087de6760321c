//! Tests of the router through its public interface: tables of its semantics and a naive twin.
#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails, which is its job")]

mod corpora;
mod explain;
pub mod oracles;
mod parsers;
mod paths;
mod request;
mod semantics;
mod twin;
