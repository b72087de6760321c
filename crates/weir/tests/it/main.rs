//! Integration tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cli;
