//! Faults have a place in the file, its objects can be written and read again, and partial application does
//! not matter.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::resource_file::check(data));
