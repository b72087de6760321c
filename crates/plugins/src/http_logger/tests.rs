//! Configurations and the entries that they make; tests of the binary send to real servers.

use exchange::testing::{Scene, accepts, respond, route};
use model::catalog::SchemaType;

use super::*;

fn with(fields: Value) -> Value {
    let mut config = json!({"uri": "http://127.0.0.1:3000/logs"});
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

#[test]
fn configurations() {
    let check = |config: Value, fault: Option<&str>| {
        let got = accepts(&KIND, SchemaType::Plugin, &config);
        match fault {
            None => assert_eq!(got, Ok(()), "{config}"),
            Some(fault) => {
                assert!(got.as_ref().is_err_and(|reason| reason.contains(fault)), "{config}: {got:?}")
            }
        }
    };
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
    check(json!({"uri": "https://x.con"}), Some("https is not supported yet"));
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
}

/// The entry of a request to `/a?n=1` that was answered 200.
fn entry(config: Value, metadata: Option<Value>) -> Value {
    let (config, _) = read(&with(config)).unwrap();
    let contents = compile(&config, metadata.as_ref()).unwrap();
    let mut scene = Scene::new().with_route(route("r1"));
    let mut exchange = scene.exchange(b"GET /a?n=1 HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    respond(&mut exchange, 200, &[]);
    serde_json::from_slice(&contents.entry(&exchange)).unwrap()
}

#[test]
fn plugin_format_wins_over_metadata_format() {
    let metadata =
        || Some(json!({"log_format": {"who": "metadata"}, "log_format_extra": {"more": "metadata"}}));
    let chosen = entry(json!({"log_format": {"who": "instance", "n": "$arg_n"}}), metadata());
    assert_eq!(chosen, json!({"who": "instance", "n": "1", "route_id": "r1"}));
    assert_eq!(entry(json!({}), metadata()), json!({"who": "metadata", "route_id": "r1"}));
    let whole = entry(json!({"log_format": {}}), None);
    assert_eq!((&whole["response"]["status"], &whole["route_id"]), (&json!(200), &json!("r1")));
    let extra = entry(json!({"log_format_extra": {"tenant": "$arg_n"}}), None);
    assert_eq!((&extra["tenant"], &extra["response"]["status"]), (&json!("1"), &json!(200)));
    let extra = entry(json!({"log_format": {"a": "b"}, "log_format_extra": {"tenant": "$arg_n"}}), None);
    assert_eq!(extra, json!({"a": "b", "route_id": "r1"}), "a chosen format stands alone");
}

#[test]
fn bodies_are_buffered_only_if_logged() {
    let check = |config: Value, request: usize, response: usize| {
        let mut scene = Scene::new();
        let plugin = scene.build(&KIND, &with(config.clone()));
        let exchange = scene.exchange(b"GET /a?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        let got = (plugin.wants_request_body(&exchange), plugin.wants_response_body(&exchange));
        assert_eq!(got, (copy(request), copy(response)), "{config}");
    };
    check(json!({}), 0, 0);
    check(json!({"include_req_body": true}), BODY_DEFAULT_BYTES, 0);
    check(json!({"include_resp_body": true, "max_resp_body_bytes": 7}), 0, 7);
    check(json!({"include_resp_body": true, "include_resp_body_expr": [["arg_n", "==", "2"]]}), 0, 0);
    check(
        json!({"include_resp_body": true, "include_resp_body_expr": [["arg_n", "==", "1"]]}),
        0,
        BODY_DEFAULT_BYTES,
    );
    check(json!({"include_req_body": true, "log_format": {"a": "$host"}}), 0, 0);
    check(
        json!({"log_format": {"a": "$request_body", "b": "$resp_body"}, "max_req_body_bytes": 5}),
        5,
        BODY_DEFAULT_BYTES,
    );
}

#[test]
fn queue_is_kept_while_configuration_stays() {
    let (services, states) =
        (exchange::testing::services(), exchange::plugin::state::StateRegistry::default());
    let queue = |owner: &str, config: Value, metadata: Option<Value>| {
        let build = exchange::testing::build(owner, metadata.as_ref(), &states, &services);
        let (parsed, batch) = read(&config).unwrap();
        let settings = batch.settings(NAME_DEFAULT, owner, metadata.as_ref());
        drop(parsed);
        let key =
            format!("http-logger/{owner}/{}/{}", settings.max_pending_entries, config::identity(&config));
        let plugin = (KIND.build)(&build, &config).unwrap();
        let kept = states.keep(&key, || Err::<BatchQueue, String>("it is another one".to_owned()));
        assert!(kept.is_ok(), "{owner}");
        (plugin, kept)
    };
    let (_first, one) = queue("/routes/1", with(json!({})), None);
    let (_again, same) = queue("/routes/1", with(json!({"_meta": {"priority": 1}})), None);
    assert!(Arc::ptr_eq(&one, &same));
    let formats = Some(json!({"log_format": {"a": "b"}}));
    let (_formatted, formatted) = queue("/routes/1", with(json!({})), formats);
    assert!(Arc::ptr_eq(&one, &formatted), "a format is not the queue's business");
    let (_other, other) = queue("/routes/2", with(json!({})), None);
    assert!(!Arc::ptr_eq(&one, &other));
    let (_bounded, bounded) = queue("/routes/1", with(json!({})), Some(json!({"max_pending_entries": 3})));
    assert!(!Arc::ptr_eq(&one, &bounded));
}
