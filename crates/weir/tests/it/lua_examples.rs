//! The plugins of `examples/lua` through the real gateway: put as extensions, they run in every phase, read
//! and change bodies, call services, count in a real Redis and send entries in batches.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Authority, Origin, Redis, Reply, Response, TlsFront, Weir, wait_until};

use crate::support::BINARY;

/// A gateway with the example `name` as an extension, in front of an origin that answers `hello world`.
struct Stage {
    weir: Weir,
    origin: Origin,
    name: &'static str,
}

impl Stage {
    fn new(name: &'static str) -> Stage {
        Stage::on(Weir::start(BINARY), name)
    }

    fn on(weir: Weir, name: &'static str) -> Stage {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lua/apisix/plugins");
        let content = fs::read_to_string(folder.join(format!("{name}.lua"))).unwrap();
        Stage::with(weir, name, &content)
    }

    /// A gateway with the plugin `content`.
    fn with(weir: Weir, name: &'static str, content: &str) -> Stage {
        weir.put(&format!("extensions/{name}"), json!({"language": "lua", "content": content}));
        Stage { weir, origin: Origin::answering("hello world"), name }
    }

    /// The status and the answer of the Admin API to a route for every path with the plugin.
    fn put(&self, config: Value) -> (u16, Value) {
        let nodes = json!({self.origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {self.name: config}});
        self.weir.admin("PUT", "/apisix/admin/routes/1", route)
    }

    fn route(&self, config: Value) {
        let (status, answer) = self.put(config);
        assert!(status < 300, "{status}: {answer}");
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.weir.client().request(method, path, headers, body)
    }
}

#[test]
fn lua_plugin_runs_in_each_phase() {
    let stage = Stage::new("show-phases");
    stage.route(json!({}));
    let response = stage.ask("GET", "/a", &[], b"");
    assert_eq!(response.header("x-phases"), Some("rewrite,access,before_proxy,header_filter"));
    let line = "phases of /a: rewrite,access,before_proxy,header_filter,body_filter,log";
    wait_until("the log phase has run", || stage.weir.stderr().iter().any(|found| found.contains(line)));
    stage.weir.put("plugin_metadata/show-phases", json!({"suffix": "!"}));
    wait_until("metadata is in force", || {
        let response = stage.ask("GET", "/a", &[], b"");
        response.header("x-phases").is_some_and(|phases| phases.ends_with('!'))
    });
    stage.route(json!({"reject_with": 451, "header": "X-P"}));
    let response = stage.ask("GET", "/a", &[], b"");
    assert_eq!(
        (response.status, response.text()),
        (451, "{\"message\":\"rejected by show-phases\"}\n".to_owned())
    );
    assert_eq!(response.header("x-p"), Some("rewrite,access,header_filter!"));
    let (status, answer) = stage.put(json!({"reject_with": 200}));
    assert_eq!(status, 400, "{answer}");
}

#[test]
fn lua_plugin_checks_headers() {
    let stage = Stage::new("header-check");
    stage.route(json!({"rules": [{"header": "X-Tenant", "pattern": "^[a-z]+$"}], "remove": ["X-Inner"]}));
    assert_eq!(stage.ask("GET", "/", &[], b"").status, 403);
    assert_eq!(stage.ask("GET", "/", &[("X-Tenant", "A1")], b"").status, 403);
    assert_eq!(stage.ask("GET", "/", &[("x-tenant", "acme"), ("X-Inner", "1")], b"").status, 200);
    let seen = stage.origin.last_request();
    assert_eq!((seen.header("x-inner"), seen.header("x-header-check")), (None, Some("passed")));
    let (status, answer) = stage.put(json!({"rules": [{"header": "X-A", "pattern": "("}]}));
    assert!(status == 400 && answer.to_string().contains("invalid pattern"), "{status}: {answer}");
    let (status, answer) = stage.put(json!({}));
    assert!(status == 400 && answer.to_string().contains("rules"), "{status}: {answer}");
}

#[test]
fn lua_plugin_decides_by_answer_of_service() {
    let service = Origin::start(|request| match request.header("authorization") {
        Some("Bearer good") => Reply::with(200, &[("X-User", "jack")], b""),
        _ => Reply::status(401, "who is it?"),
    });
    let stage = Stage::new("call-out");
    let uri = format!("http://{}/decide", service.address());
    stage.route(json!({"uri": uri, "upstream_headers": ["X-User"], "cache_ttl": 60}));
    let refused = stage.ask("GET", "/x?y=1", &[], b"");
    assert_eq!((refused.status, refused.text()), (401, "who is it?".to_owned()));
    for _ in 0..3 {
        assert_eq!(stage.ask("GET", "/x?y=1", &[("Authorization", "Bearer good")], b"").status, 200);
        assert_eq!(stage.origin.last_request().header("x-user"), Some("jack"));
    }
    let asked = service.requests();
    assert_eq!(asked[0].header("x-forwarded-uri"), Some("/x?y=1"));
    assert!(asked.len() <= 3, "answers are kept by each worker: {}", asked.len());
    stage.route(json!({"uri": format!("http://{}/", Origin::nowhere())}));
    assert_eq!(stage.ask("GET", "/", &[], b"").status, 503);
    stage.route(json!({"uri": format!("http://{}/", Origin::nowhere()), "allow_degradation": true}));
    assert_eq!(stage.ask("GET", "/", &[], b"").status, 200);
}

#[test]
fn lua_plugin_trusts_services_as_the_gateway_does() {
    let authority = Authority::new("known");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("authority.pem");
    fs::write(&path, authority.pem()).unwrap();
    let service = Origin::answering("");
    let known = TlsFront::to(service.address(), &authority.pair(&["127.0.0.1"]));
    let stranger = TlsFront::to(service.address(), &Authority::new("other").pair(&["127.0.0.1"]));
    let settings = format!("trusted_certificates: {}\n", path.display());
    let stage = Stage::on(Weir::builder(BINARY).settings(&settings).start(), "call-out");
    for (front, verifies, expected) in [(&known, true, 200), (&stranger, true, 503), (&stranger, false, 200)]
    {
        stage.route(json!({"uri": format!("https://{}/", front.address()), "ssl_verify": verifies}));
        let statuses = [(); 2].map(|()| stage.ask("GET", "/", &[], b"").status);
        assert_eq!(statuses, [expected; 2], "{verifies}");
    }
}

#[test]
fn lua_plugin_edits_both_bodies() {
    let stage = Stage::new("body-edit");
    stage.route(json!({
        "add_fields": {"via": "weir", "path": "$uri"}, "max_body_size": 64,
        "replace": [{"pattern": "(h)ello", "with": "$1i"}],
    }));
    let response = stage.ask("POST", "/p", &[("Content-Type", "application/json")], b"{\"a\":[]}");
    assert_eq!((response.status, response.text()), (200, "hi world".to_owned()));
    let sent: Value = serde_json::from_slice(&stage.origin.last_request().body).unwrap();
    assert_eq!(sent, json!({"a": [], "via": "weir", "path": "/p"}));
    assert_eq!(stage.ask("POST", "/p", &[], b"no json").status, 400);
    assert_eq!(stage.ask("POST", "/p", &[], &[b'x'; 65]).status, 413);
    assert_eq!(stage.ask("GET", "/p", &[], b"").text(), "hi world");
}

#[test]
fn lua_plugin_counts_in_redis() {
    let mut redis = Redis::start();
    let stage = Stage::new("redis-counter");
    let port = redis.address().port();
    stage.route(
        json!({"count": 2, "time_window": 3600, "key": "$http_x_id", "host": "127.0.0.1", "port": port,
        "rejected_code": 429}),
    );
    let ask = |id: &str| {
        let response = stage.ask("GET", "/", &[("X-Id", id)], b"");
        (response.status, response.header("x-ratelimit-remaining").map(str::to_owned))
    };
    let left = |text: &str| Some(text.to_owned());
    assert_eq!([ask("a"), ask("a"), ask("a")], [(200, left("1")), (200, left("0")), (429, left("0"))]);
    assert_eq!(ask("b"), (200, left("1")));
    assert_eq!(redis.cli(&["GET", "redis-counter:1:a"]), "3");
    redis.kill();
    assert_eq!(ask("a").0, 500);
}

#[test]
fn lua_plugin_sends_entries_in_batches() {
    let service = Origin::answering("");
    let stage = Stage::new("log-sender");
    let uri = format!("http://{}/logs", service.address());
    stage.route(json!({"uri": uri, "inactive_timeout": 1, "buffer_duration": 1, "auth_header": "Bearer x"}));
    for number in 0..3 {
        assert_eq!(stage.ask("GET", &format!("/n{number}"), &[], b"").status, 200);
    }
    let entries = || -> Vec<Value> {
        let requests = service.requests().into_iter();
        requests.flat_map(|sent| serde_json::from_slice::<Vec<Value>>(&sent.body).unwrap()).collect()
    };
    wait_until("all entries are sent", || entries().len() == 3);
    assert_eq!(service.last_request().header("authorization"), Some("Bearer x"));
    let entries = entries();
    let first = entries.iter().find(|entry| entry["request"]["uri"] == "/n0").unwrap();
    assert_eq!((&first["response"]["status"], &first["route_id"]), (&json!(200), &json!("1")));
    assert_eq!(first["upstream"], json!(stage.origin.address().to_string()));
}

#[test]
fn lua_modules_know_instance_and_added_variables() {
    let content = r#"
        local core = require("apisix.core")
        core.ctx.register_var("twice", function(ctx) return ctx.var.uri .. ctx.var.uri end)
        return { version = 0.1, priority = 1, name = "facts", access = function(conf, ctx)
            local args = core.request.get_uri_args(ctx)
            core.response.set_header("X-Id", core.id.get())
            return 200, { twice = ctx.var.twice, a = args.a, text = (core.utils.resolve_var("$twice!", ctx.var)) }
        end }"#;
    let weir = Weir::builder(BINARY).arguments(&["--instance-id", "edge-1"]).start();
    let stage = Stage::with(weir, "facts", content);
    stage.route(json!({}));
    let response = stage.ask("GET", "/u?a=1&a=2", &[], b"");
    assert_eq!(response.header("x-id"), Some("edge-1"));
    assert_eq!(response.json(), json!({"twice": "/u/u", "a": ["1", "2"], "text": "/u/u!"}));
}
