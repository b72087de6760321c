//! The ClientHello of TLS (RFC 8446 section 4.1.2): server name, protocols and whether it is encrypted, read
//! from records that are not taken. Everything that the RFCs forbid is refused, because the server behind
//! could find another name in it.

use std::net::IpAddr;

use super::Look;
use crate::byte_cursor::ByteCursor;

/// Most bytes, with the headers of records, that a ClientHello may take: two records of the largest size. One
/// with large post-quantum keys and a ticket takes 2 KiB to 4 KiB.
pub const CLIENT_HELLO_MAX_BYTES: usize = 32 * 1_024;

/// Bytes of a record's header, and of a handshake message's.
const RECORD_HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;
/// The most bytes of a record in the clear (RFC 8446 section 5.1).
const RECORD_MAX_BYTES: usize = 1 << 14;
/// The content type of handshake messages, and the message type of a ClientHello.
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const CLIENT_HELLO: u8 = 1;
/// The first byte of every version of TLS, and of SSL 3.0.
pub(super) const MAJOR_VERSION: u8 = 3;
/// Extensions that are looked into.
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
/// The only type of a server name (RFC 6066 section 3).
const HOST_NAME: u8 = 0;
/// The longest host name and its longest label (RFC 1035 section 2.3.4).
const HOST_NAME_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;
/// The longest session id (RFC 8446 section 4.1.2).
const SESSION_ID_MAX_BYTES: usize = 32;

/// The content of a ClientHello that routes ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name in lower case, without a dot at its end; the outer one where the ClientHello is
    /// encrypted. None if there is none, or an IP address, which is no host name.
    pub server_name: Option<Box<str>>,
    /// The protocols that the client offers, in its order. Those that are not printable ASCII, such as most
    /// names of GREASE, are left out, because no route can name them.
    pub alpn: Box<[Box<str>]>,
    /// Whether it has the extension of Encrypted Client Hello, which may be GREASE.
    pub has_ech: bool,
}

/// The ClientHello that `bytes` begin with. It may be split over records, and bytes behind it change nothing.
/// [`Look::No`] is the answer to other protocols, to a malformed ClientHello, and to one over
/// [`CLIENT_HELLO_MAX_BYTES`].
pub fn client_hello(bytes: &[u8]) -> Look<ClientHello> {
    match message(bytes) {
        Look::Found(message) => parse(&message).map_or(Look::No, Look::Found),
        Look::More if bytes.len() >= CLIENT_HELLO_MAX_BYTES => Look::No,
        Look::More => Look::More,
        Look::No => Look::No,
    }
}

/// The body of the handshake message, put together from its records once all of them are there.
fn message(bytes: &[u8]) -> Look<Vec<u8>> {
    let bytes = &bytes[..bytes.len().min(CLIENT_HELLO_MAX_BYTES)];
    let mut header = [0; MESSAGE_HEADER_BYTES];
    let (mut rest, mut got, mut whole) = (bytes, 0, usize::MAX);
    let mut message = Vec::new();
    loop {
        let Some(length) = record_length(rest) else { return Look::No };
        let Some(length) = length else { return Look::More };
        let behind = &rest[RECORD_HEADER_BYTES..];
        let (part, is_whole) = (&behind[..length.min(behind.len())], behind.len() >= length);
        for byte in part.iter().take(MESSAGE_HEADER_BYTES.saturating_sub(got)) {
            header[got] = *byte;
            got += 1;
            if got == 1 && header[0] != CLIENT_HELLO {
                return Look::No;
            }
            if got == MESSAGE_HEADER_BYTES {
                whole = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
            }
        }
        if whole != usize::MAX && whole > CLIENT_HELLO_MAX_BYTES - RECORD_HEADER_BYTES - MESSAGE_HEADER_BYTES
        {
            return Look::No;
        }
        message.extend_from_slice(part);
        if whole != usize::MAX && message.len() >= MESSAGE_HEADER_BYTES + whole {
            message.truncate(MESSAGE_HEADER_BYTES + whole);
            message.drain(..MESSAGE_HEADER_BYTES);
            return Look::Found(message);
        }
        if !is_whole {
            return Look::More;
        }
        rest = &behind[length..];
    }
}

/// The length of the handshake record at the front: `Some(None)` if its header is not whole, `None` if it is
/// no such record. Records without content are forbidden (RFC 8446 section 5.1).
#[expect(clippy::option_option, reason = "the two answers without a length differ")]
fn record_length(bytes: &[u8]) -> Option<Option<usize>> {
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE)
        || bytes.get(1).is_some_and(|major| *major != MAJOR_VERSION)
    {
        return None;
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<RECORD_HEADER_BYTES>() else { return Some(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    (1..=RECORD_MAX_BYTES).contains(&length).then_some(Some(length))
}

/// The content of a whole message; none if it is malformed.
fn parse(body: &[u8]) -> Option<ClientHello> {
    let mut cursor = ByteCursor(body);
    let [major, _] = cursor.number()?.to_be_bytes();
    cursor.take(32)?;
    let session_id = cursor.short()?;
    let suites = cursor.long()?;
    let compressions = cursor.short()?;
    let is_sound = major == MAJOR_VERSION
        && session_id.len() <= SESSION_ID_MAX_BYTES
        && !suites.is_empty()
        && suites.len().is_multiple_of(2)
        && !compressions.is_empty();
    if !is_sound {
        return None;
    }
    let mut hello = ClientHello::default();
    if cursor.0.is_empty() {
        return Some(hello);
    }
    let mut extensions = ByteCursor(cursor.long()?);
    if !cursor.0.is_empty() {
        return None;
    }
    let (mut has_name, mut has_alpn) = (false, false);
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let content = extensions.long()?;
        match kind {
            SERVER_NAME if !has_name => {
                has_name = true;
                hello.server_name = server_name(content)?;
            }
            ALPN if !has_alpn => {
                has_alpn = true;
                hello.alpn = protocols(content)?;
            }
            // A second one could be the one that the server behind reads.
            SERVER_NAME | ALPN => return None,
            ENCRYPTED_CLIENT_HELLO => hello.has_ech = true,
            _ => {}
        }
    }
    Some(hello)
}

/// The one host name of the extension; the inner none is an IP address, the outer one a malformed extension.
#[expect(clippy::option_option, reason = "no name and a malformed one differ")]
fn server_name(content: &[u8]) -> Option<Option<Box<str>>> {
    let mut cursor = ByteCursor(content);
    let mut names = ByteCursor(cursor.long()?);
    if !cursor.0.is_empty() || names.byte()? != HOST_NAME {
        return None;
    }
    let name = std::str::from_utf8(names.long()?).ok()?;
    if !names.0.is_empty() {
        return None;
    }
    if name.parse::<IpAddr>().is_ok() {
        return Some(None);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    is_host_name(name).then(|| Some(name.to_ascii_lowercase().into()))
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_MAX_BYTES).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.len() <= HOST_NAME_MAX_BYTES && name.split('.').all(is_label)
}

/// The protocols of the extension (RFC 7301 section 3.1).
fn protocols(content: &[u8]) -> Option<Box<[Box<str>]>> {
    let mut cursor = ByteCursor(content);
    let mut names = ByteCursor(cursor.long()?);
    if !cursor.0.is_empty() || names.0.is_empty() {
        return None;
    }
    let mut protocols = Vec::new();
    while !names.0.is_empty() {
        let name = names.short()?;
        if name.is_empty() {
            return None;
        }
        if let Some(name) =
            std::str::from_utf8(name).ok().filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            protocols.push(name.into());
        }
    }
    Some(protocols.into())
}

#[cfg(test)]
mod tests;
