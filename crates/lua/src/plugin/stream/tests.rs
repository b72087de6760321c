//! Tests of plugins in Lua in sessions.

use std::task::{Context, Waker};

use exchange::plugin::extension::{Extension, ExtensionLanguage};
use exchange::plugin::state::StateRegistry;
use serde_json::{Value as Json, json};

use super::*;
use crate::Language;

fn loaded(body: &str) -> Arc<dyn Extension> {
    let source =
        format!("local core = require('apisix.core')\nlocal _M = {{priority = 5}}\n{body}\nreturn _M");
    Language.load("mine", source.as_bytes(), &exchange::testing::services()).map_err(drop).unwrap()
}

fn plugin(body: &str, config: &Json) -> Arc<dyn StreamPlugin> {
    let (states, services) = (StateRegistry::default(), exchange::testing::services());
    let build = exchange::testing::build("/stream_routes/7", None, &states, &services);
    loaded(body).build_stream(&build, config).unwrap()
}

fn session() -> StreamSession {
    let (client, local) = ("10.0.0.1:4000".parse().unwrap(), "127.0.0.1:9100".parse().unwrap());
    let mut session = StreamSession::new(client, local, 1);
    session.held.push(exchange::testing::local(router::path::PathOptions::default()));
    session.route_id = Some("7".into());
    session
}

/// How a session goes on; functions of these tests wait for first bytes alone.
fn preread(plugin: &dyn StreamPlugin, session: &mut StreamSession) -> Result<&'static str, String> {
    let mut flow = plugin.preread(session);
    while let StreamFlow::Wait(mut decision) = flow {
        match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decided) => flow = decided,
            Poll::Pending => panic!("it waits"),
        }
    }
    match flow {
        StreamFlow::Continue => Ok("continue"),
        StreamFlow::More => Ok("more"),
        StreamFlow::Reject(reason) => Err(reason.into_owned()),
        StreamFlow::Failed(reason) => Err(format!("failed: {reason}")),
        StreamFlow::Wait(_) => panic!("it waits"),
    }
}

/// Runs `body` as the function `preread`, with a configuration `conf.word`.
fn run(body: &str, session: &mut StreamSession) -> Result<&'static str, String> {
    let plugin = plugin(&format!("function _M.preread(conf, ctx) {body} end"), &json!({ "word": "open" }));
    preread(&*plugin, session)
}

#[test]
fn functions_decide_which_traffic_is_served() {
    let check = |body: &str, on_streams: &[StreamPhase], on_http: bool| {
        let loaded = loaded(body);
        assert_eq!((loaded.stream_phases(), loaded.serves_http()), (on_streams, on_http), "{body}");
    };
    let (preread, log) = (StreamPhase::Preread, StreamPhase::Log);
    check("function _M.preread() end function _M.log() end", &[preread, log], false);
    check("function _M.preread() end", &[preread], false);
    check("function _M.log() end", &[log], true);
    check("function _M.access() end function _M.log() end", &[], true);
    check("function _M.access() end function _M.preread() end", &[preread], true);
    check("", &[], true);
}

#[test]
fn returned_values_refuse_a_session() {
    let check = |body: &str, expected: Result<&'static str, &str>| {
        assert_eq!(run(body, &mut session()), expected.map_err(str::to_owned), "{body}");
    };
    let status = "the plugin mine exits with status code 403";
    check("", Ok("continue"));
    check("return nil", Ok("continue"));
    check("return 403", Err(status));
    check("return 403, 'not you'", Err(&format!("{status}: not you")));
    check("return nil, 'not you'", Err("the plugin mine refuses the session: not you"));
    check("ngx.exit(403)", Err(status));
    check("ngx.exit(ngx.ERROR)", Err("the plugin mine exits with status code -1"));
    check("ngx.exit(ngx.OK) error('not reached')", Ok("continue"));
    check("core.response.exit(403, {message = 'no'})", Err(status));
    check("if conf.word ~= 'open' then return 403 end", Ok("continue"));
}

#[test]
fn failing_function_closes_the_session() {
    let failed = |body: &str, reason: &str| {
        let found = run(body, &mut session()).unwrap_err();
        assert!(found.starts_with("failed: the plugin mine failed: "), "{body}: {found}");
        assert!(found.contains(reason), "{body}: {found}");
    };
    failed("error('no', 0)", "no");
    failed("while true do end", "was stopped after");
    failed("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end", "");
    for body in [
        "ngx.header.a = 1",
        "ngx.req.get_headers()",
        "return ngx.req.get_method()",
        "ngx.req.set_uri('/')",
        "ngx.req.get_body_data()",
        "core.request.header(ctx, 'a')",
        "core.response.set_header('a', 1)",
        "return ngx.status",
    ] {
        failed(body, "not available in sessions of layer 4");
    }
    failed("ngx.print('a')", "API disabled in the context of preread");
    failed("ngx.req.read_body()", "");
    failed("ngx.req.socket():receive(1)", "not available in Weir: ngx.req.socket().receive");
    failed("ngx.req.socket():send('a')", "not available in Weir: ngx.req.socket().send");
    failed("ngx.req.socket():peek(0)", "a size from 1 to 32768 expected");
    failed("ngx.req.socket():peek(32769)", "a size from 1 to 32768 expected");
}

#[test]
fn peek_gives_first_bytes_once_they_are_there() {
    let mut session = session();
    let body = "local socket = ngx.req.socket()
        local size = string.byte(socket:peek(1)) - 48
        ctx.var.word = socket:peek(size)
        if ctx.var.word == '3no' then return 403 end";
    let plugin = plugin(&format!("function _M.preread(conf, ctx) {body} end"), &json!({}));
    for bytes in [&b""[..], b"3", b"3y"] {
        session.first_bytes = bytes.to_vec();
        assert_eq!(preread(&*plugin, &mut session), Ok("more"), "{bytes:?}");
    }
    session.first_bytes = b"3yes".to_vec();
    assert_eq!(preread(&*plugin, &mut session), Ok("continue"));
    assert_eq!(session.variables[0], ("word".into(), "3ye".into()));
    session.first_bytes = b"3no".to_vec();
    assert!(preread(&*plugin, &mut session).is_err(), "the next call begins anew");
}

#[test]
fn context_has_the_session() {
    let mut session = session();
    session.sni = Some("a.example".into());
    session.alpn = Box::new(["mqtt".into(), "x".into()]);
    let body = "local v = ctx.var
        local seen = table.concat({v.remote_addr, v.remote_port, v.server_port, v.protocol, v.ssl_server_name,
            v.ssl_preread_server_name, v.ssl_preread_alpn_protocols, ngx.var.route_id, ctx.route_id, ctx.conf_type, ctx.conf_id,
            ctx._plugin_name, ngx.get_phase(), tostring(v.uri), tostring(v.http_host), tostring(v.bytes_sent)}, ' ')
        ctx.upstream_id, ctx.mqtt_client_id, v.tenant, v.remote_addr = 9, 'c1', 't1', '1.1.1.1'
        ngx.ctx.seen = seen
        return seen ~= conf.seen and 400, seen";
    let seen = "10.0.0.1 4000 9100 TCP a.example a.example mqtt,x 7 7 stream/route 7 mine preread nil nil 0";
    let plugin = plugin(&format!("function _M.preread(conf, ctx) {body} end"), &json!({ "seen": seen }));
    let expected = format!("the plugin mine refuses the session: {seen}");
    assert_eq!(preread(&*plugin, &mut session), Err(expected), "a text beside no status refuses");
    assert_eq!(session.variables, [("tenant".into(), "t1".into())], "variables of the gateway stay");
    assert_eq!(session.chosen_upstream, None);
    let chooses = "ctx.upstream_id, ctx.mqtt_client_id = 9, 'c1'";
    assert_eq!(run(chooses, &mut session), Ok("continue"));
    assert_eq!(session.chosen_upstream, Some(UpstreamRef::by_id("9")));
    assert_eq!(session.mqtt_client_id.as_deref(), Some("c1"));
}

#[test]
fn variables_of_a_session_are_bounded() {
    let check = |body: &str, reason: &str| {
        let found = run(body, &mut session()).unwrap_err();
        assert!(found.contains(reason), "{found}");
    };
    check("for i = 1, 100 do ctx.var['v' .. i] = i end", "a session has at most 64 variables");
    check("ctx.var.v = ('x'):rep(5000)", "a variable of a session has at most 4096 bytes");
    check("ctx.var.v = '\\255'", "text in UTF-8");
}

#[test]
fn log_sees_the_session_and_only_counts_its_failures() {
    let body = "function _M.preread(conf, ctx) ctx.kept = 'k' return 405 end
        function _M.log(conf, ctx)
            if ctx.kept ~= 'k' or ctx.stream_rejected_code ~= 405 or ctx.var.status ~= '403' then error('lost') end
            ctx.var.late = 'x'
            error('in log')
        end";
    let plugin = plugin(body, &json!({}));
    let mut session = session();
    assert!(preread(&*plugin, &mut session).is_err());
    session.end = Some(exchange::plugin::stream::SessionEnd::Rejected);
    let counter = || plugin.log(&session);
    counter();
    assert!(session.variables.is_empty(), "a session that has ended is only read");
}
