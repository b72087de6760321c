//! The heads of responses over HTTP/2, written into the output of the connection.

use http2::HeadWriter;
use message::{FieldSet, Headers};

use crate::body::BodyLength;
use crate::forward::{self, FieldSink};
use crate::h2::fields::HpackFields;
use exchange::Exchange;

/// Writes the fields of the response head that a client receives before a body of `length`. `ends_stream`: nothing follows
/// it.
pub(super) fn response_head(
    exchange: &Exchange,
    length: BodyLength,
    date: &[u8],
    ends_stream: bool,
    writer: HeadWriter<'_>,
) {
    let mut fields = HpackFields::new(writer);
    forward::response_fields(exchange, length != BodyLength::None, date, &mut fields);
    // A status of gRPC in the head ends the response, so that there is no length.
    let is_trailers_only = length == BodyLength::Known(0) && exchange.is_native_call();
    if let BodyLength::Known(bytes) = length
        && !is_trailers_only
    {
        fields.field("content-length", itoa::Buffer::new().format(bytes).as_bytes());
    }
    fields.finish(ends_stream);
}

/// Writes the fields of an interim response.
pub(super) fn interim_head(headers: &Headers, mut writer: HeadWriter<'_>) {
    writer.fields_except(headers, FieldSet::EMPTY);
    writer.finish(false);
}
