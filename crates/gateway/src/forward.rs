//! Which head a node receives and which the client gets back: hop-by-hop fields stay behind, the client is named in
//! the forwarding fields, framing is written anew. Pure: it reads the exchange and appends bytes.

use std::cell::RefCell;

use http1::encode;
use message::{FieldId, FieldSet, Method, Version};
use stdx::address_text::AddressText;

use crate::body::BodyLength;
use exchange::Exchange;
use exchange::exchange::Scheme;
use exchange::options::ForwardOptions;

/// Appends the head that the node receives: RFC 9112 section 3, with the fields of RFC 9110 section 7.6 left out.
pub(crate) fn encode_request(exchange: &Exchange, length: BodyLength, out: &mut Vec<u8>) {
    let request = &exchange.request;
    let options = &exchange.local().options.forward;
    encode::request_line(out, request.method_text(), exchange.forward_path(), exchange.forward_query());
    encode::field(out, "Host", exchange.target.forward_host.as_deref().unwrap_or(request.authority()));
    let headers = &request.headers;
    // What is still here was said by a trusted peer or a plugin.
    let said = |id: FieldId| headers.contains_known(id);
    let mut text = AddressText::default();
    let client = text.write(exchange.client.address);
    if exchange.target.real_ip_is_rewritten && said(FieldId::XRealIp) {
        encode::fields_except(out, headers, REWRITTEN_BUT_REAL_IP);
    } else {
        encode::fields_except(out, headers, REWRITTEN);
        encode::field(out, "X-Real-IP", client);
    }
    forwarded_for(exchange, client, out);
    let withheld = exchange.target.withheld;
    if !said(FieldId::XForwardedHost) && !withheld.host {
        encode::field(out, "X-Forwarded-Host", request.authority());
    }
    let proto = !said(FieldId::XForwardedProto) && !withheld.proto;
    let port = !said(FieldId::XForwardedPort) && !withheld.port;
    let entry = Entry::of(exchange);
    // Only lines with a port of this machine are kept: a client may name any port in Host.
    if proto && port && entry.port == exchange.connection.local.port() {
        exchange.local().resource(EntryLines::default).append(entry, options, out);
    } else {
        encode_entry(options, entry, proto, port, out);
    }
    if exchange.decision.is_upgrade {
        encode::field(out, "Connection", b"Upgrade");
        encode::field(out, "Upgrade", b"websocket");
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
    out.extend_from_slice(b"\r\n");
}

/// How a request came in, as far as a node is told: a handful of values in a process, so their lines are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    port: u16,
    scheme: Scheme,
    version: Version,
}

impl Entry {
    fn of(exchange: &Exchange) -> Entry {
        let connection = &exchange.connection;
        Entry {
            port: exchange::exchange::forwarded::observed_port(exchange),
            scheme: connection.scheme,
            version: exchange.request.version,
        }
    }

    /// The lines `X-Forwarded-Proto`, `X-Forwarded-Port` and `Via`.
    fn lines(self, options: &ForwardOptions) -> Box<[u8]> {
        let mut lines = Vec::new();
        encode_entry(options, self, true, true, &mut lines);
        lines.into()
    }
}

/// Entries whose lines are kept.
const ENTRIES_MAX: usize = 64;

/// The lines of each entry that this thread has seen, formatted once.
#[derive(Default)]
struct EntryLines(RefCell<Vec<(Entry, Box<[u8]>)>>);

impl EntryLines {
    /// Appends the lines of `entry`.
    fn append(&self, entry: Entry, options: &ForwardOptions, out: &mut Vec<u8>) {
        let mut entries = self.0.borrow_mut();
        let index = entries.iter().position(|(known, _)| *known == entry).unwrap_or_else(|| {
            // Listeners times versions: a handful, unless listeners come and go for ever.
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
            entries.push((entry, entry.lines(options)));
            entries.len() - 1
        });
        out.extend_from_slice(&entries[index].1);
    }
}

fn encode_entry(options: &ForwardOptions, entry: Entry, proto: bool, port: bool, out: &mut Vec<u8>) {
    if proto {
        encode::field(out, "X-Forwarded-Proto", entry.scheme.as_str().as_bytes());
    }
    if port {
        encode::number_field(out, "X-Forwarded-Port", u64::from(entry.port));
    }
    if let Some(pseudonym) = &options.via {
        line_of(out, "Via", &[entry.version.via().as_bytes(), b" ", pseudonym.as_bytes()]);
    }
}

/// Appends `X-Forwarded-For`: what the client said, as one list (RFC 9110 section 5.3), and the peer behind it.
fn forwarded_for(exchange: &Exchange, client: &[u8], out: &mut Vec<u8>) {
    let mut earlier = exchange.request.headers.get_all_known(FieldId::XForwardedFor).peekable();
    if earlier.peek().is_none() {
        return encode::field(out, "X-Forwarded-For", client);
    }
    out.extend_from_slice(b"X-Forwarded-For: ");
    for list in earlier {
        out.extend_from_slice(list);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(AddressText::default().write(exchange.connection.peer.ip()));
    out.extend_from_slice(b"\r\n");
}

/// Fields of a request that are written anew, whoever sent it.
const REWRITTEN: FieldSet = FieldSet::of(&[
    FieldId::Host,
    FieldId::ContentLength,
    FieldId::Expect,
    FieldId::XRealIp,
    FieldId::XForwardedFor,
]);

/// As [`REWRITTEN`], where a plugin has set `X-Real-IP`.
const REWRITTEN_BUT_REAL_IP: FieldSet =
    FieldSet::of(&[FieldId::Host, FieldId::ContentLength, FieldId::Expect, FieldId::XForwardedFor]);

/// What a response's head needs to know beyond the exchange.
pub(crate) struct ResponseOptions {
    /// How the body's end will be marked.
    pub(crate) length: BodyLength,
    /// Whether the connection stays open afterwards.
    pub(crate) keep_alive: bool,
    /// The date, where the response carries none.
    pub(crate) date: [u8; 29],
}

/// Appends the head that an HTTP/1 client receives.
pub(crate) fn encode_response(exchange: &Exchange, options: &ResponseOptions, out: &mut Vec<u8>) {
    let response = &exchange.response;
    let server = exchange.local().options.forward.server.as_deref();
    let head_only = exchange.request.method == Method::Head || response.status == 304;
    let named = response.reason_text();
    let named = if named.is_empty() { message::reason::phrase(response.status).as_bytes() } else { named };
    encode::status_line(out, response.status, named);
    // The length of what a GET would have brought stays true where there is no body to measure.
    let keeps_length = head_only && options.length == BodyLength::None;
    let skip = match (keeps_length, server) {
        (true, None) => FieldSet::EMPTY,
        (true, Some(_)) => FieldSet::of(&[FieldId::Server]),
        (false, None) => FieldSet::of(&[FieldId::ContentLength]),
        (false, Some(_)) => FieldSet::of(&[FieldId::ContentLength, FieldId::Server]),
    };
    encode::fields_except(out, &response.headers, skip);
    if let Some(server) = server {
        encode::field(out, "Server", server.as_bytes());
    }
    // RFC 9110 section 6.6.1: whoever relays a response without a date adds one.
    if response.status >= 200 && !response.headers.contains_known(FieldId::Date) {
        encode::field(out, "Date", &options.date);
    }
    match options.length {
        BodyLength::None => {}
        BodyLength::Known(bytes) => encode::number_field(out, "Content-Length", bytes),
        BodyLength::Unknown if exchange.request.version == Version::Http11 => {
            encode::field(out, "Transfer-Encoding", b"chunked");
        }
        BodyLength::Unknown => {}
    }
    match (exchange.request.version, options.keep_alive) {
        // Like every hop-by-hop field, these two were left out above; here the switch is ours as well.
        _ if response.status == SWITCHING_PROTOCOLS => {
            encode::field(out, "Connection", b"Upgrade");
            encode::field(out, "Upgrade", b"websocket");
        }
        (Version::Http11, false) => encode::field(out, "Connection", b"close"),
        (Version::Http10, true) => encode::field(out, "Connection", b"keep-alive"),
        _ => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// The node has accepted the upgrade (RFC 9110 section 15.2.2).
const SWITCHING_PROTOCOLS: u16 = 101;

/// Appends a field line whose value is given in parts that were checked when they were read or set.
fn line_of(out: &mut Vec<u8>, name: &str, value: &[&[u8]]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    for part in value {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n");
}
