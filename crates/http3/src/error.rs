//! Error codes of RFC 9114 section 8.1 and RFC 9204 section 6, and the faults of a stream and of a
//! connection. It refuses to know when they occur.

use std::fmt;

multiplex::error_codes! {
    /// An error code of RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE. Peers may send codes that this
    /// program does not name.
    u64;
    /// The end without a fault.
    NO_ERROR = 0x100 "H3_NO_ERROR",
    /// A rule was broken for which there is no other code.
    GENERAL_PROTOCOL_ERROR = 0x101 "H3_GENERAL_PROTOCOL_ERROR",
    /// The sender met an unexpected condition.
    INTERNAL_ERROR = 0x102 "H3_INTERNAL_ERROR",
    /// The peer started a stream that is not accepted.
    STREAM_CREATION_ERROR = 0x103 "H3_STREAM_CREATION_ERROR",
    /// A stream that the connection needs was closed.
    CLOSED_CRITICAL_STREAM = 0x104 "H3_CLOSED_CRITICAL_STREAM",
    /// A frame that is not permitted in its place.
    FRAME_UNEXPECTED = 0x105 "H3_FRAME_UNEXPECTED",
    /// A frame with a faulty layout or size.
    FRAME_ERROR = 0x106 "H3_FRAME_ERROR",
    /// The peer costs more than it pays.
    EXCESSIVE_LOAD = 0x107 "H3_EXCESSIVE_LOAD",
    /// An identifier was used wrongly.
    ID_ERROR = 0x108 "H3_ID_ERROR",
    /// A fault in the payload of SETTINGS.
    SETTINGS_ERROR = 0x109 "H3_SETTINGS_ERROR",
    /// No SETTINGS at the start of the control stream.
    MISSING_SETTINGS = 0x10a "H3_MISSING_SETTINGS",
    /// The request was not processed and may be repeated.
    REQUEST_REJECTED = 0x10b "H3_REQUEST_REJECTED",
    /// The request or its response is no longer needed.
    REQUEST_CANCELLED = 0x10c "H3_REQUEST_CANCELLED",
    /// The stream of the client ended inside its request.
    REQUEST_INCOMPLETE = 0x10d "H3_REQUEST_INCOMPLETE",
    /// The message is malformed.
    MESSAGE_ERROR = 0x10e "H3_MESSAGE_ERROR",
    /// The connection of a CONNECT request was reset.
    CONNECT_ERROR = 0x10f "H3_CONNECT_ERROR",
    /// The request needs HTTP/1.1.
    VERSION_FALLBACK = 0x110 "H3_VERSION_FALLBACK",
    /// A field section cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200 "QPACK_DECOMPRESSION_FAILED",
    /// An instruction on the encoder stream cannot be followed.
    QPACK_ENCODER_STREAM_ERROR = 0x201 "QPACK_ENCODER_STREAM_ERROR",
    /// An instruction on the decoder stream cannot be followed.
    QPACK_DECODER_STREAM_ERROR = 0x202 "QPACK_DECODER_STREAM_ERROR",
}

/// A fault that ends the connection: the driver closes it with the code and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code of CONNECTION_CLOSE.
    pub code: ErrorCode,
    /// The fault in a few words, without any byte of the peer.
    pub reason: &'static str,
}

impl ConnectionError {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// H3_FRAME_UNEXPECTED with its reason.
    pub(crate) const fn unexpected(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_UNEXPECTED, reason)
    }

    /// H3_FRAME_ERROR with its reason.
    pub(crate) const fn frame(reason: &'static str) -> Self {
        Self::new(ErrorCode::FRAME_ERROR, reason)
    }

    /// H3_EXCESSIVE_LOAD with its reason.
    pub(crate) const fn load(reason: &'static str) -> Self {
        Self::new(ErrorCode::EXCESSIVE_LOAD, reason)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for ConnectionError {}

/// A fault that ends one stream: the driver sends RESET_STREAM and STOP_SENDING with the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamError {
    /// The code of both frames.
    pub code: ErrorCode,
    /// The fault in a few words, without any byte of the peer.
    pub reason: &'static str,
}

impl StreamError {
    pub(crate) const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// H3_MESSAGE_ERROR with its reason.
    pub(crate) const fn message(reason: &'static str) -> Self {
        Self::new(ErrorCode::MESSAGE_ERROR, reason)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for StreamError {}

/// A fault of the peer on a request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It ends the stream only.
    Stream(StreamError),
    /// It ends the connection.
    Connection(ConnectionError),
}

impl Fault {
    /// The code, whatever it ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stream(error) => error.code,
            Self::Connection(error) => error.code,
        }
    }

    /// The fault in a few words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Stream(error) => error.reason,
            Self::Connection(error) => error.reason,
        }
    }
}

impl From<StreamError> for Fault {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<ConnectionError> for Fault {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => fmt::Display::fmt(error, formatter),
            Self::Connection(error) => fmt::Display::fmt(error, formatter),
        }
    }
}

impl std::error::Error for Fault {}
