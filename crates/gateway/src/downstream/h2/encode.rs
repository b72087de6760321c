//! How HTTP/2 writes the fields that `forward` decides on: as HPACK, into the output of the connection.

use http2::HeadWriter;
use message::{FieldSet, Headers};

use crate::body::BodyLength;
use crate::forward::{self, FieldSink};
use exchange::Exchange;

/// Fields of one head.
struct HpackFields<'w>(HeadWriter<'w>);

impl FieldSink for HpackFields<'_> {
    #[inline]
    fn fields_except(&mut self, headers: &Headers, skip: FieldSet) {
        self.0.fields_except(headers, skip);
    }

    fn begin(&mut self, name: &str) {
        self.0.begin(name);
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.part(bytes);
    }

    fn end(&mut self) {
        self.0.end();
    }

    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        self.0.field(name, value);
    }
}

/// Writes the fields of the response head that a client receives before a body of `length`. `ends_stream`: nothing follows
/// it.
pub(super) fn response_head(
    exchange: &Exchange,
    length: BodyLength,
    date: &[u8],
    ends_stream: bool,
    writer: HeadWriter<'_>,
) {
    let mut fields = HpackFields(writer);
    forward::response_fields(exchange, length != BodyLength::None, date, &mut fields);
    if let BodyLength::Known(bytes) = length {
        fields.field("content-length", itoa::Buffer::new().format(bytes).as_bytes());
    }
    fields.0.finish(ends_stream);
}

/// Writes the fields of an interim response.
pub(super) fn interim_head(headers: &Headers, mut writer: HeadWriter<'_>) {
    writer.fields_except(headers, FieldSet::EMPTY);
    writer.finish(false);
}
