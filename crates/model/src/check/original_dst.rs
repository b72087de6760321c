//! Rules for upstreams with addresses of clients. Those of the type `original_dst` have no nodes: every field
//! that is about nodes is refused, because it would have no effect.

use router::cidr;
use serde_json::Value;

use crate::fault::{CheckStage, Findings, extend_pointer};
use crate::resource::PortRange;

/// The method of such upstreams, and the field with their destinations.
const NAME: &str = "original_dst";

/// The fields that an upstream of this type may have.
const FIELDS: [&str; 14] = [
    "id",
    "create_time",
    "update_time",
    "name",
    "desc",
    "labels",
    "type",
    NAME,
    "scheme",
    "timeout",
    "tls",
    "transparent_source",
    "pass_host",
    "upstream_host",
];

/// Checks an upstream at that pointer.
pub(super) fn check_original_dst(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let is_meant = upstream.get("type").and_then(Value::as_str) == Some(NAME);
    let mut fault = |field: &str, reason: String| {
        findings.add(CheckStage::Upstream, extend_pointer(pointer, field), reason)
    };
    match (is_meant, upstream.get(NAME)) {
        (false, None) => return,
        (false, Some(_)) => {
            return fault(NAME, "original_dst has no effect without \"type\": \"original_dst\"".to_owned());
        }
        (true, None) => {
            let reason = "type original_dst needs original_dst, the destinations that are allowed, such as \
                          {\"allow\": [\"10.0.0.0/8\"]}";
            return fault(NAME, reason.to_owned());
        }
        (true, Some(_)) => {}
    }
    for field in upstream.as_object().into_iter().flatten().map(|(field, _)| field) {
        if !FIELDS.contains(&field.as_str()) {
            let reason = format!(
                "{field} has no effect with the type original_dst, of which sessions go to their own destinations: remove it"
            );
            fault(field, reason);
        }
    }
    let scheme = upstream.get("scheme").and_then(Value::as_str);
    if !matches!(scheme, Some("tcp" | "tls")) {
        let reason = "type original_dst is for stream routes over connections: write the scheme tcp or tls";
        fault("scheme", reason.to_owned());
    }
    destinations(&upstream[NAME], &extend_pointer(pointer, NAME), findings);
}

/// Requests of HTTP share connections, so that these have no client of their own.
pub(super) fn transparent_source(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let is_meant = upstream.get("transparent_source").and_then(Value::as_bool) == Some(true);
    let scheme = upstream.get("scheme").and_then(Value::as_str);
    if is_meant && !matches!(scheme, Some("tcp" | "tls")) {
        let reason = "transparent_source is for stream routes over connections: write the scheme tcp or tls";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "transparent_source"), reason);
    }
}

/// Networks and ports can be read.
fn destinations(written: &Value, pointer: &str, findings: &mut Findings) {
    let list = |field: &str| {
        let at = extend_pointer(pointer, field);
        let items = written.get(field).and_then(Value::as_array).into_iter().flatten().enumerate();
        items.map(move |(index, item)| (format!("{at}/{index}"), item))
    };
    for (at, item) in list("allow") {
        if item.as_str().is_some_and(|text| cidr::network(text).is_none()) {
            let reason = format!("{item} is neither an IP address nor a network (ADDRESS/BITS)");
            findings.add(CheckStage::Upstream, at, reason);
        }
    }
    for (at, item) in list("ports") {
        if let Err(reason) = PortRange::parse(item) {
            findings.add(CheckStage::Upstream, at, reason);
        }
    }
}
