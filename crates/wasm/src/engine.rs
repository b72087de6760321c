//! The compiler and the clock of guests, one of each for the process, made with the first module. A gateway
//! without guests has neither.

use std::sync::OnceLock;
use std::time::Duration;

use wasmtime::{Config, Engine};

use crate::limits::{EPOCH_MS, STACK_BYTES_MAX};

/// The engine of the process.
///
/// # Errors
/// Why there can be none on this machine, a sentence.
pub(crate) fn engine() -> Result<Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    ENGINE.get_or_init(start).clone()
}

fn start() -> Result<Engine, String> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        // Addresses in a log line would need the module's source to be read.
        .generate_address_map(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false);
    let engine = Engine::new(&config).map_err(|error| format!("the compiler of WebAssembly: {error}"))?;
    let ticking = engine.clone();
    let tick = move || loop {
        std::thread::sleep(Duration::from_millis(EPOCH_MS));
        ticking.increment_epoch();
    };
    let thread = std::thread::Builder::new().name("wasm-clock".to_owned());
    thread.spawn(tick).map_err(|error| format!("the clock of WebAssembly: {error}"))?;
    Ok(engine)
}
