//! Name lookups by the C library in a static program. A list of lookup modules in `/etc/nsswitch.conf` makes
//! glibc load shared libraries of the machine, which may be of another version of glibc than the one in the
//! program. Upstreams are not concerned, because the gateway looks their names up itself.

use std::ffi::{CStr, c_char, c_int};

/// The database of host names.
const HOSTS: &CStr = c"hosts";

/// `/etc/hosts`, then DNS. glibc has had both without a shared library since 2.34.
const MODULES: &CStr = c"files dns";

// SAFETY: the declaration is that of `nss.h`.
#[allow(unsafe_code)]
unsafe extern "C" {
    /// Sets the modules of a database, instead of those that the file names. It copies the text.
    fn __nss_configure_lookup(database: *const c_char, modules: *const c_char) -> c_int;
}

/// Looks names up in `/etc/hosts` and by DNS only, whatever `/etc/nsswitch.conf` says.
pub(crate) fn choose() {
    // SAFETY: both are texts that end with a zero byte and live as long as the program; no other thread looks
    // names up yet.
    #[allow(unsafe_code)]
    let refused = unsafe { __nss_configure_lookup(HOSTS.as_ptr(), MODULES.as_ptr()) };
    debug_assert_eq!(refused, 0, "glibc refuses only texts that it cannot parse");
}
