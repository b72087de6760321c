//! Configurations and the entries that they make; tests of the binary send to real servers.

use exchange::testing::{accepts, configuration_check, with_fields};
use model::catalog::SchemaType;

use serde_json::{Value, json};

use super::*;

fn with(fields: Value) -> Value {
    with_fields(json!({"uri": "http://127.0.0.1:3000/logs"}), &fields)
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"uri": "http://127.0.0.1"}), None);
    check(
        with(json!({
            "auth_header": "Basic 123", "timeout": 3, "name": "mine", "max_retry_count": 2, "retry_delay": 2,
            "buffer_duration": 2, "inactive_timeout": 2, "batch_max_size": 500, "ssl_verify": false,
            "concat_method": "new_line", "_meta": {"disable": false},
        })),
        None,
    );
    check(
        with(json!({"log_format": {"a": "$host", "b": {"c": "$uri"}}, "log_format_extra": {"d": "e"}})),
        None,
    );
    check(with(json!({"include_req_body": true, "include_req_body_expr": [["arg_a", "==", "1"]]})), None);
    for uri in
        ["http://127.0.0.1:1024/x?aa=b", "http://127.0.0.1:1024?aa=b", "http://x.con", "http://[::1]:80/"]
    {
        check(json!({"uri": uri}), None);
    }
    for uri in ["127.0.0.1", "127.0.0.1:1024"] {
        check(json!({"uri": uri}), Some("uri"));
    }
    check(json!({"uri": "https://x.con"}), None);
    check(json!({"timeout": 3}), Some("property \"uri\" is required"));
    for (field, value) in [
        ("timeout", json!(0)),
        ("batch_max_size", json!(0)),
        ("max_retry_count", json!(-1)),
        ("inactive_timeout", json!("5")),
        ("concat_method", json!("csv")),
        ("max_req_body_bytes", json!("10")),
        ("max_resp_body_bytes", json!(0)),
        ("include_resp_body_expr", json!([])),
    ] {
        check(with(json!({field: value})), Some(field));
    }
    check(
        with(json!({"include_resp_body_expr": [["a", "<>", 1]]})),
        Some("'include_resp_body_expr' expression"),
    );
    check(with(json!({"log_format": {"a": "${"}})), Some("log_format.a"));
    check(with(json!({"url": "x"})), Some("url"));
    let metadata = |config: Value| accepts(&KIND, SchemaType::Metadata, &config);
    assert_eq!(metadata(json!({"log_format": {"a": "$host"}, "max_pending_entries": 1})), Ok(()));
    assert!(metadata(json!({"max_pending_entries": 0})).is_err());
    assert!(metadata(json!({"logformat": {}})).is_err());
    assert!(
        metadata(json!({"log_format": {"a": "${"}})).is_err_and(|reason| reason.contains("log_format.a"))
    );
}

/// The entry of a request to `/a?n=1` that was answered 200.
fn entry(config: Value) -> Value {
    let bytes = logger::testing::entry::<HttpLogger>(&with(config), None);
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn entries_are_json_objects() {
    let chosen = entry(json!({"log_format": {"n": "$arg_n"}}));
    assert_eq!(chosen, json!({"n": "1", "route_id": "r1"}));
    let whole = entry(json!({}));
    assert_eq!((&whole["response"]["status"], &whole["route_id"]), (&json!(200), &json!("r1")));
    let unmatched = exchange::testing::Scene::new().exchange(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let maker = logger::testing::Maker::<HttpLogger>::new(&with(json!({"log_format": {"a": "b"}})), None);
    let unmatched: Value = serde_json::from_slice(&maker.entry(&unmatched).unwrap()).unwrap();
    assert_eq!(unmatched, json!({"a": "b", "route_id": "no-matched"}));
}
