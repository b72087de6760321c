//! Oracle of the PROXY protocol header, for any bytes.

use std::net::{IpAddr, SocketAddr};

use net::proxy_protocol::{HEADER_MAX_BYTES, HeaderFault, ProxyHeaderDecoder, ProxyProtocolHeader};

use super::steering::steering;

/// A header as the twin reads it: its length, the client and server, and its TLVs.
#[derive(Debug, PartialEq, Eq)]
struct Twin {
    length: usize,
    ends: Option<(SocketAddr, SocketAddr)>,
    tlvs: Vec<(u8, Vec<u8>)>,
}

/// The input is three steering bytes and the bytes of a connection. With the second switch, a checksum is
/// made good first.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let mut input = steering.input.to_vec();
    if steering.switches & 2 != 0 {
        mend_checksum(&mut input);
    }
    let whole = decode(&input, [].into_iter());
    assert_eq!(decode(&input, steering.cuts.into_iter()), whole, "cut at {:?}", steering.cuts);
    assert_eq!(decode(&input, 0..input.len()), whole, "byte by byte");
    let twin = if input.starts_with(b"PROXY ") { line(&input) } else { binary(&input) };
    match (whole, twin) {
        (Ok(Some((header, length))), Some(twin)) => {
            assert!(length <= HEADER_MAX_BYTES);
            assert_eq!(seen(&header, length, &twin), twin);
            // Bytes behind a header change nothing, and a header that lacks one is open.
            let more = [&input[..length], b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(decode(&more, [].into_iter()), Ok(Some((header, length))));
            assert_eq!(decode(&input[..length - 1], [].into_iter()), Ok(None));
        }
        (Ok(Some(_)), None) => panic!("only the decoder takes {}", input.escape_ascii()),
        (other, Some(_)) => panic!("only the twin takes {}: {other:?}", input.escape_ascii()),
        (Ok(None), None) => {
            assert!(input.len() < HEADER_MAX_BYTES, "{} bytes are waited for", input.len());
        }
        (Err(_), None) => {}
    }
}

/// Decodes the input in pieces that end at the cuts: the header and its length.
fn decode(
    input: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault> {
    let (mut decoder, mut at) = (ProxyHeaderDecoder::default(), 0);
    for cut in cuts.chain([input.len()]) {
        if cut == at {
            continue;
        }
        let step = decoder.decode(&input[at..cut])?;
        assert!(step.taken <= cut - at);
        at += step.taken;
        match step.header {
            Some(header) => return Ok(Some((header, at))),
            None => assert_eq!(at, cut, "an open header takes every byte"),
        }
    }
    Ok(None)
}

/// The decoded header in the form of the twin, which has to equal it. TLVs are looked up, so that only
/// the first of a type is compared.
fn seen(header: &ProxyProtocolHeader, length: usize, twin: &Twin) -> Twin {
    let ends = header.addresses.map(|addresses| (addresses.source, addresses.destination));
    let find = |kind: u8| header.tlvs.get(kind).unwrap_or_else(|| panic!("TLV {kind} is lost")).to_vec();
    for kind in (0..=u8::MAX).filter(|kind| twin.tlvs.iter().all(|(known, _)| known != kind)) {
        assert_eq!(header.tlvs.get(kind), None, "TLV {kind} is made up");
    }
    if let Some((_, value)) = twin.tlvs.iter().find(|(kind, _)| *kind == SSL) {
        let ssl = header.tlvs.ssl().expect("an SSL TLV");
        assert_eq!((ssl.client, &ssl.verify.to_be_bytes()[..]), (value[0], &value[1..5]));
    }
    Twin { length, ends, tlvs: twin.tlvs.iter().map(|(kind, _)| (*kind, find(*kind))).collect() }
}

/// Version 1, by its words.
fn line(input: &[u8]) -> Option<Twin> {
    let end = input.windows(2).take(LINE_MAX_BYTES - 1).position(|pair| pair == b"\r\n")?;
    let text = &input[..end];
    if text.contains(&b'\r') || text.contains(&b'\n') {
        return None;
    }
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let ends = match words[1..] {
        [b"UNKNOWN", ..] => None,
        [family, source, destination, source_port, destination_port] => {
            let end = |ip: &[u8], port: &[u8]| {
                let ip: IpAddr = std::str::from_utf8(ip).ok()?.parse().ok()?;
                let port = std::str::from_utf8(port).ok()?;
                let number: u16 = port.parse().ok()?;
                let is_family = family == if ip.is_ipv4() { b"TCP4" } else { b"TCP6" };
                // Written as numbers are, without sign and leading zeros.
                (is_family && number.to_string() == port).then_some(SocketAddr::new(ip, number))
            };
            Some((end(source, source_port)?, end(destination, destination_port)?))
        }
        _ => return None,
    };
    Some(Twin { length: end + 2, ends, tlvs: Vec::new() })
}

/// Version 2, by its offsets.
fn binary(input: &[u8]) -> Option<Twin> {
    if input.len() < FIXED_BYTES || !input.starts_with(SIGNATURE) {
        return None;
    }
    let (command, family) = (input[12], input[13]);
    let length = FIXED_BYTES + usize::from(input[14]) * 256 + usize::from(input[15]);
    if length > HEADER_MAX_BYTES || length > input.len() {
        return None;
    }
    let content = &input[FIXED_BYTES..length];
    if command == 0x20 {
        return Some(Twin { length, ends: None, tlvs: Vec::new() });
    }
    let address_bytes = match family {
        0x00 => 0,
        0x11 | 0x12 => 4,
        0x21 | 0x22 => 16,
        0x31 | 0x32 => 108,
        _ => return None,
    };
    let port_bytes = if matches!(address_bytes, 4 | 16) { 2 } else { 0 };
    if command != 0x21 || content.len() < 2 * (address_bytes + port_bytes) {
        return None;
    }
    let end = |number: usize| {
        let bytes = &content[number * address_bytes..][..address_bytes];
        let port = &content[2 * address_bytes + 2 * number..];
        let ip = match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).expect("four bytes")),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).expect("sixteen bytes")),
        };
        SocketAddr::new(ip, u16::from(port[0]) * 256 + u16::from(port[1]))
    };
    let ends = (port_bytes > 0).then(|| (end(0), end(1)));
    let all = tlvs(&content[2 * (address_bytes + port_bytes)..])?;
    let inner = |value: &[u8]| value.len() >= 5 && tlvs(&value[5..]).is_some();
    let checksums = all.iter().filter(|(kind, _)| *kind == CRC32C).count();
    let is_good = all.iter().all(|(kind, value)| match *kind {
        SSL => inner(value),
        CRC32C => value.len() == 4,
        _ => true,
    });
    if !is_good
        || checksums > 1
        || checksum_place(&input[..length]).is_some_and(|at| !fits(&input[..length], at))
    {
        return None;
    }
    let mut first: Vec<(u8, Vec<u8>)> = Vec::new();
    for (kind, value) in all {
        if first.iter().all(|(known, _)| *known != kind) {
            first.push((kind, value.to_vec()));
        }
    }
    Some(Twin { length, ends, tlvs: first })
}

/// All TLVs; none if they do not fill the bytes.
fn tlvs(bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = usize::from(*bytes.get(at + 1)?) * 256 + usize::from(*bytes.get(at + 2)?);
        all.push((bytes[at], bytes.get(at + 3..at + 3 + length)?));
        at += 3 + length;
    }
    Some(all)
}

/// Where the value of the first checksum of a header for IP addresses, or for none, stands.
fn checksum_place(header: &[u8]) -> Option<usize> {
    let skipped = match header.get(13)? {
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return None,
    };
    let mut at = FIXED_BYTES + skipped;
    loop {
        let length = usize::from(*header.get(at + 1)?) * 256 + usize::from(*header.get(at + 2)?);
        if header[at] == CRC32C {
            return (length == 4 && at + 7 <= header.len()).then_some(at + 3);
        }
        at += 3 + length;
    }
}

fn fits(header: &[u8], at: usize) -> bool {
    header[at..at + 4] == crc32c(header, at).to_be_bytes()
}

/// The checksum with the four bytes at `at` as 0, bit by bit.
fn crc32c(header: &[u8], at: usize) -> u32 {
    let mut rest = u32::MAX;
    for (index, byte) in header.iter().enumerate() {
        rest ^= u32::from(if (at..at + 4).contains(&index) { 0 } else { *byte });
        for _ in 0..8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0x82f6_3b78 } else { rest >> 1 };
        }
    }
    !rest
}

/// Writes the right checksum into a header that has one, because no fuzzer guesses it.
fn mend_checksum(input: &mut [u8]) {
    if input.len() < FIXED_BYTES {
        return;
    }
    let length = FIXED_BYTES + usize::from(input[14]) * 256 + usize::from(input[15]);
    let Some(header) = input.get_mut(..length.min(HEADER_MAX_BYTES)) else { return };
    if let Some(at) = checksum_place(header) {
        let good = crc32c(header, at);
        header[at..at + 4].copy_from_slice(&good.to_be_bytes());
    }
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_BYTES: usize = 16;
const LINE_MAX_BYTES: usize = 107;
const CRC32C: u8 = 0x03;
const SSL: u8 = 0x20;
