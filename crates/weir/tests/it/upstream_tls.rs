//! TLS to upstreams: a gateway in front of TLS servers, and what the tests of it share.

mod bodies;
mod client_certificates;
mod connections;
mod outbound;
mod trust;
mod verification;

use serde_json::{Value, json};
use testkit::{Authority, Origin, Pair, Response, TlsFront, Weir};

use crate::support::BINARY;

/// A gateway that trusts `authority` and nothing else, with one worker, so that connections are counted
/// exactly.
fn gateway(authority: &Authority, arguments: &[&str]) -> Weir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let trusted = ["--trusted-certificates", file.to_str().unwrap(), "--workers", "1"];
    Weir::builder(BINARY).arguments(&trusted).arguments(arguments).start()
}

/// An upstream of scheme https with this one node and further fields.
fn https(node: &str, more: Value) -> Value {
    let mut upstream = json!({"scheme": "https", "nodes": {node: 1}});
    let (Value::Object(fields), Value::Object(more)) = (&mut upstream, more) else { panic!("no objects") };
    fields.extend(more);
    upstream
}

/// Sets the route of that id, for its own host, to an upstream.
fn set(weir: &Weir, id: &str, upstream: Value) {
    weir.put(&format!("routes/{id}"), json!({"uri": format!("/{id}"), "upstream": upstream}));
}

/// The answer at the route `id` for a client that asks for `host`.
fn ask(weir: &Weir, id: &str, host: &str) -> Response {
    weir.client().request("GET", &format!("/{id}"), &[("Host", host)], b"")
}

/// The origin behind a TLS server with that certificate.
fn front(identity: &Pair) -> (Origin, TlsFront) {
    let origin = Origin::answering("ok");
    let front = TlsFront::to(origin.address(), identity);
    (origin, front)
}

/// The address of a TLS server, as a node.
fn node(front: &TlsFront) -> String {
    front.address().to_string()
}
