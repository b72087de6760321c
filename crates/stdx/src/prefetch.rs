//! Asks the processor for memory before it is read. With many connections the state of a request in flight
//! has left the caches when its response comes, and is read in small steps that each wait for a line: the
//! lines of a whole block, asked for at once, come side by side.

use std::mem::size_of_val;

/// Bytes of a line of the caches of all processors that gateways run on.
const LINE_BYTES: usize = 64;
/// Lines that are asked for at most: a processor has some twenty requests for memory under way, and what is
/// asked for too early pushes out what is needed.
const LINES_MAX: usize = 64;

/// Asks for the memory of `value`, as far as it is in one piece. Costs an instruction for each line and waits
/// for none.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast(), size_of_val(value));
}

/// As [`prefetch`], for `bytes` bytes at an address that need not be valid.
#[inline]
pub fn prefetch_at(start: *const u8, bytes: usize) {
    // The first line may be shared with what is before.
    let first = start.wrapping_sub(start.addr() % LINE_BYTES);
    let lines = (start.addr() % LINE_BYTES).saturating_add(bytes).div_ceil(LINE_BYTES).min(LINES_MAX);
    for line in 0..lines {
        ask(first.wrapping_add(line * LINE_BYTES));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint that reads nothing; it has no effect for an address that cannot be read.
    #[allow(unsafe_code)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
}

/// Elsewhere the processor is left to itself: the standard library has no hint for other architectures yet.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ask(_line: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_and_size_can_be_asked_for() {
        prefetch(&[0_u8; 1_000]);
        prefetch("");
        prefetch_at(std::ptr::null(), usize::MAX);
        prefetch_at(std::ptr::without_provenance(usize::MAX), usize::MAX);
    }
}
