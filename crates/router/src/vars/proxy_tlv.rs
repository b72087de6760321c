//! The names of TLVs of the PROXY protocol, as nginx writes them behind `proxy_protocol_tlv_`.
//!
//! Does not know values and headers.

/// A TLV of the header that a connection began with.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ProxyTlv {
    /// One of this type.
    Type(u8),
    /// One of this type inside of the SSL TLV.
    Ssl(u8),
    /// The verdict over the client's certificate in the SSL TLV: 0 if it was verified.
    SslVerify,
}

/// Types that have a name.
const TYPES: [(&str, u8); 5] =
    [("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", 0x20), ("netns", 0x30)];
/// The same inside of the SSL TLV.
const SSL_TYPES: [(&str, u8); 5] =
    [("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];

impl ProxyTlv {
    /// The TLV that nginx means by this name; none if it has no such name.
    pub(super) fn parse(name: &str) -> Option<ProxyTlv> {
        if name == "ssl_verify" {
            return Some(ProxyTlv::SslVerify);
        }
        match name.strip_prefix("ssl_") {
            Some(inner) => type_of(inner, &SSL_TYPES).map(ProxyTlv::Ssl),
            None => type_of(name, &TYPES).map(ProxyTlv::Type),
        }
    }
}

/// The type of a name, or of a number such as `0xea`.
fn type_of(name: &str, known: &[(&str, u8)]) -> Option<u8> {
    match name.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u8::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => known.iter().find(|(text, _)| *text == name).map(|(_, number)| *number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_to_types() {
        let rows = [
            ("alpn", Some(ProxyTlv::Type(0x01))),
            ("authority", Some(ProxyTlv::Type(0x02))),
            ("unique_id", Some(ProxyTlv::Type(0x05))),
            ("ssl", Some(ProxyTlv::Type(0x20))),
            ("netns", Some(ProxyTlv::Type(0x30))),
            ("0xea", Some(ProxyTlv::Type(0xea))),
            ("0xEA", Some(ProxyTlv::Type(0xea))),
            ("0x1", Some(ProxyTlv::Type(0x01))),
            ("ssl_version", Some(ProxyTlv::Ssl(0x21))),
            ("ssl_cn", Some(ProxyTlv::Ssl(0x22))),
            ("ssl_cipher", Some(ProxyTlv::Ssl(0x23))),
            ("ssl_sig_alg", Some(ProxyTlv::Ssl(0x24))),
            ("ssl_key_alg", Some(ProxyTlv::Ssl(0x25))),
            ("ssl_0x21", Some(ProxyTlv::Ssl(0x21))),
            ("ssl_verify", Some(ProxyTlv::SslVerify)),
            ("", None),
            ("version", None),
            ("ssl_alpn", None),
            ("ssl_", None),
            ("0x", None),
            ("0x100", None),
            ("0x+1", None),
            ("0xg", None),
            ("1", None),
        ];
        for (name, expected) in rows {
            assert_eq!(ProxyTlv::parse(name), expected, "{name}");
        }
    }
}
