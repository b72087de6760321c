//! Addresses, networks and endpoints. Resolves no name but `localhost`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use stdx::address_family::{AddressFamily, FamilyOrder};

use super::super::written::SettingTexts;
use super::{items, single};

/// Any number of listening addresses, or `off`.
pub(in super::super) fn parse_listeners(given: &SettingTexts) -> Result<Vec<SocketAddr>, String> {
    match items(given)[..] {
        ["off"] => Ok(Vec::new()),
        [] => Err("is empty; write an address such as `0.0.0.0:9080`, or `off`".to_owned()),
        ref addresses => addresses.iter().map(|text| parse_listen_address(text)).collect(),
    }
}

/// One listening address, or `off`.
pub(in super::super) fn listener(given: &SettingTexts) -> Result<Option<SocketAddr>, String> {
    match single(given)? {
        "off" => Ok(None),
        text => parse_listen_address(text).map(Some),
    }
}

/// Addresses and networks; an address becomes a network with one address.
pub(in super::super) fn networks(given: &SettingTexts) -> Result<Vec<IpNet>, String> {
    let network = |text: &&str| {
        router::cidr::network(text).ok_or_else(|| {
            format!("`{text}` is not an address or network; write `10.0.0.0/8`, `192.0.2.1` or `fd00::/8`")
        })
    };
    items(given).iter().map(network).collect()
}

/// Host names without ports.
pub(in super::super) fn hosts(given: &SettingTexts) -> Result<Vec<String>, String> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.len() <= HOST_MAX_BYTES
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let host = |text: &str| match is_name(text) {
        true => Ok(text.trim_end_matches('.').to_ascii_lowercase()),
        false => {
            Err(format!("`{text}` is not the name of a host, such as `weir.example.com`, without a port"))
        }
    };
    items(given).into_iter().map(host).collect()
}

/// Name servers; port 53 where none is written.
pub(in super::super) fn name_servers(given: &SettingTexts) -> Result<Vec<SocketAddr>, String> {
    let server = |text: &&str| {
        let plain = text.trim_matches(['[', ']']).parse::<IpAddr>();
        plain.map(|ip| SocketAddr::new(ip, DNS_PORT)).or_else(|_| parse_listen_address(text))
    };
    items(given).iter().map(server).collect()
}

/// Families of addresses by their records in DNS, the preferred one first.
pub(in super::super) fn family_order(given: &SettingTexts) -> Result<FamilyOrder, String> {
    let family = |text: &&str| match text.to_ascii_uppercase().as_str() {
        "A" => Ok(AddressFamily::V4),
        "AAAA" => Ok(AddressFamily::V6),
        _ => Err(format!("`{text}` is no family of addresses; write A (IPv4), AAAA (IPv6), or both")),
    };
    let families: Vec<AddressFamily> = items(given).iter().map(family).collect::<Result<_, _>>()?;
    FamilyOrder::new(families).ok_or_else(|| "is empty; write A, AAAA, or both".to_owned())
}

/// Endpoints of one service: all with TLS or none, because they share the settings of certificates.
pub(in super::super) fn endpoints(given: &SettingTexts) -> Result<Vec<String>, String> {
    let endpoint = |text: &str| {
        let (scheme, authority) = text.split_once("://").ok_or(())?;
        let host_and_port = authority.trim_end_matches('/').rsplit_once(':').ok_or(())?;
        let known = matches!(scheme, "http" | "https") && !host_and_port.0.is_empty();
        let port = host_and_port.1.parse::<u16>().map_err(|_| ())?;
        if known && port > 0 { Ok(text.trim_end_matches('/').to_owned()) } else { Err(()) }
    };
    let refuse = |text: &str| format!("`{text}` is not `http://HOST:PORT` or `https://HOST:PORT`");
    let endpoints = items(given)
        .into_iter()
        .map(|text| endpoint(text).map_err(|()| refuse(text)))
        .collect::<Result<Vec<_>, _>>()?;
    let secure = endpoints.iter().filter(|endpoint| endpoint.starts_with("https://")).count();
    match endpoints.len() {
        0 => Err("is empty; write at least one `http://HOST:PORT`".to_owned()),
        all if secure == 0 || secure == all => Ok(endpoints),
        _ => Err("some are `http` and some `https`; all of a cluster are one or the other".to_owned()),
    }
}

/// One listening address with its port.
pub(super) fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let hint = || format!("`{text}` is not `IP:PORT`");
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port.parse().map_err(|_| format!("{}: the port is a number up to 65535", hint()))?;
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    let advice = match text.rsplit_once(':') {
        _ if text.contains("://") => "leave the scheme out",
        _ if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => {
            "put IPv6 in brackets and add a port: `[::1]:9080`"
        }
        _ if text.parse::<IpAddr>().is_ok() => "add a port: `127.0.0.1:9080`",
        Some(("" | "*", _)) => {
            "write `0.0.0.0:PORT` for every address, `127.0.0.1:PORT` for this machine only"
        }
        Some((host, _)) if host.parse::<IpAddr>().is_ok() => "the port is a number up to 65535",
        Some(_) => "write an IP address, not a name",
        None => "write `0.0.0.0:PORT` for every address, `127.0.0.1:PORT` for this machine only",
    };
    Err(format!("{}: {advice}", hint()))
}

/// Longest name of a host in the notation of texts (RFC 1035, 2.3.4).
const HOST_MAX_BYTES: usize = 253;
/// The port of name servers (RFC 1035, 4.2).
const DNS_PORT: u16 = 53;
