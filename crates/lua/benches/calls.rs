//! The cost of functions of users that ask the gateway for little: nanoseconds for one request each.
//!
//! `cargo bench -p lua --bench calls` prints the table; a name behind `--` runs one row for long, for `perf`.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on says so by panicking")]

use std::sync::Arc;
use std::time::Instant;

use exchange::plugin::Plugin;
use exchange::plugin::state::StateRegistry;
use exchange::testing::{self, Scene, decide, route};
use serde_json::Value;

/// Requests that are measured together; they are made before.
const REQUESTS: usize = 256;
/// How often they are measured; the fastest time counts, because everything else only adds to it.
const ROUNDS: usize = 200;
/// Rounds of a row that runs alone.
const LONG_ROUNDS: usize = 4_000;
const HEAD: &[u8] = b"GET /small HTTP/1.1\r\nHost: 127.0.0.1:9080\r\nUser-Agent: weir-lab/1.0\r\n\
    Accept: */*\r\nAccept-Encoding: gzip\r\nX-Request-Id: 0af7651916cd43dd8448eb211c80319c\r\n\r\n";

/// Functions by name. `fields` is the function of the laboratory's contenders weir-lua and ngx-lua.
const ROWS: &[(&str, &str)] = &[
    ("empty", "return function() end"),
    (
        "fields",
        "return function() local fields = ngx.req.get_headers() ngx.req.set_header('X-Seen', \
         (fields['host'] or '') .. ' ' .. (fields['user-agent'] or '')) end",
    ),
    ("read", "return function() local fields = ngx.req.get_headers() return nil end"),
    ("set", "return function() ngx.req.set_header('X-Seen', 'a') end"),
    (
        "core",
        "local request = require('apisix.core').request return function(conf, ctx) \
         request.set_header(ctx, 'X-Seen', (request.header(ctx, 'host') or '') .. ' ' .. \
         (request.header(ctx, 'user-agent') or '')) end",
    ),
    (
        "variables",
        "return function() ngx.req.set_header('X-Seen', ngx.var.host .. ' ' .. ngx.var.http_user_agent) end",
    ),
    (
        "loop",
        "return function() local x = 0 for i = 1, 10000 do x = x + i % 7 end \
         if x < 0 then return 500 end end",
    ),
];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, source) in ROWS {
        if wanted.is_empty() || wanted.iter().any(|other| other == name) {
            let rounds = if wanted.is_empty() { ROUNDS } else { LONG_ROUNDS };
            println!("{name:10} {:7.0} ns", measure(source, rounds));
        }
    }
}

fn measure(source: &str, rounds: usize) -> f64 {
    let (states, services) = (Arc::<StateRegistry>::default(), testing::services());
    let build = testing::build("/routes/1", None, &states, &services);
    let functions = [source.to_owned()];
    let plugin: Arc<dyn Plugin> =
        lua::serverless::build("bench", &build, &Value::Null, "access", &functions).unwrap();
    let mut scene = Scene::new().with_route(route("1"));
    let mut fastest = f64::MAX;
    for _ in 0..rounds {
        let mut exchanges: Vec<_> = (0..REQUESTS).map(|_| scene.exchange(HEAD)).collect();
        let begun = Instant::now();
        for exchange in &mut exchanges {
            assert!(decide(plugin.access(exchange)).is_none());
        }
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / REQUESTS as f64);
    }
    fastest
}
