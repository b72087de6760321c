//! The plugins that admit or refuse requests, through the real gateway: those that decide by lists, and those
//! that ask a real server. `forward-auth` has tests of its own (`authorization`).

mod directory;
mod lists;
mod policies;

use serde_json::{Value, json};
use testkit::{Origin, Response, Weir};

use crate::support::BINARY;

/// A gateway and an origin that echoes the request head.
struct Stage {
    weir: Weir,
    origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(&[])
    }

    /// With settings as arguments.
    fn with(arguments: &[&str]) -> Stage {
        Stage { weir: Weir::builder(BINARY).arguments(arguments).start(), origin: Origin::echoing() }
    }

    /// Puts a route for every path with these plugins, and with further fields.
    fn route(&self, plugins: Value, more: Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let mut route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": plugins});
        route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.weir.put("routes/1", route);
    }

    /// Puts a consumer with the key `NAME-key`, and with further fields.
    fn consumer(&self, name: &str, more: Value) {
        let mut consumer = json!({"username": name, "plugins": {"key-auth": {"key": format!("{name}-key")}}});
        consumer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.weir.put("consumers", consumer);
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.weir.client().request("GET", path, headers, b"")
    }

    /// The status and the message of the answer to a request.
    fn answer(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let response = self.weir.client().request(method, path, headers, b"");
        let is_json = response.header("content-type").is_some_and(|value| value.contains("json"));
        let message = is_json.then(|| response.json()["message"].as_str().map(str::to_owned)).flatten();
        (response.status, message.unwrap_or_default())
    }
}
