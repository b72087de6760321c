//! Oracle of the HTTP/2 engine, for any bytes: a server, a client, or the decoder of header blocks receives
//! them.

use http2::{
    BodyState, Config, Connection, ConnectionError, FieldSink, Limits, RequestTarget, StreamKey, hpack,
};
use message::{FieldId, FieldSet, Headers, RequestHead, ResponseHead};

use super::decoded_fields::DecodedFields;
use super::steering::steering;

/// The input is three steering bytes and what is received. The low switches choose the receiver; with the
/// third one a server finds preface and SETTINGS before the input.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let (input, cuts) = (steering.input, steering.cuts);
    let with_handshake = steering.switches & 4 != 0;
    match steering.switches & 3 {
        0 | 1 => {
            let start: &[u8] = if with_handshake { HANDSHAKE } else { b"" };
            let whole = run(server(start), input, [].into_iter());
            assert_eq!(run(server(start), input, cuts.into_iter()), whole, "cut at {cuts:?}");
            assert_eq!(run(server(start), input, 0..input.len()), whole, "byte by byte");
        }
        2 => {
            let whole = run(client(), input, [].into_iter());
            assert_eq!(run(client(), input, cuts.into_iter()), whole, "cut at {cuts:?}");
        }
        _ => blocks(input, cuts),
    }
}

/// The fields of decoded blocks survive encoding and decoding, and a decoder that starts anew agrees.
fn blocks(input: &[u8], cuts: [usize; 2]) {
    let (mut decoder, mut again) = (hpack::Decoder::new(TABLE_BYTES), hpack::Decoder::new(TABLE_BYTES));
    let (mut encoder, mut second) = (hpack::Encoder::new(), hpack::Decoder::new(4096));
    for block in [&input[..cuts[0]], &input[cuts[0]..cuts[1]], &input[cuts[1]..]] {
        let (mut fields, mut same) = (DecodedFields::default(), DecodedFields::default());
        let result = decoder.decode(block, &mut fields);
        assert_eq!(again.decode(block, &mut same), result);
        assert_eq!(fields.0, same.0);
        assert!(fields.0.len() <= block.len(), "every field takes a byte");
        assert!(decoder.memory() <= TABLE_MEMORY_BYTES, "{}", decoder.memory());
        if result.is_err() {
            return;
        }
        // An encoder is given names of messages only, and writes them in lower case.
        fields.0.retain(|field| message::syntax::is_token(&field.name));
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for field in &mut fields.0 {
            encoder.field(&mut out, FieldId::of(&field.name), &field.name, &field.value, field.is_sensitive);
            field.name.make_ascii_lowercase();
        }
        let mut read = DecodedFields::default();
        second.decode(&out, &mut read).expect("what we encode is well-formed");
        read.assert_same(&fields);
    }
}

/// Everything that a driver sees of a connection that received everything before it looked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    lines: Vec<String>,
    error: Option<ConnectionError>,
    output: Vec<u8>,
}

fn server(start: &[u8]) -> Connection {
    let mut server = Connection::server(Config { max_streams: STREAMS, ..Config::default() });
    server.receive(start, 0).expect("a good handshake");
    server
}

/// A client with some requests on their way.
fn client() -> Connection {
    let mut client = Connection::client(Config { max_streams: STREAMS, ..Config::default() });
    for method in [&b"GET"[..], b"HEAD", b"POST"] {
        let target = RequestTarget {
            method,
            scheme: "https",
            authority: b"h",
            path: b"/",
            query: None,
            protocol: None,
        };
        let key = client.start_request(&target).expect("the first requests").finish(method != b"POST");
        client.write_data(key, b"body", false);
    }
    client
}

/// Feeds the input in pieces, looks at all events, and takes, answers and releases each stream.
fn run(mut connection: Connection, input: &[u8], cuts: impl Iterator<Item = usize>) -> Seen {
    let (mut seen, mut at) = (Seen::default(), 0);
    for cut in cuts.chain([input.len()]) {
        if let Err(error) = connection.receive(&input[at..cut], 0) {
            seen.error = Some(error);
            break;
        }
        at = cut;
        assert!(connection.memory() <= MEMORY_BYTES, "{} bytes", connection.memory());
    }
    assert_eq!(connection.failure(), seen.error);
    assert!(connection.stream_count() <= STREAMS as usize * Limits::SLOTS_PER_STREAM);
    let mut keys: Vec<StreamKey> = Vec::new();
    while let Some(event) = connection.next_event() {
        seen.lines.push(format!("{event:?}"));
        keys.extend(event.stream().filter(|key| !keys.contains(key)));
        assert!(seen.lines.len() <= 2 * input.len() + 100, "more events than bytes");
    }
    for key in keys {
        seen.lines.push(work(&mut connection, key));
    }
    seen.output = connection.output().to_vec();
    well_formed(&seen.output);
    seen
}

/// Takes all of a stream, answers it and releases it.
fn work(connection: &mut Connection, key: StreamKey) -> String {
    let (mut request, mut response, mut body, mut trailers) =
        (RequestHead::new(), ResponseHead::new(), Vec::new(), Headers::new());
    let info = (connection.take_request(key, &mut request), connection.take_response(key, &mut response));
    for headers in [&request.headers, &response.headers] {
        headers.iter().for_each(|field| {
            assert!(message::syntax::is_token(field.name) && message::syntax::is_field_value(field.value));
            assert!(!field.name.iter().any(u8::is_ascii_uppercase));
            assert!(
                !field.hop_by_hop
                    || matches!(field.id, FieldId::Te)
                    || !CONNECTION_SPECIFIC.contains(field.id)
            );
        });
    }
    let count = connection.take_data(key, &mut body);
    assert_eq!(count, body.len());
    let state = connection.body_state(key);
    if let (BodyState::End { .. }, Some(length), false) =
        (state, info.0.and_then(|info| info.content_length), connection.failure().is_some())
    {
        assert_eq!(length, count as u64, "a complete request has the announced length");
    }
    connection.take_trailers(key, &mut trailers);
    connection.consume(key, count);
    if let Some(mut writer) = connection.start_response(key, 200) {
        writer.fields_except(&request.headers, FieldSet::of(&[FieldId::Host]));
        writer.finish(false);
    }
    let written = connection.write_data(key, &body, true);
    connection.finish(key, Some(&trailers));
    connection.release(key);
    format!("{info:?} {} {} {body:?} {state:?} {written}", list(&request.headers), list(&response.headers))
}

fn list(headers: &Headers) -> String {
    headers
        .iter()
        .map(|field| format!("{}={};", field.name.escape_ascii(), field.value.escape_ascii()))
        .collect()
}

/// Asserts that the output is whole frames of legal sizes.
fn well_formed(output: &[u8]) {
    let mut rest = output.strip_prefix(PREFACE).unwrap_or(output);
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        assert!(length <= Limits::FRAME_BYTES as usize && rest[3] <= 9, "{:?}", &rest[..9]);
        rest = &rest[9 + length..];
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Preface and an empty SETTINGS frame.
const HANDSHAKE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Streams of a connection, few so that refusals are reached.
const STREAMS: u32 = 4;
/// The table of the decoder, small so that entries are evicted.
const TABLE_BYTES: usize = 200;
/// The most that such a table may take: texts up to four times its size, and entries.
const TABLE_MEMORY_BYTES: usize = 2048;
/// The most that a connection may own, whatever it receives: a frame and a header block in parts, tables,
/// events of the longest input.
const MEMORY_BYTES: usize = 1024 * 1024;
/// Fields that no message of HTTP/2 has.
const CONNECTION_SPECIFIC: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
]);
