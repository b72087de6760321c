//! Routes accepted and refused.

use serde_json::json;

use super::{catalog, route};
use crate::{ObjectKind, check};

#[test]
fn routes() {
    route(json!({}), "");
    route(
        json!({"uri": null, "uris": ["/a", "/b/*"], "methods": ["GET", "PURGE"], "status": 0, "priority": 1.0}),
        "",
    );
    route(
        json!({"hosts": ["*.a.com", "b"], "remote_addrs": ["127.0.0.1", "::1", "fd00::/8", "10.0.0.0/8"]}),
        "",
    );
    route(json!({"vars": [["arg_x", "==", "1"]], "timeout": {"connect": 0.5, "send": 1, "read": 6}}), "");
    route(json!({"upstream": null, "service_id": 3}), "");
    route(json!({"uri": "*"}), "");
    route(json!({"x": 1}), "invalid configuration: additional properties forbidden, found x");
    route(
        json!({"upstream": null}),
        concat!(
            "invalid configuration: a route needs uri or uris, and one of upstream, upstream_id, service_id, plugins ",
            "(object matches none of the required: ",
            r#"["plugins","uri"] or ["upstream","uri"] or ["upstream_id","uri"] or ["service_id","uri"] or "#,
            r#"["plugins","uris"] or ["upstream","uris"] or ["upstream_id","uris"] or ["service_id","uris"] or "#,
            r#"["script","uri"] or ["script","uris"])"#,
        ),
    );
    route(
        json!({"uri": null}),
        concat!(
            "invalid configuration: a route needs uri or uris, and one of upstream, upstream_id, service_id, plugins ",
            "(allOf 1 failed: value should match only one schema, but matches none)",
        ),
    );
    route(
        json!({"uris": ["/b"]}),
        concat!(
            "invalid configuration: allOf 1 failed: ",
            "value should match only one schema, but matches both schemas 1 and 2; ",
            "only one may be written: `uri` or `uris`"
        ),
    );
    route(
        json!({"uri": ""}),
        concat!(
            "invalid configuration: property \"uri\" validation failed: ",
            "string too short, expected at least 1, got 0"
        ),
    );
    route(
        json!({"uris": [], "uri": null}),
        "invalid configuration: property \"uris\" validation failed: expect array to have at least 1 items",
    );
    route(
        json!({"methods": ["GETT"]}),
        concat!(
            "invalid configuration: property \"methods\" validation failed: ",
            "failed to validate item 1: matches none of the enum values; ",
            "allowed are GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS, CONNECT, TRACE, PURGE"
        ),
    );
    route(
        json!({"methods": ["GET", "GET"]}),
        concat!(
            "invalid configuration: property \"methods\" validation failed: ",
            "expected unique items but items 1 and 2 are equal"
        ),
    );
    route(json!({"host": "a", "hosts": ["b"]}), "only one of host or hosts is allowed");
    route(
        json!({"remote_addr": "::1", "remote_addrs": ["::1"]}),
        "only one of remote_addr or remote_addrs is allowed",
    );
    route(
        json!({"remote_addr": "localhost"}),
        concat!(
            "invalid configuration: ",
            "property \"remote_addr\" validation failed: object matches none of the required; ",
            "\"localhost\" is neither an IP address nor a network (ADDRESS/BITS)"
        ),
    );
    route(
        json!({"remote_addr": "::/200"}),
        "\"::/200\" is neither an IP address nor a network (ADDRESS/BITS)",
    );
    route(
        json!({"id": "a b"}),
        concat!(
            "invalid configuration: property \"id\" validation failed: object matches none of the required; ",
            "\"a b\" is not an id: 1 to 64 letters, digits, '-', '_' and '.'"
        ),
    );
    route(
        json!({"priority": "1"}),
        concat!(
            "invalid configuration: property \"priority\" validation failed: ",
            "wrong type: expected integer, got string"
        ),
    );
    route(
        json!({"status": 2}),
        "invalid configuration: property \"status\" validation failed: matches none of the enum values; allowed are 1, 0",
    );
    route(
        json!({"timeout": {"connect": 1}}),
        concat!(
            "invalid configuration: property \"timeout\" validation failed: ",
            "property \"send\" is required"
        ),
    );
    route(
        json!({"timeout": {"connect": 0, "send": 1, "read": 1}}),
        concat!(
            "invalid configuration: ",
            "property \"timeout\" validation failed: property \"connect\" validation failed: ",
            "expected 0 to be greater than 0"
        ),
    );
    route(
        json!({"script": "return {} -- ", "plugins": {}}),
        "invalid configuration: value wasn't supposed to match schema",
    );
    route(json!({"filter_func": "function(vars) return true end"}), "");
    route(json!({"script": "local a = 1; return a"}), "");
    route(json!({"script_id": 1}), "script_id is not supported: write the script in `script`");
    route(json!({"uri": "/a*b*c*d*e*f*g*h*i*j"}), "the path has more than 8 wildcards");
    route(
        json!({"labels": {"a": "b c"}}),
        concat!(
            "invalid configuration: property \"labels\" validation failed: ",
            "failed to validate a (matching \".*\"): failed to match pattern \"^\\\\S+$\" with \"b c\""
        ),
    );
    let nested = check::value(
        &catalog(),
        ObjectKind::Route,
        &json!({"uri": "/", "plugins": {}, "vars": [["a", "~", 1]]}),
    );
    assert!(nested.unwrap_err().contract_message().starts_with("failed to validate the 'vars' expression: "));
}

#[test]
fn lists_of_hosts_and_addresses_are_limited() {
    let hosts = |count: usize| (0..count).map(|number| format!("h{number}.example")).collect::<Vec<_>>();
    route(json!({"hosts": hosts(10_000)}), "");
    route(json!({"hosts": hosts(100_000)}), "a route has at most 10,000 hosts");
    let service =
        |count: usize| check::value(&catalog(), ObjectKind::Service, &json!({"hosts": hosts(count)}));
    assert!(service(10_000).is_ok());
    let refused = service(10_001).unwrap_err();
    assert_eq!(refused.contract_message(), "there are at most 10,000 hosts");
    let addresses = |count: u32| {
        (0..count).map(|number| std::net::Ipv4Addr::from(number).to_string()).collect::<Vec<_>>()
    };
    route(json!({"remote_addrs": addresses(10_000)}), "");
    route(json!({"remote_addrs": addresses(10_001)}), "a route has at most 10,000 client addresses");
}

#[test]
fn misspelt_field_hides_no_other_fault() {
    let check = |route: serde_json::Value, expected: &[(&str, &str)]| {
        let refusal = check::value(&catalog(), ObjectKind::Route, &route).unwrap_err();
        let found: Vec<(&str, &str)> =
            refusal.faults().iter().map(|fault| (&*fault.pointer, &*fault.reason)).collect();
        assert_eq!(found, expected, "{route}");
    };
    let unknown = "additional properties forbidden, found";
    check(
        json!({"urri": "/a", "plugins": {}}),
        &[("/urri", &format!("{unknown} urri; did you mean `uri`?"))],
    );
    check(
        json!({"uri": "/a", "upstraem": {"nodes": {"a:80": -1}, "tpye": "chash"}}),
        &[
            ("/upstraem", &format!("{unknown} upstraem; did you mean `upstream`?")),
            (
                "/upstraem/nodes/a:80",
                "expected -1 to be at least 0; the weight is a whole number from 0 to 4294967295",
            ),
            ("/upstraem/tpye", &format!("{unknown} tpye; did you mean `type`?")),
        ],
    );
}
