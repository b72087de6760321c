//! The result of decoding a chunked body does not depend on cuts, equals that of a line reader, and takes
//! bounded steps.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::chunked::check(data));
