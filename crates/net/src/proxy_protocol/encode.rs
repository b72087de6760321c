//! Writes a header for a node: version 1 as a line, version 2 with the facts of the client's TLS connection
//! as TLVs.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::v2::SIGNATURE;
use super::{Addresses, V1_PREFIX};

/// A version of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderVersion {
    /// One line of text.
    V1,
    /// Binary, with TLVs.
    V2,
}

impl ProxyHeaderVersion {
    /// The version of this number.
    pub fn new(number: u8) -> Option<ProxyHeaderVersion> {
        match number {
            1 => Some(ProxyHeaderVersion::V1),
            2 => Some(ProxyHeaderVersion::V2),
            _ => None,
        }
    }
}

/// The facts of a session that version 2 tells beside the addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// The client's bytes are datagrams.
    pub is_datagrams: bool,
    /// The server name that the client asked for in its TLS handshake (`PP2_TYPE_AUTHORITY`).
    pub server_name: Option<&'a str>,
    /// The protocol that was agreed by ALPN, or the first that the client offers (`PP2_TYPE_ALPN`).
    pub alpn: Option<&'a str>,
    /// The TLS connection that ended at the sender (`PP2_TYPE_SSL`).
    pub tls: Option<SaidTls<'a>>,
}

/// The client's TLS connection with the sender of the header.
#[derive(Clone, Copy, Debug)]
pub struct SaidTls<'a> {
    /// The version, such as `TLSv1.3` (`PP2_SUBTYPE_SSL_VERSION`).
    pub version: &'a str,
    /// The cipher (`PP2_SUBTYPE_SSL_CIPHER`).
    pub cipher: &'a str,
    /// Whether the client has shown a certificate that was verified; none if it has shown none.
    pub verified: Option<bool>,
}

/// Bytes of one TLV that texts are cut to: names are shorter, and the header has to stay below what readers
/// take.
const VALUE_MAX_BYTES: usize = 255;
const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CIPHER: u8 = 0x23;
/// Bits of the client byte of an SSL TLV.
const CLIENT_SSL: u8 = 1;
const CLIENT_CERTIFICATE: u8 = 2 | 4;

/// The header of `version` for a connection with these ends.
pub fn encode_proxy_header(version: ProxyHeaderVersion, ends: Addresses, said: &Said<'_>) -> Vec<u8> {
    // Addresses of different families cannot stand in one header; IPv4 is mapped then.
    let (source, destination) = same_family(ends);
    match version {
        ProxyHeaderVersion::V1 => line(source, destination),
        ProxyHeaderVersion::V2 => binary(source, destination, said),
    }
}

fn same_family(ends: Addresses) -> (SocketAddr, SocketAddr) {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (source, destination) = (canonical(ends.source), canonical(ends.destination));
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    let mapped = |address: SocketAddr| SocketAddr::new(IpAddr::V6(to_v6(address.ip())), address.port());
    (mapped(source), mapped(destination))
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn line(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let mut bytes = V1_PREFIX.to_vec();
    let (from, to) = (source.ip(), destination.ip());
    let rest = format!("{family} {from} {to} {} {}\r\n", source.port(), destination.port());
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn binary(source: SocketAddr, destination: SocketAddr, said: &Said<'_>) -> Vec<u8> {
    let mut rest = Vec::with_capacity(64);
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(ip) => rest.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => rest.extend_from_slice(&ip.octets()),
        }
    }
    rest.extend_from_slice(&source.port().to_be_bytes());
    rest.extend_from_slice(&destination.port().to_be_bytes());
    let texts = [(ALPN, said.alpn), (AUTHORITY, said.server_name)];
    for (kind, text) in texts {
        if let Some(text) = text {
            tlv(&mut rest, kind, text.as_bytes());
        }
    }
    if let Some(tls) = &said.tls {
        tlv(&mut rest, SSL, &ssl(tls));
    }
    let family = if source.is_ipv4() { 0x10 } else { 0x20 };
    let transport = if said.is_datagrams { 2 } else { 1 };
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend_from_slice(&[0x21, family | transport]);
    // Two addresses and a few TLVs of at most 255 bytes.
    bytes.extend_from_slice(&u16::try_from(rest.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend_from_slice(&rest);
    bytes
}

fn ssl(tls: &SaidTls<'_>) -> Vec<u8> {
    let client = if tls.verified.is_some() { CLIENT_SSL | CLIENT_CERTIFICATE } else { CLIENT_SSL };
    let verify = u32::from(tls.verified != Some(true));
    let mut value = vec![client];
    value.extend_from_slice(&verify.to_be_bytes());
    tlv(&mut value, SSL_VERSION, tls.version.as_bytes());
    tlv(&mut value, SSL_CIPHER, tls.cipher.as_bytes());
    value
}

fn tlv(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let value = &value[..value.len().min(VALUE_MAX_BYTES)];
    bytes.push(kind);
    bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
    bytes.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::ProxyHeaderDecoder;
    use super::*;

    fn ends(source: &str, destination: &str) -> Addresses {
        Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn written_headers_are_read_back() {
        let rows = [
            ("192.0.2.1:4000", "198.51.100.1:443"),
            ("[2001:db8::1]:4000", "[2001:db8::2]:443"),
            ("192.0.2.1:4000", "[2001:db8::2]:443"),
            ("[::ffff:192.0.2.1]:4000", "198.51.100.1:443"),
        ];
        let tls = SaidTls { version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256", verified: Some(true) };
        let said = Said {
            is_datagrams: false,
            server_name: Some("db.test"),
            alpn: Some("postgresql"),
            tls: Some(tls),
        };
        for (source, destination) in rows {
            for version in [ProxyHeaderVersion::V1, ProxyHeaderVersion::V2] {
                let bytes = encode_proxy_header(version, ends(source, destination), &said);
                let step = ProxyHeaderDecoder::default().decode(&bytes).unwrap();
                let header = step.header.expect("it is whole");
                let (from, to) = same_family(ends(source, destination));
                assert_eq!(header.addresses, Some(Addresses { source: from, destination: to }), "{source}");
                assert_eq!(step.taken, bytes.len());
                if version == ProxyHeaderVersion::V2 {
                    assert_eq!(header.tlvs.get(AUTHORITY), Some(&b"db.test"[..]));
                    assert_eq!(header.tlvs.get(ALPN), Some(&b"postgresql"[..]));
                    let ssl = header.tlvs.ssl().unwrap();
                    assert_eq!((ssl.client, ssl.verify), (7, 0));
                    assert_eq!(ssl.get(SSL_VERSION), Some(&b"TLSv1.3"[..]));
                }
            }
        }
    }

    #[test]
    fn header_of_version_1_is_one_line() {
        let bytes = encode_proxy_header(
            ProxyHeaderVersion::V1,
            ends("192.0.2.1:4000", "198.51.100.1:443"),
            &Said::default(),
        );
        assert_eq!(bytes, b"PROXY TCP4 192.0.2.1 198.51.100.1 4000 443\r\n");
    }
}
