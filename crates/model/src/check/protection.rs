//! Rules for the protection of an upstream that its schema cannot express.

use serde_json::Value;

use crate::fault::{CheckStage, Findings, extend_pointer};

/// Checks outlier ejection, circuit breaker and limits of an upstream at that pointer.
pub(super) fn check_protection(upstream: &Value, pointer: &str, findings: &mut Findings) {
    let circuits = [
        ("outlier_ejection", "base_ejection_time", "max_ejection_time", 30.0, 300.0),
        ("circuit_breaker", "base_break_time", "max_break_time", 2.0, 300.0),
    ];
    for (name, base, most, base_default, most_default) in circuits {
        let Some(circuit) = upstream.get(name) else { continue };
        let at = extend_pointer(pointer, name);
        condition(circuit, &at, findings);
        let seconds = |field, default| circuit.get(field).and_then(Value::as_f64).unwrap_or(default);
        if seconds(most, most_default) < seconds(base, base_default) {
            let reason = format!("{most} is shorter than {base}; write at least {base}");
            findings.add(CheckStage::Upstream, extend_pointer(&at, most), reason);
        }
    }
    if let Some(limits) = upstream.get("limits") {
        queue(limits, &extend_pointer(pointer, "limits"), findings);
    }
}

/// A circuit that nothing opens protects nothing.
fn condition(circuit: &Value, at: &str, findings: &mut Findings) {
    let has_no_count = circuit.get("consecutive_failures").and_then(Value::as_f64) == Some(0.0);
    let conditions = ["failure_rate", "latency"];
    if has_no_count && !conditions.iter().any(|name| circuit.get(name).is_some()) {
        let reason = "consecutive_failures is 0 and there is no other condition; write failure_rate, or a number of 1 or more";
        findings.add(CheckStage::Upstream, extend_pointer(at, "consecutive_failures"), reason);
    }
}

/// A queue waits for a limit.
fn queue(limits: &Value, at: &str, findings: &mut Findings) {
    let has_limit = limits.as_object().is_some_and(|limits| limits.keys().any(|name| name != "queue"));
    if limits.get("queue").is_some() && !has_limit {
        let reason =
            "no limit makes requests wait in the queue; write max_requests or max_requests_per_node as well";
        findings.add(CheckStage::Upstream, extend_pointer(at, "queue"), reason);
    }
}
