//! How often log files were asked to be opened again (the signal USR1), for plugins that write files of their
//! own. It opens none.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Asks for all log files of plugins to be opened again before the next line is written.
pub fn ask() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// How often that was asked for since the start.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
