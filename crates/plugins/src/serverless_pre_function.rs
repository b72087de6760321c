//! # serverless-pre-function
//!
//! Runs functions in Lua that stand in the configuration, before all other plugins of the phase.
//!
//! ```json
//! {
//!   "phase": "rewrite",
//!   "functions": [
//!     "return function(conf, ctx) ngx.req.set_header('X-Client', ctx.var.remote_addr) end",
//!     "return function(conf, ctx) if ctx.var.arg_debug then return 403, {message = 'no'} end end"
//!   ]
//! }
//! ```
//!
//! **Functions.** Each entry is Lua that returns a function. The functions of one configuration run one behind another; each
//! gets the configuration and the context of the request. A function that returns a status ends the request with it; a second
//! result is the body, of which a table is sent as JSON. In the phases `header_filter`, `body_filter` and `log` results do not
//! count.
//!
//! **Phases.** `rewrite`, `access` (the default), `before_proxy`, `header_filter`, `body_filter` and `log`. In the first three a
//! function may wait: `ngx.sleep`, sockets and light threads do not hold up the worker. In `body_filter`, `ngx.arg[1]` is a piece
//! of the body and `ngx.arg[2]` tells whether it is the last.
//!
//! **Body of the request.** It is read before the functions run if the text of one names a function that reads it, such as
//! `get_body` or `read_body`; it may have 8 MiB then, and in `rewrite` as many bytes as variables of the body may have.
//!
//! **Faults.** An entry that does not compile, or that returns no function, is refused with its line. A function that fails or
//! exceeds a limit ends the request with 500 in the first three phases; in `header_filter` and `body_filter` the response is not
//! sent without its work; in `log` it has no effect. Each failure is in the error log and in the metric
//! `weir_plugin_events_total` with the event `lua_error`. [The reference of Lua](lua.md) has the functions and the limits.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::Value;

use crate::shared::attributes::Attribute;
use crate::shared::serverless::{self, Config};

/// The plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new("serverless-pre-function", 10_000, lua::serverless::ALL_PHASES, Config::schema, build)
        .checked(serverless::check)
        .documented(include_str!("serverless_pre_function.rs"));

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    serverless::build(KIND.name, build, config)
}

#[cfg(test)]
mod tests {
    use exchange::testing::{Scene, decide};
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_run_until_one_replies() {
        let mut scene = Scene::new();
        let config = json!({ "functions": [
            "return function(conf, ctx) ngx.req.set_header('X-Seen', ctx.var.arg_a) end",
            "return function() if ngx.var.arg_a == '1' then return 403, {message = 'no'} end end",
            "return function() ngx.header['X-Last'] = 'yes' end",
        ] });
        let plugin = scene.build(&KIND, &config);
        let mut exchange = scene.exchange(b"GET /?a=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = decide(plugin.access(&mut exchange)).unwrap();
        assert_eq!((reply.status, &*reply.body), (403, &b"{\"message\":\"no\"}\n"[..]));
        assert_eq!(exchange.request.headers.get("x-seen"), Some(&b"1"[..]));
        let mut exchange = scene.exchange(b"GET /?a=2 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(decide(plugin.access(&mut exchange)).is_none());
        assert!(decide(plugin.rewrite(&mut exchange)).is_none(), "another phase");
        assert_eq!(exchange.early_fields.len(), 1);
    }

    #[test]
    fn failing_function_answers_500() {
        let mut scene = Scene::new();
        let plugin =
            scene.build(&KIND, &json!({ "functions": ["return function() local a = nil; return a.b end"] }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(decide(plugin.access(&mut exchange)).unwrap().status, 500);
    }

    #[test]
    fn faulty_functions_are_refused() {
        let check = |text: &str, expected: &str| {
            let refused = (KIND.check)(&json!({ "functions": [text] })).unwrap_err();
            assert!(refused.starts_with(expected), "{text}: {refused}");
        };
        check("return function(", "failed to loadstring: function:1:");
        check("error('x', 0)", "pcall error: x");
        check("return 1", "only accept Lua function, the input code type is number");
        check("while true do end", "pcall error: the script was stopped after");
    }
}
