//! Values that are valid alone but not together.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use control::acme::ChallengeKind;

use super::{ResourceSource, SettingFault, Settings, WrittenSettings};

impl Settings {
    /// Refuses values that are valid alone but not together.
    pub(super) fn check_relations(
        self,
        written: &WrittenSettings,
        faults: &mut Vec<SettingFault>,
    ) -> Option<Self> {
        self.check_addresses(written, faults);
        self.check_source(written, faults);
        self.check_admin_tls(written, faults);
        self.check_acme(written, faults);
        self.check_proxy_protocol(written, faults);
        self.check_http1_only(written, faults);
        self.check_proxy_protocol_optional(written, faults);
        self.check_stream_send_proxy_protocol(written, faults);
        self.check_interception(written, faults);
        self.check_registration(written, faults);
        if self.max_header_line_bytes > self.max_head_bytes {
            let reason = "max_header_line_bytes is more than max_head_bytes; lower it or raise that";
            faults
                .push(written.fault_of_pair(["max_header_line_bytes", "max_head_bytes"], reason.to_owned()));
        }
        if self.dns_ttl_min_ms > self.dns_ttl_max_ms {
            let reason = "dns_ttl_min_ms is more than dns_ttl_max_ms; lower it or raise that";
            faults.push(written.fault_of_pair(["dns_ttl_min_ms", "dns_ttl_max_ms"], reason.to_owned()));
        }
        faults.is_empty().then_some(self)
    }

    /// Refuses a source that lacks a setting it needs, or that another setting contradicts.
    fn check_source(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let reason = match (self.source, &self.resources) {
            (ResourceSource::File, None) => "`source: file` needs `resources`, the file",
            (ResourceSource::Store | ResourceSource::Etcd, Some(_)) => {
                "`resources` names a file; leave it out, or `source`"
            }
            _ if self.etcd_cert.is_some() != self.etcd_key.is_some() => {
                faults.push(written.fault_of_pair(
                    ["etcd_cert", "etcd_key"],
                    "a certificate and its private key go together".to_owned(),
                ));
                return;
            }
            _ if self.etcd_username.is_some() != self.etcd_password.is_some() => {
                faults.push(written.fault_of_pair(
                    ["etcd_username", "etcd_password"],
                    "a user name and a password go together".to_owned(),
                ));
                return;
            }
            _ => return,
        };
        faults.push(written.fault_of_pair(["source", "resources"], reason.to_owned()));
    }

    /// Refuses challenges that cannot be answered, and more external accounts than authorities.
    fn check_acme(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let uses_dns = self.acme_challenges.contains(&ChallengeKind::Dns01);
        if uses_dns != self.acme_dns_hook.is_some() {
            let reason = "`dns-01` in acme_challenges and acme_dns_hook go together";
            faults.push(written.fault_of_pair(["acme_challenges", "acme_dns_hook"], reason.to_owned()));
        }
        let wildcard = self.acme_domains.iter().flatten().find(|name| name.starts_with("*."));
        if let Some(name) = wildcard.filter(|_| !uses_dns) {
            let reason =
                format!("`{name}` needs `dns-01` in acme_challenges: no other challenge proves a wildcard");
            faults.push(written.fault_of_pair(["acme_domains", "acme_challenges"], reason));
        }
        if self.acme_external_accounts.count() > self.acme_authorities.len() {
            let reason = "acme_external_accounts has more entries than acme_authorities";
            let pair = ["acme_external_accounts", "acme_authorities"];
            faults.push(written.fault_of_pair(pair, reason.to_owned()));
        }
    }

    /// Refuses certificates of the Admin API without their keys, and authorities of clients without HTTPS.
    fn check_admin_tls(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let mut check = |is_wrong: bool, pair: [&'static str; 2], reason: &str| {
            if is_wrong {
                faults.push(written.fault_of_pair(pair, reason.to_owned()));
            }
        };
        let both = "a certificate and its private key go together";
        let is_odd = |one: &Option<PathBuf>, other: &Option<PathBuf>| one.is_some() != other.is_some();
        check(is_odd(&self.admin_tls_cert, &self.admin_tls_key), ["admin_tls_cert", "admin_tls_key"], both);
        let pair = ["admin_client_cert", "admin_client_key"];
        check(is_odd(&self.admin_client_cert, &self.admin_client_key), pair, both);
        let without_https = self.admin_tls_client_ca.is_some() && self.admin_tls_cert.is_none();
        let reason = "client certificates need HTTPS; set admin_tls_cert and admin_tls_key too";
        check(without_https, ["admin_tls_client_ca", "admin_tls_cert"], reason);
    }

    /// The lists of listeners that take a PROXY protocol header.
    fn header_listeners(&self) -> [(&'static str, &[SocketAddr]); 4] {
        [
            ("proxy_protocol", &self.proxy_protocol),
            ("proxy_protocol_tls", &self.proxy_protocol_tls),
            ("stream_proxy_protocol", &self.stream_proxy_protocol),
            ("stream_proxy_protocol_tls", &self.stream_proxy_protocol_tls),
        ]
    }

    /// Refuses addresses at which a header is optional and no listener takes one, because a typing error
    /// would leave it required.
    fn check_proxy_protocol_optional(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let addresses = ("proxy_protocol_optional", &*self.proxy_protocol_optional);
        faults.extend(in_none_of(addresses, &self.header_listeners(), written));
    }

    /// Refuses listeners that no peer may connect to.
    fn check_proxy_protocol(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let listeners = self.header_listeners();
        let Some((name, _)) = listeners.into_iter().find(|(_, addresses)| !addresses.is_empty()) else {
            return;
        };
        if self.proxy_protocol_from.is_empty() {
            let reason =
                format!("`{name}` needs `proxy_protocol_from`, the addresses of the balancers in front");
            faults.push(written.fault_of_pair([name, "proxy_protocol_from"], reason));
        }
    }

    /// Refuses addresses without HTTP/2 that the proxy does not listen on, because a typing error would leave
    /// HTTP/2 on.
    fn check_http1_only(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        faults.extend(in_none_of(("http1_only", &*self.http1_only), &self.proxy_listeners(), written));
    }

    /// Refuses addresses that send a header and are no listener of TCP, because a typing error would send
    /// none.
    fn check_stream_send_proxy_protocol(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let [lists @ .., _] = self.stream_listeners();
        let addresses = ("stream_send_proxy_protocol", &*self.stream_send_proxy_protocol);
        faults.extend(in_none_of(addresses, &lists, written));
    }

    /// Refuses addresses with intercepted connections that are no listener without a PROXY protocol header,
    /// of which the connections have one destination, and an address in both lists.
    fn check_interception(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let lists = [("stream_tcp", &*self.stream_tcp), ("stream_tls", &*self.stream_tls)];
        for addresses in
            [("stream_tproxy", &*self.stream_tproxy), ("stream_redirect", &*self.stream_redirect)]
        {
            faults.extend(in_none_of(addresses, &lists, written));
        }
        if let Some(address) =
            self.stream_tproxy.iter().find(|address| self.stream_redirect.contains(address))
        {
            let reason =
                format!("both name {address}; the kernel either hands connections over or redirects them");
            faults.push(written.fault_of_pair(["stream_tproxy", "stream_redirect"], reason));
        }
    }

    /// Refuses one address for two listeners, because the kernel's error comes later and does not name the
    /// settings.
    fn check_addresses(&self, written: &WrittenSettings, faults: &mut Vec<SettingFault>) {
        let listed = |lists: &[(&'static str, &[SocketAddr])]| -> Vec<(&'static str, SocketAddr)> {
            let each = |(name, list): &(&'static str, &[SocketAddr])| {
                list.iter().map(|address| (*name, *address)).collect::<Vec<_>>()
            };
            lists.iter().flat_map(each).collect()
        };
        let [stream_tcp @ .., stream_udp] = self.stream_listeners();
        let rest = [
            ("admin", self.admin),
            ("control", self.control),
            ("status", self.status),
            ("metrics", self.metrics),
        ];
        let rest = rest.into_iter().filter_map(|(name, address)| Some((name, address?)));
        let mut tcp = listed(&self.proxy_listeners());
        tcp.extend(listed(&stream_tcp).into_iter().chain(rest));
        let udp = listed(&[("proxy_tls_http3", &self.proxy_tls_http3), stream_udp]);
        for all in [tcp, udp] {
            for (index, (name, address)) in all.iter().enumerate() {
                if let Some((other, _)) = all[..index].iter().find(|(_, other)| collide(*other, *address)) {
                    let reason =
                        format!("`{other}` and `{name}` both take {address}; give each its own port");
                    faults.push(written.fault_of_pair([other, name], reason));
                }
            }
        }
    }
}

/// Faults of the addresses of a setting that none of `lists` has as they are written.
fn in_none_of(
    (setting, addresses): (&'static str, &[SocketAddr]),
    lists: &[(&'static str, &[SocketAddr])],
    written: &WrittenSettings,
) -> Vec<SettingFault> {
    let is_unknown = |address: &&SocketAddr| !lists.iter().any(|(_, list)| list.contains(address));
    let fault = |address: &SocketAddr| {
        let names: Vec<String> = lists.iter().map(|(name, _)| format!("`{name}`")).collect();
        let reason = format!("{address} is in none of {}; write it as it is there", names.join(", "));
        written.fault(setting, reason)
    };
    addresses.iter().filter(is_unknown).map(fault).collect()
}

/// Whether two listeners cannot both be bound: same port (port 0 never collides), and the same address or an
/// unspecified one.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let all = |address: IpAddr| address.is_unspecified();
    let overlap =
        one.ip() == other.ip() || (one.is_ipv4() == other.is_ipv4() && (all(one.ip()) || all(other.ip())));
    one.port() != 0 && one.port() == other.port() && overlap
}
