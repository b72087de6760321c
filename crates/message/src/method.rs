//! The request methods the gateway tells apart; it does not know what a method is allowed to do.

/// A request method. Names are case-sensitive (RFC 9110 section 9.1): `get` is [`Method::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// PATCH
    Patch,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// CONNECT
    Connect,
    /// TRACE
    Trace,
    /// PURGE, the cache invalidation method of Varnish and Squid.
    Purge,
    /// Any other token; its text stands in the head (`RequestHead::method_text`).
    Other,
}

impl Method {
    /// Every named method, in bit order.
    pub const NAMED: [Self; 10] = [
        Self::Get,
        Self::Post,
        Self::Put,
        Self::Delete,
        Self::Patch,
        Self::Head,
        Self::Options,
        Self::Connect,
        Self::Trace,
        Self::Purge,
    ];

    /// The method this text names; [`Method::Other`] when it is none of the named ones.
    pub fn of(text: &[u8]) -> Self {
        match text {
            b"GET" => Self::Get,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"PATCH" => Self::Patch,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"TRACE" => Self::Trace,
            b"PURGE" => Self::Purge,
            _ => Self::Other,
        }
    }

    /// The name; `OTHER` is a label for [`Method::Other`], never something to send.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::Purge => "PURGE",
            Self::Other => "OTHER",
        }
    }

    /// The method's place in a bit set of methods, 0 to 10.
    pub fn index(self) -> u8 {
        self as u8
    }

    /// The method as a set of one, to be tested against a rule's set of methods.
    pub fn bit(self) -> u16 {
        1 << self.index()
    }

    /// True for the methods that may be repeated without another effect (RFC 9110 section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Put | Self::Delete | Self::Head | Self::Options | Self::Trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits_agree() {
        for (index, method) in Method::NAMED.into_iter().enumerate() {
            assert_eq!(Method::of(method.as_str().as_bytes()), method);
            assert_eq!(usize::from(method.index()), index);
            assert_eq!(method.bit(), 1 << index);
        }
        assert_eq!(Method::of(b"get"), Method::Other);
        assert_eq!(Method::of(b"PROPFIND"), Method::Other);
        assert_eq!(Method::of(b""), Method::Other);
    }
}
