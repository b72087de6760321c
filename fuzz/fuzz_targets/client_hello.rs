//! A ClientHello is what a naive twin reads in it, however it is cut, and bytes behind it change nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::client_hello::check(data));
