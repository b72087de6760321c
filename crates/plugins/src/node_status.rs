//! # node-status
//!
//! Shows how many client connections and requests this instance has, at `GET /apisix/status` of a route with
//! `public-api`.
//!
//! ```json
//! {}
//! ```
//!
//! The plugin need not be in any object: a route with [`public-api`](public-api.md) and the URI
//! `/apisix/status` serves the endpoint, which answers
//!
//! ```json
//! {"id":"0f8fad5b-d9cb-469f-a165-70867728950e","status":{"active":"1","accepted":"22","handled":"22","total":"23","reading":"0","writing":"1","waiting":"0"}}
//! ```
//!
//! | field of `status` | counts |
//! |---|---|
//! | `active` | open client connections |
//! | `accepted` | connections accepted since the start |
//! | `handled` | those of them that were served |
//! | `total` | requests since the start |
//! | `reading` | open connections on which a request head is read |
//! | `writing` | open connections that do anything else |
//! | `waiting` | open connections that wait for a request |
//!
//! The numbers are texts, as in APISIX. They are those of all workers, and of connections of every version of
//! HTTP; the metrics `apisix_nginx_http_current_connections` and `apisix_http_requests_total` are the same
//! numbers. `id` is the setting `instance_id`, or a random one that is kept in the data folder. Without
//! `key-auth` or `ip-restriction` on the route, every client may read it.

use std::sync::Arc;

use exchange::Exchange;
use exchange::plugin::process::ProcessFacts;
use exchange::plugin::{BufferedReply, Build, Flow, Plugin, PluginApi, PluginKind};
use message::Method;
use model::instance::ConnectionCounts;
use serde_json::{Value, json};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new("node-status", 1000, &[], schema, build)
    .global()
    .with_apis(&[PluginApi { method: Method::Get, path: "/apisix/status" }])
    .documented(include_str!("node_status.rs"));

fn schema() -> Value {
    json!({ "type": "object", "title": "Show connections and requests", "properties": {} })
}

/// The compiled plugin.
struct NodeStatus {
    process: Arc<ProcessFacts>,
}

fn build(build: &Build<'_>, _config: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(NodeStatus { process: build.services.process().clone() }))
}

impl Plugin for NodeStatus {
    fn api<'a>(&'a self, _exchange: &'a mut Exchange) -> Flow<'a> {
        let (Some(info), Some(counts)) = (self.process.info(), self.process.connections()) else {
            // The instance starts or ends.
            return Flow::reply(BufferedReply::status(503));
        };
        let body = json!({ "id": info.id, "status": shown(&counts) }).to_string();
        let reply = BufferedReply::status(200).with_header("Content-Type", "text/plain; charset=utf-8");
        Flow::reply(reply.with_body(body.into_bytes()))
    }
}

fn shown(counts: &ConnectionCounts) -> Value {
    json!({
        "active": counts.active.to_string(),
        "accepted": counts.accepted.to_string(),
        "handled": counts.handled.to_string(),
        "total": counts.requests.to_string(),
        "reading": counts.reading.to_string(),
        "writing": counts.writing.to_string(),
        "waiting": counts.waiting.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, check_configuration, decide};
    use model::catalog::SchemaType;
    use model::instance::{Connections, InstanceInfo};

    use super::*;

    struct Counted;

    impl Connections for Counted {
        fn connections(&self) -> ConnectionCounts {
            ConnectionCounts {
                active: 6,
                accepted: 9,
                handled: 8,
                requests: 40,
                reading: 1,
                writing: 2,
                waiting: 3,
            }
        }
    }

    #[test]
    fn configurations() {
        check_configuration(&KIND, SchemaType::Plugin, &json!({}), None);
        check_configuration(&KIND, SchemaType::Plugin, &json!("a"), Some("object"));
    }

    #[test]
    fn status_is_answered_while_the_process_serves() {
        let process = Arc::new(ProcessFacts::default());
        let plugin = NodeStatus { process: process.clone() };
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET /apisix/status HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(decide(plugin.api(&mut exchange)).unwrap().status, 503);
        let counted: Arc<dyn Connections> = Arc::new(Counted);
        process.serve(Arc::new(InstanceInfo { id: "one".into(), ..InstanceInfo::default() }), &counted);
        let reply = decide(plugin.api(&mut exchange)).unwrap();
        let expected = json!({"id": "one", "status": {
            "active": "6", "accepted": "9", "handled": "8", "total": "40",
            "reading": "1", "writing": "2", "waiting": "3",
        }});
        assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap(), expected);
        drop(counted);
        assert_eq!(decide(plugin.api(&mut exchange)).unwrap().status, 503);
    }
}
