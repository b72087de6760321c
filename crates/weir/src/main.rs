//! The `weir` binary: an allocator and a way in. What it can do is in `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod allocator;
mod boot;
mod cli;
mod code_pages;
mod log;
mod settings;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::tune();
    cli::main()
}
