//! The listeners: `apisix.node_listen`, `ssl`, `control`, `status`, the Admin API and the metrics. Opens no
//! socket.

use stdx::nearest::nearest;

use super::super::fault::SettingLocation;
use super::super::parse;
use super::super::written::SettingTexts;
use super::draft::{At, Draft, Spot};
use super::tree::{Content, YamlNode};

/// Values of several keys, combined when all are read.
#[derive(Default)]
pub(super) struct Listening {
    admin: Option<(At, String)>,
    control: Option<(At, String)>,
    metrics: Option<(At, String)>,
    admin_off: Option<At>,
    /// The key that admits other machines: the Admin API then listens on APISIX's address if none is written.
    pub(super) admin_opened: Option<At>,
    control_off: Option<At>,
    metrics_off: Option<At>,
    proxy: Option<(At, Vec<ListenEntry>)>,
    tls: Option<(At, Vec<ListenEntry>)>,
    pub(super) tls_off: Option<At>,
    ipv6: Option<At>,
}

/// One entry of `node_listen` or `ssl.listen`.
struct ListenEntry {
    ip: Option<String>,
    port: String,
    /// HTTP/3 is served beside TLS.
    http3: bool,
    /// HTTP/2 is not served.
    http1_only: bool,
}

impl ListenEntry {
    /// A port on all addresses, with HTTP/1 and HTTP/2.
    fn of_port(port: &str) -> ListenEntry {
        ListenEntry { ip: None, port: port.to_owned(), http3: false, http1_only: false }
    }

    /// Its addresses: one, or one of IPv6 as well where `enable_ipv6` is on and no address is written.
    fn addresses(&self, ipv6: bool) -> Vec<String> {
        let also = (ipv6 && self.ip.is_none()).then(|| join_ip_port("::", &self.port));
        [join_ip_port(self.ip.as_deref().unwrap_or("0.0.0.0"), &self.port)].into_iter().chain(also).collect()
    }
}

/// `apisix.node_listen`: a port, or a list of ports and of maps.
pub(super) fn node_listen(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let entries = entries(draft, spot, DEFAULT_PORT);
    draft.listening.proxy = Some((spot.at(), entries));
}

/// The entries of a list of ports and of maps, or of one port.
fn entries(draft: &mut Draft<'_>, spot: &Spot<'_>, default_port: &str) -> Vec<ListenEntry> {
    let is_tls = default_port == DEFAULT_TLS_PORT;
    let mut entries = Vec::new();
    let items = match &spot.node.content {
        Content::List(items) => items.as_slice(),
        _ => std::slice::from_ref(spot.node),
    };
    for (index, item) in items.iter().enumerate() {
        let is_list = matches!(spot.node.content, Content::List(_));
        let key = if is_list { format!("{}[{index}]", spot.key) } else { spot.key.to_owned() };
        let spot = Spot { key: &key, node: item };
        let entry = match &item.content {
            Content::Map(_) => {
                remark_unknown_names(draft, &spot, &["ip", "port", "enable_http2", "enable_http3"]);
                protocols(draft, &spot, is_tls);
                let text = |name: &str| item.get(name).and_then(YamlNode::text).map(str::to_owned);
                let port = text("port").unwrap_or_else(|| default_port.to_owned());
                let http3 = is_tls && is_true(item, "enable_http3");
                ListenEntry { ip: text("ip"), port, http3, http1_only: is_false(item, "enable_http2") }
            }
            _ => match draft.text(&spot) {
                Some(port) => ListenEntry::of_port(port),
                None => continue,
            },
        };
        if check_listen_address(
            draft,
            &spot.at(),
            &join_ip_port(entry.ip.as_deref().unwrap_or("0.0.0.0"), &entry.port),
        ) {
            entries.push(entry);
        }
    }
    entries
}

/// A remark on HTTP/3 where it cannot be served.
fn protocols(draft: &mut Draft<'_>, spot: &Spot<'_>, is_tls: bool) {
    if let Some(asked) = spot.node.get("enable_http3").filter(|node| node.text() == Some("true") && !is_tls) {
        let reason = "HTTP/3 needs TLS; write it in `apisix.ssl.listen`".to_owned();
        draft.remark(&format!("{}.enable_http3", spot.key), asked.line, reason);
    }
}

fn is_true(node: &YamlNode, name: &str) -> bool {
    node.get(name).and_then(YamlNode::text) == Some("true")
}

fn is_false(node: &YamlNode, name: &str) -> bool {
    node.get(name).and_then(YamlNode::text) == Some("false")
}

/// `apisix.enable_ipv6`: when on, APISIX also listens on `[::]` for each port without an address.
pub(super) fn enable_ipv6(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.ipv6 = draft.switch(spot).filter(|on| *on).map(|_| spot.at());
}

/// `apisix.enable_admin`.
pub(super) fn enable_admin(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.admin_off = draft.switch(spot).filter(|on| !on).map(|_| spot.at());
}

/// `apisix.enable_control`.
pub(super) fn enable_control(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.control_off = draft.switch(spot).filter(|on| !on).map(|_| spot.at());
}

/// `plugin_attr.prometheus.enable_export_server`.
pub(super) fn enable_export_server(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.metrics_off = draft.switch(spot).filter(|on| !on).map(|_| spot.at());
}

/// `deployment.admin.admin_listen`.
pub(super) fn convert_admin_listen(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.admin = socket(draft, spot, "0.0.0.0", "9180").map(|address| (spot.at(), address));
}

/// `apisix.control`.
pub(super) fn control(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.control = socket(draft, spot, "127.0.0.1", "9090").map(|address| (spot.at(), address));
}

/// `apisix.status`.
pub(super) fn status(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    if let Some(address) = socket(draft, spot, "127.0.0.1", "7085") {
        draft.set_one(&spot.at(), "status", address);
    }
}

/// `plugin_attr.prometheus.export_addr`.
pub(super) fn metrics(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    draft.listening.metrics = socket(draft, spot, "127.0.0.1", "9091").map(|address| (spot.at(), address));
}

/// `apisix.ssl`: the listeners for TLS, and what handshakes are made under.
pub(super) fn ssl(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    remark_unknown_names(draft, spot, &SSL_KEYS);
    let ca = spot.node.get("ssl_trusted_certificate").and_then(YamlNode::text);
    draft.deployment.ca = ca.filter(|path| *path != "system").map(|path| (spot.at(), path.to_owned()));
    if let Some((at, path)) = draft.deployment.ca.clone() {
        let path = draft.beneath_home(&path);
        draft.set_one(&at, "secret_ca", path);
    }
    if let Some(trusted) = spot.node.get("ssl_trusted_certificate").and_then(YamlNode::text) {
        let entry =
            |entry: &str| if entry == "system" { entry.to_owned() } else { draft.beneath_home(entry) };
        let entries = trusted.split(',').map(str::trim).filter(|one| !one.is_empty()).map(entry).collect();
        draft.set(&spot.at(), "trusted_certificates", entries);
    }
    let beneath = |name: &str| spot.node.get(name).map(|node| (format!("{}.{name}", spot.key), node));
    if let Some((key, node)) = beneath("enable")
        && draft.switch(&Spot { key: &key, node }) == Some(false)
    {
        draft.listening.tls_off = Some(At { key, line: node.line });
        return;
    }
    if let Some((key, node)) = beneath("listen") {
        let spot = Spot { key: &key, node };
        let entries = entries(draft, &spot, DEFAULT_TLS_PORT);
        draft.listening.tls = Some((spot.at(), entries));
    }
    let (http3, http1_only) = (is_true(spot.node, "enable_http3"), is_false(spot.node, "enable_http2"));
    if http3 || http1_only {
        let at = spot.at();
        let (_, entries) =
            draft.listening.tls.get_or_insert_with(|| (at, vec![ListenEntry::of_port(DEFAULT_TLS_PORT)]));
        for entry in entries {
            entry.http3 |= http3;
            entry.http1_only |= http1_only;
        }
    }
    for (name, setting) in [("fallback_sni", "fallback_sni"), ("ssl_session_tickets", "ssl_session_tickets")]
    {
        if let Some((key, node)) = beneath(name) {
            draft.copy(&Spot { key: &key, node }, setting);
        }
    }
    if let Some((key, node)) = beneath("ssl_protocols") {
        let spot = Spot { key: &key, node };
        if let Some(text) = draft.text(&spot) {
            let versions = text.split_whitespace().map(str::to_owned).collect();
            draft.set(&spot.at(), "ssl_protocols", versions);
        }
    }
    if let Some((key, node)) = beneath("ssl_ciphers") {
        ciphers(draft, &Spot { key: &key, node });
    }
}

/// `apisix.ssl.ssl_ciphers`. The list in APISIX's own settings names suites that are not offered here; it
/// must not keep an instance from starting, so that those are left out as long as one is left.
fn ciphers(draft: &mut Draft<'_>, spot: &Spot<'_>) {
    let Some(text) = draft.text(spot) else { return };
    let named = text.split(':').filter(|name| !name.is_empty());
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        named.partition(|name| net::tls::names::check_suites(name).is_ok());
    if known.is_empty() {
        return draft.set_one(&spot.at(), "ssl_ciphers", text);
    }
    if !unknown.is_empty() {
        let reason = format!("not offered: {}", unknown.join(", "));
        draft.remark(spot.key, spot.node.line, reason);
    }
    draft.set_one(&spot.at(), "ssl_ciphers", known.join(":"));
}

/// Decides the values that depend on more than one key. Runs after the one of `deployment`, which knows the
/// role.
pub(super) fn finish_listeners(draft: &mut Draft<'_>) {
    let listening = std::mem::take(&mut draft.listening);
    let opened = listening.admin_opened.map(|at| (at, "0.0.0.0:9180".to_owned()));
    let no_admin = draft.deployment.without_admin().or(listening.admin_off);
    for (setting, address, off) in [
        ("admin", listening.admin.or(opened), no_admin),
        ("control", listening.control, listening.control_off),
        ("metrics", listening.metrics, listening.metrics_off),
    ] {
        match (address, off) {
            (_, Some(at)) => draft.set_one(&at, setting, "off"),
            (Some((at, address)), None) => draft.set_one(&at, setting, address),
            (None, None) => {}
        }
    }
    let without_http = draft.deployment.without_proxy().or(draft.stream.without_http.clone());
    if let Some(at) = without_http {
        draft.set_one(&at, "proxy", "off");
        return draft.set_one(&at, "proxy_tls", "off");
    }
    let tls = listening.tls.as_ref().filter(|_| listening.tls_off.is_none());
    set_http1_only(draft, [listening.proxy.as_ref(), tls], listening.ipv6.is_some());
    set_listeners(draft, "proxy", listening.proxy, listening.ipv6.as_ref(), DEFAULT_PORT);
    match listening.tls_off {
        Some(at) => draft.set_one(&at, "proxy_tls", "off"),
        None => set_tls_listeners(draft, listening.tls, listening.ipv6.as_ref()),
    }
}

/// Writes the addresses of the entries with `enable_http2: false`.
fn set_http1_only(draft: &mut Draft<'_>, lists: [Option<&(At, Vec<ListenEntry>)>; 2], ipv6: bool) {
    let lists = || lists.into_iter().flatten();
    let named = lists().find(|(_, entries)| entries.iter().any(|entry| entry.http1_only));
    if let Some((at, _)) = named {
        let entries = lists().flat_map(|(_, entries)| entries).filter(|entry| entry.http1_only);
        let addresses = entries.flat_map(|entry| entry.addresses(ipv6)).collect();
        draft.set(at, "http1_only", addresses);
    }
}

/// Writes the settings of the listeners for TLS: those with HTTP/3 have a list of their own.
fn set_tls_listeners(draft: &mut Draft<'_>, listening: Option<(At, Vec<ListenEntry>)>, ipv6: Option<&At>) {
    let Some((at, entries)) = listening else {
        return set_listeners(draft, "proxy_tls", None, ipv6, DEFAULT_TLS_PORT);
    };
    let (http3, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.http3);
    if !http3.is_empty() {
        set_listeners(draft, "proxy_tls_http3", Some((at.clone(), http3)), ipv6, DEFAULT_TLS_PORT);
        if others.is_empty() {
            return draft.set_one(&at, "proxy_tls", "off");
        }
    }
    set_listeners(draft, "proxy_tls", Some((at, others)), ipv6, DEFAULT_TLS_PORT);
}

/// Writes the setting of a list of listeners, if one of its keys is written.
fn set_listeners(
    draft: &mut Draft<'_>,
    setting: &str,
    listening: Option<(At, Vec<ListenEntry>)>,
    ipv6: Option<&At>,
    default_port: &str,
) {
    let (at, entries) = match (listening, ipv6) {
        (Some(listening), _) => listening,
        (None, Some(at)) => (at.clone(), vec![ListenEntry::of_port(default_port)]),
        (None, None) => return,
    };
    let mut addresses: Vec<String> =
        entries.iter().flat_map(|entry| entry.addresses(ipv6.is_some())).collect();
    // Port 0 is no duplicate, because each bind gets another port.
    addresses.dedup_by(|one, other| one == other && !one.ends_with(":0"));
    draft.set(&at, setting, addresses);
}

/// The address in a map with `ip` and `port`; a fault if it is none.
fn socket(draft: &mut Draft<'_>, spot: &Spot<'_>, ip: &str, port: &str) -> Option<String> {
    if !matches!(spot.node.content, Content::Map(_)) {
        draft.fault(spot.key, spot.node.line, "is a map of `ip` and `port`".to_owned());
        return None;
    }
    remark_unknown_names(draft, spot, &["ip", "port"]);
    let text = |name: &str, default: &str| {
        spot.node.get(name).and_then(YamlNode::text).unwrap_or(default).to_owned()
    };
    let address = join_ip_port(&text("ip", ip), &text("port", port));
    check_listen_address(draft, &spot.at(), &address).then_some(address)
}

/// Checks an address here, so that its fault has its own line instead of that of the list.
pub(super) fn check_listen_address(draft: &mut Draft<'_>, at: &At, address: &str) -> bool {
    let given = SettingTexts { values: vec![address.to_owned()], place: SettingLocation::Default };
    let parsed = parse::listener(&given);
    if let Err(reason) = &parsed {
        draft.fault(&at.key, at.line, reason.clone());
    }
    parsed.is_ok()
}

/// Remarks on unknown names in a map, each with the nearest known one.
pub(super) fn remark_unknown_names(draft: &mut Draft<'_>, spot: &Spot<'_>, known: &[&str]) {
    for (name, line) in spot.node.names().filter(|(name, _)| !known.contains(name)) {
        let reason = match nearest(name, known.iter().copied()) {
            Some(near) => format!("there is no such key; did you mean `{near}`?"),
            None => "there is no such key".to_owned(),
        };
        draft.remark(&format!("{}.{name}", spot.key), line, reason);
    }
}

pub(super) fn join_ip_port(ip: &str, port: &str) -> String {
    if ip.contains(':') && !ip.starts_with('[') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

const DEFAULT_PORT: &str = "9080";
const DEFAULT_TLS_PORT: &str = "9443";

/// The keys under `apisix.ssl` that APISIX has.
const SSL_KEYS: [&str; 10] = [
    "enable",
    "listen",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_session_tickets",
    "ssl_trusted_certificate",
    "fallback_sni",
    "enable_http2",
    "enable_http3",
    "key_encrypt_salt",
];
