//! The `weir` binary: the allocator and `main`. Its commands are in `cli`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin_client;
mod allocator;
mod ask;
mod boot;
mod changes;
mod cli;
mod log;
mod quick_copies;
mod settings;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod static_names;
mod terminal;
mod top;

use std::process::ExitCode;

const _: () =
    assert!(!net::env::IS_SIMULATED, "gateway's feature `simulation` is for its tests and the fuzz targets");

fn main() -> ExitCode {
    if let Some(code) = boot::become_runner_if_asked() {
        return code;
    }
    allocator::tune();
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    static_names::choose();
    quiet_expected_panics();
    cli::run_command_line()
}

/// Suppresses the text and backtrace of panics over a damaged store, because such a panic is caught and
/// reported as an error.
fn quiet_expected_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !control::source::store::panic_is_expected() {
            report(panic);
        }
    }));
}
