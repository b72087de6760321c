//! Expressions equal a naive implementation, templates render their variables in order, faults have a place.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::vars::check(data));
