//! The `weir` binary: an allocator and a way in. What it can do is in `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod boot;
mod cli;
mod log;
mod settings;
mod terminal;

use std::process::ExitCode;

/// mimalloc: small per-thread allocations of one size are what a gateway makes most, and it gives memory back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
