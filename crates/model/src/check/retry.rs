//! Rules of retry policies and deadlines that a schema cannot express: no policy may do unsafe work twice
//! without the user's word, and no field may be without effect.

use serde_json::Value;

use crate::fault::{CheckStage, Findings, extend_pointer};

/// The methods that may be sent twice (RFC 9110 section 9.2.2).
const IDEMPOTENT: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];

/// Checks `retry` and `deadline` of the upstream at that pointer.
pub(super) fn check_retry(upstream: &Value, pointer: &str, findings: &mut Findings) {
    if let Some(retry) = upstream.get("retry").filter(|retry| retry.is_object()) {
        let at = extend_pointer(pointer, "retry");
        if upstream.get("retries").is_some() {
            let reason = "`retries` and `retry` are both written: write only `retry.attempts`, which counts the first \
                          attempt as well";
            findings.add(CheckStage::Upstream, extend_pointer(pointer, "retries"), reason);
        }
        methods(retry, &at, findings);
        grpc(retry, &at, findings);
        waits(retry, &at, findings);
        hedge(retry, &at, findings);
    }
    if let Some(deadline) = upstream.get("deadline").filter(|deadline| deadline.is_object()) {
        let has = |name: &str| deadline.get(name).is_some();
        if !has("total") && !has("header") {
            let reason = "a deadline needs `total` (seconds), `header` (the request field with the client's time), or both";
            findings.add(CheckStage::Upstream, extend_pointer(pointer, "deadline"), reason);
        }
    }
}

fn has_true(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool) == Some(true)
}

/// A method that could do its work twice is retried only if the policy says that it may.
fn methods(retry: &Value, pointer: &str, findings: &mut Findings) {
    let listed = retry.get("methods").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let risky: Vec<(usize, &str)> = listed
        .iter()
        .enumerate()
        .filter_map(|(index, method)| Some((index, method.as_str()?)))
        .filter(|(_, method)| !IDEMPOTENT.contains(method))
        .collect();
    if has_true(retry, "unsafe_methods") {
        if risky.is_empty() {
            let reason = "`unsafe_methods: true` allows nothing without the methods: list them in `methods`, such as \
                          [\"GET\", \"POST\"]";
            findings.add(CheckStage::Upstream, extend_pointer(pointer, "unsafe_methods"), reason);
        }
        return;
    }
    for (index, method) in risky {
        let reason = format!(
            "a retried {method} could do its work twice (RFC 9110 section 9.2.2): write `unsafe_methods: true` beside \
             `methods` if that is harmless, or take {method} out and write `idempotency_key_header` to retry requests with \
             a key"
        );
        findings.add(CheckStage::Upstream, format!("{pointer}/methods/{index}"), reason);
    }
}

/// Calls are POST requests, which are not idempotent, so that `grpc_statuses` alone would retry none.
fn grpc(retry: &Value, pointer: &str, findings: &mut Findings) {
    let is_written = |name: &str| {
        retry.get(name).is_some_and(|value| value.as_array().is_none_or(|items| !items.is_empty()))
    };
    let lists_post = retry
        .get("methods")
        .and_then(Value::as_array)
        .is_some_and(|methods| methods.iter().any(|method| method == "POST"));
    if is_written("grpc_statuses") && !lists_post && !is_written("idempotency_key_header") {
        let reason = "gRPC calls are POST requests and could do their work twice: write `methods: [\"POST\"]` with \
                      `unsafe_methods: true` if the calls of this upstream may be repeated, or `idempotency_key_header`";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "grpc_statuses"), reason);
    }
}

fn hedge(retry: &Value, pointer: &str, findings: &mut Findings) {
    if let Some(hedge) = retry.get("hedge").and_then(Value::as_object)
        && !hedge.contains_key("after")
        && !hedge.contains_key("percentile")
    {
        let reason = "a hedge needs a time: write `after` (seconds, such as 0.2), `percentile` (such as 95, of the upstream's \
                      recent response times), or both";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "hedge"), reason);
    }
}

fn waits(retry: &Value, pointer: &str, findings: &mut Findings) {
    let backoff = retry.get("backoff");
    if has_true(retry, "honor_retry_after") && backoff.is_none() {
        let reason =
            "`honor_retry_after` needs a limit: write `backoff` with `base` and `max`, which bounds the wait";
        findings.add(CheckStage::Upstream, extend_pointer(pointer, "honor_retry_after"), reason);
    }
    let seconds = |name: &str| backoff.and_then(|backoff| backoff.get(name)).and_then(Value::as_f64);
    if let (Some(base), Some(max)) = (seconds("base"), seconds("max"))
        && max < base
    {
        let reason = format!("`max` ({max}) is shorter than `base` ({base}): write at least `base`");
        findings.add(CheckStage::Upstream, format!("{pointer}/backoff/max"), reason);
    }
}
