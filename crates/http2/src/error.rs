//! Error codes of RFC 9113 section 7 and the fault that ends a connection; it does not know when they occur.

use std::fmt;

multiplex::error_codes! {
    /// An error code of RST_STREAM and GOAWAY. Peers may send codes that this program does not name.
    u32;
    /// The peer ends without a fault.
    NO_ERROR = 0x0 "NO_ERROR",
    /// A rule was broken for which there is no other code.
    PROTOCOL_ERROR = 0x1 "PROTOCOL_ERROR",
    /// The sender met an unexpected condition.
    INTERNAL_ERROR = 0x2 "INTERNAL_ERROR",
    /// A window was exceeded or overflowed.
    FLOW_CONTROL_ERROR = 0x3 "FLOW_CONTROL_ERROR",
    /// SETTINGS were not acknowledged in time.
    SETTINGS_TIMEOUT = 0x4 "SETTINGS_TIMEOUT",
    /// A frame arrived for a stream on which the peer had ended.
    STREAM_CLOSED = 0x5 "STREAM_CLOSED",
    /// A frame has an invalid size.
    FRAME_SIZE_ERROR = 0x6 "FRAME_SIZE_ERROR",
    /// The request was not processed and may be repeated.
    REFUSED_STREAM = 0x7 "REFUSED_STREAM",
    /// The stream is no longer needed.
    CANCEL = 0x8 "CANCEL",
    /// The compression context cannot be kept.
    COMPRESSION_ERROR = 0x9 "COMPRESSION_ERROR",
    /// The connection of a CONNECT request was reset.
    CONNECT_ERROR = 0xa "CONNECT_ERROR",
    /// The peer costs more than it pays.
    ENHANCE_YOUR_CALM = 0xb "ENHANCE_YOUR_CALM",
    /// The transport does not meet the minimum of security.
    INADEQUATE_SECURITY = 0xc "INADEQUATE_SECURITY",
    /// The request needs HTTP/1.1.
    HTTP_1_1_REQUIRED = 0xd "HTTP_1_1_REQUIRED",
}

/// A fault that ends the connection (RFC 9113 section 5.4.1). The GOAWAY frame that reports it is in the
/// output when the caller receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code that GOAWAY carries.
    pub code: ErrorCode,
    /// The fault in a few words, without any byte of the peer; GOAWAY carries it as debug data.
    pub reason: &'static str,
}

impl ConnectionError {
    /// PROTOCOL_ERROR with its reason.
    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self { code: ErrorCode::PROTOCOL_ERROR, reason }
    }

    /// FRAME_SIZE_ERROR with its reason.
    pub(crate) const fn frame_size(reason: &'static str) -> Self {
        Self { code: ErrorCode::FRAME_SIZE_ERROR, reason }
    }

    /// FLOW_CONTROL_ERROR with its reason.
    pub(crate) const fn flow_control(reason: &'static str) -> Self {
        Self { code: ErrorCode::FLOW_CONTROL_ERROR, reason }
    }

    /// STREAM_CLOSED with its reason.
    pub(crate) const fn closed(reason: &'static str) -> Self {
        Self { code: ErrorCode::STREAM_CLOSED, reason }
    }

    /// ENHANCE_YOUR_CALM with its reason.
    pub(crate) const fn calm(reason: &'static str) -> Self {
        Self { code: ErrorCode::ENHANCE_YOUR_CALM, reason }
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for ConnectionError {}
