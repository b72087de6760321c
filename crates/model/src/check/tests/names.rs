//! Names that APISIX 3.18 takes: hosts, server names, and what health checks are called. Knows no
//! certificate.

use serde_json::{Value, json};

use super::catalog;
use crate::{ObjectKind, check};

/// The first line of the refusal; empty if the object is accepted.
fn refusal(kind: ObjectKind, object: &Value) -> String {
    let result = check::value(&catalog(), kind, object);
    result.err().map(|refusal| refusal.contract_message().to_owned()).unwrap_or_default()
}

#[test]
fn hosts_may_be_a_wildcard_alone() {
    for host in ["*", "*.a.test", "a_b.test", "[::1]"] {
        let route = json!({"uri": "/a", "host": host, "upstream": {"nodes": {"a:80": 1}}});
        assert_eq!(refusal(ObjectKind::Route, &route), "", "{host}");
        let service = json!({"hosts": [host]});
        assert_eq!(refusal(ObjectKind::Service, &service), "", "{host}");
    }
    for host in ["**", "a*", "a b", ""] {
        let route = json!({"uri": "/a", "host": host, "upstream": {"nodes": {"a:80": 1}}});
        assert!(refusal(ObjectKind::Route, &route).contains("pattern"), "{host}");
    }
}

#[test]
fn server_names_may_have_underscores() {
    let ssl = |sni: &str| json!({"snis": [sni], "cert": "c".repeat(128), "key": "k".repeat(64)});
    for sni in ["*", "*.a_b.test", "a_b.test", "[::1]"] {
        let message = refusal(ObjectKind::Ssl, &ssl(sni));
        assert!(!message.contains("pattern") && !message.contains("shorter"), "{sni}: {message}");
    }
    for sni in ["", "a/b", "**", "a.*"] {
        assert!(refusal(ObjectKind::Ssl, &ssl(sni)).contains("pattern"), "{sni}");
    }
    let short = json!({"sni": "a", "cert": "c".repeat(128), "key": "k".repeat(63)});
    assert_ne!(refusal(ObjectKind::Ssl, &short), "");
}

#[test]
fn header_lines_of_checks_have_two_names() {
    for name in ["req_headers", "http_request_headers"] {
        let upstream = json!({"nodes": {"a:80": 1}, "checks": {"active": {name: ["A: b"]}}});
        let message = refusal(ObjectKind::Upstream, &upstream);
        assert!(!message.contains("additional properties"), "{name}: {message}");
    }
}
