//! A chunked body decodes alike however it is cut, as a line reader reads it, in steps that its bytes explain.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::chunked::check(data));
