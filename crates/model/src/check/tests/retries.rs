//! Retry policies and deadlines accepted and refused.

use serde_json::{Value, json};

use super::upstream;

fn retry(policy: Value, expected: &str) {
    upstream(json!({"retry": policy}), expected);
}

#[test]
fn policies_that_are_safe_are_accepted() {
    retry(json!({}), "");
    retry(json!({"attempts": 3, "statuses": [502, 503], "conditions": []}), "");
    retry(json!({"methods": ["GET", "PUT"]}), "");
    retry(json!({"methods": ["GET", "POST"], "unsafe_methods": true}), "");
    retry(json!({"idempotency_key_header": "Idempotency-Key", "grpc_statuses": ["unavailable"]}), "");
    retry(json!({"methods": ["POST"], "unsafe_methods": true, "grpc_statuses": [14]}), "");
    retry(json!({"backoff": {"base": 0.1}, "honor_retry_after": true}), "");
    for hedge in
        [json!({"after": 0.2}), json!({"percentile": 99.9}), json!({"after": 0.01, "percentile": 50})]
    {
        retry(json!({"hedge": hedge}), "");
    }
    upstream(json!({"retry": {}, "retry_timeout": 2}), "");
}

#[test]
fn policy_that_could_double_work_is_refused() {
    retry(
        json!({"methods": ["GET", "POST"]}),
        "a retried POST could do its work twice (RFC 9110 section 9.2.2): write `unsafe_methods: true` beside `methods` if \
         that is harmless, or take POST out and write `idempotency_key_header` to retry requests with a key",
    );
    retry(
        json!({"unsafe_methods": true}),
        "`unsafe_methods: true` allows nothing without the methods: list them in `methods`, such as [\"GET\", \"POST\"]",
    );
    retry(
        json!({"grpc_statuses": [14]}),
        "gRPC calls are POST requests and could do their work twice: write `methods: [\"POST\"]` with `unsafe_methods: true` \
         if the calls of this upstream may be repeated, or `idempotency_key_header`",
    );
}

#[test]
fn retry_fields_without_effect_are_refused() {
    upstream(
        json!({"retry": {}, "retries": 1}),
        "`retries` and `retry` are both written: write only `retry.attempts`, which counts the first attempt as well",
    );
    retry(
        json!({"honor_retry_after": true}),
        "`honor_retry_after` needs a limit: write `backoff` with `base` and `max`, which bounds the wait",
    );
    retry(
        json!({"backoff": {"base": 1, "max": 0.5}}),
        "`max` (0.5) is shorter than `base` (1): write at least `base`",
    );
    upstream(
        json!({"deadline": {}}),
        "a deadline needs `total` (seconds), `header` (the request field with the client's time), or both",
    );
    retry(
        json!({"hedge": {}}),
        "a hedge needs a time: write `after` (seconds, such as 0.2), `percentile` (such as 95, of the upstream's recent \
         response times), or both",
    );
    upstream(json!({"deadline": {"total": 0.5}}), "");
    upstream(json!({"deadline": {"header": "x-request-timeout-ms"}}), "");
}
