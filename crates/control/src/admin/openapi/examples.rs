//! One plain body for each kind, of those that a new node takes: an example that is refused teaches nothing. It refuses
//! to know where in the document they stand.

use model::Kind;
use serde_json::{Value, json};

use super::components::EXAMPLE_ID;

/// The body that makes an object; `suffix` tells the managers of secrets apart.
pub(super) fn of(kind: Kind, suffix: &str) -> Value {
    let upstream = json!({ "type": "roundrobin", "nodes": { "127.0.0.1:1980": 1 } });
    match (kind, suffix) {
        (Kind::Upstream, _) => upstream,
        (Kind::PluginConfig | Kind::ConsumerGroup, _) => {
            json!({ "plugins": { "limit-count": { "count": 100, "time_window": 60 } } })
        }
        (Kind::GlobalRule, _) => json!({ "plugins": { "request-id": {} } }),
        (Kind::PluginMetadata, _) => json!({}),
        (Kind::Ssl, _) => json!({ "sni": "a.example", "cert": "$env://CERTIFICATE", "key": "$env://KEY" }),
        (Kind::Proto, _) => json!({ "content": "syntax = \"proto3\";\npackage example;\n" }),
        (Kind::Secret, "Aws") => json!({ "access_key_id": "$env://ID", "secret_access_key": "$env://KEY" }),
        (Kind::Secret, "Gcp") => json!({ "auth_file": "/etc/weir/gcp.json" }),
        (Kind::Secret, _) => {
            json!({ "uri": "http://127.0.0.1:8200", "prefix": "kv/weir", "token": "$env://VAULT_TOKEN" })
        }
        (Kind::Service, _) => json!({ "upstream": upstream, "hosts": ["a.example"] }),
        (Kind::Consumer, _) => json!({ "username": EXAMPLE_ID }),
        (Kind::Credential, _) => json!({ "plugins": { "key-auth": { "key": "$env://EXAMPLE_KEY" } } }),
        (Kind::Route, _) => json!({ "uri": "/example/*", "methods": ["GET"], "upstream": upstream }),
        (Kind::StreamRoute, _) => json!({ "server_port": 9100, "upstream": upstream }),
    }
}

/// As [`of`], with the id in the body.
pub(super) fn named(kind: Kind) -> Value {
    let mut body = of(kind, "");
    if kind != Kind::Consumer {
        body["id"] = json!(EXAMPLE_ID);
    }
    body
}

/// A part to merge into it.
pub(super) fn part(kind: Kind, suffix: &str) -> Value {
    match (kind, suffix) {
        (Kind::GlobalRule, _) => json!({ "plugins": { "request-id": { "header_name": "X-Example" } } }),
        (Kind::Ssl, _) => json!({ "status": 1 }),
        (Kind::Secret, "Aws") => json!({ "region": "eu-central-1" }),
        (Kind::Secret, "Gcp") => json!({ "ssl_verify": true }),
        (Kind::Secret, _) => json!({ "prefix": "kv/other" }),
        _ => json!({ "desc": "an example", "labels": { "team": "example" } }),
    }
}
