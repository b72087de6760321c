//! The protocol that first bytes show, decided with as few of them as possible. Protocols in which the server
//! speaks first are not seen here.

use super::Look;
use super::client_hello::{CLIENT_HELLO, HANDSHAKE, MAJOR_VERSION};

/// A protocol in which the client speaks first and that its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstProtocol {
    /// A request line of HTTP/1.
    Http1,
    /// The preface of HTTP/2 without TLS.
    Http2,
    /// A ClientHello of TLS.
    Tls,
    /// The identification of SSH.
    Ssh,
    /// A CONNECT of MQTT, of version 3.1 and later.
    Mqtt,
    /// A header of the PROXY protocol, of either version.
    ProxyProtocol,
    /// None of these.
    Unknown,
}

impl FirstProtocol {
    /// The name in settings, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            FirstProtocol::Http1 => "http1",
            FirstProtocol::Http2 => "http2",
            FirstProtocol::Tls => "tls",
            FirstProtocol::Ssh => "ssh",
            FirstProtocol::Mqtt => "mqtt",
            FirstProtocol::ProxyProtocol => "proxy_protocol",
            FirstProtocol::Unknown => "unknown",
        }
    }
}

/// Some of the protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolSet(u8);

impl ProtocolSet {
    /// All that first bytes can show.
    pub const ALL: ProtocolSet = ProtocolSet(u8::MAX);

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This set and `protocol`.
    #[must_use]
    pub const fn with(self, protocol: FirstProtocol) -> ProtocolSet {
        ProtocolSet(self.0 | 1 << protocol as u8)
    }

    /// The protocols of either set.
    #[must_use]
    pub const fn and(self, other: ProtocolSet) -> ProtocolSet {
        ProtocolSet(self.0 | other.0)
    }

    /// Whether it has `protocol`.
    pub const fn has(self, protocol: FirstProtocol) -> bool {
        self.0 & 1 << protocol as u8 != 0
    }

    /// Its protocols.
    pub fn protocols(self) -> impl Iterator<Item = FirstProtocol> {
        CANDIDATES.iter().map(|(protocol, _)| *protocol).filter(move |protocol| self.has(*protocol))
    }
}

/// The longest method of a request line that is taken for HTTP; the longest registered one has 17 bytes.
const METHOD_MAX_BYTES: usize = 32;
/// Methods of which the request target is not looked at, because no other protocol that begins with text has
/// such words with a space behind them.
const METHODS: &[&[u8]] =
    &[b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
/// The preface as far as it differs from every request line of HTTP/1.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";
const SSH: &[u8] = b"SSH-";
const PROXY_V1: &[u8] = b"PROXY ";
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The first byte of an MQTT CONNECT.
const MQTT_CONNECT: u8 = 0x10;
/// Names of the protocol in a CONNECT, with their lengths: of 3.1.1 and 5, and of 3.1.
const MQTT_NAMES: &[&[u8]] = &[b"\0\x04MQTT", b"\0\x06MQIsdp"];
/// Most bytes of MQTT's remaining length.
const MQTT_LENGTH_MAX_BYTES: usize = 4;

/// A protocol with the look that finds it. The looks exclude each other, so that the first answer is the one.
type ProtocolCandidate = (FirstProtocol, fn(&[u8]) -> Look<()>);

const CANDIDATES: &[ProtocolCandidate] = &[
    (FirstProtocol::Tls, tls),
    (FirstProtocol::Http2, |bytes| prefix(bytes, HTTP2_PREFACE)),
    (FirstProtocol::Ssh, |bytes| prefix(bytes, SSH)),
    (FirstProtocol::Mqtt, mqtt),
    (FirstProtocol::ProxyProtocol, proxy_protocol),
    (FirstProtocol::Http1, http1),
];

/// The protocol that `bytes` begin. It is [`FirstProtocol::Unknown`] as soon as none of the others fits, and
/// never [`Look::No`].
pub fn protocol(bytes: &[u8]) -> Look<FirstProtocol> {
    protocol_among(bytes, ProtocolSet::ALL)
}

/// As [`protocol`], decided as soon as `bytes` can begin none of `wanted` any more.
pub fn protocol_among(bytes: &[u8], wanted: ProtocolSet) -> Look<FirstProtocol> {
    let mut is_open = false;
    for (protocol, look) in CANDIDATES {
        match look(bytes) {
            Look::Found(()) => return Look::Found(*protocol),
            Look::More => is_open |= wanted.has(*protocol),
            Look::No => {}
        }
    }
    if is_open { Look::More } else { Look::Found(FirstProtocol::Unknown) }
}

/// Whether `bytes` begin with `expected`.
fn prefix(bytes: &[u8], expected: &[u8]) -> Look<()> {
    let common = bytes.len().min(expected.len());
    if bytes[..common] != expected[..common] {
        Look::No
    } else if common == expected.len() {
        Look::Found(())
    } else {
        Look::More
    }
}

/// A handshake record of which the first message is a ClientHello.
fn tls(bytes: &[u8]) -> Look<()> {
    match *bytes {
        [HANDSHAKE, MAJOR_VERSION, _, high, low, ..] if high == 0 && low == 0 => Look::No,
        [HANDSHAKE, MAJOR_VERSION, _, _, _, kind, ..] if kind == CLIENT_HELLO => Look::Found(()),
        [HANDSHAKE, MAJOR_VERSION, _, _, _, _, ..] => Look::No,
        [HANDSHAKE, MAJOR_VERSION, ..] | [HANDSHAKE] | [] => Look::More,
        _ => Look::No,
    }
}

fn mqtt(bytes: &[u8]) -> Look<()> {
    let Some((first, rest)) = bytes.split_first() else { return Look::More };
    if *first != MQTT_CONNECT {
        return Look::No;
    }
    let Some(length) = rest.iter().take(MQTT_LENGTH_MAX_BYTES).position(|byte| byte & 0x80 == 0) else {
        return if rest.len() < MQTT_LENGTH_MAX_BYTES { Look::More } else { Look::No };
    };
    either(MQTT_NAMES.iter().map(|name| prefix(&rest[length + 1..], name)))
}

/// Whether `bytes` begin with a header of the PROXY protocol, of either version. Version 1 has the family
/// `TCP4`, `TCP6` or `UNKNOWN` behind its word, which no request target begins with.
pub fn proxy_protocol(bytes: &[u8]) -> Look<()> {
    let line = match prefix(bytes, PROXY_V1) {
        Look::Found(()) => match bytes.get(PROXY_V1.len()) {
            Some(b'T' | b'U') => Look::Found(()),
            Some(_) => Look::No,
            None => Look::More,
        },
        other => other,
    };
    either([line, prefix(bytes, PROXY_V2)].into_iter())
}

/// A known method and a space, or any token, a space and a slash.
fn http1(bytes: &[u8]) -> Look<()> {
    let end = bytes.iter().take(METHOD_MAX_BYTES + 1).position(|byte| !is_token(*byte));
    let Some(end) = end else { return if bytes.len() <= METHOD_MAX_BYTES { Look::More } else { Look::No } };
    if end == 0 || bytes[end] != b' ' {
        return Look::No;
    }
    match bytes.get(end + 1) {
        _ if METHODS.contains(&&bytes[..end]) => Look::Found(()),
        Some(b'/') => Look::Found(()),
        Some(_) => Look::No,
        None => Look::More,
    }
}

/// A byte of a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Found if one is, open if one is.
fn either(looks: impl Iterator<Item = Look<()>>) -> Look<()> {
    looks.fold(Look::No, |so_far, look| match (so_far, look) {
        (Look::Found(()), _) | (_, Look::Found(())) => Look::Found(()),
        (Look::More, _) | (_, Look::More) => Look::More,
        (Look::No, Look::No) => Look::No,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes, the protocol, and after how many bytes it is known.
    const CASES: &[(&[u8], FirstProtocol, usize)] = &[
        (b"GET / HTTP/1.1\r\n", FirstProtocol::Http1, 4),
        (b"OPTIONS * HTTP/1.1\r\n", FirstProtocol::Http1, 8),
        (b"CONNECT a.example:443 HTTP/1.1\r\n", FirstProtocol::Http1, 8),
        (b"PROPFIND /dav HTTP/1.1\r\n", FirstProtocol::Http1, 10),
        (b"PROXY / HTTP/1.1\r\n", FirstProtocol::Http1, 7),
        (b"PRI / HTTP/1.1\r\n", FirstProtocol::Http1, 5),
        (b"get /x", FirstProtocol::Http1, 5),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FirstProtocol::Http2, 12),
        (b"PRI * HTTP/1.1\r\n", FirstProtocol::Unknown, 12),
        (&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], FirstProtocol::Tls, 6),
        (&[22, 3, 1, 0, 1, 1], FirstProtocol::Tls, 6),
        (&[22, 3, 3, 0, 80, 2], FirstProtocol::Unknown, 6),
        (&[22, 3, 3, 0, 0], FirstProtocol::Unknown, 5),
        (&[22, 2], FirstProtocol::Unknown, 2),
        (b"SSH-2.0-OpenSSH_9.2\r\n", FirstProtocol::Ssh, 4),
        (b"SSH /", FirstProtocol::Http1, 5),
        (b"\x10\x10\0\x04MQTT\x04\x02\0<\0\x04abcd", FirstProtocol::Mqtt, 8),
        (b"\x10\x8e\x02\0\x06MQIsdp\x03", FirstProtocol::Mqtt, 11),
        (b"\x10\xff\xff\xff\x7f\0\x04MQTT\x05", FirstProtocol::Mqtt, 11),
        (b"\x10\xff\xff\xff\xff", FirstProtocol::Unknown, 5),
        (b"\x10\x10\0\x05", FirstProtocol::Unknown, 4),
        (b"\x20", FirstProtocol::Unknown, 1),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", FirstProtocol::ProxyProtocol, 7),
        (b"PROXY UNKNOWN\r\n", FirstProtocol::ProxyProtocol, 7),
        (b"\r\n\r\n\0\r\nQUIT\n\x21", FirstProtocol::ProxyProtocol, 12),
        (b"\r\nG", FirstProtocol::Unknown, 3),
        (b"EHLO h.example\r\n", FirstProtocol::Unknown, 6),
        (b"*1\r\n$4\r\nPING\r\n", FirstProtocol::Unknown, 3),
        (b"PING\r\n", FirstProtocol::Unknown, 5),
        (b" GET /", FirstProtocol::Unknown, 1),
        (&[0, 0, 0, 8, 4, 210, 22, 47], FirstProtocol::Unknown, 1),
        (&[b'A'; 40], FirstProtocol::Unknown, METHOD_MAX_BYTES + 1),
    ];

    #[test]
    fn look_ends_where_no_wanted_protocol_can_follow() {
        use FirstProtocol::{Http1, Ssh, Tls};
        let set = |all: &[FirstProtocol]| all.iter().fold(ProtocolSet::default(), |set, one| set.with(*one));
        // bytes, wanted → bytes that are needed
        let rows: [(&[u8], &[FirstProtocol], Option<usize>); 8] = [
            (b"stats", &[Tls], Some(1)),
            (b"XXXXXX", &[Tls, Ssh], Some(1)),
            (b"SSX", &[Tls, Ssh], Some(3)),
            (b"stats", &[Http1], None),
            (b"stats\r\n", &[Http1], Some(6)),
            (&[22, 3, 1, 0, 5, 2], &[Tls], Some(6)),
            (&[22, 2], &[Tls], Some(2)),
            (b"x", &[], Some(0)),
        ];
        for (bytes, wanted, needed) in rows {
            let decided =
                (0..=bytes.len()).find(|cut| protocol_among(&bytes[..*cut], set(wanted)) != Look::More);
            assert_eq!(decided, needed, "{} among {wanted:?}", bytes.escape_ascii());
        }
        assert_eq!(set(&[Ssh, Tls]).protocols().collect::<Vec<_>>(), [Tls, Ssh]);
        assert!(ProtocolSet::default().is_empty());
    }

    #[test]
    fn protocol_is_known_at_its_byte_and_stays() {
        for (bytes, expected, at) in CASES {
            for cut in 0..*at {
                assert_eq!(protocol(&bytes[..cut]), Look::More, "{} cut at {cut}", bytes.escape_ascii());
            }
            for cut in *at..=bytes.len() {
                let text = bytes.escape_ascii();
                assert_eq!(protocol(&bytes[..cut]), Look::Found(*expected), "{text} cut at {cut}");
            }
        }
    }
}
