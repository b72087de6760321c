//! HTTP/2 to upstreams: a gateway in front of origins that are scripted frame by frame.

mod connections;
mod limits;
pub(crate) mod origin;
mod refusals;
mod streams;
mod websocket;

use serde_json::{Value, json};
use testkit::Weir;

use crate::support::BINARY;

/// A gateway with one worker, so that connections are counted exactly.
fn gateway(arguments: &[&str]) -> Weir {
    Weir::builder(BINARY).arguments(&["--workers", "1"]).arguments(arguments).start()
}

/// Sets the route `/r` to an upstream with this node and further fields, over HTTP/2.
fn set(weir: &Weir, node: &str, more: Value) {
    let mut upstream = json!({"http_version": "2", "nodes": {node: 1}});
    let (Value::Object(fields), Value::Object(more)) = (&mut upstream, more) else { panic!("no objects") };
    fields.extend(more);
    weir.put("routes/r", json!({"uri": "/r*", "upstream": upstream}));
}
