//! The heads of responses over HTTP/3, written into the output of their stream.

use http3::writer::{self, HeadWriter};
use message::{FieldSet, FieldSink, Headers};

use crate::body::BodyLength;
use crate::forward::{self, EntrySink};
use exchange::Exchange;

impl EntrySink for HeadWriter<'_> {}

/// Appends the response head that a client receives before a body of `length`.
pub(super) fn write_h3_response_head(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    length: BodyLength,
    date: &[u8],
) {
    let mut fields = writer::response(out, exchange.response.status);
    forward::response_fields(exchange, length != BodyLength::None, date, &mut fields);
    // A status of gRPC in the head ends the response, so that there is no length.
    let is_trailers_only = length == BodyLength::Known(0) && exchange.is_native_call();
    if let BodyLength::Known(bytes) = length
        && !is_trailers_only
    {
        fields.field("content-length", itoa::Buffer::new().format(bytes).as_bytes());
    }
    fields.finish();
}

/// Appends an interim response.
pub(super) fn write_h3_interim_head(out: &mut Vec<u8>, status: u16, headers: &Headers) {
    let mut writer = writer::interim(out, status);
    writer.fields_except(headers, FieldSet::EMPTY);
    writer.finish();
}
