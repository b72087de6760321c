//! The field names the gateway knows by number, so that a look-up compares one byte; it does not know values.

macro_rules! known_fields {
    ($($id:ident = $name:literal,)*) => {
        /// A well-known field name, or [`FieldId::Other`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FieldId {
            $(#[doc = $name] $id,)*
            /// Any other name; it is compared as text.
            Other,
        }

        const KNOWN: &[(FieldId, &str)] = &[$((FieldId::$id, $name),)*];
    };
}

known_fields! {
    Host = "Host",
    Connection = "Connection",
    ContentLength = "Content-Length",
    TransferEncoding = "Transfer-Encoding",
    Upgrade = "Upgrade",
    Expect = "Expect",
    KeepAlive = "Keep-Alive",
    ProxyConnection = "Proxy-Connection",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyAuthorization = "Proxy-Authorization",
    ProxyAuthenticationInfo = "Proxy-Authentication-Info",
    Http2Settings = "HTTP2-Settings",
    Te = "TE",
    Trailer = "Trailer",
    ContentType = "Content-Type",
    ContentEncoding = "Content-Encoding",
    ContentRange = "Content-Range",
    UserAgent = "User-Agent",
    Accept = "Accept",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    Authorization = "Authorization",
    WwwAuthenticate = "WWW-Authenticate",
    Cookie = "Cookie",
    SetCookie = "Set-Cookie",
    Date = "Date",
    Server = "Server",
    Location = "Location",
    Via = "Via",
    Age = "Age",
    Allow = "Allow",
    CacheControl = "Cache-Control",
    Expires = "Expires",
    Pragma = "Pragma",
    Etag = "ETag",
    LastModified = "Last-Modified",
    IfMatch = "If-Match",
    IfNoneMatch = "If-None-Match",
    IfModifiedSince = "If-Modified-Since",
    Range = "Range",
    RetryAfter = "Retry-After",
    Vary = "Vary",
    Origin = "Origin",
    Referer = "Referer",
    Forwarded = "Forwarded",
    XForwardedFor = "X-Forwarded-For",
    XForwardedProto = "X-Forwarded-Proto",
    XForwardedHost = "X-Forwarded-Host",
    XForwardedPort = "X-Forwarded-Port",
    XForwardedPrefix = "X-Forwarded-Prefix",
    XRealIp = "X-Real-IP",
    XRequestId = "X-Request-Id",
    Traceparent = "traceparent",
    Tracestate = "tracestate",
    ApiKey = "apikey",
    AccessControlAllowOrigin = "Access-Control-Allow-Origin",
    AccessControlAllowCredentials = "Access-Control-Allow-Credentials",
    AccessControlRequestMethod = "Access-Control-Request-Method",
    AccessControlRequestHeaders = "Access-Control-Request-Headers",
    RateLimitLimit = "X-RateLimit-Limit",
    RateLimitRemaining = "X-RateLimit-Remaining",
    RateLimitReset = "X-RateLimit-Reset",
    StrictTransportSecurity = "Strict-Transport-Security",
    SecWebSocketKey = "Sec-WebSocket-Key",
    SecWebSocketAccept = "Sec-WebSocket-Accept",
    AccelRedirect = "X-Accel-Redirect",
    AccelExpires = "X-Accel-Expires",
    AccelLimitRate = "X-Accel-Limit-Rate",
    AccelBuffering = "X-Accel-Buffering",
    AccelCharset = "X-Accel-Charset",
}

impl FieldId {
    /// The id of `name`, a token, whatever its case.
    pub fn of(name: &[u8]) -> Self {
        if name.len() < 2 {
            return Self::Other;
        }
        let mut slot = slot_of(name);
        loop {
            let Some(&(id, known)) = KNOWN.get(usize::from(SLOTS[slot])) else { return Self::Other };
            if is_spelling_of(name, known.as_bytes()) {
                return id;
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
    }

    /// The name in its usual spelling; empty for [`FieldId::Other`].
    pub fn name(self) -> &'static str {
        KNOWN.get(self as usize).map_or("", |&(_, name)| name)
    }

    /// True for fields that concern one connection only and never cross a proxy, in either direction:
    /// RFC 9110 section 7.6.1, the proxy's own credentials (section 11.7), and the relic of `h2c`.
    /// `Trailer` is not among them: trailers are forwarded, so their announcement is too.
    pub fn is_hop_by_hop(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::KeepAlive
                | Self::ProxyConnection
                | Self::ProxyAuthenticate
                | Self::ProxyAuthorization
                | Self::ProxyAuthenticationInfo
                | Self::Http2Settings
                | Self::Te
                | Self::TransferEncoding
                | Self::Upgrade
        )
    }

    /// True for end-to-end fields that a Connection field cannot take away, because the gateway or the
    /// origin relies on them: otherwise a client could strip what the gateway adds for the origin.
    pub fn ignores_nomination(self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::ContentLength
                | Self::ContentType
                | Self::ContentEncoding
                | Self::ContentRange
                | Self::Authorization
                | Self::Cookie
                | Self::SetCookie
                | Self::CacheControl
                | Self::Expect
                | Self::Trailer
                | Self::Via
                | Self::Forwarded
                | Self::XForwardedFor
                | Self::XForwardedProto
                | Self::XForwardedHost
                | Self::XForwardedPort
                | Self::XForwardedPrefix
                | Self::XRealIp
                | Self::XRequestId
                | Self::Traceparent
                | Self::Tracestate
                | Self::ApiKey
                | Self::Location
                | Self::WwwAuthenticate
                | Self::StrictTransportSecurity
        )
    }

    /// True for fields a trailer section must not carry (RFC 9110 section 6.5.1): framing, routing,
    /// authentication, request modifiers, and how to read the content.
    pub fn is_forbidden_in_trailers(self) -> bool {
        self.is_hop_by_hop()
            || matches!(
                self,
                Self::Host
                    | Self::ContentLength
                    | Self::ContentType
                    | Self::ContentEncoding
                    | Self::ContentRange
                    | Self::Authorization
                    | Self::WwwAuthenticate
                    | Self::Cookie
                    | Self::SetCookie
                    | Self::Trailer
                    | Self::Expect
                    | Self::CacheControl
                    | Self::Range
                    | Self::IfMatch
                    | Self::IfNoneMatch
                    | Self::IfModifiedSince
                    | Self::Forwarded
                    | Self::XForwardedFor
                    | Self::XForwardedProto
                    | Self::XForwardedHost
                    | Self::XForwardedPort
                    | Self::XForwardedPrefix
                    | Self::XRealIp
                    | Self::ApiKey
                    | Self::Location
                    | Self::Via
            )
    }

    /// The id's bit in a set of known ids; zero for [`FieldId::Other`].
    pub fn bit(self) -> u128 {
        if self == Self::Other { 0 } else { 1 << (self as u8) }
    }
}

/// A set of well-known names, made at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldSet(u128);

impl FieldSet {
    /// No name.
    pub const EMPTY: Self = Self(0);

    /// These names; [`FieldId::Other`] stands for no name and cannot be in a set.
    pub const fn of(ids: &[FieldId]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < ids.len() {
            assert!(!matches!(ids[index], FieldId::Other), "Other is no name");
            bits |= 1 << (ids[index] as u8);
            index += 1;
        }
        Self(bits)
    }

    /// The names of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the name is in it.
    pub fn contains(self, id: FieldId) -> bool {
        self.0 & id.bit() != 0
    }

    /// Whether one of the names is among the bits of `seen`.
    pub fn meets(self, seen: u128) -> bool {
        self.0 & seen != 0
    }
}

/// Sparse on purpose: an unknown name nearly always meets an empty slot at once.
const SLOT_COUNT: usize = 512;
const EMPTY: u8 = u8::MAX;
const SLOTS: [u8; SLOT_COUNT] = slots();
const _: () = assert!(KNOWN.len() < 127, "the ids must fit the bits of a set and the slot's byte");

/// Whether `name` is `known` in any case, eight bytes at a time. Setting bit 5 folds the case of letters.
/// The other bytes that it folds onto the letters, digits and dashes of `known` are control characters, which
/// no token holds.
#[inline]
fn is_spelling_of(name: &[u8], known: &[u8]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let length = known.len();
    if name.len() != length {
        return false;
    }
    if length < 8 {
        return name.iter().zip(known).all(|(a, b)| a | 0x20 == b | 0x20);
    }
    let word = |text: &[u8], at: usize| {
        let bytes: [u8; 8] = text[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes) | CASE
    };
    let mut at = 0;
    while at + 8 <= length {
        if word(name, at) != word(known, at) {
            return false;
        }
        at += 8;
    }
    word(name, length - 8) == word(known, length - 8)
}

/// Length and three letters tell the names apart well enough; `name` has at least two bytes.
const fn slot_of(name: &[u8]) -> usize {
    let length = name.len();
    let first = (name[0] | 0x20) as usize;
    let penultimate = (name[length - 2] | 0x20) as usize;
    let last = (name[length - 1] | 0x20) as usize;
    (length * 37 + first * 5 + penultimate * 89 + last * 157) % SLOT_COUNT
}

const fn slots() -> [u8; SLOT_COUNT] {
    let mut table = [EMPTY; SLOT_COUNT];
    let mut index = 0;
    while index < KNOWN.len() {
        let mut slot = slot_of(KNOWN[index].1.as_bytes());
        while table[slot] != EMPTY {
            slot = (slot + 1) % SLOT_COUNT;
        }
        table[slot] = index as u8;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for &(id, name) in KNOWN {
            assert_eq!(FieldId::of(name.as_bytes()), id);
            assert_eq!(FieldId::of(name.to_ascii_lowercase().as_bytes()), id);
            assert_eq!(FieldId::of(name.to_ascii_uppercase().as_bytes()), id);
            assert_eq!(id.name(), name);
            assert_eq!(FieldId::of(format!("{name}x").as_bytes()), FieldId::Other);
        }
        for other in ["", "x", "hos", "hosu", "X-Custom", "Content_Length"] {
            assert_eq!(FieldId::of(other.as_bytes()), FieldId::Other, "{other}");
        }
    }
}
