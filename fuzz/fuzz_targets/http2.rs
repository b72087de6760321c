//! A server and a client of HTTP/2 do the same whatever the cuts, hand out valid messages only and stay in
//! bounded memory; decoded header blocks survive encoding.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::http2::check(data));
