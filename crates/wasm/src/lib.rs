//! Filters in WebAssembly by proxy-wasm.
