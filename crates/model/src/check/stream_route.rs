//! Rules for stream routes that their schema cannot express.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{expression, plugins, route};
use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings};
use crate::{Id, ObjectKey, unsupported};

/// The protocols that a stream route may name.
const PROTOCOLS: [&str; 2] = ["http", "redis"];

/// Checks a stream route.
pub(super) fn check_stream_route(catalog: &PluginCatalog, stream_route: &Value, findings: &mut Findings) {
    unsupported::stream_route(catalog, findings);
    route::embedded_upstream(catalog, stream_route, findings);
    plugins::check_stream(catalog, stream_route, findings);
    unsupported::refuse_route_fields(stream_route, findings);
    route::check_addresses(stream_route, findings);
    scheme(stream_route, findings);
    port(catalog, stream_route, findings);
    sniffed(stream_route, findings);
    protocol(catalog, stream_route, findings);
    loggers(catalog, stream_route, findings);
}

/// Refuses a stream route that is subordinate to itself.
pub(super) fn superior(key: &ObjectKey, stream_route: &Value, findings: &mut Findings) {
    let superior = stream_route.pointer("/protocol/superior_id").map(Id::deserialize);
    if superior.is_some_and(|id| id.is_ok_and(|id| &*id == key.own_id())) {
        let reason = "stream route can not set itself as superior_id";
        findings.add(CheckStage::Plugins, "/protocol/superior_id", reason);
    }
}

/// The bytes of a session are passed on as they are, so that a scheme with a protocol of its own promises too
/// much: with `https` a user expects TLS, which `tls` makes.
fn scheme(stream_route: &Value, findings: &mut Findings) {
    let scheme = stream_route.pointer("/upstream/scheme").and_then(Value::as_str);
    if let Some(scheme @ ("https" | "grpc" | "grpcs")) = scheme {
        let reason = format!(
            "scheme {scheme} of an upstream is for routes of HTTP; the upstream of a stream route has tcp, tls or udp"
        );
        findings.add(CheckStage::Upstream, "/upstream/scheme", reason);
    }
}

/// A port with listeners of the other kind of sessions only serves none of this route.
fn port(catalog: &PluginCatalog, stream_route: &Value, findings: &mut Findings) {
    let scheme = stream_route.pointer("/upstream/scheme").and_then(Value::as_str);
    let is_datagram = match (stream_route.get("protocol"), scheme) {
        (Some(_), _) | (None, Some("tcp" | "tls")) => false,
        (None, Some("udp")) => true,
        _ => return,
    };
    let port = stream_route.get("server_port").and_then(Value::as_u64);
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return };
    if let Some(other) = catalog.stream_ports().and_then(|ports| ports.only_other(port, is_datagram)) {
        let own = if is_datagram { "datagrams" } else { "connections" };
        let reason = format!(
            "no session gets this route: it is for {own}, by its protocol or the scheme of its upstream, and the listeners of \
             port {port} are for {other}"
        );
        findings.warn("/server_port", reason);
    }
}

/// A name or a protocol of ALPN is known of TLS alone, so that other first bytes never match together with
/// it.
fn sniffed(stream_route: &Value, findings: &mut Findings) {
    let Some(sniff) = stream_route.get("sniff").and_then(Value::as_str) else { return };
    if sniff != "tls" && stream_route.get("alpn").is_some() {
        let reason = format!("alpn is part of TLS, and sniff: {sniff} means first bytes of another protocol");
        findings.add(CheckStage::Expressions, "/alpn", reason);
    }
}

/// The loggers of a protocol are plugins as the stream route has them.
fn loggers(catalog: &PluginCatalog, stream_route: &Value, findings: &mut Findings) {
    let all = stream_route.pointer("/protocol/logger").and_then(Value::as_array);
    for (index, logger) in all.into_iter().flatten().enumerate() {
        if let (Some(name), Some(conf)) = (logger["name"].as_str(), logger.get("conf")) {
            plugins::check_stream(catalog, &json!({ "plugins": { name: conf } }), findings);
        }
        if let Some(filter) = logger.get("filter").filter(|filter| filter.is_array()) {
            expression::check_call_filter(filter, &format!("/protocol/logger/{index}/filter"), findings);
        }
    }
}

fn protocol(catalog: &PluginCatalog, stream_route: &Value, findings: &mut Findings) {
    let Some(protocol) = stream_route.get("protocol") else { return };
    let Some(name) = protocol.get("name").and_then(Value::as_str) else { return };
    if !PROTOCOLS.contains(&name) {
        let reason = format!("unknown protocol [{name}]: known are {}", PROTOCOLS.join(" and "));
        findings.add(CheckStage::Plugins, "/protocol/name", reason);
    }
    if name == "http" {
        for field in ["conf", "logger", "metric", "superior_id"] {
            if protocol.get(field).is_some() {
                let reason = format!("protocol http has no {field}: the routes of HTTP say the rest");
                findings.add(CheckStage::Plugins, format!("/protocol/{field}"), reason);
            }
        }
        return;
    }
    if let Some(info) = catalog.protocol(name)
        && let Err(reason) = (info.check)(protocol.get("conf"))
    {
        findings.add(CheckStage::Plugins, "/protocol/conf", format!("protocol.conf: {reason}"));
    }
    if protocol.get("superior_id").is_some() {
        // As in APISIX 3.18, of which the protocols redis and dubbo never look for a subordinate route.
        let reason = format!(
            "no session gets this route: protocol {name} does not choose among subordinate routes, and sessions stay with \
             the superior one"
        );
        findings.warn("/protocol/superior_id", reason);
    }
}
