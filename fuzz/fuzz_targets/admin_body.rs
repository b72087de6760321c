//! Schema and type accept the same objects, refusals have a reason and a place, admitted objects come into
//! force.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::admin_body::check(data));
