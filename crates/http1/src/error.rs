//! Why a head was refused and the status that says so; it does not know how the refusal is sent.

/// Why a head was refused. For a response the caller answers 502 and logs [`HeadError::reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// More than one empty line, or a bare line end, before the start line.
    EmptyLines,
    /// The request line is not `method SP target SP version`, or the method is not a token.
    RequestLine,
    /// The status line is not `version SP 3DIGIT SP reason`, or the code is below 100.
    StatusLine,
    /// A well-formed version that is neither 1.0 nor 1.1.
    Version,
    /// A line that does not end in CRLF, or a CR or LF inside of one.
    LineEnd,
    /// A field name that is empty, no token, folded, or followed by white space.
    FieldName,
    /// A control character in a field value.
    FieldValue,
    /// The start line is longer than the limit.
    LineTooLong,
    /// The head is longer than the limit.
    HeadTooLarge,
    /// More fields than the limit.
    TooManyFields,
    /// A target in none of the four forms, or in one the method does not allow.
    Target,
    /// A target with control characters, raw bytes above 0x7E, or a fragment.
    TargetBytes,
    /// HTTP/1.1 without a Host field (RFC 9112 section 3.2).
    HostMissing,
    /// More than one Host field.
    HostRepeated,
    /// A Host field or authority that is not `host [":" port]`.
    Host,
    /// Content-Length that is not 1*DIGIT within 64 bits, a list included.
    ContentLength,
    /// More than one Content-Length field.
    ContentLengthRepeated,
    /// Content-Length together with Transfer-Encoding.
    LengthAndCoding,
    /// Transfer-Encoding that does not end in exactly one `chunked`.
    TransferEncoding,
    /// Transfer-Encoding in an HTTP/1.0 message (RFC 9112 section 6.1).
    TransferEncodingVersion,
    /// A transfer coding this program does not implement.
    TransferCodingUnknown,
    /// A Connection field that is not a list of tokens, or one of too many.
    Connection,
}

impl HeadError {
    /// The status to answer a request with: 400, 414, 431, 501 or 505.
    pub fn status(self) -> u16 {
        match self {
            Self::LineTooLong => 414,
            Self::HeadTooLarge | Self::TooManyFields => 431,
            Self::TransferCodingUnknown => 501,
            Self::Version => 505,
            _ => 400,
        }
    }

    /// The fault, in a few words without any byte of the message.
    pub fn reason(self) -> &'static str {
        match self {
            Self::EmptyLines => "more than one empty line before the request",
            Self::RequestLine => "malformed request line",
            Self::StatusLine => "malformed status line",
            Self::Version => "unsupported HTTP version",
            Self::LineEnd => "a line does not end in CRLF",
            Self::FieldName => "malformed field name",
            Self::FieldValue => "control character in a field value",
            Self::LineTooLong => "start line too long",
            Self::HeadTooLarge => "head too large",
            Self::TooManyFields => "too many fields",
            Self::Target => "request target not allowed for this method",
            Self::TargetBytes => "forbidden byte in the request target",
            Self::HostMissing => "Host field missing",
            Self::HostRepeated => "more than one Host field",
            Self::Host => "malformed Host or authority",
            Self::ContentLength => "Content-Length is not a number from 0 to 2^63 - 1",
            Self::ContentLengthRepeated => "more than one Content-Length field",
            Self::LengthAndCoding => "both Content-Length and Transfer-Encoding",
            Self::TransferEncoding => "malformed Transfer-Encoding",
            Self::TransferEncodingVersion => "Transfer-Encoding in HTTP/1.0",
            Self::TransferCodingUnknown => "transfer coding not implemented",
            Self::Connection => "malformed Connection field",
        }
    }
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl std::error::Error for HeadError {}
