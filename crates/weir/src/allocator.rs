//! The allocator, and how it uses the kernel's memory.

/// mimalloc, because a gateway mostly makes small per-thread allocations of a few sizes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_purge_delay`; the crate that wraps it names only some options.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Takes no transparent huge pages for the heap: a thread that has touched a few kilobytes of each size class
/// would hold megabytes, and requests are no faster for it. Called before `main`, because the few hundred
/// bytes that the runtime allocates on its way to `main` would otherwise lie in a first huge page of 2 MB, a
/// quarter of an idle instance's memory.
// SAFETY: the loader calls the functions of this section once, before `main`, on the only thread. This one
// makes one system call and uses nothing of the standard library, which is not set up yet.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = no_huge_pages;

extern "C" fn no_huge_pages() {
    // A kernel that knows no such switch has no such pages either, or keeps them; nothing depends on it.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns free memory to the kernel at once. By default a thread returns it when it next allocates after a
/// second, which the thread that has just read 100,000 routes may never do: 380 MB were held where 103 MB
/// were in use. A worker's steady state frees no whole page, so requests do not pay for it.
pub(crate) fn tune() {
    // SAFETY: sets a number in the allocator's table of options, which may be done at any time from any
    // thread.
    #[allow(unsafe_code)]
    unsafe {
        libmimalloc_sys::mi_option_set(PURGE_DELAY, 0);
    }
}
