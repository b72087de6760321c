//! JA4, a fingerprint of the software that sent a ClientHello: versions, suites, extensions and signature
//! algorithms in an order that does not depend on the connection. The format is FoxIO's public one. It reads
//! bytes that rustls has accepted, and judges nothing.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA256, digest};

use crate::byte_cursor::ByteCursor;

/// Bytes of a record's header, and of a handshake message's.
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
/// Extensions that are looked into (RFC 8446 section 4.2).
const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
/// Counts have two digits.
const COUNT_MAX: usize = 99;

/// The parts of a ClientHello that the fingerprint is made of.
#[derive(Default)]
struct Hello {
    version: u16,
    suites: Vec<u16>,
    extensions: Vec<u16>,
    algorithms: Vec<u16>,
    alpn: Vec<u8>,
}

/// The fingerprint of the ClientHello that these records begin with; none if it is not one.
pub(crate) fn fingerprint(records: &[u8]) -> Option<Box<str>> {
    let hello = read(&message(records)?)?;
    let mut text = String::with_capacity(36);
    let version = match hello.version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        _ => "00",
    };
    let sni = if hello.extensions.contains(&SERVER_NAME) { 'd' } else { 'i' };
    let (suites, extensions) = (hello.suites.len().min(COUNT_MAX), hello.extensions.len().min(COUNT_MAX));
    let _ = write!(text, "t{version}{sni}{suites:02}{extensions:02}");
    push_alpn(&hello.alpn, &mut text);
    let mut suites = hello.suites;
    suites.sort_unstable();
    push_digest(&list(&suites), &mut text);
    let mut extensions = hello.extensions;
    extensions.retain(|extension| ![SERVER_NAME, ALPN].contains(extension));
    extensions.sort_unstable();
    let mut listed = list(&extensions);
    if !hello.algorithms.is_empty() {
        let _ = write!(listed, "_{}", list(&hello.algorithms));
    }
    push_digest(&listed, &mut text);
    Some(text.into())
}

/// The body of the handshake message that the records begin with.
fn message(mut records: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let (header, rest) = records.split_at_checked(RECORD_HEADER)?;
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let (body, rest) = rest.split_at_checked(length)?;
        message.extend_from_slice(body);
        records = rest;
        if let Some(&[kind, high, middle, low]) = message.first_chunk::<MESSAGE_HEADER>() {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if message.len() >= MESSAGE_HEADER + length {
                message.truncate(MESSAGE_HEADER + length);
                message.drain(..MESSAGE_HEADER);
                return (kind == 1).then_some(message);
            }
        }
    }
}

fn read(body: &[u8]) -> Option<Hello> {
    let mut cursor = ByteCursor(body);
    let mut hello = Hello { version: cursor.number()?, ..Hello::default() };
    cursor.take(32)?;
    cursor.short()?;
    hello.suites = numbers(cursor.long()?);
    cursor.short()?;
    let mut extensions = ByteCursor(cursor.long().unwrap_or_default());
    while let Some(kind) = extensions.number() {
        let content = extensions.long()?;
        if is_grease(kind) {
            continue;
        }
        hello.extensions.push(kind);
        match kind {
            SIGNATURE_ALGORITHMS => hello.algorithms = numbers(ByteCursor(content).long()?),
            SUPPORTED_VERSIONS => {
                hello.version =
                    numbers(ByteCursor(content).short()?).into_iter().max().unwrap_or(hello.version);
            }
            ALPN => hello.alpn = ByteCursor(ByteCursor(content).long()?).short()?.to_vec(),
            _ => {}
        }
    }
    Some(hello)
}

/// The numbers of a vector, without those that are there to be ignored (RFC 8701).
fn numbers(bytes: &[u8]) -> Vec<u16> {
    let all = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    all.filter(|number| !is_grease(*number)).collect()
}

fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 15 == 10
}

fn list(numbers: &[u16]) -> String {
    let texts: Vec<String> = numbers.iter().map(|number| format!("{number:04x}")).collect();
    texts.join(",")
}

fn push_alpn(alpn: &[u8], text: &mut String) {
    match (alpn.first(), alpn.last()) {
        (Some(first), Some(last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() => {
            text.push(char::from(*first));
            text.push(char::from(*last));
        }
        (Some(first), Some(last)) => {
            let _ = write!(text, "{:x}{:x}", first >> 4, last & 15);
        }
        _ => text.push_str("00"),
    }
}

/// The first twelve digits of the digest; zeros for an empty list.
fn push_digest(listed: &str, text: &mut String) {
    text.push('_');
    if listed.is_empty() {
        return text.push_str("000000000000");
    }
    for byte in &digest(&SHA256, listed.as_bytes()).as_ref()[..6] {
        let _ = write!(text, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(bytes: &[u8], length_bytes: usize) -> Vec<u8> {
        let length = bytes.len().to_be_bytes();
        [&length[length.len() - length_bytes..], bytes].concat()
    }

    fn words(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// A ClientHello like Chrome's, in records of `piece` bytes.
    fn chrome(piece: usize) -> Vec<u8> {
        let suites = [
            0x0a0a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x9c, 0x9d, 0x2f, 0x35,
        ];
        let algorithms = [0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601];
        let mut extensions = Vec::new();
        for kind in [
            0x5a5a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012,
            0x002b, 0xff01, 0x000b, 0x000a, 0x0015,
        ] {
            let content = match kind {
                SIGNATURE_ALGORITHMS => vector(&words(&algorithms), 2),
                SUPPORTED_VERSIONS => vector(&words(&[0x3a3a, 0x0304, 0x0303]), 1),
                ALPN => vector(&[vector(b"h2", 1), vector(b"http/1.1", 1)].concat(), 2),
                _ => Vec::new(),
            };
            extensions.extend(words(&[kind]));
            extensions.extend(vector(&content, 2));
        }
        let body = [
            words(&[0x0303]),
            vec![7; 32],
            vector(&[9; 32], 1),
            vector(&words(&suites), 2),
            vector(&[0], 1),
            vector(&extensions, 2),
        ]
        .concat();
        let message = [vec![1], vector(&body, 3)].concat();
        message.chunks(piece).flat_map(|part| [vec![22, 3, 1], vector(part, 2)].concat()).collect()
    }

    #[test]
    fn fingerprint_is_that_of_the_published_example() {
        for piece in [usize::MAX, 100, 1] {
            assert_eq!(&*fingerprint(&chrome(piece)).unwrap(), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        }
    }

    #[test]
    fn cut_hello_has_no_fingerprint() {
        let whole = chrome(usize::MAX);
        for cut in 0..whole.len() {
            assert_eq!(fingerprint(&whole[..cut]), None, "cut at {cut}");
        }
    }
}
