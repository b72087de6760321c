//! Decides which fields are forwarded: removes hop-by-hop fields and names the client in the forwarding
//! fields. It writes nothing; each protocol writes fields in its own form, as a [`FieldSink`].

pub(crate) mod upgrade;

use message::{FieldId, FieldSet, FieldSink, Method, Version};
use stdx::address_text::AddressText;

use exchange::Exchange;
use exchange::exchange::RequestScheme;
use exchange::options::ForwardOptions;

/// Writes the fields of an [`IngressInfo`]. A protocol that always writes them in the same form may keep it.
pub(crate) trait EntrySink: FieldSink + Sized {
    /// Writes the fields of `entry`.
    fn write_entry(&mut self, _exchange: &Exchange, options: &ForwardOptions, entry: IngressInfo) {
        entry_fields(options, entry, true, true, self);
    }
}

/// The fields that an endpoint receives besides those of the protocol's own framing (RFC 9110 section 7.6),
/// without those that its protocol does not have.
pub(crate) fn request_fields(exchange: &Exchange, without: FieldSet, sink: &mut impl EntrySink) {
    let request = &exchange.request;
    let options = &exchange.local().options.forward;
    let headers = &request.headers;
    // A field that is still present was set by a trusted peer or a plugin.
    let is_set = |id: FieldId| headers.contains_known(id);
    let mut text = AddressText::default();
    let client = text.write(exchange.client.address);
    if exchange.target.real_ip_is_rewritten && is_set(FieldId::XRealIp) {
        sink.fields_except(headers, REWRITTEN_BUT_REAL_IP.and(without));
    } else {
        sink.fields_except(headers, REWRITTEN.and(without));
        sink.field("X-Real-IP", client);
    }
    forwarded_for(exchange, client, sink);
    let withheld = exchange.target.withheld;
    if !is_set(FieldId::XForwardedHost) && !withheld.host {
        sink.field("X-Forwarded-Host", request.authority());
    }
    let proto = !is_set(FieldId::XForwardedProto) && !withheld.proto;
    let port = !is_set(FieldId::XForwardedPort) && !withheld.port;
    let entry = IngressInfo::of(exchange);
    // Formatted lines are kept only for ports of this machine, because a client may name any port in Host.
    if proto && port && entry.port == exchange.connection.local.port() {
        sink.write_entry(exchange, options, entry);
    } else {
        entry_fields(options, entry, proto, port, sink);
    }
}

/// How a request came in, as the endpoint is told. A process has a handful of different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IngressInfo {
    port: u16,
    scheme: RequestScheme,
    version: Version,
}

impl IngressInfo {
    fn of(exchange: &Exchange) -> IngressInfo {
        let connection = &exchange.connection;
        IngressInfo {
            port: exchange::exchange::forwarded::observed_port(exchange),
            scheme: connection.scheme,
            version: exchange.request.version,
        }
    }
}

/// The fields `X-Forwarded-Proto`, `X-Forwarded-Port` and `Via` of an entry.
pub(crate) fn entry_fields(
    options: &ForwardOptions,
    entry: IngressInfo,
    proto: bool,
    port: bool,
    sink: &mut impl FieldSink,
) {
    if proto {
        sink.field("X-Forwarded-Proto", entry.scheme.as_str().as_bytes());
    }
    if port {
        sink.field("X-Forwarded-Port", itoa::Buffer::new().format(entry.port).as_bytes());
    }
    if let Some(pseudonym) = &options.via {
        sink.begin("Via");
        sink.part(entry.version.via().as_bytes());
        sink.part(b" ");
        sink.part(pseudonym.as_bytes());
        sink.end();
    }
}

/// `X-Forwarded-For`: the values of the request as one list (RFC 9110 section 5.3), followed by the peer's
/// address.
fn forwarded_for(exchange: &Exchange, client: &[u8], sink: &mut impl FieldSink) {
    let mut earlier = exchange.request.headers.get_all_known(FieldId::XForwardedFor).peekable();
    if earlier.peek().is_none() {
        return sink.field("X-Forwarded-For", client);
    }
    sink.begin("X-Forwarded-For");
    for list in earlier {
        sink.part(list);
        sink.part(b", ");
    }
    sink.part(AddressText::default().write(exchange.connection.peer.ip()));
    sink.end();
}

/// Fields of a request that are always written anew.
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

/// Instructions of an application to nginx (`X-Accel-Redirect` and others).
const ACCEL: [FieldId; 5] = [
    FieldId::AccelRedirect,
    FieldId::AccelExpires,
    FieldId::AccelLimitRate,
    FieldId::AccelBuffering,
    FieldId::AccelCharset,
];
const ACCEL_SET: FieldSet = FieldSet::of(&ACCEL);

/// Marks the instructions to nginx in a response of a node as not to be sent on, unless a setting passes them
/// on. Plugins still read them, and those that a plugin sets are sent.
#[inline]
pub(crate) fn keep_accel_fields(exchange: &mut Exchange) {
    if exchange.response.headers.may_contain(ACCEL_SET) && !exchange.local().options.forward.accel_fields {
        ACCEL.iter().for_each(|id| exchange.response.headers.mark_hop_by_hop(*id));
    }
}

/// The fields that a client receives besides those of the protocol's own framing. `has_body` says whether a
/// body, and so a length of its own, will follow; `date` is for a response that carries none.
pub(crate) fn response_fields(exchange: &Exchange, has_body: bool, date: &[u8], sink: &mut impl FieldSink) {
    let response = &exchange.response;
    let server = exchange.local().options.forward.server.as_deref();
    let head_only = exchange.request.method == Method::Head || response.status == 304;
    // The length that a GET would have brought stays true where there is no body to measure.
    let keeps_length = head_only && !has_body;
    let skip = match (keeps_length, server) {
        (true, None) => FieldSet::EMPTY,
        (true, Some(_)) => FieldSet::of(&[FieldId::Server]),
        (false, None) => FieldSet::of(&[FieldId::ContentLength]),
        (false, Some(_)) => FieldSet::of(&[FieldId::ContentLength, FieldId::Server]),
    };
    sink.fields_except(&response.headers, skip);
    if let Some(server) = server {
        sink.field("Server", server.as_bytes());
    }
    // RFC 9110 section 6.6.1: a gateway that relays a response without a date adds one.
    if response.status >= 200 && !response.headers.contains_known(FieldId::Date) {
        sink.field("Date", date);
    }
    if let Some(tls) = &exchange.connection.tls
        && let Some(alt_svc) = &tls.alt_svc
        && response.status >= 200
        && !response.headers.contains("alt-svc")
    {
        sink.field("Alt-Svc", alt_svc.as_bytes());
    }
}
