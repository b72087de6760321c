//! The router finds the same rule as a scan over all rules, after inserts, removals and copies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::router::check(data));
