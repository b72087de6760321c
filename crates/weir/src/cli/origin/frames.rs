//! A WebSocket echo server (RFC 6455): handshake and frames, without extensions. Does no I/O.

use peer::head::split_field;
use peer::websocket::{
    BINARY, CLOSE, CONTINUATION, FINAL, HEADER_BYTES_MAX, Header, MASKED, PING, PONG, RESERVED, TEXT, accept,
};

use super::request::OriginRequestHead;

/// The result of a handshake.
pub(super) enum Handshake {
    /// Frames follow; the value of `Sec-WebSocket-Accept`.
    Accepted(String),
    /// No handshake of version 13: the status of the response, and the missing field.
    Refused(u16, &'static str),
}

/// Checks a request against RFC 6455, 4.2.1.
pub(super) fn handshake(head: &OriginRequestHead<'_>) -> Handshake {
    let value = |wanted: &[u8]| {
        let mut fields = head.fields.split(|&byte| byte == b'\n').filter_map(split_field);
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let has = |name: &[u8], token: &[u8]| {
        value(name).is_some_and(|value| {
            value.split(|&byte| byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
        })
    };
    if head.method != b"GET"
        || !head.is_1_1
        || !has(b"upgrade", b"websocket")
        || !has(b"connection", b"upgrade")
    {
        return Handshake::Refused(426, "this path speaks WebSocket\n");
    }
    if value(b"sec-websocket-version") != Some(b"13") {
        return Handshake::Refused(426, "Sec-WebSocket-Version is to be 13\n");
    }
    match value(b"sec-websocket-key").and_then(|key| std::str::from_utf8(key).ok()) {
        Some(key) if key.len() == KEY_LENGTH => Handshake::Accepted(accept(key)),
        _ => Handshake::Refused(400, "Sec-WebSocket-Key is to be 16 bytes in base64\n"),
    }
}

/// The frames of one client. Payload is echoed as it arrives, so that the length of a frame does not matter.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    payload: Option<FramePayload>,
}

/// The rest of a frame.
#[derive(Clone, Copy, Debug)]
struct FramePayload {
    left: u64,
    mask: [u8; 4],
    /// Payload bytes so far, which select the byte of the mask.
    at: usize,
    opcode: u8,
}

impl Frames {
    /// Reads all of `input` and writes the echo to `output`; false after a close frame or an invalid frame.
    pub(super) fn take(&mut self, mut input: &[u8], output: &mut Vec<u8>) -> bool {
        loop {
            if let Some(payload) = &mut self.payload {
                let taken = usize::try_from(payload.left).unwrap_or(usize::MAX).min(input.len());
                payload.take(&input[..taken], output);
                input = &input[taken..];
                if payload.left > 0 {
                    return true;
                }
                let ends = payload.opcode == CLOSE;
                (self.payload, self.header_bytes) = (None, 0);
                if ends {
                    return false;
                }
            }
            let Some((&byte, rest)) = input.split_first() else { return true };
            input = rest;
            self.header[self.header_bytes] = byte;
            self.header_bytes += 1;
            match self.begin(output) {
                Ok(payload) => self.payload = payload,
                Err(()) => {
                    output.extend_from_slice(&PROTOCOL_ERROR);
                    return false;
                }
            }
        }
    }

    /// The frame, once its header is complete; writes the header of the echo. Fails at a frame that RFC 6455
    /// forbids a client to send.
    fn begin(&self, output: &mut Vec<u8>) -> Result<Option<FramePayload>, ()> {
        let header = &self.header[..self.header_bytes];
        let &[first, second, ..] = header else { return Ok(None) };
        let (opcode, short) = (first & 0x0f, second & !MASKED);
        let is_known = matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG);
        let is_bad_control = opcode >= CLOSE && (short > 125 || first & FINAL == 0);
        if first & RESERVED != 0 || second & MASKED == 0 || !is_known || is_bad_control {
            return Err(());
        }
        let Some(Header { length, mask, .. }) = Header::parse(header) else { return Ok(None) };
        let answer = match opcode {
            PONG => None,
            PING => Some(FINAL | PONG),
            // The same frame without its mask.
            _ => Some(first),
        };
        if let Some(first) = answer {
            Header { first, length, mask: None }.write(output);
        }
        Ok(Some(FramePayload { left: length, mask: mask.unwrap_or_default(), at: 0, opcode }))
    }
}

impl FramePayload {
    fn take(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        if self.opcode != PONG {
            let (at, mask) = (self.at, self.mask);
            output.extend(bytes.iter().enumerate().map(|(number, byte)| byte ^ mask[(at + number) % 4]));
        }
        self.at = (self.at + bytes.len()) % 4;
        self.left -= bytes.len() as u64;
    }
}

/// A close frame with status 1002 (RFC 6455 7.4.1).
const PROTOCOL_ERROR: [u8; 4] = [FINAL | CLOSE, 2, 0x03, 0xea];
/// 16 bytes in base64.
const KEY_LENGTH: usize = 24;

#[cfg(test)]
mod tests {
    use super::super::request::parse_head;
    use super::*;

    #[test]
    fn handshakes() {
        let check = |fields: &str, wanted: Result<&str, u16>| {
            let text = format!("GET /echo-frames HTTP/1.1\r\n{fields}\r\n");
            let head = parse_head(text.as_bytes()).unwrap().unwrap();
            match (handshake(&head), wanted) {
                (Handshake::Accepted(had), Ok(wanted)) => assert_eq!(had, wanted, "{fields}"),
                (Handshake::Refused(had, _), Err(wanted)) => assert_eq!(had, wanted, "{fields}"),
                _ => panic!("{fields}"),
            }
        };
        let upgrade = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n";
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let version = "Sec-WebSocket-Version: 13\r\n";
        // The example of RFC 6455 1.3.
        check(&format!("{upgrade}{key}{version}"), Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        check(&format!("{upgrade}{key}"), Err(426));
        check(&format!("{key}{version}"), Err(426));
        check(&format!("Upgrade: websocket\r\n{key}{version}"), Err(426));
        check(&format!("Upgrade: h2c\r\nConnection: Upgrade\r\n{key}{version}"), Err(426));
        check(&format!("{upgrade}{version}"), Err(400));
        check(&format!("{upgrade}Sec-WebSocket-Key: short\r\n{version}"), Err(400));
    }

    /// A frame of a client.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        peer::websocket::frame(first, payload, Some(*b"mask"))
    }

    /// A frame of the server.
    fn served(first: u8, payload: &[u8]) -> Vec<u8> {
        peer::websocket::frame(first, payload, None)
    }

    #[test]
    fn frames_are_echoed_in_any_pieces() {
        let check = |input: &[Vec<u8>], wanted: &[Vec<u8>], goes_on: bool| {
            let input = input.concat();
            for piece in [1, 2, 3, 7, 1000, input.len()] {
                let (mut frames, mut output, mut going) = (Frames::default(), Vec::new(), true);
                for bytes in input.chunks(piece) {
                    going = going && frames.take(bytes, &mut output);
                }
                assert_eq!((going, &output), (goes_on, &wanted.concat()), "by {piece}");
            }
        };
        check(&[frame(0x82, b"hello")], &[served(0x82, b"hello")], true);
        check(&[frame(0x81, b"")], &[served(0x81, b"")], true);
        check(
            &[frame(0x01, b"he"), frame(0x89, b"ping"), frame(0x80, b"llo")],
            &[served(0x01, b"he"), served(0x8a, b"ping"), served(0x80, b"llo")],
            true,
        );
        check(&[frame(0x8a, b"late"), frame(0x82, b"x")], &[served(0x82, b"x")], true);
        check(&[frame(0x88, b"\x03\xe8bye"), frame(0x82, b"x")], &[served(0x88, b"\x03\xe8bye")], false);
        for length in [125, 126, 65_535, 65_536] {
            let payload = vec![b'p'; length];
            check(&[frame(0x82, &payload)], &[served(0x82, &payload)], true);
        }
    }

    #[test]
    fn invalid_client_frame_ends_connection() {
        for bytes in [&served(0x82, b"hello")[..], &[0xc2, 0x80], &[0x83, 0x80], &[0x09, 0x80], &[0x88, 0xfe]]
        {
            let mut output = Vec::new();
            assert!(!Frames::default().take(bytes, &mut output), "{bytes:x?}");
            assert_eq!(output, PROTOCOL_ERROR, "{bytes:x?}");
        }
    }
}
