//! Protections of upstreams accepted and refused.

use serde_json::json;

use super::upstream;

#[test]
fn protection_of_an_upstream_is_checked() {
    let ejection = |fields| json!({ "outlier_ejection": fields });
    let breaker = |fields| json!({ "circuit_breaker": fields });
    let limits = |fields| json!({ "limits": fields });
    upstream(ejection(json!({})), "");
    upstream(ejection(json!({"consecutive_failures": 0, "latency": {"factor": 3}})), "");
    upstream(breaker(json!({"consecutive_failures": 0, "failure_rate": {"percent": 50, "window": 0.5}})), "");
    upstream(limits(json!({"max_requests": 1, "queue": {"length": 5}})), "");
    upstream(
        ejection(json!({"consecutive_failures": 0})),
        "consecutive_failures is 0 and there is no other condition; write failure_rate, or a number of 1 or more",
    );
    upstream(
        ejection(json!({"base_ejection_time": 301})),
        "max_ejection_time is shorter than base_ejection_time; write at least base_ejection_time",
    );
    upstream(
        breaker(json!({"max_break_time": 1})),
        "max_break_time is shorter than base_break_time; write at least base_break_time",
    );
    upstream(
        limits(json!({"queue": {"length": 5}})),
        "no limit makes requests wait in the queue; write max_requests or max_requests_per_node as well",
    );
    upstream(
        limits(json!({"max_requests": 0})),
        concat!(
            "invalid configuration: property \"limits\" validation failed: ",
            "property \"max_requests\" validation failed: expected 0 to be at least 1"
        ),
    );
}
