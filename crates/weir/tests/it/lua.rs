//! Code of users in Lua through the real gateway: serverless functions, conditions and scripts of routes, the
//! function before a plugin, whole plugins, and the limits that protect the gateway from them.

use std::time::Instant;

use serde_json::{Value, json};
use testkit::{Origin, Reply, Weir};

use crate::support::BINARY;

/// A route for `uri` to `origin`, with these fields besides.
fn route(origin: &Origin, uri: &str, more: Value) -> Value {
    let mut route = json!({ "uri": uri, "upstream": { "nodes": { (origin.address().to_string()): 1 } } });
    for (name, value) in more.as_object().unwrap() {
        route[name] = value.clone();
    }
    route
}

fn functions(phase: &str, text: &str) -> Value {
    json!({ "plugins": { "serverless-pre-function": { "phase": phase, "functions": [text] } } })
}

#[test]
fn serverless_functions_run_in_each_phase() {
    let origin = Origin::start(|request| {
        let seen = request.header("x-seen").unwrap_or("-").to_owned();
        Reply::with(
            200,
            &[("X-Secret", "1")],
            format!("{} {seen} {}", request.target, request.text()).as_bytes(),
        )
    });
    let weir = Weir::start(BINARY);
    let cases = [
        (
            "rewrite",
            "ngx.req.set_header('X-Seen', ngx.var.arg_a) ngx.req.set_uri('/n ew') ngx.req.set_uri_args({b = 'c d'})",
        ),
        (
            "access",
            "local core = require('apisix.core') ngx.req.set_body_data(core.request.get_body() .. '!')",
        ),
        ("before_proxy", "ngx.sleep(0.001) ngx.req.set_header('X-Seen', ctx.route_id)"),
        ("header_filter", "ngx.header['X-Secret'] = nil ngx.header.x_new = ngx.status"),
        ("body_filter", "if ngx.arg[1] then ngx.arg[1] = string.upper(ngx.arg[1]) end"),
        ("log", "local d = ngx.shared.logged d:incr('n', 1, 0)"),
    ];
    for (phase, text) in cases {
        let text = format!("return function(conf, ctx) {text} end");
        weir.put(&format!("routes/{phase}"), route(&origin, &format!("/{phase}"), functions(phase, &text)));
    }
    let read = "return function() return 200, tostring(ngx.shared.logged:get('n')) end";
    weir.put("routes/read", route(&origin, "/read", functions("access", read)));
    let mut client = weir.client();
    assert_eq!(client.request("GET", "/rewrite?a=1", &[], b"").text(), "/n%20ew?b=c%20d 1 ");
    assert_eq!(client.request("POST", "/access", &[], b"body").text(), "/access - body!");
    assert_eq!(client.request("GET", "/before_proxy", &[], b"").text(), "/before_proxy before_proxy ");
    let response = client.request("GET", "/header_filter", &[], b"");
    assert_eq!((response.header("x-secret"), response.header("x-new")), (None, Some("200")));
    assert_eq!(client.request("GET", "/body_filter", &[], b"").text(), "/BODY_FILTER - ");
    assert_eq!(client.request("GET", "/log", &[], b"").status, 200);
    // The log phase runs behind the last byte.
    while client.request("GET", "/read", &[], b"").text() != "1" {}
}

/// A variable that a function sets is one for plugins, limits, conditions and logs behind it.
#[test]
fn own_variables_of_functions_reach_everything() {
    let origin =
        Origin::start(|request| Reply::with(200, &[], request.header("x-tier").unwrap_or("-").as_bytes()));
    let gold = Origin::answering("gold node");
    let log = ["--access-log", "stdout", "--access-log-format", "$uri $tier"];
    let weir = Weir::builder(BINARY).arguments(&log).start();
    let set = "return function(conf, ctx) ctx.var.tier = ctx.var.arg_t end";
    let with = |uri: &str, more: Value| {
        let mut plugins = json!({ "serverless-pre-function": { "phase": "rewrite", "functions": [set] } });
        plugins.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        weir.put(&format!("routes{uri}"), route(&origin, uri, json!({ "plugins": plugins })));
    };
    let ask = |target: &str| {
        let response = weir.client().request("GET", target, &[], b"");
        (response.status, response.text(), response.header("x-tier").map(str::to_owned))
    };
    with(
        "/fields",
        json!({
            "proxy-rewrite": { "headers": { "set": { "X-Tier": "$tier" } } },
            "response-rewrite": { "headers": { "set": { "X-Tier": "<$tier>" } } },
        }),
    );
    assert_eq!(ask("/fields?t=a"), (200, "a".to_owned(), Some("<a>".to_owned())));
    for key in [json!({ "key": "tier" }), json!({ "key_type": "var_combination", "key": "$tier $uri" })] {
        let mut limit = json!({ "count": 1, "time_window": 3600, "rejected_code": 429 });
        limit.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
        with("/limit", json!({ "limit-count": limit }));
        let statuses = ["a", "b", "a"].map(|tier| ask(&format!("/limit?t={tier}")).0);
        assert_eq!(statuses, [200, 200, 429], "{key}");
    }
    let node = json!({ "type": "roundrobin", "nodes": { gold.address().to_string(): 1 } });
    let rule = json!({ "match": [{ "vars": [["tier", "==", "gold"]] }],
        "weighted_upstreams": [{ "upstream": node, "weight": 1 }] });
    with("/split", json!({ "traffic-split": { "rules": [rule] } }));
    assert_eq!((ask("/split?t=gold").1, ask("/split?t=iron").1), ("gold node".to_owned(), "-".to_owned()));
    let refuse =
        json!({ "rules": [{ "case": [["tier", "==", "bad"]], "actions": [["return", { "code": 403 }]] }] });
    with("/flow", json!({ "workflow": refuse }));
    assert_eq!((ask("/flow?t=bad").0, ask("/flow?t=good").0), (403, 200));
    testkit::wait_until("the access log has the variable", || {
        let lines = weir.stdout();
        ["/fields a", "/split gold", "/flow bad"].iter().all(|wanted| lines.iter().any(|line| line == wanted))
    });
}

#[test]
fn replies_of_functions_are_those_of_apisix() {
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let cases = [
        ("return 403, {message = 'no'}", 403, "{\"message\":\"no\"}\n"),
        ("return 401", 401, ""),
        ("return nil", 200, "upstream"),
        // The first text sends the head, so that the status is fixed.
        ("ngx.say('a', 1, true) ngx.exit(201)", 200, "a1true\n"),
        ("ngx.say('a') return 403, 'no'", 200, "a\nno"),
        ("ngx.say('a') ngx.status = 403", 200, "a\n"),
        ("ngx.say('a') ngx.print(ngx.status, ngx.headers_sent)", 200, "a\n200true"),
        ("ngx.say('a') error('x')", 500, "{\"message\":\"the plugin serverless-pre-function failed\"}\n"),
        ("ngx.status = 202 ngx.print('x')", 202, "x"),
        ("require('apisix.core').response.exit(418, 'tea')", 418, "tea"),
        ("pcall(ngx.exit, 410) return 500", 410, ""),
        ("ngx.exit(0)", 200, "upstream"),
        ("return ngx.redirect('/else', 301)", 301, ""),
        ("coroutine.wrap(function() ngx.sleep(0.001) ngx.exit(409) end)()", 409, ""),
    ];
    for (index, (text, status, body)) in cases.iter().enumerate() {
        let text = format!("return function(conf, ctx) {text} end");
        weir.put("routes/1", route(&origin, &format!("/{index}"), functions("access", &text)));
        let response = weir.get(&format!("/{index}"));
        assert_eq!((response.status, &*response.text()), (*status, *body), "{text}");
    }
    let response =
        weir.admin("PUT", "/apisix/admin/routes/2", route(&origin, "/", functions("access", "return 1")));
    assert_eq!(response.0, 400);
    assert!(response.1.to_string().contains("only accept Lua function"), "{}", response.1);
}

/// `ngx.say` without `ngx.exit` begins the reply: later functions and plugins run and append, and no upstream
/// is called.
#[test]
fn functions_append_to_a_begun_reply() {
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let say = |phase: &str, texts: &[&str]| {
        let functions: Vec<String> =
            texts.iter().map(|text| format!("return function(conf, ctx) {text} end")).collect();
        json!({ "phase": phase, "functions": functions })
    };
    let set_field = json!({ "headers": { "set": { "X-Late": "1" } } });
    let cases = [
        (
            json!({ "serverless-pre-function": say("rewrite", &["ngx.say('a')", "ngx.say('b')"]),
                "serverless-post-function": say("before_proxy", &["ngx.sleep(0.001) ngx.say('c')"]) }),
            (200, "a\nb\nc\n"),
        ),
        (
            // Otherwise fault-injection is the first.
            json!({ "serverless-pre-function": { "phase": "rewrite", "_meta": { "priority": 20_000 },
                    "functions": ["return function() ngx.status = 202 ngx.say('a') end"] },
                "fault-injection": { "abort": { "http_status": 418, "body": "tea" } } }),
            (202, "a\ntea"),
        ),
        (
            json!({ "serverless-pre-function": say("access", &["ngx.say('a')"]),
                "serverless-post-function": say("access", &["return 403, 'no'"]) }),
            (200, "a\nno"),
        ),
        (
            json!({ "serverless-pre-function": say("access", &["ngx.say('a') ngx.exit(0)", "ngx.say('b')"]),
                "serverless-post-function": say("access", &["ngx.say('c')"]) }),
            (200, "a\n"),
        ),
        (
            json!({ "serverless-pre-function": say("rewrite", &["ngx.print('a')"]), "key-auth": {} }),
            (200, "a{\"message\":\"Missing API key in request\"}\n"),
        ),
        (
            json!({ "serverless-pre-function": say("access", &["ngx.say('a')"]), "response-rewrite": set_field }),
            (200, "a\n"),
        ),
        (
            json!({ "serverless-pre-function": say("access", &["ngx.say('a')"]),
                "serverless-post-function": say("access", &["local n = nil return n.x"]) }),
            (500, "{\"message\":\"the plugin serverless-post-function failed\"}\n"),
        ),
    ];
    for (index, (plugins, (status, body))) in cases.iter().enumerate() {
        let uri = format!("/{index}");
        weir.put("routes/1", route(&origin, &uri, json!({ "plugins": plugins })));
        let response = weir.get(&uri);
        assert_eq!((response.status, &*response.text()), (*status, *body), "{plugins}");
        let is_rewritten = plugins.get("response-rewrite").is_some();
        assert_eq!(response.header("x-late").is_some(), is_rewritten, "{plugins}");
    }
    assert_eq!(origin.requests().len(), 0);
    weir.put(
        "global_rules/1",
        json!({ "plugins": { "serverless-pre-function": say("access", &["ngx.say('a')"]) } }),
    );
    let response = weir.get("/no-route");
    assert_eq!((response.status, &*response.text()), (200, "a\n"));
}

#[test]
fn hostile_functions_end_alone() {
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let hostile = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e5) .. i end",
        "local function f() return 1 + f() end f()",
        "local s = 'x' while true do s = s .. s end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "os.execute('true')",
        "error({})",
        "local a = nil return a.b",
        "ngx.re.gsub(('a'):rep(1e6), '(a+)+', 'b') error('x')",
    ];
    for (index, text) in hostile.iter().enumerate() {
        let text = format!("return function(conf, ctx) {text} end");
        weir.put(
            &format!("routes/{index}"),
            route(&origin, &format!("/{index}"), functions("access", &text)),
        );
    }
    weir.put("routes/good", route(&origin, "/good", functions("access", "return function() end")));
    for (index, text) in hostile.iter().enumerate() {
        assert_eq!(weir.get(&format!("/{index}")).status, 500, "{text}");
        assert_eq!(weir.get("/good").text(), "upstream");
    }
    for (phase, text) in [("header_filter", "error('x')"), ("header_filter", "ngx.sleep(1)")] {
        let text = format!("return function() {text} end");
        weir.put("routes/f", route(&origin, "/f", functions(phase, &text)));
        let response = weir.get("/f");
        assert!(
            response.status >= 500 && !response.text().contains("upstream"),
            "{} {}",
            response.status,
            response.text()
        );
    }
    weir.put("routes/l", route(&origin, "/l", functions("log", "return function() error('x') end")));
    assert_eq!(weir.get("/l").text(), "upstream");
}

#[test]
fn waiting_function_holds_up_no_other_request() {
    let origin = Origin::answering("upstream");
    let weir = Weir::builder(BINARY).arguments(&["--workers", "1"]).start();
    weir.put(
        "routes/slow",
        route(&origin, "/slow", functions("access", "return function() ngx.sleep(0.5) end")),
    );
    weir.put("routes/fast", route(&origin, "/fast", json!({})));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(|| weir.get("/slow").text())).collect();
        assert_eq!(weir.get("/fast").text(), "upstream");
        assert!(slow.into_iter().all(|slow| slow.join().unwrap() == "upstream"));
    });
    assert!(begun.elapsed().as_secs_f64() < 3.0, "they wait at the same time: {:?}", begun.elapsed());
}

#[test]
fn route_matches_where_its_filter_func_says() {
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let reply = |text: &str| functions("access", &format!("return function() return 200, '{text}' end"));
    let mut beta = reply("beta");
    beta["filter_func"] = json!("function(vars) return vars.arg_beta == '1' and vars.http_x_who ~= nil end");
    beta["priority"] = json!(10);
    weir.put("routes/beta", route(&origin, "/*", beta));
    let mut broken = reply("broken");
    broken["filter_func"] = json!("function(vars) return vars.missing.field end");
    broken["priority"] = json!(20);
    weir.put("routes/broken", route(&origin, "/*", broken));
    weir.put("routes/stable", route(&origin, "/*", reply("stable")));
    let mut client = weir.client();
    assert_eq!(client.request("GET", "/?beta=1", &[("X-Who", "me")], b"").text(), "beta");
    assert_eq!(client.request("GET", "/?beta=1", &[], b"").text(), "stable");
    let faulty = json!({ "filter_func": "function(vars return" });
    let (status, answer) = weir.admin("PUT", "/apisix/admin/routes/4", route(&origin, "/", faulty));
    assert!(
        status == 400 && answer.to_string().contains("failed to load 'filter_func' string"),
        "{status} {answer}"
    );
}

#[test]
fn script_takes_the_place_of_plugins() {
    let origin = Origin::start(|request| Reply::ok(request.header("x-script").unwrap_or("none")));
    let weir = Weir::start(BINARY);
    let script = "local _M = {}
        function _M.access(ctx) ngx.req.set_header('X-Script', ctx.var.arg_a or 'none') return 403 end
        function _M.header_filter(ctx) ngx.header['X-Phase'] = ngx.get_phase() end
        return _M";
    weir.put("routes/1", route(&origin, "/*", json!({ "script": script })));
    let response = weir.get("/?a=1");
    assert_eq!((response.status, &*response.text()), (200, "1"), "results of a script do not count");
    assert_eq!(response.header("x-phase"), Some("header_filter"));
    let (status, answer) = weir.admin(
        "PUT",
        "/apisix/admin/routes/2",
        route(&origin, "/", json!({ "script": "return 1 -- faulty" })),
    );
    assert!(
        status == 400 && answer.to_string().contains("'script' should be a Lua object"),
        "{status} {answer}"
    );
}

#[test]
fn pre_function_runs_before_its_plugin() {
    let origin = Origin::start(|request| Reply::ok(request.header("x-from").unwrap_or("none")));
    let weir = Weir::start(BINARY);
    let rewrite = |text: &str| {
        json!({ "plugins": { "proxy-rewrite": {
            "headers": { "set": { "X-From": "$arg_b" } },
            "_meta": { "pre_function": format!("return function(conf, ctx) {text} end") },
        } } })
    };
    let seen = "ngx.shared.pre:incr('n', 1, 0) ngx.sleep(0.001)";
    weir.put("routes/1", route(&origin, "/a", rewrite(seen)));
    weir.put("routes/2", route(&origin, "/b", rewrite("error('it has no effect')")));
    weir.put(
        "routes/3",
        route(
            &origin,
            "/n",
            functions("access", "return function() return 200, tostring(ngx.shared.pre:get('n')) end"),
        ),
    );
    assert_eq!((weir.get("/a?b=1").text(), weir.get("/b?b=2").text()), ("1".into(), "2".into()));
    assert_ne!(weir.get("/n").text(), "nil");
    let (status, answer) = weir.admin(
        "PUT",
        "/apisix/admin/routes/4",
        route(
            &origin,
            "/",
            json!({ "plugins": { "proxy-rewrite": { "_meta": { "pre_function": "return (" } } } }),
        ),
    );
    assert!(
        status == 400 && answer.to_string().contains("failed to load _meta.pre_function"),
        "{status} {answer}"
    );
}

/// A plugin with all phases, which needs a module beside it.
const WHOLE: &str = r#"
local core = require("apisix.core")
local words = require("my.words")

local _M = {
    version = 0.1, priority = 1005, name = "whole",
    schema = { type = "object", properties = { word = { type = "string", default = "hi" }, most = { type = "integer" } } },
}

local loaded = 0
function _M.init() loaded = loaded + 1 end

function _M.check_schema(conf)
    local ok, reason = core.schema.check(_M.schema, conf)
    if ok and conf.most and conf.most > 9 then
        return false, "most is too large"
    end
    return ok, reason
end

function _M.rewrite(conf, ctx)
    ctx.seen = (ctx.seen or 0) + 1
    conf.calls = (conf.calls or 0) + 1
end

function _M.access(conf, ctx)
    if core.request.header(ctx, "X-Deny") then
        return 403, { error = words.no, seen = ctx.seen }
    end
    core.request.set_header(ctx, "X-Word", conf.word .. ctx.var.request_method .. loaded)
end

function _M.header_filter(conf, ctx)
    core.response.set_header("X-Seen", ctx.seen, "X-Id", ctx.matched_route.value.id)
end

function _M.body_filter(conf, ctx)
    if ngx.arg[2] then
        ngx.arg[1] = (ngx.arg[1] or "") .. "!"
    end
end

return _M
"#;

#[test]
fn plugin_of_a_folder_runs_like_a_built_in_one() {
    let origin = Origin::start(|request| Reply::ok(request.header("x-word").unwrap_or("none")));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("apisix/plugins")).unwrap();
    std::fs::create_dir_all(folder.path().join("my")).unwrap();
    std::fs::write(folder.path().join("apisix/plugins/whole.lua"), WHOLE).unwrap();
    std::fs::write(folder.path().join("my/words.lua"), "return { no = 'denied' }").unwrap();
    let path = folder.path().to_str().unwrap();
    let weir = Weir::builder(BINARY).arguments(&["--lua-path", path, "--lua-plugins", "whole"]).start();
    weir.put("routes/r1", route(&origin, "/*", json!({ "plugins": { "whole": {} } })));
    let mut client = weir.client();
    let response = client.request("POST", "/", &[], b"x");
    assert_eq!((response.status, &*response.text()), (200, "hiPOST1!"));
    assert_eq!((response.header("x-seen"), response.header("x-id")), (Some("1"), Some("r1")));
    let refused = client.request("GET", "/", &[("X-Deny", "1")], b"");
    assert_eq!(refused.status, 403);
    let answer: Value = serde_json::from_str(refused.text().trim_end_matches('!')).unwrap();
    assert_eq!(answer, json!({ "error": "denied", "seen": 1 }));
    for (config, reason) in [(json!({ "word": 1 }), "word"), (json!({ "most": 10 }), "most is too large")] {
        let faulty = route(&origin, "/", json!({ "plugins": { "whole": config } }));
        let (status, answer) = weir.admin("PUT", "/apisix/admin/routes/2", faulty);
        assert!(status == 400 && answer.to_string().contains(reason), "{status} {answer}");
    }
}

#[test]
fn faulty_plugin_of_a_folder_refuses_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("apisix/plugins")).unwrap();
    std::fs::write(folder.path().join("apisix/plugins/bad.lua"), "local _M = {\n  version = \n}").unwrap();
    let path = folder.path().to_str().unwrap();
    let started = Weir::builder(BINARY).arguments(&["--lua-path", path, "--lua-plugins", "bad"]).try_start();
    let exited = started.err().unwrap();
    assert!(format!("{exited:?}").contains("bad:3:"), "{exited:?}");
}

#[test]
fn body_is_read_when_a_function_asks_for_it() {
    let origin = Origin::start(|request| {
        Reply::ok(&format!("{} {}", request.header("x-size").unwrap_or("-"), request.body.len()))
    });
    let weir = Weir::start(BINARY);
    // The name of the function is put together, so that no text tells that the body is read.
    let text = "return function() ngx.req['read_' .. 'body']() local body = ngx.req['get_body_' .. 'data']()
        ngx.req.set_header('X-Size', body and #body or 'none') end";
    for phase in ["rewrite", "before_proxy"] {
        weir.put(&format!("routes/{phase}"), route(&origin, &format!("/{phase}"), functions(phase, text)));
    }
    let body = vec![b'x'; 300_000];
    let mut client = weir.client();
    for phase in ["rewrite", "before_proxy"] {
        let response = client.request("POST", &format!("/{phase}"), &[], &body);
        assert_eq!(response.text(), "300000 300000", "{phase}");
        assert_eq!(client.request("GET", &format!("/{phase}"), &[], b"").text(), "none 0", "{phase}");
    }
}

#[test]
fn socket_of_a_function_closes_when_its_client_leaves() {
    use std::io::{Read, Write};
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "return function() local s = ngx.socket.tcp() assert(s:connect('127.0.0.1', {port})) s:send('hi') s:receive() end"
    );
    weir.put("routes/1", route(&origin, "/*", functions("access", &text)));
    let mut client = std::net::TcpStream::connect(weir.proxy()).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(socket.read(&mut bytes).unwrap(), 2);
    drop(client);
    assert_eq!(socket.read(&mut bytes).unwrap(), 0, "the call has ended with its client");
}

#[test]
fn timer_runs_without_a_request() {
    let origin = Origin::answering("upstream");
    let weir = Weir::start(BINARY);
    let text = "return function() ngx.timer.at(0, function(premature, word) ngx.sleep(0.001)
        ngx.shared.timers:set('word', word .. tostring(premature) .. ngx.get_phase()) end, 'a') end";
    weir.put("routes/1", route(&origin, "/start", functions("log", text)));
    let read = "return function() return 200, tostring(ngx.shared.timers:get('word')) end";
    weir.put("routes/2", route(&origin, "/read", functions("access", read)));
    assert_eq!(weir.get("/start").status, 200);
    let mut client = weir.client();
    while client.request("GET", "/read", &[], b"").text() != "afalsetimer" {}
}
