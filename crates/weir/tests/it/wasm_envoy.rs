//! The same filter in Envoy and in Weir: the origin and the client must see the same. `lab/install.sh test`
//! installs Envoy.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use testkit::{Client, Origin, Reply, Request, Weir, wait_for};

use crate::clients::python;
use crate::support::BINARY;
use crate::wasm_plugins::module;

/// A running Envoy; killed when dropped.
struct Envoy {
    child: Child,
    _folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Envoy {
    /// Envoy with the filter in front of `origin`, which its calls reach too.
    fn start(origin: SocketAddr, conf: &str) -> Envoy {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("envoy.json"), configuration(origin, conf)).unwrap();
        let log = || Stdio::from(File::create(path("log")).unwrap());
        let child = Command::new(python().with_file_name("envoy"))
            .arg("-c")
            .arg(path("envoy.json"))
            .args(["--concurrency", "1", "-l", "warning", "--use-dynamic-base-id", "--admin-address-path"])
            .arg(path("admin"))
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap();
        let mut envoy = Envoy { child, _folder: folder, address: ([127, 0, 0, 1], 0).into() };
        envoy.address = wait_for("Envoy listens", || {
            let log = std::fs::read_to_string(envoy._folder.path().join("log")).unwrap_or_default();
            assert!(envoy.child.try_wait().unwrap().is_none(), "it ended: {log}");
            let admin = std::fs::read_to_string(envoy._folder.path().join("admin")).ok()?.parse().ok()?;
            let listeners = Client::try_connect(admin).ok()?.get("/listeners?format=json").json();
            let socket = &listeners["listener_statuses"][0]["local_address"]["socket_address"];
            let port = u16::try_from(socket["port_value"].as_u64()?).ok()?;
            Some(SocketAddr::from(([127, 0, 0, 1], port)))
        });
        envoy
    }
}

fn configuration(origin: SocketAddr, conf: &str) -> String {
    const TYPES: &str = "type.googleapis.com/envoy.extensions.filters";
    let cluster = |name: &str| {
        let socket = json!({ "socket_address": { "address": "127.0.0.1", "port_value": origin.port() } });
        let endpoint = json!({ "endpoint": { "address": socket } });
        let load = json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [endpoint] }] });
        json!({ "name": name, "type": "STATIC", "load_assignment": load })
    };
    let wasm = json!({
        "@type": format!("{TYPES}.http.wasm.v3.Wasm"),
        "config": {
            "name": "rust-filter",
            "configuration": { "@type": "type.googleapis.com/google.protobuf.StringValue", "value": conf },
            "vm_config": {
                "vm_id": "rust-filter",
                "runtime": "envoy.wasm.runtime.v8",
                "code": { "local": { "filename": module("rust-filter.wasm") } },
            },
        },
    });
    let router = json!({ "@type": format!("{TYPES}.http.router.v3.Router") });
    let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": "origin" } });
    let manager = json!({
        "@type": format!("{TYPES}.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "a",
        "route_config": { "virtual_hosts": [{ "name": "a", "domains": ["*"], "routes": [route] }] },
        "http_filters": [
            { "name": "envoy.filters.http.wasm", "typed_config": wasm },
            { "name": "envoy.filters.http.router", "typed_config": router },
        ],
    });
    let filter = json!({ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager });
    let socket = |port: u16| json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
    json!({
        "admin": { "address": socket(0) },
        "static_resources": {
            "listeners": [{ "address": socket(0), "filter_chains": [{ "filters": [filter] }] }],
            "clusters": [cluster("origin"), cluster(&origin.to_string())],
        },
    })
    .to_string()
}

/// Fields that only the gateways differ in.
fn is_own(name: &str) -> bool {
    let own = ["x-envoy", "x-forwarded", "x-request-id", "x-real-ip", "x-apisix", "x-weir"];
    own.iter().any(|beginning| name.starts_with(beginning))
}

fn shown(headers: &[(String, String)]) -> Vec<String> {
    let lines = headers.iter().map(|(name, value)| (name.to_lowercase(), value));
    let mut lines: Vec<String> = lines
        .filter(|(name, _)| name.starts_with("x-") && !is_own(name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.sort();
    lines
}

fn seen(request: &Request) -> String {
    let host = request.header("host").unwrap_or_default();
    let text = request.text();
    let text = if text.len() > 100 { format!("{} bytes, {}", text.len(), &text[..100]) } else { text };
    format!("{} {} {host} {:?} {text}", request.method, request.target, shown(&request.headers))
}

/// Method, path, fields and body of a request.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8]);

/// The view of the client and of the origin of some requests through the gateway at `address`.
fn transcript(address: SocketAddr, origin: &Origin) -> Vec<String> {
    let long = b"a secret ".repeat(2_000);
    let cases: [Case; 9] = [
        ("GET", "/plain?b=%20c", &[("X-Ask", "me")], b""),
        ("GET", "/path", &[("X-Path", "/new?q=1")], b""),
        ("GET", "/reply", &[("X-Do", "reply")], b""),
        ("GET", "/call?1", &[("X-Do", "call")], b""),
        ("DELETE", "/teapot", &[("X-Want-Teapot", "1")], b""),
        ("POST", "/body", &[], b"one secret word"),
        ("PUT", "/forbidden", &[], b"forbidden"),
        ("POST", "/long", &[], &long),
        ("POST", "/empty", &[], b""),
    ];
    let mut lines = Vec::new();
    for (method, path, fields, body) in cases {
        let before = origin.requests().len();
        // Envoy adds fields of its own before the filter counts them; a further one hides how many.
        let mut all = vec![("Host", "shop.example"), ("Accept", "*/*")];
        all.extend_from_slice(fields);
        let response = Client::connect(address).request(method, path, &all, body);
        let text = response.text();
        lines.push(format!("{path}: {} {:?} {text}", response.status, shown(&response.headers)));
        // Envoy may have sent the head when the guest refuses the body.
        let requests = origin.requests();
        let passed = requests[before..].iter().filter(|request| request.path() != "/forbidden");
        lines.extend(passed.map(seen));
    }
    let chunked = "POST /chunked HTTP/1.1\r\nHost: shop.example\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\na sec\r\n8\r\nret word\r\n0\r\n\r\n";
    let mut client = Client::connect(address);
    client.send(chunked.as_bytes());
    let response = client.read_response(false).unwrap();
    lines.push(format!("/chunked: {} {}", response.status, response.text()));
    lines.push(seen(&origin.last_request()));
    lines
}

#[test]
fn filter_does_the_same_in_envoy() {
    let origin = Origin::start(|request| {
        let mut fields = vec![("X-Remove-Me", "1")];
        if request.header("x-want-teapot").is_some() {
            fields.push(("X-Teapot", "1"));
        }
        Reply::with(200, &fields, b"a secret answer")
    });
    let conf = format!("call {}", origin.address());
    let envoy = Envoy::start(origin.address(), &conf);
    let settings = json!({ "wasm": { "plugins": [
        { "name": "rust-filter", "priority": 1, "file": module("rust-filter.wasm") },
    ] } });
    let weir = Weir::builder(BINARY).settings(&settings.to_string()).start();
    let nodes = json!({ origin.address().to_string(): 1 });
    let plugins = json!({ "rust-filter": { "conf": conf } });
    weir.put("routes/1", json!({ "uri": "/*", "upstream": { "nodes": nodes }, "plugins": plugins }));
    let expected = transcript(envoy.address, &origin);
    assert!(expected.len() > 15, "{expected:#?}");
    let found = transcript(weir.proxy(), &origin);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "Weir on the left, Envoy on the right");
    }
    assert_eq!(found.len(), expected.len());
}
