//! Upstreams accepted and refused.

use serde_json::{Value, json};

use super::{catalog, upstream};
use crate::{ObjectKind, check};

#[test]
fn upstreams() {
    upstream(json!({}), "");
    upstream(json!({"type": "chash", "key": "arg_x"}), "");
    upstream(json!({"type": "chash", "hash_on": "consumer"}), "");
    upstream(json!({"type": "chash", "hash_on": "header", "key": "X-A"}), "");
    upstream(json!({"type": "chash", "hash_on": "vars_combinations", "key": "$host$uri"}), "");
    upstream(json!({"nodes": [{"host": "[::1]", "port": 80, "weight": 0, "priority": -1}]}), "");
    upstream(json!({"nodes": {}, "retries": 0, "retry_timeout": 0.5, "keepalive_pool": {"size": 1}}), "");
    upstream(json!({"nodes": null, "service_name": "a", "discovery_type": "dns"}), "");
    upstream(json!({"pass_host": "rewrite", "upstream_host": "a"}), "");
    upstream(
        json!({"nodes": null}),
        "invalid configuration: an upstream needs nodes, service_name with discovery_type, or original_dst (value should match \
         only one schema, but matches none)",
    );
    upstream(
        json!({"service_name": "a", "discovery_type": "dns"}),
        "invalid configuration: value should match only one schema, but matches both schemas 1 and 2; only one may be \
         written: `nodes` or `service_name` with `discovery_type`",
    );
    upstream(
        json!({"nodes": null, "service_name": "a", "discovery_type": "eureka"}),
        "discovery_type eureka: no such registry is configured; write a block `discovery: {eureka: …}` in the settings, or \
         nodes instead",
    );
    for method in ["chash", "chash_bounded", "maglev"] {
        upstream(json!({"type": method}), "missing key");
        upstream(json!({"type": method, "key": "arg_x"}), "");
    }
    upstream(json!({"type": "random"}), "");
    upstream(
        json!({"type": "chash", "key": "cookie"}),
        concat!(
            "invalid configuration: failed to match pattern ",
            "\"^((uri|server_name|server_addr|request_uri|remote_port|remote_addr|query_string|host|hostname|",
            "mqtt_client_id)|arg_[0-9a-zA-Z_-]+)$\" with \"cookie\""
        ),
    );
    upstream(
        json!({"type": "chash", "hash_on": "header", "key": "a b"}),
        "invalid configuration: failed to match pattern \"^[a-zA-Z0-9-_]+$\" with \"a b\"",
    );
    upstream(
        json!({"type": "fastest"}),
        "invalid configuration: property \"type\" validation failed: matches none of the enum values; allowed are chash, \
         roundrobin, ewma, least_conn, random, maglev, chash_bounded, original_dst",
    );
    upstream(json!({"pass_host": "rewrite"}), "`upstream_host` can't be empty when `pass_host` is `rewrite`");
    upstream(
        json!({"nodes": {"::1": 1}}),
        "invalid node \"::1\": an IPv6 address is written in brackets, [::1]:PORT",
    );
    upstream(json!({"nodes": {"a:99999": 1}}), "invalid node \"a:99999\": a port is 1 to 65535");
    upstream(
        json!({"nodes": {"a:80": -1}}),
        concat!(
            "invalid configuration: property \"nodes\" validation failed: ",
            "object matches none of the required; ",
            "expected -1 to be at least 0; the weight is a whole number from 0 to 4294967295"
        ),
    );
    upstream(
        json!({"nodes": [{"host": "a", "weight": 1.5}]}),
        concat!(
            "invalid configuration: property \"nodes\" validation failed: ",
            "object matches none of the required; ",
            "wrong type: expected integer, got number; the weight is a whole number from 0 to 4294967295"
        ),
    );
    upstream(
        json!({"retries": -1}),
        concat!(
            "invalid configuration: property \"retries\" validation failed: ",
            "expected -1 to be at least 0"
        ),
    );
    upstream(json!({"scheme": "grpcs"}), "");
    upstream(json!({"http_version": "2"}), "");
    upstream(
        json!({"http_version": "3"}),
        "invalid configuration: property \"http_version\" validation failed: matches none of the enum values; allowed are \
         1.1, 2",
    );
    upstream(json!({"scheme": "tls", "nodes": {"a:1": 1}}), "");
    upstream(
        json!({"scheme": "kafka"}),
        "scheme kafka of an upstream is not supported yet: no plugin speaks to Kafka; supported are http, https, grpc, \
         grpcs, tcp, tls, udp",
    );
    let no_port = "invalid node \"b\": scheme udp has no default port; write HOST:PORT";
    upstream(json!({"scheme": "udp", "nodes": {"a:1": 1, "b": 1}}), no_port);
    upstream(json!({"scheme": "udp", "nodes": [{"host": "b", "weight": 1}]}), no_port);
    upstream(json!({"scheme": "udp", "nodes": [{"host": "b", "port": 53, "weight": 1}]}), "");
    upstream(
        json!({"scheme": "ftp"}),
        "invalid configuration: property \"scheme\" validation failed: matches none of the enum values; allowed are grpc, \
         grpcs, http, https, tcp, tls, udp, kafka",
    );
    upstream(json!({"checks": {"active": {}}}), "");
    upstream(json!({"checks": {"active": {"type": "grpc", "grpc_service": "a.B"}}}), "");
    upstream(
        json!({"checks": {"passive": {}}}),
        concat!(
            "invalid configuration: ",
            "property \"checks\" validation failed: object matches none of the required: ",
            "[\"active\"] or [\"active\",\"passive\"]; ",
            "needs `active` or `active` with `passive`"
        ),
    );
}

#[test]
fn policies_of_the_choice() {
    let sticky = |more: Value| {
        let mut sticky = json!({"cookie": "a"});
        sticky.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "sticky": sticky })
    };
    upstream(json!({"panic_threshold": 50, "overflow": {}, "zone_aware": {"min_nodes": 2}}), "");
    upstream(json!({"slow_start": {"window": 30}, "type": "ewma"}), "");
    upstream(
        json!({"slow_start": {"window": 30}, "type": "maglev", "key": "uri"}),
        "slow_start has no effect with the type maglev, because growing weights would move its keys: remove it, or use roundrobin, least_conn, random or ewma",
    );
    upstream(json!({"subset": {"match": {"version": "$http_x_version", "stage": "prod"}}}), "");
    upstream(json!({"subset": {"match": {"a": "b"}, "fallback": "default", "default": {"a": "c"}}}), "");
    upstream(
        json!({"subset": {"match": {"a": "b"}, "fallback": "default"}}),
        "the fallback default needs default: the metadata of the nodes to use, such as {\"version\": \"v1\"}",
    );
    upstream(
        json!({"subset": {"match": {"a": "b"}, "default": {"a": "c"}}}),
        "default has no effect without \"fallback\": \"default\"",
    );
    upstream(
        json!({"subset": {"match": {"a": "${x"}}}),
        "at byte 0 of the template: the brace is not closed",
    );
    upstream(sticky(json!({"ttl": 60, "secure": true, "same_site": "none"})), "");
    upstream(sticky(json!({"mode": "learn", "ttl": 60})), "");
    upstream(
        sticky(json!({"mode": "learn", "path": "/"})),
        "path has no effect with the mode learn, because the application sets the cookie",
    );
    upstream(
        sticky(json!({"same_site": "none"})),
        "same_site none needs \"secure\": true, because browsers refuse the cookie otherwise",
    );
}

#[test]
fn checks_ask_no_metadata_service() {
    let refusal = |upstream: Value| {
        let result = check::value(&catalog(), ObjectKind::Upstream, &upstream);
        result.err().map(|refusal| refusal.faults()[0].clone()).map(|fault| (fault.pointer, fault.reason))
    };
    let checks = json!({"active": {}});
    let cases = [
        (json!({"169.254.169.254:80": 1}), Some("/nodes/169.254.169.254:80")),
        (json!({"[fd00:ec2::254]:80": 1}), Some("/nodes/[fd00:ec2::254]:80")),
        (
            json!([{"host": "10.0.0.1", "port": 80, "weight": 1}, {"host": "169.254.1.1", "port": 80, "weight": 1}]),
            Some("/nodes/1/host"),
        ),
        (json!({"127.0.0.1:80": 1, "metadata.test": 1}), None),
    ];
    for (nodes, pointer) in cases {
        let found = refusal(json!({"nodes": nodes, "checks": checks}));
        assert_eq!(found.as_ref().map(|(pointer, _)| &**pointer), pointer, "{nodes}");
        assert!(found.is_none_or(|(_, reason)| reason.contains("outbound_allow")), "{nodes}");
        assert_eq!(refusal(json!({ "nodes": nodes })), None, "without checks");
    }
}

#[test]
fn texts_of_checks_cannot_change_the_request() {
    let check = |active: Value, expected: &str| upstream(json!({"checks": {"active": active}}), expected);
    check(json!({"http_path": "/up?a=b", "req_headers": ["A: b", "Host: a.test", "B:"]}), "");
    let path = "http_path begins with / and has no white space; write a space as %20";
    for wrong in ["up", "", "/a b", "/ HTTP/1.1\r\nA: b"] {
        check(json!({ "http_path": wrong }), path);
    }
    for wrong in ["a", ": b", "A b: c", "A: b\r\nC: d", "Content-Length: 1", "transfer-encoding: chunked"] {
        let expected = format!("{wrong:?} is no header line; write `Name: value`");
        check(json!({ "req_headers": [wrong] }), &expected);
        check(json!({ "http_request_headers": [wrong] }), &expected);
    }
}

#[test]
fn a_bad_weight_is_told_with_its_place_and_range() {
    let check = |nodes: Value, place: &str, reason: &str| {
        let upstream = json!({ "nodes": nodes });
        let refusal = check::value(&catalog(), ObjectKind::Upstream, &upstream).unwrap_err();
        let found: Vec<(&str, &str)> =
            refusal.faults().iter().map(|fault| (&*fault.pointer, &*fault.reason)).collect();
        assert_eq!(
            found,
            [(place, format!("{reason}; the weight is a whole number from 0 to 4294967295").as_str())]
        );
    };
    check(json!({"a:80": -1}), "/nodes/a:80", "expected -1 to be at least 0");
    check(json!({"a:80": 4294967296_u64}), "/nodes/a:80", "expected 4294967296 to be at most 4294967295");
    check(json!({"a:80": "1"}), "/nodes/a:80", "wrong type: expected integer, got string");
    check(
        json!([{"host": "a", "weight": 1.5}]),
        "/nodes/0/weight",
        "wrong type: expected integer, got number",
    );
}
