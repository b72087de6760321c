//! Version 1: one line of text with exactly one space between its words.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::{Addresses, HeaderFault, ProxyProtocolHeader, Tlvs, V1_PREFIX};

/// Most bytes of the line with its end.
pub(super) const LINE_MAX_BYTES: usize = 107;
const END: &[u8] = b"\r\n";
/// The word for a client that has no IP address, or one that the sender does not know.
const UNKNOWN: &[u8] = b"UNKNOWN";

/// The header at the start of `bytes`, which begin as a line of version 1 does.
pub(super) fn decode_v1_header(bytes: &[u8]) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault> {
    let seen = &bytes[..bytes.len().min(LINE_MAX_BYTES)];
    let Some(at) = seen.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if seen.len() == LINE_MAX_BYTES { Err(HeaderFault::TooLong) } else { Ok(None) };
    };
    match &seen[at..] {
        [b'\r'] if seen.len() == LINE_MAX_BYTES => return Err(HeaderFault::TooLong),
        [b'\r'] => return Ok(None),
        [b'\r', b'\n', ..] => {}
        // A lone CR or LF, which another reader may take for the end of the line.
        _ => return Err(HeaderFault::BadLine),
    }
    let addresses = line(&seen[..at])?;
    Ok(Some((ProxyProtocolHeader { version: 1, addresses, tlvs: Tlvs::default() }, at + END.len())))
}

/// The addresses that a line without its end names.
fn line(line: &[u8]) -> Result<Option<Addresses>, HeaderFault> {
    let words = line.strip_prefix(V1_PREFIX).ok_or(HeaderFault::BadLine)?;
    // The text says that bytes behind this word are to be ignored.
    if words == UNKNOWN || (words.starts_with(UNKNOWN) && words[UNKNOWN.len()] == b' ') {
        return Ok(None);
    }
    let words = str::from_utf8(words).map_err(|_| HeaderFault::BadLine)?;
    let addresses = match words.split_once(' ') {
        Some(("TCP4", rest)) => addresses(rest, IpAddr::is_ipv4),
        Some(("TCP6", rest)) => addresses(rest, IpAddr::is_ipv6),
        _ => None,
    };
    addresses.map(Some).ok_or(HeaderFault::BadLine)
}

fn addresses(words: &str, is_of_family: fn(&IpAddr) -> bool) -> Option<Addresses> {
    let mut words = words.split(' ');
    let (source, destination) = (words.next()?, words.next()?);
    let (source_port, destination_port) = (words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let ip = |text: &str| IpAddr::from_str(text).ok().filter(is_of_family);
    Some(Addresses {
        source: SocketAddr::new(ip(source)?, port(source_port)?),
        destination: SocketAddr::new(ip(destination)?, port(destination_port)?),
    })
}

/// A decimal number without sign and leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}
