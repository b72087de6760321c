//! A request head means the same wherever it is cut, what a naive reading says, and the same when written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::request_head::check(data));
