//! A PROXY protocol header is what a naive twin reads in it, however it is cut, and takes no byte of the
//! client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::proxy_protocol::check(data));
