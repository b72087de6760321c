//! The wire of HTTP/2 that both sides of the gateway share: how fields are written, and how resets are worded. The frames
//! are the engine's, in the crate `http2`.

pub(crate) mod fields;
pub(crate) mod windows;

use http2::Reset;

/// A reset in words, for the log.
pub(crate) fn reset_text(reset: Reset) -> String {
    match reset.code.name() {
        "" => format!("{} (code {})", reset.reason, reset.code.0),
        name => format!("{} ({name})", reset.reason),
    }
}
