//! Oracle of the HTTP/3 engine, for any bytes: a request stream, a response stream, a unidirectional stream,
//! or the decoder of field sections receives them.

use http3::{
    Config, Connection, Fault, FieldSink, Limits, RequestEvent, RequestReader, RequestTarget, UniState,
    UniStream, qpack, writer,
};
use message::{FieldId, FieldSet, Headers, RequestHead, ResponseHead};

use super::decoded_fields::DecodedFields;
use super::steering::steering;

/// The input is three steering bytes and the received bytes. The low switches choose the receiver; with the
/// third one it is a client instead of a server.
pub fn check(data: &[u8]) {
    let Some(steering) = steering(data) else { return };
    let (input, cuts) = (steering.input, steering.cuts);
    let is_server = steering.switches & 4 == 0;
    match steering.switches & 3 {
        0 | 1 => {
            let whole = run(is_server, input, [].into_iter());
            assert_eq!(run(is_server, input, cuts.into_iter()), whole, "cut at {cuts:?}");
            assert_eq!(run(is_server, input, 0..input.len()), whole, "byte by byte");
        }
        2 => {
            let whole = run_uni(is_server, input, [].into_iter());
            assert_eq!(run_uni(is_server, input, cuts.into_iter()), whole, "cut at {cuts:?}");
            assert_eq!(run_uni(is_server, input, 0..input.len()), whole, "byte by byte");
        }
        _ => sections(input),
    }
}

/// The fields of a decoded section survive encoding and decoding.
fn sections(input: &[u8]) {
    let mut fields = DecodedFields::default();
    let result = qpack::decode(input, &mut fields);
    assert!(fields.0.len() <= input.len(), "every field takes a byte");
    if result.is_err() {
        return;
    }
    // An encoder is given names of messages only, and writes them in lower case.
    fields.0.retain(|field| message::syntax::is_token(&field.name));
    let mut out = Vec::new();
    qpack::begin(&mut out);
    for field in &mut fields.0 {
        qpack::field(&mut out, FieldId::of(&field.name), &field.name, &field.value, field.is_sensitive);
        field.name.make_ascii_lowercase();
    }
    let mut read = DecodedFields::default();
    qpack::decode(&out, &mut read).expect("an encoded section is well-formed");
    read.assert_same(&fields);
}

/// Everything that a driver sees of a request stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    lines: Vec<String>,
    data: Vec<u8>,
    fault: Option<Fault>,
}

fn start(is_server: bool) -> (Connection, RequestReader) {
    if is_server {
        let mut connection = Connection::server(Config::default());
        let reader = connection.open_request(0).expect("the connection is open");
        return (connection, reader);
    }
    let mut connection = Connection::client(Config::default());
    let target = RequestTarget {
        method: b"GET",
        scheme: "https",
        authority: b"h",
        path: b"/",
        query: None,
        protocol: None,
    };
    let reader = connection.start_request(0, &target).expect("the connection is open");
    (connection, reader)
}

/// Feeds the input in pieces and its end, looks at all events, and writes the message again.
fn run(is_server: bool, input: &[u8], cuts: impl Iterator<Item = usize>) -> Seen {
    let (mut connection, mut reader) = start(is_server);
    let (mut seen, mut at, mut announced) = (Seen::default(), 0, None);
    for cut in cuts.chain([input.len()]) {
        while at < cut {
            let part = &input[at..cut];
            let step = match reader.read(&mut connection, part) {
                Ok(step) => step,
                Err(fault) => {
                    seen.fault = Some(fault);
                    return seen;
                }
            };
            assert!(step.consumed == part.len() || step.event.is_some(), "input was left without an event");
            assert!(step.consumed > 0, "no progress");
            match step.event {
                Some(RequestEvent::Head) => {
                    seen.lines.push(take_head(&mut reader, is_server, &mut announced))
                }
                Some(RequestEvent::HeadTooLarge) => {
                    assert!(is_server && seen.lines.is_empty());
                    seen.lines.push("too large".into());
                }
                Some(RequestEvent::Data(range)) => {
                    assert!(!range.is_empty() && range.end == step.consumed, "data ends the consumed bytes");
                    seen.data.extend_from_slice(&part[range]);
                }
                None => {}
            }
            at += step.consumed;
            assert!(reader.memory() <= MEMORY_BYTES, "{} bytes", reader.memory());
        }
    }
    seen.fault = reader.finish(&mut connection).err();
    if seen.fault.is_none() && is_server && announced.is_some() {
        assert_eq!(announced, Some(seen.data.len() as u64), "a complete request has the announced length");
    }
    let mut trailers = Headers::new();
    if reader.take_trailers(&mut trailers) {
        assert!(!trailers.is_empty());
        valid(&trailers);
        seen.lines.push(list(&trailers));
    }
    seen
}

/// Takes a head, checks it, and reads it again from its written form.
fn take_head(reader: &mut RequestReader, is_server: bool, announced: &mut Option<u64>) -> String {
    let (mut request, mut response, mut out) = (RequestHead::new(), ResponseHead::new(), Vec::new());
    if is_server {
        let info = reader.take_request(&mut request).expect("a head event");
        *announced = info.content_length;
        valid(&request.headers);
        return format!("{info:?} {} {}", request.target_text().escape_ascii(), list(&request.headers));
    }
    let info = reader.take_response(&mut response).expect("a head event");
    valid(&response.headers);
    let mut head = match response.status {
        100..200 => writer::interim(&mut out, response.status),
        _ => writer::response(&mut out, response.status),
    };
    head.fields_except(&response.headers, FieldSet::EMPTY);
    head.finish();
    let (mut connection, mut again) = start(false);
    let step = again.read(&mut connection, &out).expect("a written head is well-formed");
    assert_eq!((step.consumed, step.event), (out.len(), Some(RequestEvent::Head)));
    let mut same = ResponseHead::new();
    assert_eq!(again.take_response(&mut same).expect("a head event"), info);
    let sent = response.headers.iter().filter(|field| !field.hop_by_hop);
    assert!(
        sent.map(|field| (field.name, field.value))
            .eq(same.headers.iter().map(|field| (field.name, field.value)))
    );
    format!("{info:?} {} {}", response.status, list(&response.headers))
}

fn valid(headers: &Headers) {
    for field in headers {
        assert!(message::syntax::is_token(field.name) && message::syntax::is_field_value(field.value));
        assert!(!field.name.iter().any(u8::is_ascii_uppercase));
        assert!(!CONNECTION_SPECIFIC.contains(field.id), "{}", field.name.escape_ascii());
    }
}

fn list(headers: &Headers) -> String {
    headers
        .iter()
        .map(|field| format!("{}={};", field.name.escape_ascii(), field.value.escape_ascii()))
        .collect()
}

/// Everything that a driver sees of a unidirectional stream, until it may forget it.
fn run_uni(is_server: bool, input: &[u8], cuts: impl Iterator<Item = usize>) -> Vec<String> {
    let config = Config::default();
    let mut connection = if is_server { Connection::server(config) } else { Connection::client(config) };
    let (mut uni, mut at, mut lines) = (UniStream::new(), 0, Vec::new());
    for cut in cuts.chain([input.len()]) {
        match connection.receive_uni(&mut uni, &input[at..cut]) {
            Ok(UniState::Open) => at = cut,
            Ok(UniState::Unwanted) => {
                lines.push("unwanted".into());
                break;
            }
            Err(error) => {
                assert_eq!(connection.failure(), Some(error));
                lines.push(error.to_string());
                break;
            }
        }
        assert!(connection.memory() <= MEMORY_BYTES, "{} bytes", connection.memory());
    }
    lines.push(format!("{:?}", connection.end_uni(&uni)));
    lines.extend(std::iter::from_fn(|| connection.next_event()).map(|event| format!("{event:?}")));
    assert!(lines.len() <= input.len() + 3, "more events than bytes");
    lines.push(format!("{:?}", connection.peer_settings()));
    lines
}

/// The most that a connection or a request may own, whatever it receives: a field section in parts and a
/// head.
const MEMORY_BYTES: usize = 8 * Limits::HEAD_BLOCK_BYTES;
/// Fields that no message of HTTP/3 has.
const CONNECTION_SPECIFIC: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyConnection,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
]);
