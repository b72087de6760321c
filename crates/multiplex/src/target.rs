//! The pseudo-fields of a request that is to be sent; it does not know how they are written.

/// The pseudo-fields of a request (RFC 9113 section 8.3.1, RFC 9114 section 4.3.1). The texts were checked by
/// their parser.
#[derive(Debug, Clone, Copy)]
pub struct RequestTarget<'a> {
    /// The method as it is sent.
    pub method: &'a [u8],
    /// `http` or `https`; not sent with plain CONNECT.
    pub scheme: &'a str,
    /// Host and port; empty if there is none.
    pub authority: &'a [u8],
    /// The path, `*` for OPTIONS; not sent with plain CONNECT.
    pub path: &'a [u8],
    /// The query without its question mark.
    pub query: Option<&'a [u8]>,
    /// The protocol of an extended CONNECT (RFC 8441, RFC 9220).
    pub protocol: Option<&'a str>,
}
