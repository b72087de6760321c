//! Table: upstreams of the type original_dst.

use super::*;

fn original(fields: Value, expected: &str) {
    let whole =
        json!({"type": "original_dst", "scheme": "tcp", "original_dst": {"allow": ["10.0.0.0/8", "::1"]}});
    check(ObjectKind::Upstream, merged(whole, fields), expected);
}

#[test]
fn original_destinations() {
    original(json!({"name": "a", "desc": "b", "labels": {"c": "d"}, "pass_host": "pass"}), "");
    original(
        json!({"scheme": "tls", "tls": {"verify": true}, "timeout": {"connect": 1, "send": 1, "read": 1}}),
        "",
    );
    original(json!({"original_dst": {"allow": ["0.0.0.0/0", "::/0"], "ports": [443, "8000-8099"]}}), "");
    original(
        json!({"original_dst": null, "nodes": {"a:1": 1}}),
        "type original_dst needs original_dst, the destinations that are allowed, such as {\"allow\": [\"10.0.0.0/8\"]}",
    );
    original(json!({"transparent_source": true}), "");
    original(json!({"type": null}), "original_dst has no effect without \"type\": \"original_dst\"");
    for scheme in [json!(null), json!("http"), json!("udp")] {
        original(
            json!({"scheme": scheme}),
            "type original_dst is for stream routes over connections: write the scheme tcp or tls",
        );
    }
    original(
        json!({"original_dst": {"allow": []}}),
        "invalid configuration: property \"original_dst\" validation failed: property \"allow\" validation failed: expect \
         array to have at least 1 items",
    );
    original(
        json!({"original_dst": {"ports": [1]}}),
        "invalid configuration: property \"original_dst\" validation failed: property \"allow\" is required",
    );
    original(
        json!({"original_dst": {"allow": ["10.0.0.0/33"]}}),
        "\"10.0.0.0/33\" is neither an IP address nor a network (ADDRESS/BITS)",
    );
    original(
        json!({"original_dst": {"allow": ["::1"], "ports": ["9-8"]}}),
        "\"9-8\" is neither a port from 1 to 65535 nor a range such as \"8000-8099\"",
    );
}

#[test]
fn original_destination_refuses_fields_of_nodes() {
    let others = [
        ("hash_on", json!("vars")),
        ("key", json!("remote_addr")),
        ("checks", json!({"active": {}})),
        ("retries", json!(1)),
        ("outlier_ejection", json!({})),
        ("limits", json!({"max_requests": 1})),
        ("discovery_args", json!({})),
    ];
    for (field, value) in others {
        let expected = format!(
            "{field} has no effect with the type original_dst, of which sessions go to their own destinations: remove it"
        );
        original(json!({ field: value }), &expected);
    }
    let both = "invalid configuration: value should match only one schema, but matches both schemas";
    for (more, schemas, names) in [
        (json!({"nodes": {"a:1": 1}}), "1 and 3", "`nodes`"),
        (
            json!({"service_name": "a", "discovery_type": "dns"}),
            "2 and 3",
            "`service_name` with `discovery_type`",
        ),
    ] {
        let expected = format!("{both} {schemas}; only one may be written: {names} or `original_dst`");
        original(more, &expected);
    }
}

#[test]
fn transparent_source_is_of_layer_4() {
    let with = |scheme: &str| json!({"nodes": {"a:1": 1}, "scheme": scheme, "transparent_source": true});
    for scheme in ["tcp", "tls"] {
        check(ObjectKind::Upstream, with(scheme), "");
    }
    for scheme in ["http", "udp"] {
        check(
            ObjectKind::Upstream,
            with(scheme),
            "transparent_source is for stream routes over connections: write the scheme tcp or tls",
        );
    }
}

#[test]
fn routes_of_http_refuse_original_destinations() {
    let upstream =
        json!({"type": "original_dst", "scheme": "tcp", "original_dst": {"allow": ["10.0.0.0/8"]}});
    check(
        ObjectKind::Route,
        json!({"uri": "/", "upstream": upstream}),
        "scheme tcp of an upstream is for stream routes; the upstream of a route has http, https, grpc or grpcs",
    );
    check(ObjectKind::StreamRoute, json!({ "upstream": upstream }), "");
}
