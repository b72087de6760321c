//! The fields about the way of a request to this gateway: `X-Forwarded-…`, `Forwarded` and `Via`, which of
//! them are believed, and the values that this gateway sees itself.

use message::{FieldId, FieldSet, Headers};
use router::vars::Value;

use super::Exchange;
use crate::client_address;
use crate::options::ForwardOptions;

impl ForwardOptions {
    /// Removes the fields in which an untrusted peer describes the way of its client, so that neither
    /// conditions nor plugins nor upstreams believe them (contract section 2.5). `X-Forwarded-For` stays as
    /// long as no peer is declared trusted, because without a boundary it cannot be judged. Of a trusted
    /// peer, an empty field counts as none.
    pub fn strip_untrusted(&self, exchange: &mut Exchange) {
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

    /// Whether a request has passed through gateways of this pseudonym too often, by its `Via` fields (RFC
    /// 9110 section 7.6.3).
    #[inline]
    pub fn is_in_loop(&self, headers: &Headers) -> bool {
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

/// How often a request may have passed through a gateway of the same pseudonym. All instances have the same
/// one: a chain of some, or a route that leads to another route of the same instance, is meant; ten are a
/// loop.
const PASSAGES_MAX: usize = 10;
const VIA: FieldSet = FieldSet::of(&[FieldId::Via]);

/// How a client came here, as a proxy in front tells it.
const FORWARDED_FIELDS: [FieldId; 4] =
    [FieldId::XForwardedProto, FieldId::XForwardedHost, FieldId::XForwardedPort, FieldId::Forwarded];
const WAYS_HERE_SET: FieldSet = FieldSet::of(&FORWARDED_FIELDS);

/// The host of an authority that was checked, and its port if it has one (RFC 3986 section 3.2).
pub fn split_port(authority: &[u8]) -> (&[u8], Option<u16>) {
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

/// The gateway's own value for `name`, one of the `X-Forwarded-` fields, where no trusted peer has sent it
/// and no plugin has removed it.
pub fn default_forwarded<'a>(exchange: &'a Exchange, name: &str) -> Option<Value<'a>> {
    let withheld = exchange.target.withheld;
    match name {
        "x-forwarded-proto" if !withheld.proto => Some(Value::from(exchange.connection.scheme.as_str())),
        "x-forwarded-host" if !withheld.host => Some(Value::borrowed(exchange.request.authority())),
        "x-forwarded-port" if !withheld.port => Some(Value::from(observed_port(exchange))),
        _ => None,
    }
}

/// The port that the client asked for: that of Host, otherwise the one it connected to.
pub fn observed_port(exchange: &Exchange) -> u16 {
    split_port(exchange.request.authority()).1.unwrap_or_else(|| exchange.connection.local.port())
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
                error_header: false,
                accel_fields: false,
                html_errors: true,
                alt_svc: crate::options::AltSvc::default(),
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
