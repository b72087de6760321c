//! A whole exchange: the node sees what was asked, the client what was answered, nothing stays, and no cut matters.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::exchange::check(data));
