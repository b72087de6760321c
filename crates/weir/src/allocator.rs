//! The allocator, and how it uses the kernel's memory.

/// mimalloc, because a gateway mostly makes small per-thread allocations of a few sizes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_purge_delay`; the crate that wraps it names only some options.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Sets both switches of decision 0012; the first statement of `main`.
///
/// The heap takes no transparent huge pages: a thread that has touched a few kilobytes of each size class would hold
/// megabytes, and requests are no faster for it. A kernel without that switch changes nothing.
///
/// Free memory goes back to the kernel at once. By default a thread returns it when it next allocates after a second, which
/// the thread that has just read 100,000 routes may never do: 380 MB were held where 103 MB were in use. A worker's steady
/// state frees no whole page, so requests do not pay for it.
pub(crate) fn tune() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // SAFETY: sets a number in the allocator's table of options, which may be done at any time from any thread.
    #[allow(unsafe_code)]
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, 0);
    }
}
