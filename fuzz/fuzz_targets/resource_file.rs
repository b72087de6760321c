//! Faults lie within the file, its objects survive being written again, their order does not matter.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::resource_file::check(data));
