//! A CONNECT of MQTT is what a naive twin reads in it, however it is cut, and bytes behind its client id
//! change nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::mqtt_connect::check(data));
