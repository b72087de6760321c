//! The PROXY protocol and the client's address: `apisix.proxy_protocol` and the keys of nginx's realip
//! module, of which one list of peers serves both. Opens nothing.

use super::draft::{At, Draft, Spot};
use super::listeners::{check_listen_address, join_ip_port, remark_unknown_names};

/// The keys that depend on each other.
#[derive(Default)]
pub(super) struct ProxyProtocol {
    http: Option<(At, String)>,
    https: Option<(At, String)>,
    from: Option<(At, Vec<String>)>,
    /// The listeners of layer 4, if there are any that begin with the header.
    pub(super) stream: Option<At>,
    /// `real_ip_header: proxy_protocol`.
    names_client: bool,
}

/// `apisix.proxy_protocol`: ports of listeners, and switches of layer 4.
pub(super) fn convert_proxy_protocol(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    remark_unknown_names(draft, spot, &KEYS);
    draft.proxy_protocol.http = port(draft, spot, "listen_http_port");
    draft.proxy_protocol.https = port(draft, spot, "listen_https_port");
    draft.stream.takes_header = is_on(draft, spot, "enable_tcp_pp");
    draft.stream.sends_header = is_on(draft, spot, "enable_tcp_pp_to_upstream");
}

fn is_on(draft: &mut Draft<'_>, spot: &Spot<'_>, name: &str) -> bool {
    let Some(node) = spot.node.get(name) else { return false };
    draft.switch(&Spot { key: &format!("{}.{name}", spot.key), node }) == Some(true)
}

/// A port on all IPv4 addresses, where nginx listens for it.
fn port(draft: &mut Draft<'_>, spot: &Spot<'_>, name: &str) -> Option<(At, String)> {
    let node = spot.node.get(name)?;
    let at = At { key: format!("{}.{name}", spot.key), line: node.line };
    let port = draft.text(&Spot { key: &at.key, node })?;
    let address = join_ip_port("0.0.0.0", port);
    check_listen_address(draft, &at, &address).then_some((at, address))
}

/// `nginx_config.http.real_ip_header`: a field, or the header of the PROXY protocol.
pub(super) fn real_ip_header(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if spot.node.text() == Some("proxy_protocol") {
        draft.proxy_protocol.names_client = true;
    } else {
        draft.copy(spot, "real_ip_header");
    }
}

/// `nginx_config.http.real_ip_from`: addresses. `unix:` is dropped, because this version has no Unix sockets.
pub(super) fn real_ip_from(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(mut networks) = draft.texts(spot) {
        networks.retain(|network| network != "unix:");
        draft.proxy_protocol.from = Some((spot.at(), networks));
    }
}

/// Settles the list of peers. With `real_ip_header: proxy_protocol` they name clients by the header alone, so
/// that no field counts; APISIX takes such connections from any peer and believes those of the list.
pub(super) fn finish_proxy_protocol(draft: &mut Draft<'_>) {
    let ProxyProtocol { http, https, from, stream, names_client } = std::mem::take(&mut draft.proxy_protocol);
    if let Some((at, networks)) = from.clone().filter(|_| !names_client) {
        draft.set(&at, "real_ip_from", networks);
    }
    let is_tls_off = draft.listening.tls_off.is_some();
    if let Some((at, _)) = https.as_ref().filter(|_| is_tls_off) {
        draft.remark(&at.key, at.line, "TLS is off by `apisix.ssl.enable`".to_owned());
    }
    let serves_http = draft.stream.without_http.is_none();
    let https = https.filter(|_| !is_tls_off && serves_http);
    let http = http.filter(|_| serves_http);
    if draft.deployment.without_proxy().is_some() {
        return;
    }
    let first = http.as_ref().or(https.as_ref()).map(|(at, _)| at.clone());
    let Some(first) = first.or(stream) else { return };
    let (at, networks) = from.unwrap_or_else(|| {
        let reason = "takes connections of 127.0.0.1 only; name the balancers in front in \
                      nginx_config.http.real_ip_from or in WEIR_PROXY_PROTOCOL_FROM";
        draft.remark(&first.key, first.line, reason.to_owned());
        (first, vec![APISIX_REAL_IP_FROM.to_owned()])
    });
    draft.set(&at, "proxy_protocol_from", networks);
    for (setting, listener) in [("proxy_protocol", http), ("proxy_protocol_tls", https)] {
        if let Some((at, address)) = listener {
            draft.set_one(&at, setting, address);
        }
    }
}

/// The peers that APISIX believes where none are written.
const APISIX_REAL_IP_FROM: &str = "127.0.0.1";

/// The keys beneath `apisix.proxy_protocol`.
const KEYS: [&str; 4] =
    ["listen_http_port", "listen_https_port", "enable_tcp_pp", "enable_tcp_pp_to_upstream"];
