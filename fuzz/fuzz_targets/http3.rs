//! Streams of HTTP/3 in either role read the same whatever the cuts, hand out valid messages only and stay in
//! bounded memory; decoded field sections and heads survive encoding.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::http3::check(data));
