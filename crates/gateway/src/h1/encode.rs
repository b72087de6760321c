//! How HTTP/1 writes the heads that `forward` decides on: start lines, field lines, and the framing of the
//! body.

use std::cell::RefCell;

use http1::encode;
use message::{FieldSet, FieldSink, Headers, Method, Version};

use crate::body::BodyLength;
use crate::forward::{self, EntrySink, IngressInfo};
use exchange::Exchange;
use exchange::options::ForwardOptions;

/// Field lines, appended to a buffer.
struct FieldLines<'o>(&'o mut Vec<u8>);

impl FieldSink for FieldLines<'_> {
    #[inline]
    fn fields_except(&mut self, headers: &Headers, skip: FieldSet) {
        encode::fields_except(self.0, headers, skip);
    }

    #[inline]
    fn begin(&mut self, name: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
    }

    #[inline]
    fn part(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    #[inline]
    fn end(&mut self) {
        self.0.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        encode::field(self.0, name, value);
    }
}

impl EntrySink for FieldLines<'_> {
    fn write_entry(&mut self, exchange: &Exchange, options: &ForwardOptions, entry: IngressInfo) {
        exchange.local().resource(EntryLines::default).append(entry, options, self.0);
    }
}

/// The most entries with kept lines.
const ENTRIES_MAX: usize = 64;

/// The lines of each entry that this thread has seen, formatted once.
#[derive(Default)]
struct EntryLines(RefCell<Vec<(IngressInfo, Box<[u8]>)>>);

impl EntryLines {
    /// Appends the lines of `entry`.
    fn append(&self, entry: IngressInfo, options: &ForwardOptions, out: &mut Vec<u8>) {
        let mut entries = self.0.borrow_mut();
        let index = entries.iter().position(|(known, _)| *known == entry).unwrap_or_else(|| {
            // There are as many as listeners times versions; only listeners that come and go for ever could
            // make more.
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
            let mut lines = Vec::new();
            forward::entry_fields(options, entry, true, true, &mut FieldLines(&mut lines));
            entries.push((entry, lines.into()));
            entries.len() - 1
        });
        out.extend_from_slice(&entries[index].1);
    }
}

/// Appends the head that an endpoint receives (RFC 9112 section 3), before a body of `length`.
pub(crate) fn write_h1_request_head(exchange: &Exchange, length: BodyLength, out: &mut Vec<u8>) {
    let request = &exchange.request;
    encode::request_line(out, request.method_text(), exchange.forward_path(), exchange.forward_query());
    encode::field(out, "Host", exchange.target.forward_host.as_deref().unwrap_or(request.authority()));
    forward::request_fields(exchange, FieldSet::EMPTY, &mut FieldLines(out));
    if exchange.decision.is_upgrade {
        upgrade_fields(out, request.upgrade_text());
    }
    match length {
        // A method that is expected to have content says so even when it has none (RFC 9110 section 8.6).
        BodyLength::None if matches!(request.method, Method::Post | Method::Put | Method::Patch) => {
            encode::field(out, "Content-Length", b"0")
        }
        BodyLength::None => {}
        BodyLength::Known(bytes) => encode::number_field(out, "Content-Length", bytes),
        BodyLength::Unknown => encode::field(out, "Transfer-Encoding", b"chunked"),
    }
    out.extend_from_slice(encode::HEAD_END);
}

/// Appends the head that a client receives, before a body of `length`. `keep_alive` says whether the
/// connection stays open afterwards; `date` is for a response that carries none.
pub(crate) fn write_h1_response_head(
    exchange: &Exchange,
    length: BodyLength,
    keep_alive: bool,
    date: &[u8],
    out: &mut Vec<u8>,
) {
    let response = &exchange.response;
    let named = response.reason_text();
    let named = if named.is_empty() { message::reason::phrase(response.status).as_bytes() } else { named };
    encode::status_line(out, response.status, named);
    forward::response_fields(exchange, length != BodyLength::None, date, &mut FieldLines(out));
    match length {
        BodyLength::None => {}
        BodyLength::Known(bytes) => encode::number_field(out, "Content-Length", bytes),
        BodyLength::Unknown if exchange.request.version == Version::Http11 => {
            encode::field(out, "Transfer-Encoding", b"chunked");
        }
        BodyLength::Unknown => {}
    }
    match (exchange.request.version, keep_alive) {
        // Like every hop-by-hop field these two were removed above; this hop's own upgrade needs them again.
        _ if response.status == SWITCHING_PROTOCOLS => upgrade_fields(out, response.upgrade_text()),
        (Version::Http11, false) => encode::field(out, "Connection", b"close"),
        (Version::Http10, true) => encode::field(out, "Connection", b"keep-alive"),
        _ => {}
    }
    out.extend_from_slice(encode::HEAD_END);
}

/// The endpoint has accepted the upgrade (RFC 9110 section 15.2.2).
const SWITCHING_PROTOCOLS: u16 = 101;

/// The two fields of an upgrade (RFC 9110 section 7.8). The side that speaks HTTP/2 names no protocol; only a
/// WebSocket is agreed with it.
fn upgrade_fields(out: &mut Vec<u8>, protocols: Option<&[u8]>) {
    encode::field(out, "Connection", b"Upgrade");
    encode::field(out, "Upgrade", protocols.unwrap_or(b"websocket"));
}
