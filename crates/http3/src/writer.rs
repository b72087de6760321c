//! Writing messages into the buffer of a request stream: heads field by field, frame headers of data,
//! trailers. It refuses to know which fields a message needs and when a stream may be written.

use message::{FieldId, FieldSet, FieldSink, Headers, Method};
use multiplex::{PartedField, RequestTarget, is_trailer};

use crate::frame::kind;
use crate::qpack::{self, Pseudo};
use crate::varint;

/// A head that is being written. Names may have any case and are sent in lower case; names and values were
/// checked by their parser or by the edits of [`Headers`]. The head ends when the writer is finished or
/// dropped.
#[derive(Debug)]
pub struct HeadWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the frame begins.
    start: usize,
    /// A field that was begun.
    parted: PartedField,
}

/// Starts a response with its status.
pub fn response(out: &mut Vec<u8>, status: u16) -> HeadWriter<'_> {
    debug_assert!(status >= 200, "not a final status: {status}");
    with_status(out, status)
}

/// Starts an interim (1xx) response.
pub fn interim(out: &mut Vec<u8>, status: u16) -> HeadWriter<'_> {
    debug_assert!((100..200).contains(&status) && status != 101, "not an interim status: {status}");
    with_status(out, status)
}

/// Starts a request with its pseudo-fields.
pub fn request<'a>(out: &'a mut Vec<u8>, target: &RequestTarget<'_>) -> HeadWriter<'a> {
    let mut writer = HeadWriter::begin_section(out);
    let is_plain_connect = Method::of(target.method) == Method::Connect && target.protocol.is_none();
    writer.pseudo(Pseudo::Method, target.method);
    if !is_plain_connect {
        writer.pseudo(Pseudo::Scheme, target.scheme.as_bytes());
    }
    if !target.authority.is_empty() {
        writer.pseudo(Pseudo::Authority, target.authority);
    }
    if !is_plain_connect {
        writer.path(target.path, target.query);
    }
    if let Some(protocol) = target.protocol {
        writer.identified(FieldId::Other, b":protocol", protocol.as_bytes(), false);
    }
    writer
}

/// Appends trailers, without fields that must not be sent in them; false if none is left and nothing was
/// written. The end of the stream has to follow in either case.
pub fn trailers(out: &mut Vec<u8>, trailers: &Headers) -> bool {
    if !trailers.iter().any(|field| is_trailer(&field)) {
        return false;
    }
    let mut writer = HeadWriter::begin_section(out);
    for field in trailers.iter().filter(is_trailer) {
        writer.identified(field.id, field.name, field.value, field.sensitive);
    }
    true
}

/// The header of a DATA frame; the payload goes behind it without a copy.
#[derive(Debug, Clone, Copy)]
pub struct DataHeader {
    bytes: [u8; DATA_HEADER_BYTES],
    length: u8,
}

impl DataHeader {
    /// The header for `payload_bytes` of content.
    pub fn new(payload_bytes: usize) -> Self {
        let mut header = Self { bytes: [0; DATA_HEADER_BYTES], length: 0 };
        let value = payload_bytes as u64;
        let length = varint::length(value);
        // The two highest bits of the first byte say how long the integer is (RFC 9000 section 16).
        let bytes = (value << (64 - 8 * length)).to_be_bytes();
        header.bytes[1..=length].copy_from_slice(&bytes[..length]);
        header.bytes[1] |= (length.trailing_zeros() as u8) << 6;
        header.length = 1 + length as u8;
        header
    }

    /// The bytes to be written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Appends a DATA frame with its payload. Nothing is appended for an empty one.
pub fn data(out: &mut Vec<u8>, payload: &[u8]) {
    if !payload.is_empty() {
        out.extend_from_slice(DataHeader::new(payload.len()).as_bytes());
        out.extend_from_slice(payload);
    }
}

impl<'a> HeadWriter<'a> {
    fn begin_section(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[kind::HEADERS as u8, 0, 0]);
        qpack::begin(out);
        Self { out, start, parted: PartedField::default() }
    }

    /// Ends the head. The message ends with the stream.
    pub fn finish(self) {}

    #[inline]
    fn identified(&mut self, id: FieldId, name: &[u8], value: &[u8], is_sensitive: bool) {
        qpack::field(self.out, id, name, value, is_sensitive);
    }

    fn pseudo(&mut self, pseudo: Pseudo, value: &[u8]) {
        qpack::pseudo(self.out, pseudo, value);
    }

    fn path(&mut self, path: &[u8], query: Option<&[u8]>) {
        let Some(query) = query else { return self.pseudo(Pseudo::Path, path) };
        self.parted.path(path, query);
        qpack::pseudo(self.out, Pseudo::Path, self.parted.get().2);
    }
}

impl FieldSink for HeadWriter<'_> {
    /// A request's writer skips Host, because the authority says it.
    fn fields_except(&mut self, headers: &Headers, skip: FieldSet) {
        for field in headers.iter().filter(|field| !field.hop_by_hop && !skip.contains(field.id)) {
            self.identified(field.id, field.name, field.value, field.sensitive);
        }
    }

    fn begin(&mut self, name: &str) {
        self.parted.begin(name);
    }

    #[inline]
    fn part(&mut self, bytes: &[u8]) {
        self.parted.part(bytes);
    }

    fn end(&mut self) {
        let (id, name, value) = self.parted.get();
        qpack::field(self.out, id, name, value, false);
    }

    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        self.identified(FieldId::of(name.as_bytes()), name.as_bytes(), value, false);
    }
}

impl Drop for HeadWriter<'_> {
    /// Writes the length of the frame into the two bytes that were kept for it; a longer one moves the
    /// section by two more.
    fn drop(&mut self) {
        let (at, section) = (self.start + 1, self.start + FRAME_HEADER_BYTES);
        let length = self.out.len() - section;
        if length < 1 << 14 {
            self.out[at..section].copy_from_slice(&(length as u16 | 0x4000).to_be_bytes());
        } else {
            debug_assert!(length < 1 << 30, "a head of a gigabyte");
            let bytes = (length as u32 | 0x8000_0000).to_be_bytes();
            self.out.splice(at..section, bytes);
        }
    }
}

fn with_status(out: &mut Vec<u8>, status: u16) -> HeadWriter<'_> {
    let mut writer = HeadWriter::begin_section(out);
    writer.pseudo(Pseudo::Status, itoa::Buffer::new().format(status).as_bytes());
    writer
}

/// The type, and a length in the form of two bytes, which nearly every head needs.
const FRAME_HEADER_BYTES: usize = 3;
/// The type, and a length in the longest form.
const DATA_HEADER_BYTES: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    #[test]
    fn data_headers_equal_integers_of_quic() {
        for length in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, 1 << 40] {
            let mut expected = vec![kind::DATA as u8];
            varint::write_varint(&mut expected, length);
            assert_eq!(DataHeader::new(length as usize).as_bytes(), expected, "{length}");
        }
    }

    #[test]
    fn heads_of_every_size_have_their_length() {
        for size in [0, 16_370, 16_384, 70_000] {
            let mut out = b"before".to_vec();
            let mut writer = response(&mut out, 200);
            writer.begin("X-Size");
            (0..size).for_each(|_| writer.part(b"\xFF"));
            writer.end();
            writer.finish();
            let mut rest = &out[6..];
            let header = frame::read_header(&mut rest).unwrap();
            assert_eq!((header.kind, header.length as usize), (kind::HEADERS, rest.len()), "{size}");
            assert_eq!(rest[..3], [0, 0, 0xd9]);
        }
    }

    #[test]
    fn trailers_without_fields_are_not_written() {
        let (mut out, mut fields) = (Vec::new(), Headers::new());
        fields.append("Connection", b"x").unwrap();
        fields.append("Content-Length", b"1").unwrap();
        assert!(!trailers(&mut out, &fields) && out.is_empty());
        fields.append("Grpc-Status", b"0").unwrap();
        assert!(trailers(&mut out, &fields));
        let mut rest = &out[..];
        let header = frame::read_header(&mut rest).unwrap();
        assert_eq!((header.kind, header.length as usize), (kind::HEADERS, rest.len()));
    }
}
