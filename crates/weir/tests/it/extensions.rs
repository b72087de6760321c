//! Plugins of users as objects of a running instance: uploaded, used, tried on a share of requests, taken
//! back, refused, kept over a restart, and followed in a folder.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Origin, Reply, Weir, wait_until};

use crate::command::{self, Outcome};
use crate::support::BINARY;

/// A plugin that answers with `mark` and refuses configurations without the field `must`.
fn code(mark: &str, must: &str) -> String {
    format!(
        "local core = require(\"apisix.core\")\n\
         local schema = {{ type = \"object\", properties = {{ a = {{ type = \"integer\" }} }}, required = {{ \"{must}\" }} }}\n\
         local _M = {{ version = 0.1, priority = 1234, name = \"mine\", schema = schema }}\n\
         function _M.check_schema(conf) return core.schema.check(schema, conf) end\n\
         function _M.access(conf, ctx) core.response.set_header(\"X-Access\", \"{mark}\") end\n\
         function _M.header_filter(conf, ctx) core.response.set_header(\"X-Mark\", \"{mark}\") end\n\
         return _M\n"
    )
}

/// A gateway with one route that has the plugin `mine`.
struct Stage {
    weir: Weir,
    _origin: Origin,
}

impl Stage {
    fn new() -> Stage {
        let origin = Origin::start(|request| Reply::with(200, &[], &request.raw_head));
        let weir = Weir::builder(BINARY).arguments(&["--workers", "4"]).start();
        let stage = Stage { weir, _origin: origin };
        let (status, answer) = stage.push(&code("one", "a"), "");
        assert_eq!(status, 201, "{answer}");
        let nodes = json!({stage._origin.address().to_string(): 1});
        let route = json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"mine": {"a": 1}}});
        stage.weir.put("routes/1", route);
        stage
    }

    fn push(&self, code: &str, query: &str) -> (u16, Value) {
        let body = json!({"language": "lua", "content": code});
        self.weir.admin("POST", &format!("extensions/mine/versions{query}"), body)
    }

    fn change(&self, method: &str, action: &str, body: Value) {
        let (status, answer) = self.weir.admin(method, &format!("extensions/mine/{action}"), body);
        assert_eq!(status, 200, "{method} {action}: {answer}");
    }

    /// The marks of the version that served a request, in both of its phases.
    fn marks(&self) -> [String; 2] {
        let response = self.weir.get("/");
        assert_eq!(response.status, 200, "{}", response.text());
        ["x-access", "x-mark"].map(|name| response.header(name).unwrap_or_default().to_owned())
    }
}

/// Runs `weir plugin` in `folder`, against the instance where the command asks one.
fn plugin(instance: &Weir, folder: &Path, arguments: &[&str]) -> Outcome {
    let admin = instance.address("admin").to_string();
    let mut all = [&["plugin"], arguments].concat();
    if !["check", "test", "new"].contains(&arguments[0]) {
        all.extend(["--admin", &admin]);
    }
    command::weir(folder, &all, &[("WEIR_ADMIN_KEY", testkit::ADMIN_KEY)])
}

#[test]
fn version_is_live_on_all_workers_at_once() {
    let stage = Stage::new();
    assert_eq!(stage.marks(), ["one", "one"]);
    // New connections of all workers see a version once the Admin API has answered its activation.
    let mut longest = Duration::ZERO;
    for round in 0..5 {
        let mark = format!("round-{round}");
        let (status, answer) = stage.push(&code(&mark, "a"), "");
        assert_eq!(status, 200, "{answer}");
        let version = json!({"version": answer["version"]});
        let begin = Instant::now();
        stage.change("PUT", "activate", version);
        while (0..8).any(|_| stage.marks() != [mark.clone(), mark.clone()]) {}
        longest = longest.max(begin.elapsed());
    }
    assert!(longest < Duration::from_millis(1_000), "{longest:?}, with the load of other tests");
    stage.change("POST", "rollback", Value::Null);
    assert_eq!(stage.marks(), ["round-3", "round-3"]);
}

#[test]
fn canary_serves_whole_requests_of_its_share() {
    let stage = Stage::new();
    let (status, _) = stage.push(&code("two", "a"), "?canary=50");
    assert_eq!(status, 200);
    let mut seen = [0, 0];
    for _ in 0..60 {
        match stage.marks().map(|mark| mark == "two") {
            [true, true] => seen[1] += 1,
            [false, false] => seen[0] += 1,
            other => panic!("a request met both versions: {other:?}"),
        }
    }
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
    let (_, list) = stage.weir.admin("GET", "extensions/mine/versions", Value::Null);
    let version = &list["list"][0]["version"];
    let vars = json!([["http_x_trial", "==", "1"]]);
    stage.change("PUT", "canary", json!({"version": version, "vars": vars}));
    let tried = stage.weir.client().request("GET", "/", &[("X-Trial", "1")], b"");
    assert_eq!(tried.header("x-mark"), Some("two"));
    assert_eq!(stage.marks(), ["one", "one"]);
}

#[test]
fn faulty_version_never_replaces_a_good_one() {
    let stage = Stage::new();
    for (content, reason) in [
        ("return {", "mine cannot be loaded"),
        ("while true do end", "mine cannot be loaded"),
        ("error('no')", "mine cannot be loaded"),
        ("return 7", "mine cannot be loaded"),
    ] {
        for query in ["", "?activate=true"] {
            let (status, answer) = stage.push(content, query);
            let message = answer["error_msg"].as_str().unwrap_or_default();
            assert!(status == 400 && message.contains(reason), "{content}: {status} {answer}");
        }
    }
    // A schema that the route's configuration does not pass.
    let (status, answer) = stage.push(&code("two", "b"), "?activate=true");
    let message = answer["error_msg"].as_str().unwrap_or_default();
    assert!(
        status == 400 && message.contains("route [1]: failed to check the configuration of plugin mine"),
        "{answer}"
    );
    assert_eq!(stage.marks(), ["one", "one"]);
    let (status, answer) = stage.weir.admin("DELETE", "extensions/mine", Value::Null);
    assert_eq!(
        (status, &answer["error_msg"]),
        (400, &json!("can not delete this extension, route [1] is still using it now"))
    );
    let (status, _) = stage.weir.admin("DELETE", "extensions/mine?force=true", Value::Null);
    assert_eq!(status, 200);
    assert_eq!(stage.weir.get("/").status, 503);
}

#[test]
fn extensions_are_there_after_a_restart() {
    let stage = Stage::new();
    stage.push(&code("two", "a"), "?activate=true");
    let Stage { weir, _origin } = stage;
    let weir = weir.restart();
    assert_eq!(weir.get("/").header("x-mark"), Some("two"));
    let (_, list) = weir.admin("GET", "plugins/list", Value::Null);
    assert!(list.as_array().unwrap().contains(&json!("mine")), "{list}");
}

#[test]
fn resource_file_has_extensions_with_their_users() {
    let origin = Origin::start(|request| Reply::with(200, &[], &request.raw_head));
    let resources = json!({
        "routes": [{
            "id": "1", "uri": "/*", "plugins": {"mine": {"a": 1}},
            "upstream": {"nodes": {origin.address().to_string(): 1}},
        }],
        "extensions": [{"id": "mine", "language": "lua", "content": code("file", "a")}],
    });
    let text = format!("{resources}\n#END\n");
    let checked = command::weir_with(&[("resources.yaml", &text)], &["check", "resources.yaml"], &[]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let weir = Weir::builder(BINARY).resources(&text).start();
    assert_eq!(weir.get("/").header("x-mark"), Some("file"));
    let mut changed = resources;
    changed["extensions"][0]["content"] = code("again", "a").into();
    weir.rewrite_resources(&format!("{changed}\n#END\n"));
    wait_until("the changed file is in force", || weir.get("/").header("x-mark") == Some("again"));
}

#[test]
fn settings_load_plugins_in_lua() {
    let origin = Origin::start(|request| Reply::with(200, &[], &request.raw_head));
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("apisix/plugins");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.lua"), code("fixed", "a")).unwrap();
    let lua = format!("lua_path: {}\nlua_plugins: [mine]\n", home.path().display());
    let weir = Weir::builder(BINARY).settings(&lua).start();
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/*", "upstream": {"nodes": nodes}, "plugins": {"mine": {"a": 1}}}));
    assert_eq!(weir.get("/").header("x-mark"), Some("fixed"));
    let (status, answer) =
        weir.admin("POST", "extensions/mine/versions", json!({"language": "lua", "content": code("x", "a")}));
    assert!(
        status == 400 && answer["error_msg"].as_str().unwrap().contains("there is a plugin mine already"),
        "{answer}"
    );
    fs::write(folder.join("mine.lua"), "return {").unwrap();
    let refused = Weir::builder(BINARY).settings(&lua).try_start().err().unwrap();
    assert!(refused.stderr.contains("mine.lua: the plugin mine cannot be loaded"), "{}", refused.stderr);
}

#[test]
fn folder_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.lua");
    fs::write(&file, code("one", "a")).unwrap();
    let settings = format!("extensions_folder: {}\n", folder.path().display());
    let weir = Weir::builder(BINARY).settings(&settings).start();
    let active = || weir.admin("GET", "extensions/mine", Value::Null).1["value"]["active"].clone();
    wait_until("the file is an extension", || active().is_string());
    let first = active();
    fs::write(&file, code("another", "a")).unwrap();
    wait_until("the changed file is active", || active() != first);
    let second = active();
    fs::write(&file, "return {").unwrap();
    wait_until("the fault is logged", || {
        weir.stderr().iter().any(|line| line.contains("mine.lua") && line.contains("is faulty"))
    });
    assert_eq!(active(), second);
    fs::remove_file(&file).unwrap();
    wait_until("the extension is gone", || active().is_null());
}

#[test]
fn commands_write_test_and_change_a_plugin() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| plugin(&stage.weir, folder.path(), arguments);
    let good = |arguments: &[&str]| {
        let outcome = run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {outcome:?}");
        outcome.stdout
    };
    good(&["new", "lua", "tokens"]);
    let inside = folder.path().join("tokens");
    let file = inside.join("tokens.lua").display().to_string();
    let requests = inside.join("tokens.test.yaml").display().to_string();
    let shown = good(&["check", &file]);
    assert!(shown.contains("tokens can be used") && shown.contains("access, header_filter"), "{shown}");
    let tested = good(&["test", &file, "--requests", &requests]);
    assert!(tested.contains("2 requests, all as expected"), "{tested}");
    assert!(tested.contains("request + X-Checked-By: tokens"), "{tested}");
    fs::write(inside.join("wrong.yaml"), "- {path: /a, expect: {status: 200}}\n").unwrap();
    let wrong = run(&["test", &file, "--requests", &inside.join("wrong.yaml").display().to_string()]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stdout.contains("expected \"200\", found \"403\""), "{wrong:?}");

    assert!(good(&["push", &file]).contains("is active"));
    fs::write(&file, fs::read_to_string(&file).unwrap() + "\n-- another version\n").unwrap();
    assert!(good(&["push", &file, "--canary", "5%"]).contains("serves 5 % of the requests"));
    let versions = good(&["list", "tokens"]);
    let newest = versions.split_whitespace().next().unwrap().to_owned();
    assert!(versions.contains("canary") && versions.contains("active"), "{versions}");
    assert!(good(&["activate", "tokens", &newest]).contains(&newest));
    assert!(!good(&["rollback", "tokens"]).contains(&newest));
    assert!(good(&["canary", "tokens", &newest, "--percent", "10"]).contains("serves 10 %"));
    good(&["canary", "tokens", "--end"]);
    assert!(good(&["list"]).contains("tokens"));
    good(&["remove", "tokens"]);
    let gone = run(&["list", "tokens"]);
    assert_eq!(gone.code, 1, "{gone:?}");
}
