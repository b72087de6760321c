//! Schema and type accept the same, refusals have reason and place, what is admitted comes into force.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::admin_body::check(data));
