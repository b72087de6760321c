//! The unmodified runners of APISIX for Go and Java.

use serde_json::json;
use testkit::{Origin, Weir, plugin_runner};

use super::{conf, route, runner, running, start};
use crate::support::BINARY;

#[test]
fn plugins_of_the_go_runner_work() {
    let origin = Origin::answering("hello world, hello");
    let weir = start(&plugin_runner::go());
    let put = |plugins| weir.put("routes/1", route(&origin, "/*", plugins));
    let fault = json!({"body": "no", "http_status": 403}).to_string();
    put(json!({"ext-plugin-pre-req": conf("say", "{\"body\": \"hello\"}")}));
    let said = weir.get("/");
    assert_eq!((said.status, said.text().as_str()), (200, "hello"));
    assert_eq!(said.header("x-resp-a6-runner"), Some("Go"));
    put(json!({"ext-plugin-post-req": conf("fault-injection", &fault)}));
    let refused = weir.get("/");
    assert_eq!((refused.status, refused.text().as_str()), (403, "no"));
    put(json!({"ext-plugin-pre-req": conf("limit-req", "{\"rate\": 1000, \"burst\": 10}")}));
    assert_eq!(weir.get("/").text(), "hello world, hello");
    let rewrite = json!({
        "headers": {"X-Server": "hidden"},
        "filters": [{"regex": "hello", "scope": "global", "replace": "bye"}],
    });
    put(json!({"ext-plugin-post-resp": conf("response-rewrite", &rewrite.to_string())}));
    let response = weir.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "bye world, bye"));
    assert_eq!(
        (response.header("x-server"), response.header("x-resp-a6-runner")),
        (Some("hidden"), Some("Go"))
    );
    // A plugin that the runner does not have is left out by it.
    put(json!({"ext-plugin-pre-req": conf("unknown", "{}")}));
    assert_eq!(weir.get("/").text(), "hello world, hello");
}

#[test]
#[ignore = "make test-peers: APISIX's runner in Java"]
fn plugins_of_the_java_runner_work() {
    let origin = Origin::answering("from upstream");
    let weir = start(&plugin_runner::java());
    let plugins = json!({
        "ext-plugin-pre-req": conf("asks", "the configuration"),
        "ext-plugin-post-resp": conf("shouts", ""),
    });
    weir.put("routes/1", route(&origin, "/*", plugins));
    let response = weir.client().request("POST", "/a?b=1", &[("X-Drop", "1")], b"12345");
    assert_eq!((response.status, response.text().as_str()), (202, "FROM UPSTREAM"));
    let request = origin.last_request();
    assert_eq!(request.target, "/a?b=1&added=by%20java");
    let field = |name: &str| request.header(name);
    assert_eq!((field("x-config"), field("x-told")), (Some("the configuration"), Some("/a 127.0.0.1")));
    assert_eq!((field("x-length"), field("x-drop")), (Some("5"), None));
    assert_eq!(weir.get("/").status, 202, "a connection is used again");
    weir.put("routes/2", route(&origin, "/marks", json!({"ext-plugin-post-resp": conf("marks", "")})));
    let marked = weir.get("/marks");
    assert_eq!((marked.header("x-was"), marked.text().as_str()), (Some("200"), "from upstream"));
}

#[test]
fn runner_of_config_yaml_is_started() {
    let origin = Origin::answering("from upstream");
    let command = json!(plugin_runner::go());
    let settings = format!(
        "nginx_config:\n  envs: [GREETING]\next-plugin:\n  cmd: {command}\ndeployment:\n  role: data_plane\n  \
         role_data_plane:\n    config_provider: yaml\n"
    );
    let say = "{name: say, value: '{\"body\": \"hello\"}'}";
    let resources = format!(
        "routes:\n  - {{id: '1', uri: /*, plugins: {{ext-plugin-pre-req: {{conf: [{say}]}}}}, upstream: {{nodes: {{'{}': 1}}}}}}\n#END\n",
        origin.address()
    );
    let weir = Weir::builder(BINARY).settings(&settings).resources(&resources).start();
    let weir = running(weir);
    assert_eq!(runner(&weir)["command"], command);
    assert_eq!(weir.get("/").text(), "hello");
}
