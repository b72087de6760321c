//! The declarative mode through the real binary: the file is applied when it changes or at HUP, faulty
//! objects harm no other, and the Admin API reads but does not write.

use serde_json::{Value, json};
use testkit::{ADMIN_KEY, Origin, Reply, Weir, WeirBuilder, wait_for, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

fn started_with(resources: &str) -> Weir {
    Weir::builder(BINARY).resources(resources).start()
}

/// A resources file with routes to the origin, each `id: path`.
fn routes(origin: &Origin, routes: &[(&str, &str)]) -> String {
    let mut text = "routes:\n".to_owned();
    for (id, path) in routes {
        text += &format!(
            "  - id: '{id}'\n    uri: {path}\n    upstream: {{nodes: {{'{}': 1}}}}\n",
            origin.address()
        );
    }
    text
}

/// The faults of the last reload, as `weir/status` shows them.
fn faults(weir: &Weir) -> Vec<String> {
    let (status, answer) = weir.admin("GET", "weir/status", Value::Null);
    assert_eq!(status, 200);
    let reasons = answer["faults"].as_array().unwrap().iter();
    reasons.filter_map(|fault| Some(fault["reason"].as_str()?.to_owned())).collect()
}

fn revision(weir: &Weir) -> u64 {
    weir.admin("GET", "weir/status", Value::Null).1["revision"].as_u64().unwrap()
}

#[test]
fn a_changed_file_is_taken_over_by_itself() {
    let origin = Origin::answering("origin");
    let weir = started_with(&routes(&origin, &[("1", "/a"), ("2", "/b")]));
    assert_eq!((weir.get("/a").status, weir.get("/b").status, weir.get("/c").status), (200, 200, 404));
    weir.rewrite_resources(&routes(&origin, &[("1", "/a"), ("3", "/c")]));
    wait_until("the new route is there", || weir.get("/c").status == 200);
    assert_eq!((weir.get("/a").status, weir.get("/b").status), (200, 404));
    assert_eq!(faults(&weir), [""; 0]);
}

/// As in APISIX, where keys of a file have no prefix of etcd.
#[test]
fn control_api_shows_keys_of_the_file() {
    let origin = Origin::answering("origin");
    let text = format!(
        "upstreams:\n  - {{id: 1, nodes: {{'{}': 1}}, checks: {{active: {{type: tcp}}}}}}\nroutes:\n  - {{id: 2, uri: /a, \
         upstream_id: 1}}\n",
        origin.address()
    );
    let weir = started_with(&text);
    let ask = |path: &str| testkit::Client::connect(weir.address("control")).get(path).json();
    let route = &ask("/v1/routes")[0];
    assert_eq!((&route["key"], &route["value"]["id"]), (&json!("/routes/2"), &json!("2")));
    let node = json!({"host": "127.0.0.1", "port": origin.port(), "weight": 1});
    assert_eq!(ask("/v1/upstream/1")["value"]["nodes"], json!([node]));
    assert_eq!(ask("/v1/healthcheck")[0]["name"], json!("/upstreams/1"));
}

#[test]
fn hangup_applies_file_and_changes_only_differences() {
    let origin = Origin::answering("origin");
    let weir = started_with(&routes(&origin, &[("1", "/a")]));
    let before = revision(&weir);
    weir.reload();
    let modified =
        |id: &str| weir.admin("GET", &format!("routes/{id}"), Value::Null).1["modifiedIndex"].clone();
    let first = modified("1");
    weir.rewrite_resources(&routes(&origin, &[("1", "/a"), ("2", "/b")]));
    weir.reload();
    wait_until("the second route is there", || weir.get("/b").status == 200);
    assert_eq!(modified("1"), first, "the same object keeps its revision");
    assert_eq!(revision(&weir), before + 1, "reading the same file again is no new revision");
}

#[test]
fn faulty_object_keeps_form_and_rest_applies() {
    let origin = Origin::answering("origin");
    let weir = started_with(&routes(&origin, &[("1", "/a"), ("2", "/b")]));
    let mut text = routes(&origin, &[("1", "/a"), ("2", "/b"), ("3", "/c")]);
    text = text.replacen("uri: /a", "uri: /a2\n    colour: blue", 1);
    text += "  - id: '4'\n    uri: /d\n    upstream_id: nowhere\n";
    weir.rewrite_resources(&text);
    wait_until("the good new route is there", || weir.get("/c").status == 200);
    assert_eq!(weir.get("/a").status, 200, "the last good form of route 1");
    assert_eq!((weir.get("/a2").status, weir.get("/b").status, weir.get("/d").status), (404, 200, 503));
    let reported = faults(&weir);
    let line = |wanted: &str| text.lines().position(|line| line.contains(wanted)).unwrap() + 1;
    for (expected_line, reason) in
        [(line("colour"), "found colour"), (line("nowhere"), "upstream \"nowhere\" does not exist")]
    {
        let place = format!("resources.yaml:{expected_line}: ");
        assert!(
            reported.iter().any(|fault| fault.contains(&place) && fault.contains(reason)),
            "{place}{reason}: {reported:?}"
        );
    }
    wait_until("the log says so, too", || {
        let logged = weir.stderr().join("\n");
        logged.contains("found colour") && logged.contains("\"nowhere\" does not exist")
    });

    weir.rewrite_resources(&routes(&origin, &[("1", "/a2"), ("3", "/c")]));
    wait_until("the mended route is in force", || weir.get("/a2").status == 200);
    assert_eq!((weir.get("/a").status, weir.get("/b").status), (404, 404));
    assert_eq!(faults(&weir), [""; 0]);
}

#[test]
fn a_text_that_does_not_parse_changes_nothing() {
    let origin = Origin::answering("origin");
    let good = routes(&origin, &[("1", "/a")]);
    let weir = started_with(&good);
    let before = revision(&weir);
    let check = |text: &str, expected: &str| {
        weir.rewrite_resources(text);
        weir.reload();
        let reported = wait_for(&format!("the fault of {text:?} is told"), || {
            Some(faults(&weir)).filter(|faults| faults.iter().any(|fault| fault.contains(expected)))
        });
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(weir.get("/a").status, 200);
        assert_eq!(revision(&weir), before);
    };
    check("routes: [{id: '1', uri: /b\n", "resources.yaml:1: ");
    check("", "resources.yaml:1: ");
    check("just a sentence", "resources.yaml:1: ");
    check("routes:\n  - id: ${{WEIR_TEST_NOBODY_SETS_THIS}}\n", "WEIR_TEST_NOBODY_SETS_THIS");
    weir.rewrite_resources(&good);
    weir.reload();
    wait_until("the faults are gone", || faults(&weir).is_empty());
}

#[test]
fn fifo_in_place_of_the_file_is_a_fault() {
    let origin = Origin::answering("origin");
    let weir = started_with(&routes(&origin, &[("1", "/a")]));
    let resources = weir.directory().join("resources.yaml");
    let check = |expected: &str| {
        weir.reload();
        wait_until(&format!("`{expected}` is told"), || {
            faults(&weir).iter().any(|fault| fault.contains(expected))
        });
        wait_until("the log says so, too", || weir.stderr().iter().any(|line| line.contains(expected)));
        assert_eq!(weir.get("/a").status, 200);
    };
    std::fs::remove_file(&resources).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&resources).status().unwrap().success());
    check("a FIFO, not a regular file");
    std::fs::remove_file(&resources).unwrap();
    std::fs::create_dir(&resources).unwrap();
    check("a directory, not a regular file");
    std::fs::remove_dir(&resources).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &resources).unwrap();
    check("a device, not a regular file");

    // The next good file is applied, also through a symbolic link, as Kubernetes mounts it.
    let good = weir.directory().join("good.yaml");
    std::fs::write(&good, routes(&origin, &[("2", "/b")])).unwrap();
    std::fs::remove_file(&resources).unwrap();
    std::os::unix::fs::symlink("good.yaml", &resources).unwrap();
    weir.reload();
    wait_until("the good file is in force", || weir.get("/b").status == 200);
    assert_eq!(faults(&weir), [""; 0]);
}

#[test]
fn fifo_in_place_of_the_settings_is_a_fault() {
    let mut weir = Weir::builder(BINARY).settings("log_level: info\n").resources("routes: []").start();
    let settings = weir.directory().join("weir.yaml");
    std::fs::remove_file(&settings).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&settings).status().unwrap().success());
    weir.reload();
    wait_until("the log says so", || {
        weir.stderr().iter().any(|line| {
            line.contains("the settings are faulty") && line.contains("it is a FIFO, not a regular file")
        })
    });
    weir.terminate();
    assert!(weir.wait_for_exit().success(), "it obeys signals");
}

#[test]
fn strict_is_all_or_nothing() {
    let origin = Origin::answering("origin");
    let strict = |text: &str| Weir::builder(BINARY).resources(text).arguments(&["--strict"]);
    let faulty =
        routes(&origin, &[("1", "/a"), ("2", "/b")]).replacen("uri: /b", "uri: /b\n    colour: blue", 1);
    let refused = strict(&faulty).try_start().unwrap_err();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.stderr.contains("resources.yaml:7: routes[1].colour: ") && refused.stderr.contains("colour"),
        "{refused}"
    );

    let weir = strict(&routes(&origin, &[("1", "/a")])).start();
    weir.rewrite_resources(&faulty);
    weir.reload();
    wait_until("the fault is told", || faults(&weir).iter().any(|fault| fault.contains("colour")));
    assert_eq!((weir.get("/a").status, weir.get("/b").status), (200, 404), "nothing of it applies");
    weir.rewrite_resources(&routes(&origin, &[("2", "/b")]));
    wait_until("the mended file is in force", || weir.get("/b").status == 200);
    assert_eq!(weir.get("/a").status, 404);
}

#[test]
fn a_first_file_that_does_not_parse_is_no_start() {
    let refused = |builder: WeirBuilder, expected: &str| {
        let exited = builder.try_start().unwrap_err();
        assert_eq!((exited.status.code(), exited.stdout.as_str()), (Some(1), ""));
        assert!(exited.stderr.contains(expected), "{exited}");
    };
    refused(Weir::builder(BINARY).resources("routes: ["), "resources.yaml:");
    refused(Weir::builder(BINARY).arguments(&["--resources", "gone.yaml"]), "gone.yaml");
}

#[test]
fn the_admin_api_reads_and_refuses_to_write() {
    let origin = Origin::answering("origin");
    let weir = started_with(&routes(&origin, &[("1", "/a")]));
    let (status, read) = weir.admin("GET", "routes/1", Value::Null);
    assert_eq!((status, &read["value"]["uri"]), (200, &json!("/a")));
    let route = json!({"uri": "/x", "plugins": {"cors": {}}});
    for (method, target, body) in [
        ("PUT", "routes/2", route.clone()),
        ("POST", "routes", route),
        ("PATCH", "routes/1", json!({"desc": "d"})),
        ("DELETE", "routes/1", Value::Null),
    ] {
        let response =
            weir.admin_raw(method, target, &[("X-API-KEY", ADMIN_KEY)], body.to_string().as_bytes());
        assert_eq!(response.status, 405, "{method}: {}", response.text());
        assert_eq!(response.header("allow"), Some("GET, OPTIONS"));
        assert!(response.text().contains("resources.yaml"), "{method}: {}", response.text());
    }
    assert_eq!(weir.get("/a").status, 200);
}

#[test]
fn variables_end_marks_and_json() {
    let origin = Origin::start(|request| Reply::ok(&format!("saw {}", request.target)));
    let variables = |text: &str| {
        let builder = Weir::builder(BINARY).resources(text);
        builder.environment("ORIGIN", &origin.address().to_string()).environment("KIND", "routes").start()
    };
    let weir = variables(
        "# ${{NOT_IN_A_COMMENT:=really}}\n${{KIND}}:\n  - id: v\n    uri: ${{SOMEWHERE:=/default}}\n    \
         upstream: {nodes: {\"${{ORIGIN}}\": 1}}\n#END\n",
    );
    assert_eq!(weir.get("/default").text(), "saw /default");
    let (_, read) = weir.admin("GET", "routes/v", Value::Null);
    assert_eq!(read["value"]["upstream"]["nodes"], json!({origin.address().to_string(): 1}));

    let weir =
        variables(&json!({"routes": [{"uri": "/j", "upstream": {"nodes": {"${{ORIGIN}}": 1}}}]}).to_string());
    assert_eq!(weir.get("/j").text(), "saw /j");
    let (_, listed) = weir.admin("GET", "routes", Value::Null);
    assert_eq!(listed["total"], 1, "an object without an id gets one: {listed}");
}

#[test]
fn every_kind_of_object_may_be_in_the_file() {
    let origin = Origin::echoing();
    let weir = started_with(&format!(
        "upstreams:\n  - {{id: u, nodes: {{'{}': 1}}}}\n\
         services:\n  - {{id: s, upstream_id: u, plugins: {{request-id: {{}}}}}}\n\
         plugin_configs:\n  - {{id: p, plugins: {{key-auth: {{}}}}}}\n\
         consumers:\n  - username: jack\n  - {{id: jack/credentials/c, plugins: {{key-auth: {{key: secret-key}}}}}}\n\
         global_rules:\n  - {{id: g, plugins: {{prometheus: {{}}}}}}\n\
         routes:\n  - {{id: r, uri: /a, service_id: s, plugin_config_id: p}}\n",
        origin.address()
    ));
    assert_eq!(weir.get("/a").status, 401);
    let response = weir.client().request("GET", "/a", &[("apikey", "secret-key")], b"");
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(response.text().contains("X-Request-Id: "), "{}", response.text());
    assert_eq!(faults(&weir), [""; 0]);
}
