//! A peer that sends any frames it likes, as raw bytes. It keeps no rule of the protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// A frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// A literal field without indexing (RFC 7541 section 6.2.2). Its name and its value are not Huffman-coded
/// and have to be shorter than 127 bytes each.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// The block of `GET / http` for the host `h`, ready for more fields.
pub(super) fn get_block() -> Vec<u8> {
    [vec![0x82, 0x86, 0x84], literal(":authority", "h")].concat()
}

/// A frame as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The code of a RST_STREAM or GOAWAY.
    pub(super) fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap()))
    }
}

/// A connection of raw frames.
pub(super) struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Raw {
    /// Connects and sends nothing.
    pub(super) fn connect_bare(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Raw { stream, received: Vec::new() }
    }

    /// Connects and sends the preface with SETTINGS of `settings` (identifier, value).
    pub(super) fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Raw {
        let mut raw = Raw::connect_bare(address);
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        raw.send(&[PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat());
        raw
    }

    /// Sends bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// Sends bytes; an error if the connection has ended.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits until the gateway has read all that was sent, so that the next bytes come with another read.
    pub(super) fn wait_until_read(&self) {
        testkit::wait_until_read(&self.stream);
    }

    /// The next frame; none at the end of the connection, a reset included.
    pub(super) fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(header) = self.received.first_chunk::<9>() {
                let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                let (kind, flags) = (header[3], header[4]);
                let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
                if self.received.len() >= 9 + length {
                    let payload = self.received[9..9 + length].to_vec();
                    self.received.drain(..9 + length);
                    return Some(Frame { kind, flags, stream, payload });
                }
            }
            let mut room = [0; 16 * 1024];
            match self.stream.read(&mut room) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no frame within 20 s: {error}"),
            }
        }
    }

    /// The next frame that `wanted` accepts; none if the connection ends before it.
    pub(super) fn find(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// The code of GOAWAY with an error, with which the connection ends.
    pub(super) fn failure(&mut self) -> Option<u32> {
        let goaway = self.find(|frame| frame.kind == GOAWAY && frame.code() != Some(0))?;
        goaway.code()
    }
}
