//! The TLVs of version 2: facts about the client's connection, each with a type, a length and a value. They
//! are checked as a whole when the header is decoded, and looked up when they are asked for.

use super::HeaderFault;
use super::crc32c::checksum;

/// `PP2_TYPE_CRC32C`.
const CRC32C: u8 = 0x03;
/// `PP2_TYPE_SSL`.
const SSL: u8 = 0x20;
/// Type and length.
const PREFIX_BYTES: usize = 3;
/// Bytes of an SSL TLV in front of the TLVs inside: the facts of the client, and the verdict over its
/// certificate.
const SSL_FIXED_BYTES: usize = 5;

/// The TLVs of one header, well-formed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tlvs(Box<[u8]>);

/// The TLV of the sender's TLS connection with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslTlv<'a> {
    /// Bits: 1 for a client over TLS, 2 for a certificate on this connection, 4 for one in this TLS session.
    pub client: u8,
    /// 0 if the client showed a certificate and it was verified.
    pub verify: u32,
    tlvs: &'a [u8],
}

impl Tlvs {
    /// The TLVs of a header that begin at `start`.
    pub(super) fn decode(header: &[u8], start: usize) -> Result<Tlvs, HeaderFault> {
        let mut at = start;
        let mut has_checksum = false;
        while at < header.len() {
            let (kind, value, _) = split(&header[at..]).ok_or(HeaderFault::BadTlv)?;
            let value_at = at + PREFIX_BYTES;
            match kind {
                // Of two, neither would be the checksum of the header with the other one in it set to 0.
                CRC32C if has_checksum => return Err(HeaderFault::BadTlv),
                CRC32C => {
                    has_checksum = true;
                    check(header, value_at, value)?;
                }
                SSL => check_ssl(value)?,
                _ => {}
            }
            at = value_at + value.len();
        }
        Ok(Tlvs(header[start..].into()))
    }

    /// The value of the first TLV of this type.
    pub fn get(&self, kind: u8) -> Option<&[u8]> {
        find(&self.0, kind)
    }

    /// The first SSL TLV.
    pub fn ssl(&self) -> Option<SslTlv<'_>> {
        let (&[client, ref verify @ ..], tlvs) = self.get(SSL)?.split_first_chunk::<SSL_FIXED_BYTES>()?;
        Some(SslTlv { client, verify: u32::from_be_bytes(*verify), tlvs })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> SslTlv<'a> {
    /// The value of the first TLV of this type inside.
    pub fn get(&self, kind: u8) -> Option<&'a [u8]> {
        find(self.tlvs, kind)
    }
}

/// Checks that the value is the checksum of the header with the value's bytes as 0.
fn check(header: &[u8], at: usize, value: &[u8]) -> Result<(), HeaderFault> {
    let said = <[u8; 4]>::try_from(value).map_err(|_| HeaderFault::BadTlv)?;
    let zeroed = at..at + said.len();
    let bytes = header.iter().enumerate();
    let bytes = bytes.map(|(index, byte)| if zeroed.contains(&index) { 0 } else { *byte });
    if checksum(bytes) == u32::from_be_bytes(said) { Ok(()) } else { Err(HeaderFault::BadChecksum) }
}

/// Checks that the value of an SSL TLV has its first part, and whole TLVs after that.
fn check_ssl(value: &[u8]) -> Result<(), HeaderFault> {
    let mut rest = value.get(SSL_FIXED_BYTES..).ok_or(HeaderFault::BadTlv)?;
    while !rest.is_empty() {
        (_, _, rest) = split(rest).ok_or(HeaderFault::BadTlv)?;
    }
    Ok(())
}

fn find(mut tlvs: &[u8], wanted: u8) -> Option<&[u8]> {
    while let Some((kind, value, rest)) = split(tlvs) {
        if kind == wanted {
            return Some(value);
        }
        tlvs = rest;
    }
    None
}

/// The first TLV as its type and value, and the bytes behind it; none if there is no whole one.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, high, low], rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
    Some((kind, value, rest))
}
