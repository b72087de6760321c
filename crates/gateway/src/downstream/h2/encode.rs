//! The heads of responses over HTTP/2, written into the output of the connection.

use http2::HeadWriter;
use message::{FieldSet, FieldSink, Headers};

use crate::body::BodyLength;
use crate::forward;
use exchange::Exchange;

/// Writes the fields of the response head that a client receives before a body of `length`. `ends_stream`:
/// nothing follows it.
pub(super) fn write_h2_response_head(
    exchange: &Exchange,
    length: BodyLength,
    date: &[u8],
    ends_stream: bool,
    mut writer: HeadWriter<'_>,
) {
    forward::response_fields(exchange, length != BodyLength::None, date, &mut writer);
    // A status of gRPC in the head ends the response, so that there is no length.
    let is_trailers_only = length == BodyLength::Known(0) && exchange.is_native_call();
    if let BodyLength::Known(bytes) = length
        && !is_trailers_only
    {
        writer.field("content-length", itoa::Buffer::new().format(bytes).as_bytes());
    }
    writer.finish(ends_stream);
}

/// Writes the fields of an interim response.
pub(super) fn write_h2_interim_head(headers: &Headers, mut writer: HeadWriter<'_>) {
    writer.fields_except(headers, FieldSet::EMPTY);
    writer.finish(false);
}
