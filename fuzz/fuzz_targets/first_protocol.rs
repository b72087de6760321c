//! The protocol of first bytes is the one that plain rules name, is known at one byte, and no later byte
//! changes it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::first_protocol::check(data));
