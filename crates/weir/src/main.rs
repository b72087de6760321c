//! The `weir` binary: an allocator and a way in. What it can do is in `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin_client;
mod allocator;
mod ask;
mod boot;
mod changes;
mod cli;
mod log;
mod settings;
mod terminal;

use std::process::ExitCode;

const _: () =
    assert!(!net::env::IS_SIMULATED, "gateway's feature `simulation` is for its tests and the fuzz targets");

fn main() -> ExitCode {
    allocator::tune();
    quiet_expected_panics();
    cli::main()
}

/// A panic over a damaged store is caught and reported as what it is; its text and backtrace would only come first.
fn quiet_expected_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !control::source::store::panic_is_expected() {
            report(panic);
        }
    }));
}
