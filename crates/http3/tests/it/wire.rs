//! A naive peer: frames as bytes, field sections without compression, and connections behind their SETTINGS.

use http3::{
    Config, Connection, ConnectionError, Event, Fault, RequestEvent, RequestReader, UniState, UniStream,
};
use message::{Headers, RequestHead, ResponseHead};

pub(crate) const DATA: u64 = 0;
pub(crate) const HEADERS: u64 = 1;
pub(crate) const CANCEL_PUSH: u64 = 3;
pub(crate) const SETTINGS: u64 = 4;
pub(crate) const PUSH_PROMISE: u64 = 5;
pub(crate) const GOAWAY: u64 = 7;
pub(crate) const MAX_PUSH_ID: u64 = 13;
pub(crate) const PRIORITY_UPDATE: u64 = 0xf0700;
pub(crate) const UNKNOWN: u64 = 0x21;

pub(crate) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
pub(crate) const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "h")];
pub(crate) const CONNECT: [(&str, &str); 2] = [(":method", "CONNECT"), (":authority", "h:1")];

/// An integer of QUIC in a form of eight bytes if it is large, else of one, two or four.
pub(crate) fn integer(value: u64) -> Vec<u8> {
    match value {
        0..64 => vec![value as u8],
        64..16_384 => (0x4000 | value as u16).to_be_bytes().to_vec(),
        16_384..1_073_741_824 => (0x8000_0000 | value as u32).to_be_bytes().to_vec(),
        _ => (0xC000_0000_0000_0000 | value).to_be_bytes().to_vec(),
    }
}

/// A frame as bytes.
pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&integer(kind)[..], &integer(payload.len() as u64), payload].concat()
}

/// A field section of literals without Huffman code.
pub(crate) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    let length = |section: &mut Vec<u8>, pattern: u8, mask: usize, length: usize| {
        if length < mask {
            return section.push(pattern | length as u8);
        }
        section.push(pattern | mask as u8);
        let mut rest = length - mask;
        while rest >= 128 {
            section.push(rest as u8 & 127 | 128);
            rest >>= 7;
        }
        section.push(rest as u8);
    };
    for (name, value) in fields {
        length(&mut section, 0x20, 7, name.len());
        section.extend_from_slice(name.as_bytes());
        length(&mut section, 0, 127, value.len());
        section.extend_from_slice(value.as_bytes());
    }
    section
}

/// A HEADERS frame.
pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, &section(fields))
}

/// A HEADERS frame with further fields.
pub(crate) fn headers_with(start: &[(&str, &str)], fields: &[(&str, &str)]) -> Vec<u8> {
    headers(&[start, fields].concat())
}

/// The start of a control stream with its SETTINGS.
pub(crate) fn control(settings: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> =
        settings.iter().flat_map(|&(name, value)| [integer(name), integer(value)].concat()).collect();
    [vec![0], frame(SETTINGS, &payload)].concat()
}

/// A connection that has received these settings, and the control stream of its peer.
pub(crate) fn settled(mut connection: Connection, settings: &[(u64, u64)]) -> (Connection, UniStream) {
    let mut uni = UniStream::new();
    assert_eq!(connection.receive_uni(&mut uni, &control(settings)), Ok(UniState::Open));
    assert_eq!(connection.next_event(), Some(Event::SettingsArrived));
    connection.advance_control(connection.control_output().len());
    (connection, uni)
}

/// A server that has received SETTINGS, and the control stream of its client.
pub(crate) fn server() -> (Connection, UniStream) {
    settled(Connection::server(Config::default()), &[])
}

/// A client that has received SETTINGS with extended CONNECT, and the control stream of its server.
pub(crate) fn client() -> (Connection, UniStream) {
    settled(Connection::client(Config::default()), &[(8, 1)])
}

/// Everything that was read from a request stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// One line for each head, then the trailers.
    pub(crate) lines: Vec<String>,
    pub(crate) data: Vec<u8>,
    pub(crate) fault: Option<Fault>,
}

/// Feeds a request stream in pieces that end at the cuts, then its end if `is_ended`.
pub(crate) fn read(
    connection: &mut Connection,
    reader: &mut RequestReader,
    input: &[u8],
    cuts: impl Iterator<Item = usize>,
    is_ended: bool,
) -> Read {
    let (mut read, mut at) = (Read::default(), 0);
    for cut in cuts.chain([input.len()]) {
        while at < cut {
            let part = &input[at..cut];
            let step = match reader.read(connection, part) {
                Ok(step) => step,
                Err(fault) => {
                    read.fault = Some(fault);
                    return read;
                }
            };
            assert!(step.event.is_some() || step.consumed == part.len(), "input was left without an event");
            match step.event {
                Some(RequestEvent::Head) => read.lines.push(head_line(reader)),
                Some(RequestEvent::HeadTooLarge) => read.lines.push("too large".into()),
                Some(RequestEvent::Data(range)) => {
                    assert!(!range.is_empty() && range.end == step.consumed);
                    read.data.extend_from_slice(&part[range]);
                }
                None => {}
            }
            at += step.consumed;
        }
    }
    if is_ended {
        read.fault = reader.finish(connection).err();
    }
    let mut trailers = Headers::new();
    if reader.take_trailers(&mut trailers) {
        read.lines.push(fields(&trailers));
    }
    read
}

fn head_line(reader: &mut RequestReader) -> String {
    let (mut request, mut response) = (RequestHead::new(), ResponseHead::new());
    if reader.take_request(&mut request).is_some() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let start = [text(request.method_text()), text(request.target_text())].join(" ");
        return start + " " + &fields(&request.headers);
    }
    reader.take_response(&mut response).unwrap();
    assert!(reader.take_response(&mut response).is_none(), "a head is taken once");
    format!("{} {}", response.status, fields(&response.headers))
}

/// The fields as `name=value;`.
pub(crate) fn fields(headers: &Headers) -> String {
    headers
        .iter()
        .map(|field| format!("{}={};", field.name.escape_ascii(), field.value.escape_ascii()))
        .collect()
}

/// Reads a whole request on a new server.
pub(crate) fn request(input: &[u8]) -> Read {
    let (mut connection, _control) = server();
    let mut reader = connection.open_request(0).unwrap();
    read(&mut connection, &mut reader, input, [].into_iter(), true)
}

/// Reads a whole response to a request with this method on a new client.
pub(crate) fn response(method: &'static str, input: &[u8]) -> Read {
    let (mut connection, _control) = client();
    let target = http3::RequestTarget {
        method: method.as_bytes(),
        scheme: "https",
        authority: b"h",
        path: b"/",
        query: None,
        protocol: None,
    };
    let mut reader = connection.start_request(0, &target).unwrap();
    read(&mut connection, &mut reader, input, [].into_iter(), true)
}

/// The error of a unidirectional stream with these bytes, on a connection that may have received SETTINGS.
pub(crate) fn uni_error(mut connection: Connection, input: &[u8]) -> Option<ConnectionError> {
    connection.receive_uni(&mut UniStream::new(), input).err()
}
