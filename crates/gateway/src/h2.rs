//! The wire of HTTP/2 that both sides of the gateway share: its windows, the write of its output, and how
//! resets are worded. The frames are the engine's, in the crate `http2`.

pub(crate) mod output;
pub(crate) mod windows;

use http2::{HeadWriter, Reset};

use crate::forward::EntrySink;

impl EntrySink for HeadWriter<'_> {}

/// A reset in words, for the log.
pub(crate) fn reset_text(reset: Reset) -> String {
    match reset.code.name() {
        "" => format!("{} (code {})", reset.reason, reset.code.0),
        name => format!("{} ({name})", reset.reason),
    }
}
