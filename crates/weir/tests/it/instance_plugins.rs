//! Plugins that show an instance or what happens on it, through the real gateway: `echo`, `example-plugin`,
//! `node-status` and `server-info`, and the name of `ocsp-stapling`.

use serde_json::{Value, json};
use testkit::{Client, Etcd, Origin, Reply, Step, Weir, wait_until};

use crate::support::BINARY;

fn route(origin: &Origin, uri: &str, plugins: Value) -> Value {
    json!({"uri": uri, "upstream": {"nodes": {origin.address().to_string(): 1}}, "plugins": plugins})
}

#[test]
fn echo_stands_around_bodies_of_all_framings() {
    let origin = Origin::start(|request| match request.path() {
        "/chunked" => Reply::new()
            .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"1\"\r\n\r\n3\r\nbod\r\n")
            .send("1\r\ny\r\n0\r\n\r\n"),
        "/close" => Reply::new().then(Step::Send(b"HTTP/1.1 200 OK\r\n\r\nbody".to_vec())).close(),
        "/head" => Reply::new().send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"),
        _ => Reply::ok("body"),
    });
    let weir = Weir::start(BINARY);
    let around = json!({"before_body": "<", "after_body": ">", "headers": {"X-Route": "a"}});
    weir.put("routes/1", route(&origin, "/*", json!({"echo": around})));
    for path in ["/", "/chunked", "/close"] {
        let response = weir.get(path);
        assert_eq!((response.text().as_str(), response.header("x-route")), ("<body>", Some("a")), "{path}");
        assert_eq!(response.header("etag"), None, "{path}");
    }
    let mut client = weir.client();
    let head = client.request("HEAD", "/head", &[], b"");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    assert_ne!(head.header("content-length"), Some("4"), "the old body had this length");
    // Text behind the head would be read as the beginning of this response.
    assert_eq!(client.get("/").text(), "<body>");
    // A response of the gateway itself, and a body in place of the old one.
    weir.put("routes/2", route(&origin, "/denied", json!({"echo": {"body": "new"}, "key-auth": {}})));
    let denied = weir.get("/denied");
    assert_eq!((denied.status, denied.text().as_str()), (401, "new"));
}

#[test]
fn example_plugin_selects_node_and_logs_phases() {
    let [own, other] = ["own", "other"].map(Origin::answering);
    let weir = Weir::start(BINARY);
    let address = other.address();
    let example = json!({"i": 1, "ip": address.ip().to_string(), "port": address.port()});
    weir.put("routes/1", route(&own, "/*", json!({"example-plugin": example})));
    assert_eq!(weir.get("/").text(), "other");
    for phase in ["rewrite", "access", "header_filter", "body_filter", "log"] {
        let line = format!("plugin {phase} phase");
        wait_until("the phase is logged", || weir.stderr().iter().any(|one| one.contains(&line)));
    }
    let mut control = Client::connect(weir.address("control"));
    let text = control.get("/v1/plugin/example-plugin/hello");
    let content_type = text.header("content-type").map(str::to_owned);
    assert_eq!(
        (text.text().as_str(), content_type.as_deref()),
        ("world\n", Some("text/plain; charset=utf-8"))
    );
    assert_eq!(control.get("/v1/plugin/example-plugin/hello?json").json(), json!({"msg": "world"}));
}

#[test]
fn node_status_counts_connections_of_the_instance() {
    let origin = Origin::answering("served");
    let weir = Weir::builder(BINARY).arguments(&["--instance-id", "gateway-1"]).start();
    weir.put("routes/1", route(&origin, "/a", json!({})));
    weir.put("routes/2", json!({"uri": "/apisix/status", "plugins": {"public-api": {}}}));
    let mut client = weir.client();
    assert_eq!(client.get("/a").text(), "served");
    let response = client.get("/apisix/status");
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
    let body = response.json();
    assert_eq!(body["id"], "gateway-1");
    let names: Vec<&String> = body["status"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["active", "accepted", "handled", "total", "reading", "writing", "waiting"]);
    let count = |body: &Value, name: &str| body["status"][name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(count(&body, "active") >= 1 && count(&body, "accepted") >= 1, "{body}");
    wait_until("the request is counted", || count(&client.get("/apisix/status").json(), "total") >= 2);
    assert_eq!(client.request("PATCH", "/apisix/status", &[], b"").status, 404);
}

#[test]
fn server_info_is_shown_and_reported_to_etcd() {
    let etcd = Etcd::start(1);
    let endpoints = etcd.endpoints();
    let arguments = ["--source", "etcd", "--etcd-endpoints", &endpoints, "--server-info-report", "3"];
    let weir = Weir::builder(BINARY).arguments(&arguments).start();
    let shown = || Client::connect(weir.address("control")).get("/v1/server_info").json();
    wait_until("the version of etcd is known", || {
        shown()["etcd_version"].as_str().unwrap().starts_with("3.")
    });
    let info = shown();
    assert_eq!(
        (info["version"].as_str(), info["id"].as_str().unwrap().len()),
        (Some(env!("CARGO_PKG_VERSION")), 36)
    );
    assert!(info["boot_time"].is_u64() && info["hostname"].is_string(), "{info}");
    let key = format!("/apisix/data_plane/server_info/{}", info["id"].as_str().unwrap());
    let reported = || etcd.ctl(&["get", "--print-value-only", &key]);
    wait_until("it is reported", || reported().contains("boot_time"));
    assert_eq!(serde_json::from_str::<Value>(reported().trim()).unwrap(), info);
    // The lease is renewed without new revisions, which every instance would have to read.
    let revision = etcd.revision();
    let stored: Value = serde_json::from_str(&etcd.ctl(&["get", &key, "-w", "json"])).unwrap();
    let lease = format!("{:x}", stored["kvs"][0]["lease"].as_i64().unwrap());
    let mut least_s = i64::MAX;
    wait_until("the lease is renewed", || {
        let state: Value =
            serde_json::from_str(&etcd.ctl(&["lease", "timetolive", &lease, "-w", "json"])).unwrap();
        let left_s = state["ttl"].as_i64().unwrap();
        let has_risen = left_s > least_s;
        least_s = least_s.min(left_s);
        has_risen
    });
    assert_eq!(etcd.revision(), revision);
    drop(weir);
    wait_until("the report of a stopped instance ends", || reported().trim().is_empty());
}

#[test]
fn name_of_ocsp_stapling_is_accepted_and_idle() {
    let origin = Origin::answering("served");
    let weir = Weir::start(BINARY);
    weir.put("routes/1", route(&origin, "/*", json!({"ocsp-stapling": {}})));
    assert_eq!(weir.get("/").text(), "served");
    let (status, refusal) = weir.admin("PUT", "routes/2", route(&origin, "/b", json!({"inspect": {}})));
    assert_eq!(status, 400);
    assert!(refusal["error_msg"].as_str().unwrap().contains("debugging hooks in the Lua code"), "{refusal}");
}
