//! Spans in the protobuf messages of OTLP (opentelemetry/proto/trace/v1/trace.proto), written straight into a
//! buffer: no tree of objects is made for a span, because a worker makes one for each request that it traces.
//! It knows no request.

use std::borrow::Cow;

/// The longest text of an attribute; the rest of a longer one is cut.
const TEXT_MAX_BYTES: usize = 4_096;

/// A value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) enum OtlpValue<'v> {
    /// Bytes that are no UTF-8 are replaced, because collectors refuse a batch with such.
    Text(&'v [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
}

impl<'v> From<&'v str> for OtlpValue<'v> {
    fn from(text: &'v str) -> OtlpValue<'v> {
        OtlpValue::Text(text.as_bytes())
    }
}

/// The side that a span shows (`SpanKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// The parts of a span besides attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtlpSpan<'s> {
    pub(super) trace_id: &'s [u8; 16],
    pub(super) span_id: &'s [u8; 8],
    pub(super) parent_id: Option<&'s [u8; 8]>,
    pub(super) state: Option<&'s [u8]>,
    pub(super) kind: SpanKind,
    /// Nanoseconds since the Unix epoch.
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
    /// Why it failed, if it did.
    pub(super) error: Option<&'s str>,
}

/// Appends everything but name and attributes of a span.
pub(super) fn write_otlp_span(span: &OtlpSpan<'_>, buffer: &mut Vec<u8>) {
    write_bytes(1, span.trace_id, buffer);
    write_bytes(2, span.span_id, buffer);
    if let Some(state) = span.state {
        write_bytes(3, state, buffer);
    }
    if let Some(parent_id) = span.parent_id {
        write_bytes(4, parent_id, buffer);
    }
    write_number(6, span.kind as u64, buffer);
    write_fixed(7, span.started_ns, buffer);
    write_fixed(8, span.ended_ns, buffer);
    if let Some(error) = span.error {
        let message = shown(error.as_bytes());
        write_tag(15, LENGTH, buffer);
        write_varint((field_length(message.len()) + 2) as u64, buffer);
        write_bytes(2, message.as_bytes(), buffer);
        // STATUS_CODE_ERROR
        write_number(3, 2, buffer);
    }
}

/// Appends the name of a span, of one or two words.
pub(super) fn write_name(first: &[u8], second: Option<&str>, buffer: &mut Vec<u8>) {
    let first = shown(first);
    let length = first.len() + second.map_or(0, |second| second.len() + 1);
    write_tag(5, LENGTH, buffer);
    write_varint(length as u64, buffer);
    buffer.extend_from_slice(first.as_bytes());
    if let Some(second) = second {
        buffer.push(b' ');
        buffer.extend_from_slice(second.as_bytes());
    }
}

/// Appends an attribute of a span.
pub(super) fn write_attribute<'v>(name: &str, value: impl Into<OtlpValue<'v>>, buffer: &mut Vec<u8>) {
    write_key_value(9, name, value.into(), buffer);
}

fn write_key_value(field: u32, name: &str, value: OtlpValue<'_>, buffer: &mut Vec<u8>) {
    let text = match value {
        OtlpValue::Text(text) => shown(text),
        _ => Cow::Borrowed(""),
    };
    let value_length = match value {
        OtlpValue::Text(_) => field_length(text.len()),
        OtlpValue::Bool(_) => 2,
        OtlpValue::Int(number) => 1 + varint_length(number as u64),
        OtlpValue::Double(_) => 9,
    };
    write_tag(field, LENGTH, buffer);
    write_varint((field_length(name.len()) + field_length(value_length)) as u64, buffer);
    write_bytes(1, name.as_bytes(), buffer);
    write_tag(2, LENGTH, buffer);
    write_varint(value_length as u64, buffer);
    match value {
        OtlpValue::Text(_) => write_bytes(1, text.as_bytes(), buffer),
        OtlpValue::Bool(value) => write_number(2, u64::from(value), buffer),
        OtlpValue::Int(number) => write_number(3, number as u64, buffer),
        OtlpValue::Double(number) => write_fixed(4, number.to_bits(), buffer),
    }
}

/// A text as it is reported: cut, and valid UTF-8.
fn shown(text: &[u8]) -> Cow<'_, str> {
    if text.len() <= TEXT_MAX_BYTES {
        return String::from_utf8_lossy(text);
    }
    let mut end = TEXT_MAX_BYTES;
    // Not within a character.
    while end > TEXT_MAX_BYTES - 4 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    String::from_utf8_lossy(&text[..end])
}

/// A span in the list of a batch: the tag, the length, and the fields in `body`. Allocated once, in its exact
/// size.
pub(super) fn encode_span_entry(body: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(field_length(body.len()));
    write_bytes(2, body, &mut entry);
    entry
}

/// The parts of a batch that do not change: the resource, and the scope of the spans.
pub(super) struct OtlpEnvelope {
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl OtlpEnvelope {
    /// A frame with these attributes of the resource; `name` and `version` are those of the scope.
    pub(super) fn new<'v>(
        attributes: impl Iterator<Item = (&'v str, OtlpValue<'v>)>,
        name: &str,
        version: &str,
    ) -> OtlpEnvelope {
        let (mut body, mut resource) = (Vec::new(), Vec::new());
        for (key, value) in attributes {
            write_key_value(1, key, value, &mut body);
        }
        write_bytes(1, &body, &mut resource);
        let mut scope = Vec::new();
        body.clear();
        write_bytes(1, name.as_bytes(), &mut body);
        write_bytes(2, version.as_bytes(), &mut body);
        write_bytes(1, &body, &mut scope);
        OtlpEnvelope { resource, scope }
    }

    /// An `ExportTraceServiceRequest` with these entries.
    pub(super) fn request<E: AsRef<[u8]>>(&self, entries: &[E]) -> Vec<u8> {
        let spans: usize = entries.iter().map(|entry| entry.as_ref().len()).sum();
        let scope_spans = self.scope.len() + spans;
        let resource_spans = self.resource.len() + field_length(scope_spans);
        let mut request = Vec::with_capacity(field_length(resource_spans));
        write_tag(1, LENGTH, &mut request);
        write_varint(resource_spans as u64, &mut request);
        request.extend_from_slice(&self.resource);
        write_tag(2, LENGTH, &mut request);
        write_varint(scope_spans as u64, &mut request);
        request.extend_from_slice(&self.scope);
        entries.iter().for_each(|entry| request.extend_from_slice(entry.as_ref()));
        request
    }
}

/// Wire types of fields.
const VARINT: u32 = 0;
const FIXED: u32 = 1;
const LENGTH: u32 = 2;

fn write_tag(field: u32, wire: u32, buffer: &mut Vec<u8>) {
    // Every field here is below 16, so that its tag is one byte.
    buffer.push((field << 3 | wire) as u8);
}

fn write_bytes(field: u32, bytes: &[u8], buffer: &mut Vec<u8>) {
    write_tag(field, LENGTH, buffer);
    write_varint(bytes.len() as u64, buffer);
    buffer.extend_from_slice(bytes);
}

fn write_number(field: u32, number: u64, buffer: &mut Vec<u8>) {
    write_tag(field, VARINT, buffer);
    write_varint(number, buffer);
}

fn write_fixed(field: u32, number: u64, buffer: &mut Vec<u8>) {
    write_tag(field, FIXED, buffer);
    buffer.extend_from_slice(&number.to_le_bytes());
}

fn write_varint(mut number: u64, buffer: &mut Vec<u8>) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

/// The length of a field with so many bytes: tag, length and bytes.
fn field_length(bytes: usize) -> usize {
    1 + varint_length(bytes as u64) + bytes
}

fn varint_length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
pub(super) mod decoded;

#[cfg(test)]
mod tests {
    use super::decoded::DecodedExportRequest;
    use super::*;
    use prost::Message;

    #[test]
    fn written_spans_are_read_by_another_decoder() {
        let mut body = Vec::new();
        let long = vec![b'x'; 70_000];
        write_otlp_span(
            &OtlpSpan {
                trace_id: &[1; 16],
                span_id: &[2; 8],
                parent_id: Some(&[3; 8]),
                state: Some(b"a=1"),
                kind: SpanKind::Client,
                started_ns: 1_700_000_000_000_000_001,
                ended_ns: u64::MAX,
                error: Some(&"e".repeat(200)),
            },
            &mut body,
        );
        write_name(b"GET", Some("/a/*"), &mut body);
        write_attribute("text", "v", &mut body);
        write_attribute("bytes", OtlpValue::Text(b"\xff\xfe!"), &mut body);
        write_attribute("cut", OtlpValue::Text(&long), &mut body);
        write_attribute("int", OtlpValue::Int(-1), &mut body);
        write_attribute("yes", OtlpValue::Bool(true), &mut body);
        write_attribute("pi", OtlpValue::Double(3.5), &mut body);
        let frame = OtlpEnvelope::new([("service.name", OtlpValue::from("s"))].into_iter(), "weir", "1");
        let request = frame.request(&[encode_span_entry(&body), encode_span_entry(&body)]);

        let request = DecodedExportRequest::decode(&*request).unwrap();
        assert_eq!(request.spans().len(), 2);
        assert_eq!(request.resource("service.name"), "\"s\"");
        let span = request.spans()[1];
        assert_eq!(
            (&*span.trace_id, &*span.span_id, &*span.parent_span_id),
            (&[1; 16][..], &[2; 8][..], &[3; 8][..])
        );
        assert_eq!((&*span.trace_state, &*span.name, span.kind), ("a=1", "GET /a/*", 3));
        assert_eq!((span.started_ns, span.ended_ns), (1_700_000_000_000_000_001, u64::MAX));
        let status = span.status.as_ref().unwrap();
        assert_eq!((status.code, status.message.len()), (2, 200));
        let texts = ["text", "int", "yes", "pi", "bytes"].map(|name| span.attribute(name));
        assert_eq!(texts, ["\"v\"", "-1", "true", "3.5", "\"\u{fffd}\u{fffd}!\""]);
        assert_eq!(span.attribute("cut").len(), TEXT_MAX_BYTES + 2);
    }

    #[test]
    fn lengths_are_those_of_what_is_written() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut buffer = Vec::new();
            write_varint(number, &mut buffer);
            assert_eq!(buffer.len(), varint_length(number), "{number}");
        }
        let umlauts = "\u{e4}".repeat(TEXT_MAX_BYTES);
        assert_eq!(shown(&umlauts.as_bytes()[1..]).chars().filter(|c| *c == '\u{fffd}').count(), 1);
    }
}
