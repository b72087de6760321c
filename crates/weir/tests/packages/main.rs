//! Tests of the packages: their content, that two builds are equal, that the image runs without rights, and
//! their life on a small Debian with a real systemd. The program in them is the debug build;
//! `WEIR_TEST_PROGRAM=PATH` packs and runs another one, such as the static one of `make package`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "times, and tests that a machine cannot run, are for the person who runs them"
)]

mod bill;
mod builds;
mod clean_root;
mod container;
mod debian;
mod faults;
mod first_minutes;
mod guide;
mod host;
mod image;
mod installed;
mod load;
mod old_store;
#[allow(dead_code, reason = "the reader of pages is that of the test `guides`, which uses all of it")]
#[path = "../guides/output.rs"]
mod output;
mod pack;
#[allow(dead_code, reason = "likewise")]
#[path = "../guides/page.rs"]
mod page;
mod readme;
mod redhat;
mod removal;
mod service;
mod stand_in;
mod static_names;
mod tarball;
mod upgrade;
