//! For any request, the status is below 500, good objects stay, and every stored object passes its schema.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::testing::Rig;

/// Names of fields, and some unknown names.
const NAMES: [&str; 22] = [
    "id",
    "uri",
    "uris",
    "host",
    "hosts",
    "methods",
    "vars",
    "priority",
    "status",
    "plugins",
    "upstream",
    "upstream_id",
    "service_id",
    "nodes",
    "type",
    "key",
    "hash_on",
    "username",
    "labels",
    "timeout",
    "create_time",
    "other",
];

const PATHS: [&str; 16] = [
    "routes/1",
    "routes",
    "services/1",
    "upstreams/1",
    "consumers",
    "consumers/jack",
    "consumers/jack/credentials/1",
    "plugin_configs/1",
    "global_rules/1",
    "plugin_metadata/count",
    "ssls/1",
    "protos/1",
    "secrets/vault/1",
    "routes/1/upstream/nodes",
    "upstreams/1/labels/a",
    "schema/validate/routes",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000.0f64..1000.0).prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "/",
            "/a/*",
            "*.b",
            "GET",
            "roundrobin",
            "chash",
            "127.0.0.1:80",
            "count",
            "auth",
            "é\u{0}"
        ])
        .prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 5, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object_of(inner),]
    })
}

fn object_of(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let name = prop_oneof![prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), "[ -~]{0,6}"];
    prop::collection::vec((name, inner), 0..6)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_request_is_answered_by_a_server_error(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec!["PUT", "POST", "PATCH", "DELETE", "GET"]),
                prop::sample::select(PATHS.to_vec()),
                prop_oneof![value(), object_of(value())],
            ),
            1..12,
        ),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let rig = Rig::store(directory.path());
        let good = json!({"uri": "/good", "upstream": {"nodes": {"127.0.0.1:1": 1}, "type": "roundrobin"}});
        prop_assert_eq!(rig.json("PUT", "/apisix/admin/routes/good", &good).0, 201);
        for (method, path, body) in requests {
            let (status, answer) = rig.json(method, &format!("/apisix/admin/{path}"), &body);
            prop_assert!(status < 500, "{} {} {} gave {} {}", method, path, body, status, answer);
        }
        let view = rig.view.load();
        prop_assert!(view.snapshot.faults().is_empty(), "a faulty object was stored: {:?}", view.snapshot.faults());
        for kind in model::ObjectKind::ALL {
            for written in view.all_written(kind) {
                let value: Value = serde_json::from_str(&written.text).unwrap();
                prop_assert!(model::schema::validator(kind).accepts(&value), "{} {}", written.key, written.text);
            }
        }
        prop_assert_eq!(rig.json("GET", "/apisix/admin/routes/good", &Value::Null).0, 200);
    }

    #[test]
    fn no_path_or_query_is_answered_by_a_server_error(path in "[a-z0-9/%.?&=\\-]{0,40}", method in prop::sample::select(vec!["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])) {
        let directory = tempfile::tempdir().unwrap();
        let rig = Rig::store(directory.path());
        if format!("/apisix/admin/{path}").parse::<http::Uri>().is_ok() {
            let (status, _) = rig.ask(method, &format!("/apisix/admin/{path}"), "{}");
            prop_assert!(status < 500, "{} {} gave {}", method, path, status);
        }
    }
}
