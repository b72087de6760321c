//! Writing header blocks into the output, field by field; it does not know which fields a message needs.

use message::{FieldId, FieldSet, FieldSink, Headers};
use multiplex::PartedField;

use super::Connection;
use crate::frame::{self, HEADER_BYTES, flag, kind};
use crate::hpack::Pseudo;
use crate::stream::Side;
use crate::streams::StreamKey;

/// A head that is being written. Names may have any case and are sent in lower case; names and values were
/// checked by their parser or by the edits of [`Headers`]. [`finish`](HeadWriter::finish) ends the head; a
/// writer that is dropped ends it without the end of the message.
#[derive(Debug)]
pub struct HeadWriter<'a> {
    connection: &'a mut Connection,
    key: StreamKey,
    id: u32,
    /// Where the frame begins in the output's buffer.
    start: usize,
    ends_stream: bool,
    /// A field that was begun.
    parted: PartedField,
}

impl<'a> HeadWriter<'a> {
    /// Begins a block on a stream.
    pub(super) fn begin_block(connection: &'a mut Connection, key: StreamKey, id: u32) -> Self {
        let out = connection.output.buffer();
        let start = out.len();
        frame::write_header(out, 0, kind::HEADERS, flag::END_HEADERS, id);
        connection.encoder.begin(out);
        Self { connection, key, id, start, ends_stream: false, parted: PartedField::default() }
    }

    /// The stream.
    pub fn key(&self) -> StreamKey {
        self.key
    }

    /// Ends the head, and the message with it if `ends_stream`.
    pub fn finish(mut self, ends_stream: bool) -> StreamKey {
        self.ends_stream = ends_stream;
        self.key
    }

    #[inline]
    fn identified(&mut self, id: FieldId, name: &[u8], value: &[u8], is_sensitive: bool) {
        let Connection { encoder, output, .. } = &mut *self.connection;
        encoder.field(output.buffer(), id, name, value, is_sensitive);
    }

    pub(super) fn pseudo(&mut self, pseudo: Pseudo, value: &[u8], is_kept: bool) {
        let Connection { encoder, output, .. } = &mut *self.connection;
        encoder.pseudo(output.buffer(), pseudo, value, is_kept);
    }

    pub(super) fn path(&mut self, path: &[u8], query: Option<&[u8]>) {
        let Some(query) = query else { return self.pseudo(Pseudo::Path, path, false) };
        self.parted.path(path, query);
        let Connection { encoder, output, .. } = &mut *self.connection;
        encoder.pseudo(output.buffer(), Pseudo::Path, self.parted.get().2, false);
    }

    pub(super) fn protocol(&mut self, protocol: &[u8]) {
        self.identified(FieldId::Other, b":protocol", protocol, false);
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
        let Connection { encoder, output, .. } = &mut *self.connection;
        encoder.field(output.buffer(), id, name, value, false);
    }

    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        self.identified(FieldId::of(name.as_bytes()), name.as_bytes(), value, false);
    }
}

impl Drop for HeadWriter<'_> {
    fn drop(&mut self) {
        let limit = self.connection.peer.max_frame_bytes as usize;
        let out = self.connection.output.buffer();
        end_block(out, self.start, limit, self.id, self.ends_stream);
        if self.ends_stream
            && let Some(stream) = self.connection.streams.get_mut(self.key)
        {
            stream.sending = Side::Ended;
            self.connection.settle(self.key);
        }
    }
}

/// Ends the block that begins at `start` with the header of its frame: fills in length and flags, and splits
/// it into frames of at most `limit` bytes.
pub(super) fn end_block(out: &mut Vec<u8>, start: usize, limit: usize, id: u32, ends_stream: bool) {
    let length = out.len() - start - HEADER_BYTES;
    let end_stream = if ends_stream { flag::END_STREAM } else { 0 };
    let write = |at: usize, length: usize, kind: u8, flags: u8, out: &mut Vec<u8>| {
        let header = frame::FrameHeader { length: length as u32, kind, flags, stream: id };
        out[at..at + HEADER_BYTES].copy_from_slice(&header.bytes());
    };
    if length <= limit {
        return write(start, length, kind::HEADERS, flag::END_HEADERS | end_stream, out);
    }
    write(start, limit, kind::HEADERS, end_stream, out);
    // From the back, so that every byte moves once.
    let pieces = length.div_ceil(limit);
    let added = (pieces - 1) * HEADER_BYTES;
    out.resize(out.len() + added, 0);
    for piece in (1..pieces).rev() {
        let from = start + HEADER_BYTES + piece * limit;
        let piece_length = limit.min(length - piece * limit);
        let to = from + piece * HEADER_BYTES;
        out.copy_within(from..from + piece_length, to);
        let flags = if piece == pieces - 1 { flag::END_HEADERS } else { 0 };
        write(to - HEADER_BYTES, piece_length, kind::CONTINUATION, flags, out);
    }
}
