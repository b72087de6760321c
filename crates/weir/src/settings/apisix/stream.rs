//! Layer 4: `apisix.proxy_mode`, `apisix.stream_proxy` and the switches of `apisix.proxy_protocol` for it.
//! Opens no socket.

use super::super::fault::SettingLocation;
use super::super::parse;
use super::super::written::SettingTexts;
use super::draft::{At, Draft, Spot};
use super::listeners::remark_unknown_names;
use super::tree::Content;

/// The keys that depend on each other.
#[derive(Default)]
pub(super) struct StreamProxy {
    mode: Option<(At, ProxyMode)>,
    /// `stream_proxy.only`, which older versions have in place of a mode.
    only: Option<(At, bool)>,
    /// `stream_proxy` itself.
    written: Option<At>,
    tcp: Option<(At, Vec<StreamProxyEntry>)>,
    udp: Option<(At, Vec<StreamProxyEntry>)>,
    /// `proxy_protocol.enable_tcp_pp`.
    pub(super) takes_header: bool,
    /// `proxy_protocol.enable_tcp_pp_to_upstream`.
    pub(super) sends_header: bool,
    /// The key that turns HTTP off; known when [`finish_stream`] has run.
    pub(super) without_http: Option<At>,
}

/// The layers that are served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProxyMode {
    Http,
    Stream,
    Both,
}

/// One entry of `stream_proxy.tcp` or `stream_proxy.udp`.
struct StreamProxyEntry {
    address: String,
    tls: bool,
    /// Connections begin with a PROXY protocol header; none: as `enable_tcp_pp` says.
    takes_header: Option<bool>,
    /// Nodes are sent one; none: as `enable_tcp_pp_to_upstream` says.
    sends_header: Option<bool>,
}

/// `apisix.proxy_mode`.
pub(super) fn proxy_mode(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let mode = match draft.text(spot) {
        None => return,
        Some("http") => ProxyMode::Http,
        Some("stream") => ProxyMode::Stream,
        Some("http&stream") => ProxyMode::Both,
        Some(other) => {
            let reason = format!("`{other}` is not `http`, `stream` or `http&stream`");
            return draft.fault(spot.key, spot.node.line, reason);
        }
    };
    draft.stream.mode = Some((spot.at(), mode));
}

/// `apisix.stream_proxy`.
pub(super) fn stream_proxy(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if !matches!(spot.node.content, Content::Map(_)) {
        return draft.fault(spot.key, spot.node.line, "is a map of `tcp` and `udp`".to_owned());
    }
    remark_unknown_names(draft, spot, &["tcp", "udp", "only"]);
    draft.stream.written = Some(spot.at());
    if let Some(node) = spot.node.get("only") {
        let key = format!("{}.only", spot.key);
        let spot = Spot { key: &key, node };
        draft.stream.only = draft.switch(&spot).map(|only| (spot.at(), only));
    }
    draft.stream.tcp = entries(draft, spot, "tcp");
    draft.stream.udp = entries(draft, spot, "udp");
}

fn entries(draft: &mut Draft<'_>, spot: &Spot<'_>, name: &str) -> Option<(At, Vec<StreamProxyEntry>)> {
    let node = spot.node.get(name)?;
    let key = format!("{}.{name}", spot.key);
    let spot = Spot { key: &key, node };
    let items = match &node.content {
        Content::List(items) if !items.is_empty() => items,
        _ => {
            draft.fault(&key, node.line, "is a list of one or more ports and addresses".to_owned());
            return None;
        }
    };
    let mut entries = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = format!("{key}[{index}]");
        entries.extend(entry(draft, &Spot { key: &key, node: item }, name == "tcp"));
    }
    Some((spot.at(), entries))
}

/// A port, an address with a port or a range of ports, or for TCP a map with one of them as `addr`.
fn entry(draft: &mut Draft<'_>, spot: &Spot<'_>, is_tcp: bool) -> Option<StreamProxyEntry> {
    let is_map = is_tcp && matches!(spot.node.content, Content::Map(_));
    let node = if is_map { spot.node.get("addr") } else { Some(spot.node) };
    let Some(node) = node else {
        draft.fault(spot.key, spot.node.line, "has no `addr`".to_owned());
        return None;
    };
    let address = with_address(draft.text(&Spot { key: spot.key, node })?);
    let given = SettingTexts { values: vec![address.clone()], place: SettingLocation::Default };
    let reason = match parse::stream_listeners(&given) {
        Ok(addresses) if addresses.iter().all(|address| address.port() > 0) && !addresses.is_empty() => None,
        Ok(_) => Some(format!("`{address}`: the port is between 1 and 65535")),
        Err(reason) => Some(reason),
    };
    if let Some(reason) = reason {
        draft.fault(spot.key, node.line, reason);
        return None;
    }
    if !is_map {
        return Some(StreamProxyEntry { address, tls: false, takes_header: None, sends_header: None });
    }
    remark_unknown_names(draft, spot, &ENTRY_KEYS);
    let mut switch = |name: &str| {
        let node = spot.node.get(name)?;
        draft.switch(&Spot { key: &format!("{}.{name}", spot.key), node })
    };
    Some(StreamProxyEntry {
        address,
        tls: switch("tls") == Some(true),
        takes_header: switch("proxy_protocol"),
        sends_header: switch("proxy_protocol_to_upstream"),
    })
}

/// A port or a range without an address is one of all IPv4 addresses, as for nginx.
fn with_address(text: &str) -> String {
    match text.strip_prefix("*:") {
        Some(ports) => format!("0.0.0.0:{ports}"),
        None if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => format!("0.0.0.0:{text}"),
        None => text.to_owned(),
    }
}

/// Decides which layers are served, and writes the listeners of layer 4. Runs before the listeners of HTTP
/// are decided.
pub(super) fn finish_stream(draft: &mut Draft<'_>) {
    let stream = std::mem::take(&mut draft.stream);
    let mode = match (stream.mode, stream.only) {
        (Some(mode), only) => {
            if let Some((at, _)) = only {
                draft.remark(&at.key, at.line, "has no effect beside `apisix.proxy_mode`".to_owned());
            }
            mode
        }
        (None, Some((at, only))) => (at, if only { ProxyMode::Stream } else { ProxyMode::Both }),
        (None, None) => {
            if let Some(at) = stream.written {
                draft.remark(&at.key, at.line, NEEDS_MODE.to_owned());
            }
            return;
        }
    };
    let (at, mode) = mode;
    if mode == ProxyMode::Http {
        if let Some(at) = stream.written {
            draft.remark(&at.key, at.line, NEEDS_MODE.to_owned());
        }
        return;
    }
    draft.set_one(&at, "admin_stream_routes", "true");
    if mode == ProxyMode::Stream {
        draft.stream.without_http = Some(at);
    }
    if draft.deployment.without_proxy().is_some() {
        return;
    }
    if let Some((at, entries)) = stream.udp {
        write(draft, &at, "stream_udp", &entries, |_| true);
    }
    let Some((at, entries)) = stream.tcp else { return };
    let takes = |entry: &StreamProxyEntry| entry.takes_header.unwrap_or(stream.takes_header);
    write(draft, &at, "stream_tcp", &entries, |entry| !entry.tls && !takes(entry));
    write(draft, &at, "stream_tls", &entries, |entry| entry.tls && !takes(entry));
    write(draft, &at, "stream_proxy_protocol", &entries, |entry| !entry.tls && takes(entry));
    write(draft, &at, "stream_proxy_protocol_tls", &entries, |entry| entry.tls && takes(entry));
    let sends = |entry: &StreamProxyEntry| entry.sends_header.unwrap_or(stream.sends_header);
    write(draft, &at, "stream_send_proxy_protocol", &entries, sends);
    if entries.iter().any(takes) {
        draft.proxy_protocol.stream = Some(at);
    }
}

/// Writes the addresses of some entries as a setting, if there are any.
fn write(
    draft: &mut Draft<'_>,
    at: &At,
    setting: &str,
    entries: &[StreamProxyEntry],
    is_meant: impl Fn(&StreamProxyEntry) -> bool,
) {
    let addresses: Vec<String> =
        entries.iter().filter(|entry| is_meant(entry)).map(|entry| entry.address.clone()).collect();
    if !addresses.is_empty() {
        draft.set(at, setting, addresses);
    }
}

const NEEDS_MODE: &str = "has no effect without `apisix.proxy_mode: stream` or `http&stream`";

/// The keys of an entry of `stream_proxy.tcp`.
const ENTRY_KEYS: [&str; 4] = ["addr", "tls", "proxy_protocol", "proxy_protocol_to_upstream"];
