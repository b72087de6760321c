//! Headers of both versions, good and bad, whole and cut.

use super::crc32c::checksum;
use super::*;

const IPV4: u8 = 0x11;
const IPV6: u8 = 0x21;
const PROXY: u8 = 0x21;
const LOCAL: u8 = 0x20;
/// 192.0.2.7:40000 to 198.51.100.1:443.
const IPV4_ADDRESSES: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 1, 0x9c, 0x40, 1, 0xbb];

/// A header of version 2 with this content behind its first 16 bytes.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [v2::SIGNATURE, &[command, family], &length, content].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind], &u16::try_from(value.len()).unwrap().to_be_bytes()[..], value].concat()
}

/// A header for a client over IPv4 with these TLVs.
fn with_tlvs(tlvs: &[Vec<u8>]) -> Vec<u8> {
    binary(PROXY, IPV4, &[IPV4_ADDRESSES, &tlvs.concat()].concat())
}

/// The outcome of bytes that come in pieces of this size: the header and the number of bytes that it took.
fn pieces(bytes: &[u8], size: usize) -> Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault> {
    let (mut decoder, mut taken) = (ProxyHeaderDecoder::default(), 0);
    for piece in bytes.chunks(size) {
        let step = decoder.decode(piece)?;
        taken += step.taken;
        match step.header {
            Some(header) => return Ok(Some((header, taken))),
            None => assert_eq!(step.taken, piece.len(), "an open header takes every byte"),
        }
    }
    Ok(None)
}

/// Checks the outcome of bytes, however they are cut.
fn check(bytes: &[u8], expected: &Result<Option<(ProxyProtocolHeader, usize)>, HeaderFault>) {
    for size in [bytes.len().max(1), 1, 2, 7, 16] {
        assert_eq!(&pieces(bytes, size), expected, "{} in pieces of {size}", bytes.escape_ascii());
    }
}

/// Checks that the header is good at every cut, leaves the client's bytes, and names these ends.
fn check_good(bytes: &[u8], ends: Option<(&str, &str)>) -> ProxyProtocolHeader {
    let addresses = ends.map(|(source, destination)| Addresses {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    });
    let (header, taken) = pieces(bytes, bytes.len()).unwrap().expect("a whole header");
    assert_eq!((header.addresses, taken), (addresses, bytes.len()), "{}", bytes.escape_ascii());
    check(bytes, &Ok(Some((header.clone(), taken))));
    check(&[bytes, b"GET / HTTP/1.1\r\n\r\n"].concat(), &Ok(Some((header.clone(), taken))));
    for cut in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
        check(&bytes[..cut], &Ok(None));
    }
    header
}

#[test]
fn lines_of_version_1_are_decoded() {
    let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(v1::LINE_MAX_BYTES - 16));
    type Row<'a> = (&'a [u8], Option<(&'a str, &'a str)>);
    let rows: &[Row<'_>] = &[
        (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\n", Some(("192.0.2.7:40000", "198.51.100.1:443"))),
        (b"PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", Some(("0.0.0.0:0", "255.255.255.255:65535"))),
        (b"PROXY TCP6 2001:db8::7 ::1 40000 443\r\n", Some(("[2001:db8::7]:40000", "[::1]:443"))),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", Some(("[::ffff:192.0.2.7]:1", "[::1]:2"))),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN \xff\0 anything\r\n", None),
        (longest.as_bytes(), None),
    ];
    for (bytes, ends) in rows {
        let header = check_good(bytes, *ends);
        assert_eq!((header.version, header.tlvs.is_empty()), (1, true));
    }
}

#[test]
fn malformed_lines_of_version_1_are_refused() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY tcp4 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP5 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP4  192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2 \r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n",
        "PROXY TCP4 192.0.2.7\t198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n",
        "PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.7 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 00 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 -1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 \r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1\r1 2\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\r\n",
        "PROXY UNKNOWN a\nb\r\n",
        "PROXY UNKNOWN a\rb\r\n",
    ] {
        check(line.as_bytes(), &Err(HeaderFault::BadLine));
    }
    check(b"PROXY TCP4 192.0.2.7 198.51.100.\xff 1 2\r\n", &Err(HeaderFault::BadLine));
    for length in [v1::LINE_MAX_BYTES - 15, v1::LINE_MAX_BYTES - 14, 5_000] {
        let line = format!("PROXY UNKNOWN {}\r\n", "f".repeat(length));
        check(line.as_bytes(), &Err(HeaderFault::TooLong));
    }
}

#[test]
fn bytes_without_header_are_refused_at_once() {
    // Of each, as many bytes as are needed to tell.
    for bytes in [
        &b"G"[..],
        b"\x16\x03\x01",
        b"PO",
        b"PRI",
        b"proxy",
        b"PROXY\t",
        b"PROXYTCP4",
        b"\n",
        b"\r\nG",
        b"\r\n\r\nQ",
        b"\r\n\r\n\0\r\nQUIT\r",
        b"\0",
    ] {
        check(bytes, &Err(HeaderFault::Absent));
        assert_eq!(pieces(&bytes[..1], 1).is_ok(), matches!(bytes[0], b'P' | b'\r'));
    }
    check(b"", &Ok(None));
}

#[test]
fn headers_of_version_2_are_decoded() {
    let ipv6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7], &[0; 15], &[1], &[0, 80, 1, 0xbb]].concat();
    let ipv4_ends = Some(("192.0.2.7:40000", "198.51.100.1:443"));
    let ipv6_ends = Some(("[2001:db8::7]:80", "[::1]:443"));
    let rows = [
        (binary(PROXY, IPV4, IPV4_ADDRESSES), ipv4_ends),
        (binary(PROXY, 0x12, IPV4_ADDRESSES), ipv4_ends),
        (binary(PROXY, IPV6, &ipv6), ipv6_ends),
        (binary(PROXY, 0x22, &ipv6), ipv6_ends),
        (binary(PROXY, 0x31, &[b'/'; 216]), None),
        (binary(PROXY, 0x32, &[0; 216]), None),
        (binary(PROXY, 0, b""), None),
        (binary(LOCAL, 0, b""), None),
        // Bytes after LOCAL are ignored.
        (binary(LOCAL, IPV4, IPV4_ADDRESSES), None),
        (binary(LOCAL, 0xff, b"no TLV"), None),
        (binary(LOCAL, 0, &[0; HEADER_MAX_BYTES - 16]), None),
    ];
    for (bytes, ends) in rows {
        let header = check_good(&bytes, ends);
        assert_eq!((header.version, header.tlvs.is_empty()), (2, true));
    }
}

#[test]
fn malformed_headers_of_version_2_are_refused() {
    use HeaderFault::{ShortAddresses, TooLong, UnknownCommand, UnknownFamily};
    let too_long = [v2::SIGNATURE, &[PROXY, IPV4], &(HEADER_MAX_BYTES as u16 - 15).to_be_bytes()].concat();
    let rows = [
        (binary(0x22, IPV4, IPV4_ADDRESSES), UnknownCommand),
        (binary(0x11, IPV4, IPV4_ADDRESSES), UnknownCommand),
        (binary(0x31, IPV4, IPV4_ADDRESSES), UnknownCommand),
        (binary(PROXY, 0x10, IPV4_ADDRESSES), UnknownFamily),
        (binary(PROXY, 0x13, IPV4_ADDRESSES), UnknownFamily),
        (binary(PROXY, 0x01, IPV4_ADDRESSES), UnknownFamily),
        (binary(PROXY, 0x41, IPV4_ADDRESSES), UnknownFamily),
        (binary(PROXY, IPV4, b""), ShortAddresses),
        (binary(PROXY, IPV4, &IPV4_ADDRESSES[1..]), ShortAddresses),
        (binary(PROXY, IPV6, &[0; 35]), ShortAddresses),
        (binary(PROXY, 0x31, &[0; 215]), ShortAddresses),
        // Refused by its announced length, before it has come.
        (too_long, TooLong),
        (binary(LOCAL, 0, &[0; 65_535]), TooLong),
    ];
    for (bytes, fault) in rows {
        check(&bytes, &Err(fault));
    }
}

#[test]
fn tlvs_are_found_by_their_type() {
    let inner = [tlv(0x21, b"TLSv1.3"), tlv(0x22, b"client.test"), tlv(0x22, b"second")].concat();
    let bytes = with_tlvs(&[
        tlv(0x01, b"h2"),
        tlv(0x02, b"api.test"),
        tlv(0x02, b"second.test"),
        tlv(0x04, &[0; 9]),
        tlv(0x05, &[0, 1, 255]),
        tlv(0x20, &[&[0x07, 0, 0, 1, 2][..], &inner].concat()),
        tlv(0xea, b"\x01vpce-1"),
        tlv(0x30, b""),
    ]);
    let tlvs = check_good(&bytes, Some(("192.0.2.7:40000", "198.51.100.1:443"))).tlvs;
    let rows: [(u8, Option<&[u8]>); 6] = [
        (0x01, Some(b"h2")),
        (0x02, Some(b"api.test")),
        (0x05, Some(&[0, 1, 255])),
        (0xea, Some(b"\x01vpce-1")),
        (0x30, Some(b"")),
        (0x22, None),
    ];
    for (kind, value) in rows {
        assert_eq!(tlvs.get(kind), value, "{kind:#x}");
    }
    let ssl = tlvs.ssl().unwrap();
    assert_eq!((ssl.client, ssl.verify), (7, 0x102));
    assert_eq!((ssl.get(0x21), ssl.get(0x22)), (Some(&b"TLSv1.3"[..]), Some(&b"client.test"[..])));
    assert_eq!(ssl.get(0x23), None);
}

#[test]
fn malformed_tlvs_are_refused() {
    let (half_inner, good) = (tlv(0x20, &[1, 0, 0, 0, 0, 0x21, 0]), tlv(0x02, b"a"));
    let rows: [&[Vec<u8>]; 8] = [
        &[vec![0x02]],
        &[vec![0x02, 0]],
        &[vec![0x02, 0, 2, b'a']],
        &[good.clone(), vec![0xff, 0xff, 0xff]],
        &[tlv(0x20, &[1, 0, 0, 0])],
        &[good, half_inner],
        &[tlv(0x20, &[1, 0, 0, 0, 0, 0x21, 0, 1])],
        &[tlv(0x03, &[0; 3])],
    ];
    for tlvs in rows {
        check(&with_tlvs(tlvs), &Err(HeaderFault::BadTlv));
    }
}

#[test]
fn checksum_is_compared_where_there_is_one() {
    let mut bytes = with_tlvs(&[tlv(0x02, b"api.test"), tlv(0x03, &[0; 4]), tlv(0x05, b"id")]);
    let at = bytes.windows(3).position(|window| window == [3, 0, 4]).unwrap() + 3;
    check(&bytes, &Err(HeaderFault::BadChecksum));
    let good = checksum(bytes.iter().copied()).to_be_bytes();
    bytes[at..at + 4].copy_from_slice(&good);
    check_good(&bytes, Some(("192.0.2.7:40000", "198.51.100.1:443")));
    // Without the type of the checksum itself, which makes it another TLV.
    for index in (16..bytes.len() - 2).filter(|index| *index != at - 3) {
        let mut other = bytes.clone();
        other[index] ^= 1;
        let outcome = pieces(&other, other.len());
        assert!(
            matches!(outcome, Err(HeaderFault::BadChecksum | HeaderFault::BadTlv)),
            "byte {index}: {outcome:?}"
        );
    }
    // The first one fits, with the second one in its place.
    let mut twice = with_tlvs(&[tlv(0x03, &[0; 4]), tlv(0x03, &[0; 4])]);
    let first = checksum(twice.iter().copied()).to_be_bytes();
    twice[31..35].copy_from_slice(&first);
    check(&twice, &Err(HeaderFault::BadTlv));
}
