//! The canonical form of a path equals that of a naive twin; it is safe, not longer, and canonical itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::path::check(data));
