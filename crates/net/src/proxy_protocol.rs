//! The PROXY protocol, versions 1 and 2: the header in which a balancer names the client of a connection,
//! before any byte of the client. It decodes bytes as they come, without I/O; it knows no setting and trusts
//! no sender.
//!
//! The text that it follows is HAProxy's `proxy-protocol.txt`. Everything that the text forbids is refused,
//! because another reader of the same bytes could find another client in them.

mod crc32c;
mod encode;
mod tlv;
mod v1;
mod v2;

use std::net::SocketAddr;

pub use encode::{ProxyHeaderVersion, Said, SaidTls, encode_proxy_header};
pub use tlv::{SslTlv, Tlvs};

/// Most bytes of a header. Version 1 ends within 107; version 2 can announce 65,551, of which addresses take
/// 52 bytes, and TLVs, a client certificate among them, seldom 2 KiB.
pub const HEADER_MAX_BYTES: usize = 4_096;

/// The bytes that a header of version 1 begins with.
const V1_PREFIX: &[u8] = b"PROXY ";

/// The content of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocolHeader {
    /// 1 or 2.
    pub version: u8,
    /// The two ends of the client's connection. None if the sender opened the connection for itself (LOCAL, a
    /// health check), or names no IP addresses (UNKNOWN, UNSPEC, UNIX): the socket's addresses count then.
    pub addresses: Option<Addresses>,
    /// Further facts of version 2.
    pub tlvs: Tlvs,
}

/// The two ends of a connection to the sender of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
}

/// The reason for which bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The first bytes are of neither version.
    #[error("the connection begins with no PROXY protocol header")]
    Absent,
    /// It is longer than its version allows, or than [`HEADER_MAX_BYTES`].
    #[error("the PROXY protocol header is too long")]
    TooLong,
    /// A header of version 1 that is not written as the text says.
    #[error("the PROXY protocol header of version 1 is malformed")]
    BadLine,
    /// A version beyond 2, or a command that is neither LOCAL nor PROXY.
    #[error("the PROXY protocol header has an unknown version or command")]
    UnknownCommand,
    /// A pair of address family and transport that the text does not define.
    #[error("the PROXY protocol header has an unknown address family")]
    UnknownFamily,
    /// The announced length is less than the addresses of the family take.
    #[error("the PROXY protocol header is too short for its addresses")]
    ShortAddresses,
    /// TLVs that do not fill their space exactly, or one of the wrong length.
    #[error("the PROXY protocol header has a malformed TLV")]
    BadTlv,
    /// The checksum in the header is not that of its bytes.
    #[error("the PROXY protocol header has a wrong checksum")]
    BadChecksum,
}

/// The progress of a [`ProxyHeaderDecoder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyHeaderProgress {
    /// How many of the bytes belong to the header. The others are the client's.
    pub taken: usize,
    /// The header, once it is complete. Until then every byte is taken.
    pub header: Option<ProxyProtocolHeader>,
}

/// Decodes one header from bytes that come in any pieces.
#[derive(Debug, Default)]
pub struct ProxyHeaderDecoder {
    bytes: Vec<u8>,
}

impl ProxyHeaderDecoder {
    /// Decodes the bytes that come next. The result does not depend on how they are cut.
    ///
    /// # Errors
    /// At the first byte that no header can have at its place, so that a client which sends none is not
    /// waited for.
    pub fn decode(&mut self, next: &[u8]) -> Result<ProxyHeaderProgress, HeaderFault> {
        let before = self.bytes.len();
        let room = HEADER_MAX_BYTES - before;
        self.bytes.extend_from_slice(&next[..next.len().min(room)]);
        match decode(&self.bytes)? {
            Some((header, length)) => {
                // A byte after the end of the header would have ended an earlier call.
                let taken = length.saturating_sub(before);
                self.bytes = Vec::new();
                Ok(ProxyHeaderProgress { taken, header: Some(header) })
            }
            // Every version refuses longer headers, so that there is always room for one byte more.
            None if self.bytes.len() >= HEADER_MAX_BYTES => Err(HeaderFault::TooLong),
            None => Ok(ProxyHeaderProgress { taken: self.bytes.len() - before, header: None }),
        }
    }

    /// Whether no byte has come.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The header at the start of `bytes` and its length; none if it is not complete.
fn decode(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault> {
    let begins = |prefix: &[u8]| {
        let known = bytes.len().min(prefix.len());
        bytes[..known] == prefix[..known]
    };
    if begins(V1_PREFIX) {
        v1::decode_v1_header(bytes)
    } else if begins(v2::SIGNATURE) {
        v2::decode_v2_header(bytes)
    } else {
        Err(HeaderFault::Absent)
    }
}

#[cfg(test)]
mod tests;
