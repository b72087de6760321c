//! A field list is a plain list through any edits, and writes nothing that was not put into it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::fields::check(data));
