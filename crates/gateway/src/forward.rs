//! Which head a node receives and which the client gets back: hop-by-hop fields stay behind, the client is named in
//! the forwarding fields, framing is written anew. Pure: it reads the exchange and appends bytes.

use std::cell::RefCell;
use std::net::IpAddr;

use http1::{FieldId, FieldSet, Headers, Method, Version, encode};
use router::vars::Value;

use crate::body::BodyLength;
use crate::client_address;
use crate::exchange::{Exchange, Scheme};
use crate::reason;

/// What settings say about forwarding; shared by all requests of a process.
#[derive(Clone, Debug)]
pub struct ForwardOptions {
    /// Peers whose `X-Forwarded-Proto`, `-Host` and `-Port` and `Forwarded` are believed (contract section 2.5).
    pub trusted_addresses: Vec<ipnet::IpNet>,
    /// The pseudonym in `Via` towards nodes (RFC 9110 section 7.6.3); nothing turns the field off.
    pub via: Option<Box<str>>,
    /// What `Server` says; nothing leaves the node's own in place.
    pub server: Option<Box<str>>,
    /// `X-APISIX-Upstream-Status` on every response of a node, not only on server errors (contract section 2.5).
    pub show_upstream_status: bool,
}

impl ForwardOptions {
    /// Takes away what a peer that is not trusted says of how its client came here, so that neither conditions nor
    /// plugins nor nodes believe it (contract section 2.5). The list of addresses it claims to act for stays as long as
    /// nobody is declared trusted: without a boundary there is nothing to say about it. Of a trusted peer, an empty field
    /// counts as none.
    pub(crate) fn strip_untrusted_forwarded(&self, exchange: &mut Exchange) {
        let peer = exchange.connection.peer.ip().to_canonical();
        let is_trusted = client_address::contains(&self.trusted_addresses, peer);
        let headers = &mut exchange.request.headers;
        if headers.may_contain(WAYS_HERE_SET) {
            for id in FORWARDED_FIELDS {
                if !is_trusted || headers.get_all_known(id).all(<[u8]>::is_empty) {
                    headers.remove_known(id);
                }
            }
        }
        if !is_trusted && !self.trusted_addresses.is_empty() {
            headers.remove_known(FieldId::XForwardedFor);
        }
    }

    /// Whether a request has passed through gateways of this pseudonym too often, by its `Via` fields (RFC 9110 section
    /// 7.6.3).
    #[inline]
    pub(crate) fn is_in_loop(&self, headers: &Headers) -> bool {
        headers.may_contain(VIA) && self.passages(headers) > PASSAGES_MAX
    }

    /// How often this pseudonym stands in `Via`.
    fn passages(&self, headers: &Headers) -> usize {
        let Some(own) = &self.via else { return 0 };
        let entries = headers.get_all_known(FieldId::Via).flat_map(|list| list.split(|byte| *byte == b','));
        // An entry is the protocol, the pseudonym, and perhaps a comment.
        let names = entries.filter_map(|entry| {
            let mut words = entry.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
            words.nth(1)
        });
        names.filter(|name| *name == own.as_bytes()).count()
    }
}

/// How often a request may have passed through a gateway of the same pseudonym. All instances have the same one: a chain
/// of some, or a route that leads to another route of the same instance, is meant; ten are a loop.
const PASSAGES_MAX: usize = 10;
const VIA: FieldSet = FieldSet::of(&[FieldId::Via]);

/// How a client came here, as a proxy in front tells it.
const FORWARDED_FIELDS: [FieldId; 4] =
    [FieldId::XForwardedProto, FieldId::XForwardedHost, FieldId::XForwardedPort, FieldId::Forwarded];
const WAYS_HERE_SET: FieldSet = FieldSet::of(&FORWARDED_FIELDS);

/// The host of an authority that was checked, and its port if it has one (RFC 3986 section 3.2).
pub(crate) fn split_port(authority: &[u8]) -> (&[u8], Option<u16>) {
    // A port has five digits at most; the colons of a bracketed IPv6 address stand before its bracket.
    let tail = authority.len().saturating_sub(6);
    match authority[tail..].iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if authority[tail + at] == b':' => {
            let digits = authority[tail + at + 1..].iter();
            let port = digits.fold(0_u32, |port, digit| port * 10 + u32::from(digit.wrapping_sub(b'0')));
            (&authority[..tail + at], u16::try_from(port).ok())
        }
        _ => (authority, None),
    }
}

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
        Entry { port: observed_port(exchange), scheme: connection.scheme, version: exchange.request.version }
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
        let version: &[u8] = if entry.version == Version::Http11 { b"1.1 " } else { b"1.0 " };
        line_of(out, "Via", &[version, pseudonym.as_bytes()]);
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

/// What the gateway itself sees of what `name`, one of the `X-Forwarded-` fields, tells: its value where no trusted peer
/// has sent it and no plugin has taken it away.
pub(crate) fn default_forwarded<'a>(exchange: &'a Exchange, name: &str) -> Option<Value<'a>> {
    let withheld = exchange.target.withheld;
    match name {
        "x-forwarded-proto" if !withheld.proto => Some(Value::from(exchange.connection.scheme.as_str())),
        "x-forwarded-host" if !withheld.host => Some(Value::borrowed(exchange.request.authority())),
        "x-forwarded-port" if !withheld.port => Some(Value::from(observed_port(exchange))),
        _ => None,
    }
}

/// The port that the client asked for: that of Host, otherwise the one it connected to.
fn observed_port(exchange: &Exchange) -> u16 {
    split_port(exchange.request.authority()).1.unwrap_or_else(|| exchange.connection.local.port())
}

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
    let named = if named.is_empty() { reason::phrase(response.status).as_bytes() } else { named };
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

/// Room for an address as text, without allocating.
pub(crate) struct AddressText {
    bytes: [u8; ADDRESS_TEXT_MAX_BYTES],
    length: usize,
}

/// The longest text of an IPv6 address with an embedded IPv4 one.
const ADDRESS_TEXT_MAX_BYTES: usize = 48;

impl Default for AddressText {
    fn default() -> Self {
        AddressText { bytes: [0; ADDRESS_TEXT_MAX_BYTES], length: 0 }
    }
}

impl AddressText {
    /// The text of `address`.
    pub(crate) fn write(&mut self, address: IpAddr) -> &[u8] {
        self.length = 0;
        match address {
            IpAddr::V4(address) => {
                for octet in address.octets() {
                    self.push_octet(octet);
                }
                self.length -= b".".len();
            }
            IpAddr::V6(address) => {
                use std::fmt::Write;
                write!(self, "{address}").expect("an IPv6 address fits");
            }
        }
        &self.bytes[..self.length]
    }

    /// Appends an octet in decimal and a dot. It is done for every request, by hand in place of a formatter.
    fn push_octet(&mut self, octet: u8) {
        let room = &mut self.bytes[self.length..self.length + b"255.".len()];
        let (hundreds, tens, ones) = (octet / 100, octet / 10 % 10, octet % 10);
        let mut length = 0;
        let mut put = |byte: u8| {
            room[length] = byte;
            length += 1;
        };
        if hundreds > 0 {
            put(b'0' + hundreds);
        }
        if octet >= 10 {
            put(b'0' + tens);
        }
        put(b'0' + ones);
        put(b'.');
        self.length += length;
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
    }
}

impl std::fmt::Write for AddressText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.length + text.len() > self.bytes.len() {
            return Err(std::fmt::Error);
        }
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_is_seen_by_the_own_via_entries() {
        let check = |via: Option<&str>, fields: &[String], is_loop: bool| {
            let options = ForwardOptions {
                trusted_addresses: Vec::new(),
                via: via.map(Into::into),
                server: None,
                show_upstream_status: false,
            };
            let mut headers = Headers::new();
            fields.iter().for_each(|field| headers.append("Via", field.as_bytes()).unwrap());
            assert_eq!(options.is_in_loop(&headers), is_loop, "{fields:?}");
        };
        let times = |entry: &str, count: usize| vec![entry.to_owned(); count];
        check(Some("weir"), &[], false);
        check(Some("weir"), &times("1.1 weir", PASSAGES_MAX), false);
        check(Some("weir"), &times("1.1 weir", PASSAGES_MAX + 1), true);
        check(Some("weir"), &[times("HTTP/1.0  weir (a comment)", PASSAGES_MAX + 1).join(" ,")], true);
        check(Some("weir"), &times("1.1 other, 1.1 weird, weir", 50), false);
        check(None, &times("1.1 weir", PASSAGES_MAX + 1), false);
    }
}
