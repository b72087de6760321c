//! A whole exchange: requests and responses arrive as sent, no resource is left over, and cuts do not matter.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::exchange::check(data));
