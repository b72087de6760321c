//! Rules about the policies of an upstream that its schema cannot express: fields that contradict each other
//! or the method.

use router::vars::Template;
use serde_json::Value;

use crate::fault::{CheckStage, Findings, extend_pointer};
use crate::resource::BalanceMethod;

/// Checks the policies of the upstream at that pointer.
pub(super) fn check_selection(upstream: &Value, pointer: &str, findings: &mut Findings) {
    slow_start(upstream, pointer, findings);
    subset(upstream, pointer, findings);
    sticky(upstream, pointer, findings);
}

/// Weights do not grow where keys are mapped to nodes by their weights, because each step would move keys.
fn slow_start(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let method = upstream.get("type").and_then(Value::as_str).and_then(BalanceMethod::named);
    let keyed = method.filter(|method| method.uses_key());
    if let (Some(_), Some(method)) = (upstream.get("slow_start"), keyed) {
        let reason = format!(
            "slow_start has no effect with the type {}, because growing weights would move its keys: remove it, or use roundrobin, least_conn, random or ewma",
            method.name()
        );
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "slow_start"), reason);
    }
}

/// Values are texts that can be compiled, and the fallback `default` has its metadata.
fn subset(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let Some(subset) = upstream.get("subset") else { return };
    let at = extend_pointer(pointer, "subset");
    let wanted = subset.get("match").and_then(Value::as_object);
    for (key, value) in wanted.into_iter().flatten() {
        if let Err(error) = Template::compile(value.as_str().unwrap_or_default()) {
            findings.add(
                CheckStage::Upstream,
                extend_pointer(&extend_pointer(&at, "match"), key),
                error.to_string(),
            );
        }
    }
    let uses_default = subset.get("fallback").and_then(Value::as_str) == Some("default");
    if uses_default != subset.get("default").is_some() {
        let reason = match uses_default {
            true => {
                "the fallback default needs default: the metadata of the nodes to use, such as {\"version\": \"v1\"}"
            }
            false => "default has no effect without \"fallback\": \"default\"",
        };
        findings.add(CheckStage::Upstream, extend_pointer(&at, "default"), reason);
    }
}

/// Attributes of a cookie belong to one that the gateway sets, and browsers refuse `SameSite=None` without
/// `Secure`.
fn sticky(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let Some(sticky) = upstream.get("sticky") else { return };
    let at = extend_pointer(pointer, "sticky");
    if sticky.get("mode").and_then(Value::as_str) == Some("learn") {
        for field in ["path", "domain", "secure", "http_only", "same_site"] {
            if sticky.get(field).is_some() {
                let reason = format!(
                    "{field} has no effect with the mode learn, because the application sets the cookie"
                );
                findings.add(CheckStage::Upstream, extend_pointer(&at, field), reason);
            }
        }
    }
    let is_secure = sticky.get("secure").and_then(Value::as_bool) == Some(true);
    if sticky.get("same_site").and_then(Value::as_str) == Some("none") && !is_secure {
        let reason = "same_site none needs \"secure\": true, because browsers refuse the cookie otherwise";
        findings.add(CheckStage::Upstream, extend_pointer(&at, "same_site"), reason);
    }
}
