//! Version 2: a binary header of 16 bytes, addresses, and TLVs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Addresses, HEADER_MAX_BYTES, HeaderFault, ProxyProtocolHeader, Tlvs};

/// The bytes that a header begins with. No text protocol does.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes in front of the addresses.
const FIXED_BYTES: usize = 16;
/// Bytes of the two addresses and ports of each family; a path of a UNIX socket takes 108.
const IPV4_BYTES: usize = 12;
const IPV6_BYTES: usize = 36;
const UNIX_BYTES: usize = 216;

/// The sender speaks for itself.
const COMMAND_LOCAL: u8 = 0x20;
/// The sender speaks for a client.
const COMMAND_PROXY: u8 = 0x21;

/// The header at the start of `bytes`, which begin as the signature does.
pub(super) fn decode_v2_header(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault> {
    let command = match bytes.get(SIGNATURE.len()) {
        None => return Ok(None),
        Some(&command @ (COMMAND_LOCAL | COMMAND_PROXY)) => command,
        Some(_) => return Err(HeaderFault::UnknownCommand),
    };
    // The family of LOCAL is to be ignored, with all that follows.
    let address_bytes = match bytes.get(SIGNATURE.len() + 1) {
        None => return Ok(None),
        Some(_) if command == COMMAND_LOCAL => 0,
        Some(family) => address_bytes(*family)?,
    };
    let Some(&[high, low]) = bytes.get(SIGNATURE.len() + 2..FIXED_BYTES) else { return Ok(None) };
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > HEADER_MAX_BYTES {
        return Err(HeaderFault::TooLong);
    }
    if length < FIXED_BYTES + address_bytes {
        return Err(HeaderFault::ShortAddresses);
    }
    let Some(bytes) = bytes.get(..length) else { return Ok(None) };
    if command == COMMAND_LOCAL {
        return Ok(Some((
            ProxyProtocolHeader { version: 2, addresses: None, tlvs: Tlvs::default() },
            length,
        )));
    }
    let (addresses, _) = bytes[FIXED_BYTES..].split_at(address_bytes);
    let tlvs = Tlvs::decode(bytes, FIXED_BYTES + address_bytes)?;
    Ok(Some((ProxyProtocolHeader { version: 2, addresses: decode_addresses(addresses), tlvs }, length)))
}

/// Bytes that the addresses of a family take. The lower half of `family` is the transport, which may be that
/// of a datagram: a balancer can take QUIC from clients and speak TCP to the gateway.
fn address_bytes(family: u8) -> Result<usize, HeaderFault> {
    match family {
        0x00 => Ok(0),
        0x11 | 0x12 => Ok(IPV4_BYTES),
        0x21 | 0x22 => Ok(IPV6_BYTES),
        0x31 | 0x32 => Ok(UNIX_BYTES),
        _ => Err(HeaderFault::UnknownFamily),
    }
}

/// IP addresses, told apart by their length; none of other families.
fn decode_addresses(bytes: &[u8]) -> Option<Addresses> {
    let (ips, ports) = bytes.split_last_chunk::<4>()?;
    let (source, destination) = ips.split_at(ips.len() / 2);
    let ip = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    };
    let [source_high, source_low, destination_high, destination_low] = *ports;
    Some(Addresses {
        source: SocketAddr::new(ip(source)?, u16::from_be_bytes([source_high, source_low])),
        destination: SocketAddr::new(
            ip(destination)?,
            u16::from_be_bytes([destination_high, destination_low]),
        ),
    })
}
