//! Endpoints of plugins in Lua: those of `api()` through the plugin `public-api`, those of `control_api()` in
//! the control API, live with the version that serves.

use serde_json::{Value, json};
use testkit::{Client, Origin, Weir};

use crate::support::BINARY;

/// A plugin with endpoints that answer with `mark`.
fn code(mark: &str) -> String {
    format!(
        r#"local core = require("apisix.core")
        local _M = {{ version = 0.1, priority = 12, name = "mine", schema = {{ type = "object" }} }}
        local function show(ctx)
            return 200, {{ mark = "{mark}", body = core.request.get_body(), uri = ctx.var.uri, a = ngx.req.get_uri_args().a }}
        end
        local function later()
            ngx.sleep(0.001)
            core.response.set_header("X-Mark", "{mark}")
            return 202, "{mark}"
        end
        function _M.api()
            return {{
                {{ methods = {{ "GET", "POST" }}, uri = "/apisix/plugin/mine/show", handler = show }},
                {{ uri = {{ "/apisix/plugin/mine/later/*" }}, handler = later }},
                {{ methods = {{ "GET" }}, uri = "/apisix/plugin/mine/fails", handler = function() error("no") end }},
                {{ methods = {{ "GET" }}, uri = "/apisix/plugin/mine/loops", handler = function() while true do end end }},
                {{ methods = {{ "GET" }}, uri = "/apisix/plugin/mine/passes", handler = function() end }},
            }}
        end
        function _M.control_api()
            return {{
                {{ methods = {{ "GET", "DELETE" }}, uris = {{ "/v1/plugin/mine/hello" }}, handler = function(ctx)
                    if ctx ~= nil then return 500 end
                    if ngx.req.get_uri_args().json then return 200, {{ msg = "{mark}", method = ngx.req.get_method() }} end
                    return 200, "{mark}\n"
                end }},
                {{ methods = {{ "PUT" }}, uris = {{ "/v1/plugin/mine/echo/*" }}, handler = function()
                    ngx.req.read_body()
                    ngx.header["X-Path"] = ngx.var.uri
                    ngx.say(ngx.req.get_body_data(), ngx.req.get_headers()["x-test"])
                end }},
                {{ methods = {{ "GET" }}, uris = {{ "/v1/plugin/mine/later" }}, handler = later }},
                {{ methods = {{ "GET" }}, uris = {{ "/v1/plugin/mine/fails" }}, handler = function() error("no") end }},
            }}
        end
        return _M"#
    )
}

fn push(weir: &Weir, code: &str) -> (u16, Value) {
    weir.admin(
        "POST",
        "extensions/mine/versions?activate=true",
        json!({ "language": "lua", "content": code }),
    )
}

/// A gateway with the plugin and a route that opens endpoints below `/apisix/plugin/`, and `/short` for one
/// of them.
fn started(origin: &Origin) -> Weir {
    let weir = Weir::start(BINARY);
    let upstream = json!({ "nodes": { (origin.address().to_string()): 1 } });
    let public = |uri: &str, config: Value| json!({ "uri": uri, "upstream": upstream, "plugins": { "public-api": config } });
    weir.put("routes/open", public("/apisix/plugin/*", json!({})));
    weir.put("routes/short", public("/short", json!({ "uri": "/apisix/plugin/mine/later/x" })));
    assert_eq!(weir.get("/apisix/plugin/mine/show").status, 404, "there is no such plugin");
    let (status, answer) = push(&weir, &code("one"));
    assert_eq!(status, 201, "{answer}");
    weir
}

fn control(weir: &Weir) -> Client {
    Client::connect(weir.address("control"))
}

#[test]
fn public_endpoints_answer_through_public_api() {
    let origin = Origin::answering("upstream");
    let weir = started(&origin);
    let response = weir.get("/apisix/plugin/mine/show?a=1");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let shown = json!({ "mark": "one", "uri": "/apisix/plugin/mine/show", "a": "1" });
    assert_eq!(response.json(), shown);
    let mut client = weir.client();
    let response = client.request("POST", "/apisix/plugin/mine/show", &[], b"text");
    assert_eq!(response.json()["body"], "text");
    assert_eq!(client.request("PUT", "/apisix/plugin/mine/show", &[], b"").status, 404);
    for uri in ["/short", "/apisix/plugin/mine/later/", "/apisix/plugin/mine/later/a/b"] {
        let response = client.request("PATCH", uri, &[], b"");
        let shown = (response.status, response.header("x-mark"), response.text());
        assert_eq!(shown, (202, Some("one"), "one".to_owned()), "{uri}");
    }
    assert_eq!(client.request("GET", "/apisix/plugin/mine/passes", &[], b"").text(), "upstream");
    for uri in ["/apisix/plugin/mine/fails", "/apisix/plugin/mine/loops"] {
        let response = client.request("GET", uri, &[], b"");
        assert_eq!(
            (response.status, &*response.text()),
            (500, "{\"message\":\"the plugin mine failed\"}\n"),
            "{uri}"
        );
    }
    assert_eq!(client.request("GET", "/apisix/plugin/mine/none", &[], b"").status, 404);
    let page = Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text();
    assert!(page.contains("weir_plugin_events_total{plugin=\"mine\",event=\"lua_error\"} 2\n"), "{page}");
}

#[test]
fn endpoints_follow_the_version_that_serves() {
    let origin = Origin::answering("upstream");
    let weir = started(&origin);
    let mark = |weir: &Weir| {
        let public = weir.get("/short").text();
        let response = control(weir).request("GET", "/v1/plugin/mine/hello", &[], b"");
        (public, response.text())
    };
    assert_eq!(mark(&weir), ("one".to_owned(), "one\n".to_owned()));
    assert_eq!(push(&weir, &code("two")).0, 200);
    assert_eq!(mark(&weir), ("two".to_owned(), "two\n".to_owned()));
    let without = code("three").replace("function _M.api", "function _M.no_api");
    assert_eq!(push(&weir, &without).0, 200);
    assert_eq!((weir.get("/short").status, mark(&weir).1), (404, "three\n".to_owned()));
    assert_eq!(weir.admin("DELETE", "extensions/mine", Value::Null).0, 200);
    assert_eq!(control(&weir).request("GET", "/v1/plugin/mine/hello", &[], b"").status, 404);
}

#[test]
fn control_endpoints_answer_in_the_control_api() {
    let origin = Origin::answering("upstream");
    let weir = started(&origin);
    let mut client = control(&weir);
    let response = client.request("GET", "/v1/plugin/mine/hello", &[], b"");
    assert_eq!((response.status, &*response.text()), (200, "one\n"));
    let response = client.request("DELETE", "/v1/plugin/mine/hello?json=1", &[], b"");
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.json(), json!({ "msg": "one", "method": "DELETE" }));
    let response = client.request("PUT", "/v1/plugin/mine/echo/a%20b", &[("X-Test", "t")], b"body");
    let shown = (response.status, response.header("x-path"), response.text());
    assert_eq!(shown, (200, Some("/v1/plugin/mine/echo/a b"), "bodyt\n".to_owned()));
    let response = client.request("GET", "/v1/plugin/mine/later", &[], b"");
    assert_eq!((response.status, response.header("x-mark")), (202, Some("one")));
    assert_eq!(client.request("GET", "/v1/plugin/mine/fails", &[], b"").status, 500);
    assert_eq!(client.request("POST", "/v1/plugin/mine/hello", &[], b"").status, 404);
    let response = client.request("GET", "/v1/route/none", &[], b"");
    assert!(response.text().contains("route[none] not found"), "{}", response.text());
    assert_eq!(weir.get("/v1/plugin/mine/hello").status, 404, "clients of the proxy do not reach it");
}

#[test]
fn faulty_lists_of_endpoints_are_refused() {
    let weir = Weir::start(BINARY);
    for (list, reason) in [
        ("return nil", "api: it returns a nil in place of a list of routes"),
        ("return {{ handler = print }}", "api: route 1: it has no `uri`"),
        ("return {{ uri = '/a' }}", "its `handler` is a nil in place of a function"),
        ("return {{ uri = 'a', handler = print }}", "does not begin with /"),
        ("return {{ uri = '/a', methods = 1, handler = print }}", "its `methods` is a number"),
        ("return {{ uri = '/a', methods = { 'get' }, handler = print }}", "is no method"),
        ("error('no', 0)", "api: no"),
        (
            "local t = {} for i = 1, 101 do t[i] = { uri = '/a', handler = print } end return t",
            "more than 100 paths",
        ),
    ] {
        let (status, answer) =
            push(&weir, &format!("return {{ priority = 1, api = function() {list} end }}"));
        assert!(status == 400 && answer.to_string().contains(reason), "{list}: {status} {answer}");
    }
}
