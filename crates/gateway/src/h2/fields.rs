//! How HTTP/2 writes the fields that `forward` decides on: as HPACK, into the output of a connection.

use http2::{HeadWriter, StreamKey};
use message::{FieldSet, Headers};

use crate::forward::FieldSink;

/// Fields of one head.
pub(crate) struct HpackFields<'w>(HeadWriter<'w>);

impl<'w> HpackFields<'w> {
    /// Those of the head that `writer` has begun.
    pub(crate) fn new(writer: HeadWriter<'w>) -> Self {
        Self(writer)
    }

    /// Ends the head, and the message with it if `ends_stream`.
    pub(crate) fn finish(self, ends_stream: bool) -> StreamKey {
        self.0.finish(ends_stream)
    }
}

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
