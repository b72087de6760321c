//! Integration tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admin;
mod bodies;
mod changes;
mod cli;
mod command;
mod connections;
mod file_source;
mod framing;
mod requests;
mod rewriting;
mod start;
mod store;
mod support;
mod upgrades;
