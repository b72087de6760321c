//! Faulty objects never open the paths that they protect: their requests are answered 503 and match no other
//! route, the last good form outlives a restart, and the instance reports that it is not ready. With a file
//! and with etcd.

use serde_json::{Value, json};
use testkit::{Client, Etcd, Origin, Response, Weir, wait_until};

use crate::support::{BINARY, builder, gateway};

/// A resources file with a route for every path, and `more`.
fn beside_all(origin: &Origin, more: &str) -> String {
    let node = origin.address();
    format!("routes:\n  - {{id: all, uri: /*, upstream: {{nodes: {{'{node}': 1}}}}}}\n{more}")
}

/// A route as a line of `routes`; `fields` is YAML in flow style.
fn routed(id: &str, fields: &str, origin: &Origin) -> String {
    format!("  - {{id: {id}, {fields}, upstream: {{nodes: {{'{}': 1}}}}}}\n", origin.address())
}

fn ready(weir: &Weir) -> Response {
    Client::connect(weir.address("status")).get("/status/ready")
}

fn metrics(weir: &Weir) -> String {
    Client::connect(weir.address("metrics")).get("/apisix/prometheus/metrics").text()
}

fn state(weir: &Weir, object: &str) -> Value {
    weir.admin("GET", &format!("weir/verdicts/{object}"), Value::Null).1["state"].clone()
}

#[test]
fn faulty_route_answers_503_in_its_place() {
    let origin = Origin::answering("open");
    let faulty = [
        ("plugin", "uri: /plugin/*, plugins: {key-auht: {}}"),
        ("config", "uri: /config/*, plugins: {key-auth: {header: 7}}"),
        ("field", "uri: /field/*, colour: blue"),
        ("priority", "uri: /priority/*, priority: '10'"),
        ("status", "uri: /status/*, status: '1'"),
        ("'no id'", "uri: /spaced/*, plugins: {key-auth: {}}"),
        ("all", "uri: /doubled/*, plugins: {key-auth: {}}"),
        ("function", "uri: /function/*, filter_func: 'function(vars return true end'"),
        ("host", "uri: /*, host: a.example, priority: 1, plugins: {nope: {}}"),
        ("vars", "uri: /*, vars: [[arg_secret, '==', '1']], priority: 1, plugins: {nope: {}}"),
    ];
    let lines: String = faulty.iter().map(|(id, fields)| routed(id, fields, &origin)).collect();
    let weir = gateway(&beside_all(&origin, &lines));
    let check = |path: &str, headers: &[(&str, &str)], expected: u16| {
        assert_eq!(weir.client().request("GET", path, headers, b"").status, expected, "{path} {headers:?}");
    };
    check("/plugin/a", &[], 503);
    check("/config/a", &[], 503);
    check("/field/a", &[], 503);
    check("/priority/a", &[], 503);
    check("/status/a", &[], 503);
    check("/spaced/a", &[], 503);
    check("/doubled/a", &[], 503);
    check("/function/a", &[], 503);
    check("/a?secret=1", &[], 503);
    check("/a?secret=2", &[], 200);
    check("/a", &[("Host", "a.example")], 503);
    check("/a", &[("Host", "b.example")], 200);
    assert_eq!(state(&weir, "routes/plugin"), "out");
    assert!(
        metrics(&weir).contains("weir_failures_total{cause=\"faulty_configuration\",blame=\"gateway\"} 10\n")
    );
    let ready = ready(&weir);
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("route plugin is faulty: unknown plugin [key-auht]"), "{}", ready.text());
}

#[test]
fn faulty_reference_closes_every_route_behind_it() {
    let origin = Origin::answering("open");
    let node = origin.address();
    let mut text = beside_all(&origin, "");
    for (id, reference) in [
        ("service", "service_id: s"),
        ("no-service", "service_id: none"),
        ("hosted", "service_id: hosted"),
        ("upstream", "upstream_id: u"),
        ("no-upstream", "upstream_id: none"),
        ("behind", "service_id: behind"),
    ] {
        text += &format!("  - {{id: {id}, uri: /{id}/*, {reference}}}\n");
    }
    for (id, config) in [("config", "c"), ("no-config", "none")] {
        text += &routed(id, &format!("uri: /{id}/*, plugin_config_id: {config}"), &origin);
    }
    text += &format!(
        "services:\n  - {{id: s, upstream: {{nodes: {{'{node}': 1}}}}, plugins: {{nope: {{}}}}}}\n  \
         - {{id: hosted, hosts: [a.example], upstream: {{nodes: {{'{node}': 1}}}}, plugins: {{nope: {{}}}}}}\n  \
         - {{id: behind, upstream_id: u}}\n\
         upstreams:\n  - {{id: u, nodes: {{'{node}': 1}}, type: nope}}\n\
         plugin_configs:\n  - {{id: c, plugins: {{nope: {{}}}}}}\n"
    );
    let weir = gateway(&text);
    for id in ["service", "no-service", "upstream", "no-upstream", "behind", "config", "no-config"] {
        assert_eq!(weir.get(&format!("/{id}/a")).status, 503, "{id}");
    }
    // The hosts of a faulty service are known, so that only these are closed.
    let on = |host: &str| weir.client().request("GET", "/hosted/a", &[("Host", host)], b"").status;
    assert_eq!((on("a.example"), on("b.example")), (503, 200));
    assert_eq!(weir.get("/other").status, 200);
}

#[test]
fn consumer_of_a_faulty_group_is_answered_503() {
    let origin = Origin::answering("open");
    let mut text = beside_all(&origin, "");
    text += &routed("keyed", "uri: /keyed, plugins: {key-auth: {}}", &origin);
    text += "consumers:\n  - {username: jack, group_id: g, plugins: {key-auth: {key: jacks}}}\n  \
             - {username: jane, plugins: {nope: {}, key-auth: {key: janes}}}\n\
             consumer_groups:\n  - {id: g, plugins: {nope: {}}}\n";
    let weir = gateway(&text);
    let with = |key: &str| weir.client().request("GET", "/keyed", &[("apikey", key)], b"").status;
    assert_eq!((with("jacks"), with("janes"), with("nobodys")), (503, 401, 401));
    assert_eq!(ready(&weir).status, 200, "no route is out of force");
    // Once corrected, the group admits; the other consumer with the same key does not replace it.
    weir.rewrite_resources(&text.replace("{id: g, plugins: {nope: {}}}", "{id: g, plugins: {}}"));
    wait_until("the group is good", || with("jacks") == 200);
}

#[test]
fn faulty_global_rule_answers_503_to_all() {
    let origin = Origin::answering("open");
    let rule = "global_rules:\n  - {id: guard, plugins: {ip-restriction: {whitelist: [10.0.0.0/8]}, saml-auth: {}}}\n";
    let text = beside_all(&origin, rule);
    let weir = gateway(&text);
    assert_eq!((weir.get("/a").status, ready(&weir).status), (503, 503));
    assert!(ready(&weir).text().contains("global rule guard is faulty"), "{}", ready(&weir).text());
    weir.rewrite_resources(&text.replace(", saml-auth: {}", ""));
    wait_until("the rule is good", || weir.get("/a").status == 403);
    assert_eq!(ready(&weir).status, 200);
    // A rule that becomes faulty keeps its last good form, and the instance stays ready.
    weir.rewrite_resources(&text);
    wait_until("the fault is seen", || state(&weir, "global_rules/guard") == "last_good");
    assert_eq!((weir.get("/a").status, ready(&weir).status), (403, 200));
}

#[test]
fn ignored_plugin_is_skipped_and_reported() {
    let origin = Origin::answering("open");
    let rule = "global_rules:\n  - {id: guard, plugins: {ip-restriction: {whitelist: [10.0.0.0/8]}, saml-auth: {}}}\n";
    let text = beside_all(&origin, rule);
    let weir = builder(&text).arguments(&["--ignore-faulty-plugins", "saml-auth"]).start();
    assert_eq!((weir.get("/a").status, ready(&weir).status), (403, 200), "the other plugin runs");
    let (_, verdict) = weir.admin("GET", "weir/verdicts/global_rules/guard", Value::Null);
    assert_eq!(verdict["state"], "in_force");
    assert_eq!(
        verdict["skipped_plugins"],
        json!([{
            "pointer": "/plugins/saml-auth",
            "reason": "unknown plugin [saml-auth]: APISIX has it, this version of Weir has not"
        }])
    );
    assert!(metrics(&weir).contains("weir_config_skipped_plugins 1\n"));
    // A good form with the plugin is preferred to a form without it.
    let guarded = builder(&text.replace(", saml-auth: {}", ""))
        .arguments(&["--ignore-faulty-plugins", "ip-restriction"])
        .start();
    assert_eq!(guarded.get("/a").status, 403);
    guarded.rewrite_resources(&text.replace(", saml-auth: {}", "").replace("whitelist", "whitelst"));
    wait_until("the fault is seen", || state(&guarded, "global_rules/guard") == "last_good");
    assert_eq!(guarded.get("/a").status, 403);
    // The setting does not name this faulty plugin, so the good form stays.
    weir.rewrite_resources(&text.replace("saml-auth: {}", "saml-auth: {}, nope: {}"));
    wait_until("the fault is seen", || state(&weir, "global_rules/guard") == "last_good");
    assert_eq!(weir.get("/a").status, 403);
}

#[test]
fn unreadable_match_is_reported_everywhere() {
    let origin = Origin::answering("open");
    let text = beside_all(&origin, &routed("lost", "urri: /lost/*", &origin));
    let weir = gateway(&text);
    assert_eq!(weir.get("/lost/a").status, 200, "nothing says that this path is the route's");
    assert_eq!(state(&weir, "routes/lost"), "unplaced");
    assert_eq!(ready(&weir).status, 503);
    assert!(ready(&weir).text().contains("route lost is faulty"), "{}", ready(&weir).text());
    assert!(metrics(&weir).contains("weir_config_faulty_objects{kind=\"routes\",state=\"unplaced\"} 1\n"));
    assert!(weir.stderr().iter().any(|line| line.contains("routes.1") || line.contains("urri")));
    let explained = explain(&weir, "/lost/a");
    assert_eq!(explained["unplaced"][0]["id"], "lost", "{explained}");
    assert!(builder(&text).arguments(&["--strict"]).try_start().is_err());
    let eager = builder(&text).arguments(&["--ready-with-faults"]).start();
    assert_eq!(ready(&eager).status, 200);
}

/// The answer of the control API about `GET path`.
fn explain(weir: &Weir, path: &str) -> Value {
    let question = json!({"method": "GET", "url": path, "headers": [], "remote_addr": "127.0.0.1"});
    let mut client = Client::connect(weir.address("control"));
    let answer = client.request("POST", "/v1/weir/explain", &[], question.to_string().as_bytes());
    serde_json::from_str(&answer.text()).unwrap()
}

#[test]
fn explain_says_why_a_route_is_closed() {
    let origin = Origin::answering("open");
    let weir = gateway(&beside_all(&origin, &routed("admin", "uri: /admin/*, plugins: {nope: {}}", &origin)));
    let explained = explain(&weir, "/admin/a");
    assert_eq!(explained["matched"]["id"], "admin");
    let reason = explained["closed"].as_str().unwrap();
    assert!(reason.starts_with("route admin is faulty: unknown plugin [nope]"), "{reason}");
    assert_eq!(explain(&weir, "/a")["closed"], Value::Null);
}

#[test]
fn misspelt_collection_removes_nothing() {
    let origin = Origin::answering("open");
    let rule = "global_rules:\n  - {id: guard, plugins: {ip-restriction: {whitelist: [10.0.0.0/8]}}}\n";
    let text = beside_all(&origin, rule);
    let weir = gateway(&text);
    assert_eq!(weir.get("/a").status, 403);
    let misspelt = text.replace("global_rules:", "global_rule:");
    weir.rewrite_resources(&misspelt);
    wait_until("the fault is seen", || {
        weir.admin("GET", "weir/status", Value::Null).1["faults"]
            .to_string()
            .contains("did you mean `global_rules`")
    });
    assert_eq!(weir.get("/a").status, 403);
    assert!(builder(&misspelt).try_start().is_err(), "no start without the rules that are meant");
}

#[test]
fn route_with_too_many_service_hosts_is_closed() {
    let origin = Origin::answering("open");
    let weir = Weir::start(BINARY);
    let nodes = json!({origin.address().to_string(): 1});
    let service = |hosts: Vec<String>| json!({"hosts": hosts, "upstream": {"nodes": nodes}});
    weir.put("services/s", service(vec!["a.example".to_owned()]));
    weir.put("routes/all", json!({"uri": "/*", "upstream": {"nodes": nodes}}));
    let uris: Vec<String> = (0..200).map(|number| format!("/{number}")).collect();
    weir.put("routes/guarded", json!({"uris": uris, "service_id": "s", "plugins": {"key-auth": {}}}));
    let asked = || weir.client().request("GET", "/7", &[("Host", "a.example")], b"").status;
    assert_eq!(asked(), 401);
    let mut hosts: Vec<String> = (0..6_000).map(|number| format!("h{number}.example")).collect();
    hosts.push("a.example".to_owned());
    weir.put("services/s", service(hosts));
    assert_eq!(asked(), 503);
    assert_eq!(state(&weir, "routes/guarded"), "out");
}

#[test]
fn last_good_form_of_a_file_outlives_a_restart() {
    let origin = Origin::answering("open");
    let good = beside_all(&origin, &routed("admin", "uri: /admin/*, plugins: {key-auth: {}}", &origin));
    let faulty = good.replace("key-auth: {}", "key-auht: {}");
    let weir = gateway(&good);
    assert_eq!(weir.get("/admin/a").status, 401);
    weir.rewrite_resources(&faulty);
    wait_until("the fault is seen", || state(&weir, "routes/admin") == "last_good");
    let weir = weir.restart();
    assert_eq!((weir.get("/admin/a").status, weir.get("/a").status), (401, 200));
    assert_eq!((state(&weir, "routes/admin"), ready(&weir).status), (json!("last_good"), 200));
    // Restarted a second time, because the form read from disk has to be kept too.
    let weir = weir.restart();
    assert_eq!(weir.get("/admin/a").status, 401);
    // Once the object is correct, no form is kept; a new instance then has no good form.
    weir.rewrite_resources(&good);
    wait_until("the route is good", || state(&weir, "routes/admin") == "in_force");
    let kept = || {
        std::fs::read_dir(weir.data())
            .unwrap()
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("last-good"))
    };
    assert!(!kept());
    assert_eq!(gateway(&faulty).get("/admin/a").status, 503);
}

#[test]
fn good_forms_on_disk_hide_secrets() {
    let origin = Origin::answering("open");
    let keyed = "consumers:\n  - {username: jack, plugins: {key-auth: {key: jacks-own-key}}}\n";
    let weir = builder(&beside_all(&origin, keyed))
        .environment("WEIR_ENCRYPTION_KEYRING", "0123456789abcdef")
        .start();
    weir.rewrite_resources(&beside_all(
        &origin,
        &keyed.replace("username: jack", "username: jack, colour: 1"),
    ));
    wait_until("the fault is seen", || state(&weir, "consumers/jack") == "last_good");
    let files = std::fs::read_dir(weir.data()).unwrap().flatten();
    let kept: Vec<String> = files
        .filter(|file| file.file_name().to_string_lossy().starts_with("last-good"))
        .map(|file| std::fs::read_to_string(file.path()).unwrap())
        .collect();
    assert!(kept.len() == 1 && !kept[0].contains("jacks-own-key"), "{kept:?}");
}

fn etcd_route(path: &str, origin: &Origin, plugins: Value) -> String {
    let nodes = json!({origin.address().to_string(): 1});
    json!({"uri": path, "plugins": plugins, "upstream": {"nodes": nodes}}).to_string()
}

fn node(etcd: &Etcd) -> Weir {
    let endpoints = etcd.endpoints();
    let arguments = ["--source", "etcd", "--etcd-endpoints", &endpoints, "--etcd-timeout-ms", "2000"];
    Weir::builder(BINARY).arguments(&arguments).start()
}

#[test]
fn faulty_objects_of_etcd_answer_503() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("open"));
    etcd.put("/apisix/routes/all", &etcd_route("/*", &origin, json!({})));
    etcd.put("/apisix/routes/admin", &etcd_route("/admin/*", &origin, json!({"saml-auth": {}})));
    // APISIX takes the id from the key.
    let renamed = etcd_route("/renamed", &origin, json!({})).replacen('{', "{\"id\": \"other\", ", 1);
    etcd.put("/apisix/routes/renamed", &renamed);
    let node = node(&etcd);
    assert_eq!((node.get("/admin/a").status, node.get("/a").status), (503, 200));
    assert_eq!((node.get("/renamed").status, state(&node, "routes/renamed")), (200, json!("in_force")));
    assert_eq!(ready(&node).status, 503);
    etcd.put("/apisix/routes/admin", &etcd_route("/admin/*", &origin, json!({"key-auth": {}})));
    wait_until("the route is good", || node.get("/admin/a").status == 401);
    wait_until("the instance is ready", || ready(&node).status == 200);
    // Faulty again, or no JSON: the last good form stays, also after a restart.
    etcd.put("/apisix/routes/admin", &etcd_route("/admin/*", &origin, json!({"saml-auth": {}})));
    wait_until("the fault is seen", || state(&node, "routes/admin") == "last_good");
    let node = node.restart();
    assert_eq!((node.get("/admin/a").status, ready(&node).status), (401, 200));
    etcd.put("/apisix/routes/admin", "no json");
    wait_until("the text is seen", || {
        node.admin("GET", "weir/verdicts/routes/admin", Value::Null).1["faults"].to_string().contains("JSON")
    });
    assert_eq!(node.restart().get("/admin/a").status, 401);
}

#[test]
fn global_rule_that_is_no_json_closes_all() {
    let (etcd, origin) = (Etcd::start(1), Origin::answering("open"));
    etcd.put("/apisix/routes/all", &etcd_route("/*", &origin, json!({})));
    etcd.put("/apisix/global_rules/1", "no json");
    let node = node(&etcd);
    assert_eq!(node.get("/a").status, 503);
    etcd.ctl(&["del", "/apisix/global_rules/1"]);
    wait_until("the rule is gone", || node.get("/a").status == 200);
    assert_eq!(ready(&node).status, 200);
}
