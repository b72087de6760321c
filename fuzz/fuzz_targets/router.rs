//! The router finds what a scan over all rules finds, through inserts, removals and copies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::router::check(data));
