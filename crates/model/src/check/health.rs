//! Rules of health checks that a schema cannot express: texts that become part of a request, and addresses
//! that must not be asked because what answers there is not for users to learn.

use std::net::IpAddr;

use serde_json::Value;

use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings, extend_pointer};
use crate::resource::split_authority;

/// Checks `checks` of the upstream at that pointer.
pub(super) fn check_health_checks(
    catalog: &PluginCatalog,
    upstream: &Value,
    pointer: &str,
    findings: &mut Findings,
) {
    let Some(active) = upstream.pointer("/checks/active") else { return };
    let at = format!("{pointer}/checks/active");
    path(active, &at, findings);
    lines(active, &at, findings);
    if let Some(nodes) = upstream.get("nodes") {
        addresses(catalog, nodes, &extend_pointer(pointer, "nodes"), findings);
    }
}

/// The path is one word of a request line.
fn path(active: &Value, at: &str, findings: &mut Findings) {
    let Some(path) = active.get("http_path").and_then(Value::as_str) else { return };
    if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let reason = "http_path begins with / and has no white space; write a space as %20";
        findings.add(CheckStage::Upstream, extend_pointer(at, "http_path"), reason);
    }
}

/// Each header line is one line.
fn lines(active: &Value, at: &str, findings: &mut Findings) {
    for name in ["req_headers", "http_request_headers"] {
        let lines = active.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        for (index, line) in lines.filter_map(|(index, line)| Some((index, line.as_str()?))) {
            if !is_field_line(line) {
                let reason = format!("{line:?} is no header line; write `Name: value`");
                findings.add(CheckStage::Upstream, format!("{at}/{name}/{index}"), reason);
            }
        }
    }
}

/// Whether `line` is a field of HTTP/1.1 (RFC 9112 section 5) that does not change the framing of the
/// request.
fn is_field_line(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let frames = ["content-length", "transfer-encoding", "connection"];
    !name.is_empty()
        && name.bytes().all(is_token)
        && !frames.iter().any(|framing| name.eq_ignore_ascii_case(framing))
        && value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// No node that is written as an address leads to a metadata service. Names are judged when they are asked.
fn addresses(catalog: &PluginCatalog, nodes: &Value, at: &str, findings: &mut Findings) {
    let written: Vec<(String, &str)> = match nodes {
        Value::Object(nodes) => nodes.keys().map(|node| (extend_pointer(at, node), node.as_str())).collect(),
        Value::Array(nodes) => nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| Some((format!("{at}/{index}/host"), node.get("host")?.as_str()?)))
            .collect(),
        _ => return,
    };
    for (pointer, node) in written {
        let host = split_authority(node).map_or(node, |(host, _)| host);
        let Ok(address) = host.parse::<IpAddr>() else { continue };
        if let Some(what) = catalog.options().outbound.refuses(address) {
            let reason = format!(
                "health checks do not ask {address}: it is {what}; write another node, leave out `checks`, or list the \
                 address in the setting outbound_allow"
            );
            findings.add(CheckStage::Upstream, pointer, reason);
        }
    }
}
