//! A response head has the same meaning with any cuts, for a naive reader, and after encoding.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::response_head::check(data));
