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
//! **Functions.** Each entry is Lua that returns a function. The functions of one configuration run one
//! behind another; each gets the configuration and the context of the request. A function that returns a
//! status ends the request with it; a second result is the body, of which a table is sent as JSON. In the
//! phases `header_filter`, `body_filter` and `log` results do not count.
//!
//! **Phases.** `rewrite`, `access` (the default), `before_proxy`, `header_filter`, `body_filter` and `log`.
//! In the first three a function may wait: `ngx.sleep`, sockets and light threads do not hold up the worker.
//! In `body_filter`, `ngx.arg[1]` is a piece of the body and `ngx.arg[2]` tells whether it is the last; a
//! function that sets it to true ends the body with this piece.
//!
//! **Body of the request.** It is read before the functions run if the text of one names a function that
//! reads it, such as `get_body` or `read_body`; it may have 8 MiB then, and in `rewrite` as many bytes as
//! variables of the body may have.
//!
//! **Faults.** An entry that does not compile, or that returns no function, is refused with its line. A
//! function that fails or exceeds a limit ends the request with 500 in the first three phases; in
//! `header_filter` and `body_filter` the response is not sent without its work; in `log` it has no effect.
//! Each failure is in the error log and in the metric `weir_plugin_events_total` with the event `lua_error`.
//! [The reference of Lua](../lua.md) has the functions and the limits.

use std::sync::Arc;

use exchange::plugin::{Build, Plugin, PluginKind};
use serde_json::Value;

use crate::shared::attributes::Attribute;
use crate::shared::serverless::{self, ServerlessConfig};

/// The plugin.
pub(crate) const KIND: PluginKind = PluginKind::new(
    "serverless-pre-function",
    10_000,
    lua::serverless::ALL_PHASES,
    ServerlessConfig::schema,
    build,
)
.checked(serverless::check)
.documented(include_str!("serverless_pre_function.rs"));

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    serverless::build(KIND.name, build, config)
}

#[cfg(test)]
mod tests {
    use exchange::plugin::{Portion, ResponseStep};
    use exchange::testing::{Scene, WRITTEN_PATHS, decide};
    use router::vars::Template;
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
    fn new_path_has_the_form_of_a_client_path() {
        for (path, expected) in WRITTEN_PATHS {
            for call in
                ["ngx.req.set_uri(path)", "ngx.var.upstream_uri = path", "ctx.var.upstream_uri = path"]
            {
                let body = format!("local path = '{path}' {call}");
                let mut scene = Scene::new();
                let function = format!("return function(conf, ctx) {body} end");
                let plugin = scene.build(&KIND, &json!({ "functions": [function] }));
                let mut exchange = scene.exchange(b"GET /old HTTP/1.1\r\nHost: a\r\n\r\n");
                let reply = decide(plugin.access(&mut exchange));
                assert_eq!(reply.map(|reply| reply.status), expected.is_none().then_some(500), "{body}");
                let expected = expected.unwrap_or("/old");
                assert_eq!(String::from_utf8_lossy(exchange.forward_path()), expected, "{body}");
            }
        }
    }

    /// Runs `body` as a function of the phase access; the text of `template` then.
    fn rendered(body: &str, template: &str) -> String {
        let mut scene = Scene::new();
        let function = format!("return function(conf, ctx) {body} end");
        let plugin = scene.build(&KIND, &json!({ "functions": [function] }));
        let mut exchange = scene.exchange(b"GET /?a=1 HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n");
        assert!(decide(plugin.access(&mut exchange)).is_none(), "{body}");
        let mut text = Vec::new();
        Template::compile(template).unwrap().render(&*exchange, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn own_variables_reach_the_gateway() {
        let check =
            |body: &str, template: &str, want: &str| assert_eq!(rendered(body, template), want, "{body}");
        check("ctx.var.tier = 'gold'", "$tier ${tier ?? none}", "gold gold");
        check("ngx.var.tier = 'gold'", "$tier", "gold");
        check("ctx.var.tier = 'a' ctx.var.tier = 'b'", "$tier", "b");
        check("ctx.var.tier = 'a' ngx.var.tier = ngx.var.tier .. ctx.var.tier", "$tier", "aa");
        check("ctx.var.tier = 'a' ctx.var.tier = nil", "${tier ?? none}", "none");
        check("ctx.var.n = 12 ctx.var.yes = true ctx.var.no = false", "$n $yes $no", "12 true false");
        check("ctx.var.http_x = ctx.var.http_x .. 'z' ctx.var.arg_a = '2'", "$http_x $arg_a", "yz 2");
        // Values of other types are for scripts alone, and so is one in the place of a variable of the
        // gateway.
        check(
            "ctx.var.t = { 'x' } assert(ctx.var.t[1] == 'x' and ngx.var.t[1] == 'x')",
            "${t ?? none}",
            "none",
        );
        check("ctx.var.host = 'b' assert(ctx.var.host == 'b')", "$host", "a");
        check("for i = 1, 256 do ctx.var['v' .. i] = i end", "$v1 $v256", "1 256");
        let many = "for i = 1, 257 do ctx.var['v' .. i] = i end";
        let mut scene = Scene::new();
        let function = format!("return function(conf, ctx) {many} end");
        let plugin = scene.build(&KIND, &json!({ "functions": [function] }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(decide(plugin.access(&mut exchange)).unwrap().status, 500);
    }

    #[test]
    fn added_variables_reach_the_gateway() {
        let add = "local core = require('apisix.core') core.ctx.register_var";
        let check =
            |body: &str, template: &str, want: &str| assert_eq!(rendered(body, template), want, "{body}");
        let body = format!("{add}('added_a', function(ctx) return ctx.var.arg_a .. ctx.var.http_x end)");
        check(&body, "${added_a ?? none}", "1y");
        check("local _ = 1", "${added_a ?? none}", "none");
        check(&format!("{add}('added_b', function() return 7 end)"), "$added_b", "7");
        check(&format!("{add}('added_c', function() error('x') end)"), "${added_c ?? none}", "none");
        check(
            &format!("{add}('added_d', function() return 'x' end) ctx.var.added_d = 'own'"),
            "$added_d",
            "own",
        );
    }

    #[test]
    fn context_is_shared_with_plugins_of_the_gateway() {
        let mut scene = Scene::new();
        let function = "return function(conf, ctx)
            assert(ctx.jwt_auth_payload.sub == 'jack' and ctx.external_user == nil)
            ctx.external_user = { groups = { 'a' } }
            assert(ctx.external_user.groups[1] == 'a')
            ctx.external_user = { groups = { 'a', 'b' } }
            ctx.other = 1
        end";
        let plugin = scene.build(&KIND, &json!({ "functions": [function] }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let claims = jsonx::parse(br#"{"sub":"jack"}"#, jsonx::Bounds::SMALL).unwrap().value;
        exchange.decision.claims = Some(std::rc::Rc::new(claims));
        assert!(decide(plugin.access(&mut exchange)).is_none());
        let user = exchange.decision.external_user.clone();
        assert_eq!(user.as_deref(), Some(&json!({ "groups": ["a", "b"] })));
    }

    #[test]
    fn body_ends_where_a_function_says_so() {
        let mut scene = Scene::new();
        let function = "return function()
            if ngx.arg[1]:find('b') then ngx.arg[1] = 'end' ngx.arg[2] = true end
        end";
        let plugin = scene.build(&KIND, &json!({ "phase": "body_filter", "functions": [function] }));
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let pieces =
            [("a1", Portion::Piece), ("b1", Portion::Piece), ("c1", Portion::Piece), ("d1", Portion::Last)];
        let passed = pieces.map(|(piece, portion)| {
            let mut body = piece.as_bytes().to_vec();
            assert!(matches!(plugin.response_body(&mut exchange, &mut body, portion), ResponseStep::Done));
            String::from_utf8(body).unwrap()
        });
        assert_eq!(passed, ["a1", "end", "", ""]);
    }

    #[test]
    fn host_of_a_function_is_checked_as_one_of_a_client() {
        let set = |host: &str| {
            let mut scene = Scene::new();
            let function = format!("return function() ngx.req.set_header('Host', {host}) end");
            let plugin = scene.build(&KIND, &json!({ "functions": [function] }));
            let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            match decide(plugin.access(&mut exchange)) {
                Some(reply) => Err(reply.status),
                None => Ok(exchange.target.forward_host.clone().map(|host| String::from_utf8(host).unwrap())),
            }
        };
        for good in ["b.test", "b.test:8080", "[::1]:80", "127.0.0.1"] {
            assert_eq!(set(&format!("'{good}'")), Ok(Some(good.to_owned())));
        }
        for bad in ["[::1", "<script>", "", "a b", "a/b", "a:b", "a:99999", "a@b", "a\\r\\nX: 1"] {
            assert_eq!(set(&format!("'{bad}'")), Err(500), "{bad}");
        }
        assert_eq!(set("nil"), Ok(None), "every request has a Host");
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
