//! A naive peer: frames as bytes, header blocks without compression, and connections behind their handshake.

use http2::{Config, Connection, ErrorCode, Event, RequestTarget, StreamKey, hpack};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 32;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The frames of some bytes, which end with a frame. A preface at the start is skipped.
pub(crate) fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut rest = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let stream = u32::from_be_bytes(rest[5..9].try_into().unwrap());
        frames.push(Frame { kind: rest[3], flags: rest[4], stream, payload: rest[9..9 + length].to_vec() });
        rest = &rest[9 + length..];
    }
    frames
}

/// A header block of literals without Huffman code and without table.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let text = |block: &mut Vec<u8>, text: &str| {
        if text.len() < 127 {
            block.push(text.len() as u8);
        } else {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push(rest as u8 & 127 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text.as_bytes());
    };
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// A HEADERS frame with a whole block.
pub(crate) fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
pub(crate) const TARGET: RequestTarget<'static> = RequestTarget {
    method: b"GET",
    scheme: "https",
    authority: b"h",
    path: b"/",
    query: None,
    protocol: None,
};

/// A request without content.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, &GET)
}

/// The head of a request with content.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, &POST)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

/// A SETTINGS frame.
pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(SETTINGS, 0, 0, &payload)
}

/// A server behind its handshake, with an empty output and without events.
pub(crate) fn server(config: Config) -> Connection {
    let mut connection = Connection::server(config);
    feed(&mut connection, PREFACE);
    feed(&mut connection, &settings(&[]));
    feed(&mut connection, &frame(SETTINGS, ACK, 0, &[]));
    quiet(&mut connection);
    connection
}

/// A client behind its handshake, with an empty output and without events.
pub(crate) fn client(config: Config) -> Connection {
    let mut connection = Connection::client(config);
    feed(&mut connection, &settings(&[(8, 1)]));
    feed(&mut connection, &frame(SETTINGS, ACK, 0, &[]));
    quiet(&mut connection);
    connection
}

fn quiet(connection: &mut Connection) {
    assert_eq!(events(connection), [Event::SettingsChanged]);
    sent(connection);
}

/// Receives bytes that are accepted.
pub(crate) fn feed(connection: &mut Connection, bytes: &[u8]) {
    assert_eq!(connection.receive(bytes, 0), Ok(bytes.len()));
}

/// All events that are there.
pub(crate) fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.next_event()).collect()
}

/// The frames in the output, which is written as a whole.
pub(crate) fn sent(connection: &mut Connection) -> Vec<Frame> {
    let mut bytes = Vec::new();
    while connection.output_bytes() > 0 {
        bytes.extend_from_slice(connection.output());
        connection.advance(connection.output().len());
    }
    frames(&bytes)
}

/// The key of the only event, a head.
pub(crate) fn head(connection: &mut Connection) -> StreamKey {
    let events = events(connection);
    match events[..] {
        [Event::Head(key)] => key,
        _ => panic!("one head, not {events:?}"),
    }
}

/// A request that arrived on a server.
pub(crate) fn accepted(connection: &mut Connection, request: &[u8]) -> StreamKey {
    feed(connection, request);
    head(connection)
}

/// A request of a client without content.
pub(crate) fn started(connection: &mut Connection) -> StreamKey {
    connection.start_request(&TARGET).unwrap().finish(true)
}

/// Decodes the block of a HEADERS frame with the decoder of the connection.
pub(crate) fn fields(decoder: &mut hpack::Decoder, block: &[u8]) -> Vec<String> {
    struct Lines(Vec<String>);
    impl hpack::FieldVisitor for Lines {
        fn field(&mut self, field: &hpack::Field<'_>) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.0.push(format!("{}: {}", text(field.name), text(field.value)));
        }
    }
    let mut lines = Lines(Vec::new());
    decoder.decode(block, &mut lines).unwrap();
    lines.0
}

/// The code of the last GOAWAY frame.
pub(crate) fn goaway_code(frames: &[Frame]) -> Option<ErrorCode> {
    let frame = frames.iter().rev().find(|frame| frame.kind == GOAWAY)?;
    Some(ErrorCode(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap())))
}

/// Streams and codes of the RST_STREAM frames.
pub(crate) fn resets(frames: &[Frame]) -> Vec<(u32, ErrorCode)> {
    let code = |frame: &Frame| ErrorCode(u32::from_be_bytes(frame.payload[..].try_into().unwrap()));
    frames.iter().filter(|frame| frame.kind == RST_STREAM).map(|frame| (frame.stream, code(frame))).collect()
}
