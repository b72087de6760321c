//! A client of HTTP/2 with any frames: the node gets good requests, the client good frames, and no resource
//! is left over.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::exchange_http2::check(data));
