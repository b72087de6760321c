//! A path has the canonical form its naive twin gives it: safe, no longer than it was, and final.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::path::check(data));
