//! Rules that the schema of upstreams cannot express, for upstream objects and those inside routes and
//! services.

use serde_json::Value;

use super::{health, original_dst, protection, retry, selection, ssl};
use crate::catalog::PluginCatalog;
use crate::fault::{CheckStage, Findings, extend_pointer};
use crate::resource::{BalanceMethod, split_authority};
use crate::{schema, unsupported};

/// Checks an upstream at that pointer.
pub(super) fn check_upstream_fields(
    catalog: &PluginCatalog,
    upstream: &Value,
    pointer: &str,
    findings: &mut Findings,
) {
    original_dst::check_original_dst(upstream, pointer, findings);
    original_dst::transparent_source(upstream, pointer, findings);
    nodes(upstream, pointer, findings);
    host(upstream, pointer, findings);
    hash_key(upstream, pointer, findings);
    retry::check_retry(upstream, pointer, findings);
    selection::check_selection(upstream, pointer, findings);
    health::check_health_checks(catalog, upstream, pointer, findings);
    ssl::check_upstream(upstream, pointer, findings);
    protection::check_protection(upstream, pointer, findings);
    unsupported::upstream(upstream, pointer, catalog, findings);
}

/// Each node's host and port can be told apart.
fn nodes(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let at = extend_pointer(pointer, "nodes");
    let authorities: Vec<(String, &str)> = match upstream.get("nodes") {
        Some(Value::Object(nodes)) => {
            nodes.keys().map(|node| (extend_pointer(&at, node), node.as_str())).collect()
        }
        Some(Value::Array(nodes)) => nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| Some((format!("{at}/{index}/host"), node.get("host")?.as_str()?)))
            .collect(),
        _ => return,
    };
    let scheme = upstream.get("scheme").and_then(Value::as_str);
    let without_default_port = scheme.filter(|scheme| matches!(*scheme, "tcp" | "tls" | "udp"));
    for (index, (pointer, authority)) in authorities.into_iter().enumerate() {
        match (split_authority(authority), without_default_port) {
            (Err(reason), _) => findings.add(CheckStage::Upstream, pointer, format!("invalid node {reason}")),
            (Ok((_, None)), Some(scheme)) if !has_port(upstream, index) => {
                let reason = format!(
                    "invalid node {authority:?}: scheme {scheme} has no default port; write HOST:PORT"
                );
                findings.add(CheckStage::Upstream, pointer, reason);
            }
            _ => {}
        }
    }
}

/// Whether the node of a list has its port in a field of its own.
fn has_port(upstream: &Value, index: usize) -> bool {
    upstream["nodes"].get(index).is_some_and(|node| node.get("port").is_some())
}

/// A host to send when the client's is to be rewritten.
fn host(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let rewrites = upstream.get("pass_host").and_then(Value::as_str) == Some("rewrite");
    let empty = upstream.get("upstream_host").and_then(Value::as_str).is_none_or(str::is_empty);
    if rewrites && empty {
        let reason = "`upstream_host` can't be empty when `pass_host` is `rewrite`";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "upstream_host"), reason);
    } else if rewrites && !is_host(upstream["upstream_host"].as_str().unwrap_or_default()) {
        let reason = "`upstream_host` is not a host name or an address, perhaps with a port";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "upstream_host"), reason);
    }
}

/// Whether requests may name this host: a name without `*`, an address, an IPv6 one in brackets, perhaps with
/// a port. The schema has seen the letters.
fn is_host(text: &str) -> bool {
    let (host, rest) = match text.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        Some((address, rest)) => (address.parse::<std::net::Ipv6Addr>().is_ok().then_some(address), rest),
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let name = Some(&text[..end]).filter(|name| !name.is_empty() && !name.contains(['[', ']', '*']));
            (name, &text[end..])
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host.is_some() && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// A key to hash, of a form that the place it is taken from allows.
fn hash_key(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let method = upstream.get("type").and_then(Value::as_str).and_then(BalanceMethod::named);
    if !method.is_some_and(BalanceMethod::uses_key) {
        return;
    }
    let on = upstream.get("hash_on").and_then(Value::as_str).unwrap_or("vars");
    let at = extend_pointer(pointer, "key");
    if on == "consumer" {
        return;
    }
    let Some(key) = upstream.get("key").filter(|key| key.is_string()) else {
        findings.add(CheckStage::Upstream, at, "missing key");
        return;
    };
    let validator = match on {
        "vars" => schema::hash_key_validator("hash_vars"),
        "header" | "cookie" => schema::hash_key_validator("hash_header"),
        _ => return,
    };
    for fault in validator.faults(key) {
        let contract = format!("invalid configuration: {}", fault.contract_message());
        findings.add_schema_fault(CheckStage::Upstream, &at, &fault, contract);
    }
}
