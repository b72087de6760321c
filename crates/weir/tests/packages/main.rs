//! Tests of the packages: their content, and their life on a small Debian with a real systemd.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "times, and tests that a machine cannot run, are for the person who runs them"
)]

mod clean_root;
mod faults;
mod first_minutes;
mod host;
mod installed;
mod load;
mod old_store;
mod removal;
mod service;
mod upgrade;
