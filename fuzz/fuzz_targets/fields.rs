//! A list of header fields equals a plain list after any edits, and encodes only fields that were added.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::fields::check(data));
