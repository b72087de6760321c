//! The proof that schemas and Rust types accept the same, by mutating an object of each kind that has every
//! field.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::tests::{catalog, merged};
use crate::resource::{Resource, split_authority};
use crate::{ObjectKind, check, schema};

/// For each kind an object with every field.
fn full(kind: ObjectKind) -> Value {
    let active = json!({
        "type": "http", "timeout": 0.5, "concurrency": 1, "host": "h", "port": 80, "http_method": "GET",
        "http_path": "/", "http_req_body": "", "https_verify_certificate": true,
        "reuse_connection": true, "grpc_service": "a.B", "req_headers": ["a: b"],
        "http_request_headers": ["c: d"],
        "healthy": {"interval": 1, "successes": 1, "http_statuses": [200]},
        "unhealthy": {"interval": 1, "http_failures": 1, "tcp_failures": 0, "timeouts": 1,
            "http_statuses": [500]},
    });
    let upstream = json!({
        "id": "u", "create_time": 1, "update_time": 2, "name": "n", "desc": "d", "labels": {"a": "b"},
        "nodes": [{"host": "a", "port": 80, "weight": 1, "priority": 0, "metadata": {"z": 1}}],
        "retries": 1, "retry_timeout": 1.5, "timeout": {"connect": 1, "send": 1, "read": 0.5},
        "tls": {"client_cert_id": 1, "verify": true, "ca_certs": "$file:///ca.pem"}, "keepalive_pool": {"size": 1, "idle_timeout": 0, "requests": 1},
        "type": "chash", "hash_on": "vars", "key": "uri", "scheme": "http", "pass_host": "node", "upstream_host": "h",
        "checks": {
            "active": active,
            "passive": {
                "type": "tcp", "healthy": {"successes": 1, "http_statuses": [200]},
                "unhealthy": {"http_failures": 1, "tcp_failures": 1, "timeouts": 1, "http_statuses": [500]},
            },
        },
    });
    let upstream = merged(upstream, repetition());
    let stamps = json!({"create_time": 1, "update_time": 2});
    let people = merged(json!({"id": "1", "name": "n", "desc": "d", "labels": {"a": "b"}}), stamps.clone());
    let with = |fields: Value| merged(people.clone(), fields);
    let plugins = json!({"count": {"count": 1}});
    let pem = "x".repeat(128);
    match kind {
        ObjectKind::Upstream => upstream,
        ObjectKind::Route => with(json!({
            "uri": "/a", "host": "h", "methods": ["GET"], "remote_addr": "10.0.0.0/8", "vars": [], "priority": 1,
            "status": 1, "timeout": {"connect": 1, "send": 1, "read": 1}, "enable_websocket": true,
            "plugins": plugins, "plugin_config_id": 1, "service_id": "s", "upstream_id": "u", "upstream": upstream,
            "filter_func": "function(vars) end", "script_id": 1,
        })),
        ObjectKind::Service => with(json!({
            "plugins": plugins, "upstream": upstream, "upstream_id": 1, "hosts": ["h"], "enable_websocket": false,
            "script": "0123456789",
        })),
        ObjectKind::Consumer => merged(
            json!({"id": "1", "username": "u", "group_id": 1, "plugins": {}, "desc": "d", "labels": {"a": "b"}}),
            stamps,
        ),
        // At most one plugin: the test adds one.
        ObjectKind::Credential => with(json!({"plugins": {}})),
        ObjectKind::ConsumerGroup | ObjectKind::PluginConfig => with(json!({"plugins": plugins})),
        ObjectKind::GlobalRule => merged(json!({"id": "1", "plugins": plugins}), stamps),
        ObjectKind::Extension => with(json!({
            "language": "tiny", "content": "c", "active": "a", "previous": "b", "enabled": true,
            "versions": [{"version": "a", "content": "c", "desc": "d", "create_time": 1, "author": "me"}],
            "canary": {"version": "b", "percent": 5.5, "vars": [["uri", "==", "/"]]},
        })),
        ObjectKind::Contract => with(json!({
            "kind": "openapi", "content": "c", "base_path": "/a", "upstream_base_path": "/b", "hosts": ["h"],
            "upstream_id": "u", "upstream": upstream, "service_id": "s", "plugins": plugins,
            "timeout": {"connect": 1, "send": 1, "read": 1},
            "operations": {"a": {"plugins": plugins, "auth": {}, "upstream_id": 1, "request": "off", "response": "warn", "mock": "off",
                "timeout": {"connect": 1, "send": 1, "read": 1}}},
            "security": {"s": {}}, "unknown": "pass", "request": "warn", "response": "off", "headers": "declared",
            "mock": "always", "docs": {"path": "/docs"}, "priority": 1, "status": 1,
        })),
        ObjectKind::Proto => with(json!({"content": "c"})),
        ObjectKind::Ssl => with(json!({
            "type": "server", "sni": "a", "cert": pem, "key": pem, "certs": [pem], "keys": [pem], "status": 1,
            "client": {"ca": pem, "depth": 1, "skip_mtls_uri_regex": ["a"]}, "ssl_protocols": ["TLSv1.2"],
            "ocsp_stapling": {"enabled": true, "skip_verify": false, "cache_ttl": 60},
        })),
        ObjectKind::StreamRoute => with(json!({
            "remote_addr": "::1", "server_addr": "10.0.0.1", "server_port": 1, "sni": "a", "upstream": upstream,
            "alpn": ["h2"], "sniff": "tls", "proxy_protocol": {"version": 2}, "idle_timeout": 0.5, "session_timeout": 0,
            "udp": {"responses": 1, "requests": 2},
            "upstream_id": 1, "service_id": 1, "plugins": plugins,
            "protocol": {"name": "p", "superior_id": 1, "conf": {}, "logger": [{"name": "l", "filter": [], "conf": {}}], "metric": {"enable": true}},
        })),
        ObjectKind::PluginMetadata | ObjectKind::Secret => json!({"a": 1}),
    }
}

/// The fields of an upstream about attempts that APISIX does not have; a macro has not the depth for one
/// object.
fn repetition() -> Value {
    json!({
        "retry": {
            "attempts": 3, "conditions": ["reset"], "statuses": [503], "grpc_statuses": [14, "aborted"],
            "response_header": {"name": "x-retry", "value": "1"}, "methods": ["GET"], "unsafe_methods": false,
            "idempotency_key_header": "idempotency-key", "max_body": 1, "attempt_timeout": 0.5,
            "backoff": {"base": 0.1, "max": 1, "factor": 2}, "honor_retry_after": true,
            "hedge": {"after": 0.1, "percentile": 95}, "budget": {"percent": 20, "min_per_second": 1, "window": 10},
        },
        "deadline": {"total": 1, "header": "x-request-timeout-ms", "unit": "ms", "grpc_timeout": true},
    })
}

#[test]
fn schema_and_type_accept_the_same() {
    for kind in ObjectKind::ALL {
        let full = full(kind);
        let faults = schema::validator(kind).faults(&full);
        assert_eq!(faults, [], "{kind}: the full object");
        Resource::read(kind, &full).unwrap();
        let known = schema::find_object_schema(kind)["properties"].as_object().unwrap();
        for field in full.as_object().unwrap().keys().filter(|_| !known.is_empty()) {
            assert!(known.contains_key(field), "{kind}.{field}");
        }
        for mutant in mutants(&full) {
            if schema::validator(kind).accepts(&mutant) {
                let read = Resource::read(kind, &mutant);
                assert!(read.is_ok(), "{kind}: the schema accepts what the type refuses: {read:?} {mutant}");
            }
        }
        for unknown in with_unknown_fields(&full) {
            if kind == ObjectKind::PluginMetadata || kind == ObjectKind::Secret {
                continue;
            }
            let (by_schema, by_type) =
                (schema::validator(kind).accepts(&unknown), Resource::read(kind, &unknown));
            assert_eq!(by_schema, by_type.is_ok(), "{kind}: {unknown}");
        }
    }
}

/// The value with each of its parts replaced by junk, or taken away.
fn mutants(value: &Value) -> Vec<Value> {
    let mut found = vec![
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(2.0),
        json!(5_000_000_000_i64),
        json!(1e300),
        json!(""),
        json!("junk"),
        json!([]),
        json!({}),
        json!(["a"]),
        json!({"a": 1}),
        Value::Null,
    ];
    match value {
        Value::Object(fields) => {
            for name in fields.keys() {
                let mut without = fields.clone();
                without.remove(name);
                found.push(Value::Object(without));
            }
            found.extend(replaced(fields));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for mutant in mutants(item) {
                    let mut items = items.clone();
                    items[index] = mutant;
                    found.push(Value::Array(items));
                }
            }
        }
        _ => {}
    }
    found
}

fn replaced(fields: &Map<String, Value>) -> Vec<Value> {
    let one = |(name, value): (&String, &Value)| {
        let put = |mutant| {
            let mut fields = fields.clone();
            fields.insert(name.clone(), mutant);
            Value::Object(fields)
        };
        mutants(value).into_iter().map(put).collect::<Vec<_>>()
    };
    fields.iter().flat_map(one).collect()
}

/// The value with an unknown field in each of its objects in turn.
fn with_unknown_fields(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            let mut own = fields.clone();
            own.insert("unknown".to_owned(), json!("value"));
            found.push(Value::Object(own));
            for (name, value) in fields {
                for inner in with_unknown_fields(value) {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), inner);
                    found.push(Value::Object(fields));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for inner in with_unknown_fields(item) {
                    let mut items = items.clone();
                    items[index] = inner;
                    found.push(Value::Array(items));
                }
            }
        }
        _ => {}
    }
    found
}

/// Any JSON, with field names that the schemas know among others.
fn json_of_any_shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9:./*\\[\\]]{0,12}".prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        prop::sample::select(vec![
            "uri",
            "uris",
            "hosts",
            "plugins",
            "upstream",
            "nodes",
            "type",
            "key",
            "vars",
            "id",
            "timeout",
            "checks",
            "count",
            "_meta",
            "filter",
            "remote_addrs",
            "127.0.0.1:80",
            "[::1]",
        ])
        .prop_map(str::to_owned),
        ".{0,3}",
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_accepted_or_refused_with_reasons(value in json_of_any_shape()) {
        let catalog = catalog();
        for kind in ObjectKind::ALL {
            if let Err(refusal) = check::value(&catalog, kind, &value) {
                prop_assert!(!refusal.contract_message().is_empty() && !refusal.faults().is_empty());
            }
        }
    }

    #[test]
    fn any_text_is_an_authority_or_refused(text in "[\\[\\]:0-9a-f.]{0,20}|.{0,8}") {
        if let Ok((host, port)) = split_authority(&text) {
            prop_assert!(!host.is_empty() && !host.contains(['[', ']']) && port != Some(0));
        }
    }
}
