//! The client's side of WebSocket (RFC 6455), as far as an echo needs it: the handshake with its proof
//! checked, one masked message, and the comparison of its echo. It does no I/O.

use peer::Fault;
use peer::websocket::{
    BINARY, CLOSE, CONTINUATION, FINAL, HEADER_BYTES_MAX, Header, MASKED, PING, PONG, RESERVED, accept, frame,
};

/// A handshake's request. The key is the same each time, because it only has to prove that the server
/// understood the request.
pub(super) fn handshake(host: &str, path: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    .into_bytes()
}

/// A final binary frame of a client. The mask is the same for all: proxies only pass it on, and making one
/// each time would be measured.
pub(super) fn message(payload: &[u8]) -> Vec<u8> {
    frame(FINAL | BINARY, payload, Some(MASK))
}

/// The answer to a ping.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    frame(FINAL | PONG, payload, Some(MASK))
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeFailure {
    /// The answer had another status than 101.
    Status(u16),
    /// It is no valid handshake.
    Content(&'static str),
}

/// Searches the received bytes for the head of a handshake's response; returns its length if it is complete
/// and valid.
pub(super) fn check_handshake(came: &[u8]) -> Result<Option<usize>, HandshakeFailure> {
    let Some(end) = memchr::memmem::find(came, b"\r\n\r\n") else {
        let long = came.len() > LONGEST_HEAD_BYTES;
        return if long {
            Err(HandshakeFailure::Content("a handshake longer than 64 KiB"))
        } else {
            Ok(None)
        };
    };
    let status = came.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match status {
        Some(101) if came.starts_with(b"HTTP/1.1 ") => {}
        Some(status) if came.starts_with(b"HTTP/1.") => return Err(HandshakeFailure::Status(status)),
        _ => return Err(HandshakeFailure::Content("a handshake that begins with no status line")),
    }
    let wanted = accept(KEY);
    let proven = came[..end].split(|&byte| byte == b'\n').any(|line| {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
        line[..colon].eq_ignore_ascii_case(b"sec-websocket-accept")
            && line[colon + 1..].trim_ascii() == wanted.as_bytes()
    });
    if !proven {
        return Err(HandshakeFailure::Content("a handshake whose Sec-WebSocket-Accept does not fit the key"));
    }
    Ok(Some(end + 4))
}

/// Reads the frames of a server and compares the message in them with what was sent.
#[derive(Debug, Default)]
pub(super) struct Echo {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    /// Missing bytes of the frame's payload; `None` while its header is incomplete.
    left: Option<u64>,
    /// Payload of the message so far.
    bytes: usize,
    differs: bool,
    /// Payload of a control frame.
    control: Vec<u8>,
}

/// A complete message or control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A whole message: whether it was the one that was sent, and its length.
    Message { same: bool, bytes: usize },
    /// A ping, to be answered.
    Ping(Vec<u8>),
    /// The server closes.
    Close,
}

impl Echo {
    /// Takes bytes up to the end of the first message or control frame; returns how many it took.
    pub(super) fn take(&mut self, bytes: &[u8], sent: &[u8]) -> Result<(usize, Option<Heard>), Fault> {
        let mut used = 0;
        loop {
            let Some(left) = self.left else {
                let Some(byte) = bytes.get(used) else { return Ok((used, None)) };
                self.header[self.header_bytes] = *byte;
                (used, self.header_bytes) = (used + 1, self.header_bytes + 1);
                self.left = self.parse_header()?;
                continue;
            };
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - used);
            let piece = &bytes[used..used + taken];
            used += taken;
            if self.opcode() >= CLOSE {
                self.control.extend_from_slice(piece);
            } else {
                let wanted = sent.get(self.bytes..).and_then(|rest| rest.get(..piece.len()));
                self.differs |= wanted != Some(piece);
                self.bytes += piece.len();
            }
            self.left = Some(left - taken as u64);
            if taken as u64 != left {
                return Ok((used, None));
            }
            (self.left, self.header_bytes) = (None, 0);
            if let Some(heard) = self.hear(sent.len()) {
                return Ok((used, Some(heard)));
            }
        }
    }

    /// Handles the end of a frame.
    fn hear(&mut self, sent_bytes: usize) -> Option<Heard> {
        let is_final = self.header[0] & FINAL != 0;
        match self.opcode() {
            PING => Some(Heard::Ping(std::mem::take(&mut self.control))),
            CLOSE => Some(Heard::Close),
            PONG => {
                self.control.clear();
                None
            }
            _ if !is_final => None,
            _ => {
                let same = !self.differs && self.bytes == sent_bytes;
                let bytes = std::mem::take(&mut self.bytes);
                self.differs = false;
                Some(Heard::Message { same, bytes })
            }
        }
    }

    fn opcode(&self) -> u8 {
        self.header[0] & 0x0f
    }

    /// The length of the payload once the header is whole (RFC 6455 5.2).
    fn parse_header(&self) -> Result<Option<u64>, Fault> {
        let header = &self.header[..self.header_bytes];
        let &[first, second, ..] = header else { return Ok(None) };
        if second & MASKED != 0 {
            return Err(Fault("a masked frame of a server"));
        }
        if first & RESERVED != 0 || !matches!(self.opcode(), CONTINUATION | BINARY | CLOSE | PING | PONG) {
            return Err(Fault("a frame of a kind that was not asked for"));
        }
        if self.opcode() >= CLOSE && (second > 125 || first & FINAL == 0) {
            return Err(Fault("a control frame that is long or in pieces"));
        }
        if self.opcode() < CLOSE && (self.opcode() == CONTINUATION) != (self.bytes > 0) {
            return Err(Fault("a message's frames in a wrong order"));
        }
        Ok(Header::parse(header).map(|header| header.length))
    }
}

/// Any 16 bytes in base64.
const KEY: &str = "d2VpciBsYWIgbG9hZCAxMw==";
const MASK: [u8; 4] = [0x5a, 0xc3, 0x17, 0x8e];
const LONGEST_HEAD_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_sixteen_bytes() {
        assert_eq!(data_encoding::BASE64.decode(KEY.as_bytes()).unwrap().len(), 16);
    }

    #[test]
    fn handshakes() {
        let check = |answer: &str, wanted: Result<Option<usize>, HandshakeFailure>| {
            assert_eq!(check_handshake(answer.as_bytes()), wanted, "{answer:?}");
        };
        let good =
            format!("HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: {}\r\n\r\n", accept(KEY));
        check(&good, Ok(Some(good.len())));
        check(&format!("{good}\u{2}"), Ok(Some(good.len())));
        for cut in 0..good.len() {
            check(&good[..cut], Ok(None));
        }
        check("HTTP/1.1 502 Bad Gateway\r\n\r\n", Err(HandshakeFailure::Status(502)));
        let unproven =
            HandshakeFailure::Content("a handshake whose Sec-WebSocket-Accept does not fit the key");
        check("HTTP/1.1 101 Switching Protocols\r\n\r\n", Err(unproven));
        check("HTTP/1.1 101 X\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", Err(unproven));
        let garbage = HandshakeFailure::Content("a handshake that begins with no status line");
        check("hello\r\n\r\n", Err(garbage));
    }

    /// All messages and control frames if `bytes` arrive in pieces of this size.
    fn hear(bytes: &[u8], sent: &[u8], piece: usize) -> Result<Vec<Heard>, Fault> {
        let (mut echo, mut all) = (Echo::default(), Vec::new());
        for mut rest in bytes.chunks(piece) {
            while !rest.is_empty() {
                let (used, heard) = echo.take(rest, sent)?;
                all.extend(heard);
                rest = &rest[used..];
            }
        }
        Ok(all)
    }

    /// A server's frame.
    fn served(first: u8, payload: &[u8]) -> Vec<u8> {
        frame(first, payload, None)
    }

    #[test]
    fn echo_is_compared_with_message() {
        let check = |frames: &[Vec<u8>], wanted: &[Heard]| {
            let bytes = frames.concat();
            for piece in 1..=bytes.len() {
                assert_eq!(hear(&bytes, b"hello", piece).as_deref(), Ok(wanted), "{bytes:x?} by {piece}");
            }
        };
        let same = Heard::Message { same: true, bytes: 5 };
        let other = |bytes| Heard::Message { same: false, bytes };
        check(&[served(0x82, b"hello")], std::slice::from_ref(&same));
        check(&[served(0x82, b"hello"), served(0x82, b"hello")], &[same.clone(), same.clone()]);
        check(&[served(0x02, b"he"), served(0x00, b"l"), served(0x80, b"lo")], std::slice::from_ref(&same));
        let ping = Heard::Ping(b"x".to_vec());
        check(&[served(0x02, b"he"), served(0x89, b"x"), served(0x80, b"llo")], &[ping, same.clone()]);
        check(&[served(0x8a, b"late"), served(0x82, b"hello")], &[same]);
        check(&[served(0x82, b"hallo")], &[other(5)]);
        check(&[served(0x82, b"hell")], &[other(4)]);
        check(&[served(0x82, b"hello!")], &[other(6)]);
        check(&[served(0x82, b"")], &[other(0)]);
        check(&[served(0x88, b"\x03\xe8")], &[Heard::Close]);
    }

    #[test]
    fn long_messages_have_long_lengths() {
        for length in [125, 126, 65_535, 65_536] {
            let payload = vec![b'p'; length];
            let bytes = served(0x82, &payload);
            let wanted = [Heard::Message { same: true, bytes: length }];
            assert_eq!(hear(&bytes, &payload, 1000).as_deref(), Ok(&wanted[..]), "{length}");
            let own = message(&payload);
            let (head, masked) = own.split_at(own.len() - length);
            assert_eq!(head[head.len() - 4..], MASK);
            assert!(masked.iter().zip(MASK.iter().cycle()).all(|(byte, mask)| byte ^ mask == b'p'));
            assert_eq!(head.len(), bytes.len() - length + 4);
        }
        assert_eq!(pong(b"x")[..2], [0x8a, 0x81]);
    }

    #[test]
    fn frames_that_no_server_sends() {
        let check = |bytes: &[u8], reason: &str| {
            let said = hear(bytes, b"hello", 1).unwrap_err().0;
            assert!(said.contains(reason), "{bytes:x?}: {said}");
        };
        check(&message(b"hello"), "masked");
        check(&[0xc2, 0], "not asked for");
        check(&[0x83, 0], "not asked for");
        check(&[0x09, 0], "in pieces");
        check(&[0x89, 126, 0, 0], "long");
        check(&served(0x80, b"hello"), "wrong order");
        check(&[served(0x02, b"he"), served(0x82, b"llo")].concat(), "wrong order");
    }
}
