//! A `config.yaml` of APISIX as the settings file, through the real binary.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::{Client, Origin, wait_for};

use crate::command::{weir, weir_with};
use crate::support::BINARY;

const BOSS: &str = "boss-key-0123456789abcdef";
const GUEST: &str = "guest-key-0123456789abcdef";

/// A gateway that gets only its configuration file.
struct Node {
    child: Child,
    directory: tempfile::TempDir,
}

impl Node {
    /// Starts in a fresh folder with these files; `conf/config.yaml` is the configuration.
    fn start(files: &[(&str, &str)], environment: &[(&str, &str)], arguments: &[&str]) -> Node {
        let directory = tempfile::tempdir().unwrap();
        for folder in ["conf", "logs"] {
            std::fs::create_dir(directory.path().join(folder)).unwrap();
        }
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let file = |name: &str| std::fs::File::create(directory.path().join(name)).unwrap();
        let mut command = Command::new(BINARY);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WEIR_")) {
            command.env_remove(name);
        }
        if !files.iter().any(|(_, text)| text.contains("\n  ssl:")) {
            // The default port would be taken by the first of several gateways.
            command.env("WEIR_PROXY_TLS", "off");
        }
        let child = command
            .current_dir(directory.path())
            .args(["run", "--config", "conf/config.yaml"])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        let mut node = Node { child, directory };
        wait_for("the node is ready", || {
            assert!(node.child.try_wait().unwrap().is_none(), "it ended: {}", node.read("stderr"));
            node.read("stdout").contains("ready").then_some(())
        });
        node
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// The announced addresses of the listeners with this name.
    fn addresses(&self, name: &str) -> Vec<std::net::SocketAddr> {
        let announced = self.read("stdout");
        let of = |line: &str| line.strip_prefix(&format!("listening {name} "))?.parse().ok();
        announced.lines().filter_map(of).collect()
    }

    fn ask(&self, name: &str, method: &str, target: &str, key: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut client = Client::connect(self.addresses(name)[0]);
        let answer = client.request(method, target, &[("X-API-KEY", key)], body.as_bytes());
        let json = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        (answer.status, json)
    }

    fn get(&self, path: &str) -> testkit::Response {
        Client::connect(self.addresses("proxy")[0]).get(path)
    }

    /// The one warning about the file; empty without a warning.
    fn warning(&self) -> String {
        let log = self.read("stderr") + &self.read("logs/error.log");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("these keys do nothing")).collect();
        assert!(lines.len() <= 1, "one warning: {lines:?}");
        lines.first().map_or_else(String::new, |line| (*line).to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration as users have it, but with port 0, which takes any free port.
fn realistic(more: &str) -> String {
    format!(
        "apisix:
  node_listen:
    - ip: 127.0.0.1
      port: 0
    - ip: 127.0.0.1
      port: 0
      enable_http2: true
  enable_admin: true
  enable_reuseport: true
  enable_http2: true
  router:
    http: radixtree_uri
    ssl: radixtree_sni
  delete_uri_tail_slash: true
  ssl:
    enable: true
    listen:
      - {{ip: 127.0.0.1, port: 0}}
  control: {{ip: 127.0.0.1, port: 0}}
  status: {{ip: 127.0.0.1, port: 0}}
  show_upstream_status_in_response_header: true
  proxy_cache:
    cache_ttl: 10s
    zones:
      - {{name: from_file, memory_size: 1m}}
nginx_config:
  error_log: logs/error.log
  error_log_level: warn
  worker_processes: 1
  http:
    access_log: logs/access.log
    access_log_format: '$remote_addr \"$request\" $status'
    client_max_body_size: 1k
    keepalive_timeout: 60s
plugin_attr:
  prometheus:
    export_addr: {{ip: 127.0.0.1, port: 0}}
plugins: [request-id, cors, mocking, prometheus, wolf-rbac]
deployment:
  admin:
    admin_listen: {{ip: 127.0.0.1, port: 0}}
    admin_key:
      - {{name: admin, key: {BOSS}, role: admin}}
      - {{name: viewer, key: {GUEST}, role: viewer}}
    allow_admin: [127.0.0.0/24]
    enable_admin_cors: false
{more}
#END
"
    )
}

fn traditional() -> String {
    realistic("  role: traditional\n  role_traditional: {config_provider: yaml}")
}

#[test]
fn a_node_starts_from_a_realistic_file() {
    let origin = Origin::answering("served");
    let node = Node::start(&[("conf/config.yaml", &traditional())], &[], &[]);
    assert_eq!(node.addresses("proxy").len(), 2);
    let route = json!({"uri": "/a", "plugins": {"request-id": {}}, "upstream": {"nodes": {origin.address().to_string(): 1}}});
    let put = |key: &str, target: &str, body: &Value| node.ask("admin", "PUT", target, key, body);
    assert_eq!(put(BOSS, "/apisix/admin/routes/1", &route).0, 201);
    let served = node.get("/a/");
    assert_eq!((served.status, served.text().as_str()), (200, "served"), "delete_uri_tail_slash");
    assert_eq!(served.header("x-apisix-upstream-status"), Some("200"));
    let mut client = Client::connect(node.addresses("proxy")[1]);
    assert_eq!(client.request("POST", "/a", &[], &[b'x'; 1025]).status, 413, "client_max_body_size");

    let (status, refused) = put(GUEST, "/apisix/admin/routes/2", &route);
    assert_eq!((status, &refused["description"]), (401, &json!("invalid method for role viewer")));
    assert_eq!(node.ask("admin", "GET", "/apisix/admin/routes/1", GUEST, &Value::Null).0, 200);
    assert_eq!(node.ask("admin", "GET", "/apisix/admin/routes/1", "wrong", &Value::Null).0, 401);
    let mut client = Client::connect(node.addresses("admin")[0]);
    let answer = client.request("GET", "/apisix/admin/routes", &[("X-API-KEY", BOSS)], b"");
    assert_eq!(answer.header("access-control-allow-origin"), None, "enable_admin_cors");

    let unlisted = json!({"uri": "/b", "plugins": {"key-auth": {}}});
    let (status, refused) = put(BOSS, "/apisix/admin/routes/3", &unlisted);
    assert!(
        status == 400 && refused["error_msg"].as_str().unwrap().contains("unknown plugin [key-auth]"),
        "{refused}"
    );

    assert_eq!(node.ask("control", "GET", "/v1/routes", "", &Value::Null).0, 200);
    assert_eq!(node.ask("status", "GET", "/status/ready", "", &Value::Null).0, 200);
    assert_eq!(node.ask("metrics", "GET", "/apisix/prometheus/metrics", "", &Value::Null).0, 200);
    let warning = node.warning();
    for part in [
        "unknown here, objects with one of them are faulty: wolf-rbac",
        "config_provider (line 48: no apisix.yaml lies beside it",
    ] {
        assert!(warning.contains(part), "{part} is not in {warning}");
    }
    assert!(!warning.contains("enable_reuseport") && !warning.contains(BOSS), "{warning}");
    wait_for("the request is in the access log", || {
        node.read("logs/access.log").contains("127.0.0.1 \"GET /a/ HTTP/1.1\" 200\n").then_some(())
    });
}

#[test]
fn data_plane_reads_file_and_has_no_admin_api() {
    let origin = Origin::answering("served");
    let routes = |path: &str| {
        format!("routes:\n  - {{uri: {path}, upstream: {{nodes: {{'{}': 1}}}}}}\n#END\n", origin.address())
    };
    let json = json!({"routes": [{"uri": "/j", "upstream": {"nodes": {origin.address().to_string(): 1}}}]});
    let config = |format: &str| {
        realistic(&format!("  role: data_plane\n  role_data_plane: {{config_provider: {format}}}"))
    };
    let node =
        Node::start(&[("conf/config.yaml", &config("yaml")), ("conf/apisix.yaml", &routes("/y"))], &[], &[]);
    assert_eq!((node.get("/y").status, node.get("/j").status), (200, 404));
    assert!(node.addresses("admin").is_empty(), "{}", node.read("stdout"));

    let with_mark = format!("{json:#}\n#END\n");
    let files = [
        ("conf/config.yaml", config("json")),
        ("conf/apisix.json", with_mark),
        ("conf/apisix.yaml", routes("/y")),
    ];
    let node = Node::start(&files.each_ref().map(|(name, text)| (*name, text.as_str())), &[], &[]);
    assert_eq!((node.get("/y").status, node.get("/j").status), (404, 200));

    let dev = config("yaml").replace("radixtree_uri\n", "radixtree_host_uri\n") + "# of the profile\n";
    let files = [
        ("conf/config.yaml", "apisix: {node_listen: nowhere}\n".to_owned()),
        ("conf/config-dev.yaml", dev),
        ("conf/apisix.yaml", routes("/y")),
        ("conf/apisix-dev.yaml", routes("/dev")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let node = Node::start(&files, &[("APISIX_PROFILE", "dev")], &[]);
    assert_eq!((node.get("/y").status, node.get("/dev").status), (404, 200));
}

#[test]
fn environment_and_flags_win() {
    let key = "key-of-the-environment-0123";
    let config = traditional();
    let environment =
        [("WEIR_ADMIN_KEY", key), ("WEIR_PROXY", "127.0.0.1:0"), ("WEIR_SERVER_HEADER", "environment")];
    let node = Node::start(&[("conf/config.yaml", &config)], &environment, &["--server-header", "flag"]);
    assert_eq!(node.addresses("proxy").len(), 1);
    assert_eq!(node.get("/").header("server"), Some("flag"));
    let read = |key: &str| node.ask("admin", "GET", "/apisix/admin/routes", key, &Value::Null).0;
    assert_eq!((read(key), read(BOSS), read(GUEST)), (200, 401, 200));
}

#[test]
fn an_empty_key_is_made_at_random() {
    let config = traditional().replace(BOSS, "''");
    let node = Node::start(&[("conf/config.yaml", &config)], &[], &["--data", "data"]);
    let made = node.read("data/admin.key");
    let read = |key: &str| node.ask("admin", "GET", "/apisix/admin/routes", key, &Value::Null).0;
    assert_eq!((read(made.trim()), read(""), read(GUEST)), (200, 401, 200));
}

#[test]
fn faults_have_lines_and_keep_the_node_from_starting() {
    let faulty =
        "apisix:\n  node_listen: 99999\n  router: {http: tree}\ndeployment:\n  admin:\n    admin_key: none\n";
    let expected = [
        "config.yaml:2: apisix.node_listen: `0.0.0.0:99999` is not `IP:PORT`",
        "config.yaml:3: apisix.router.http: `tree` is not a router mode",
        "config.yaml:6: deployment.admin.admin_key: is a list of keys",
    ];
    let files = [("config.yaml", faulty)];
    let ran = weir_with(&files, &["run", "--config", "config.yaml"], &[]);
    let checked = weir_with(&files, &["check", "config.yaml"], &[]);
    assert_eq!((ran.code, checked.code), (78, 1), "{ran:?} {checked:?}");
    for line in expected {
        assert!(ran.stderr.contains(line) && checked.stdout.contains(line), "{line}: {ran:?} {checked:?}");
    }
    let environment = [("APISIX_PROFILE", "gone")];
    let ran =
        weir_with(&[("config.yaml", "apisix: {}\n")], &["run", "--config", "config.yaml"], &environment);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(
        ran.stderr.contains("config-gone.yaml: cannot be read (APISIX_PROFILE names it)"),
        "{}",
        ran.stderr
    );
}

#[test]
fn check_goes_on_to_the_resources_and_prints_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let check = |folder: &Path| weir(folder, &["check", "config.yaml"], &[]);
    write(
        "config.yaml",
        "deployment:\n  role: data_plane\n  role_data_plane: {config_provider: yaml}\nplugins: [cors]\nnginx_config: {user: root}\n",
    );
    write("apisix.yaml", "routes:\n  - id: a\n    uri: /a\n    plugins:\n      key-auth: {}\n#END\n");
    let outcome = check(folder.path());
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome.stdout.contains(
            "config.yaml:5: nginx_config.user: warning: the process keeps the user it is started as"
        ),
        "{outcome:?}"
    );
    assert!(outcome.stdout.contains("apisix.yaml:5: routes[0].plugins.key-auth: "), "{outcome:?}");
    write("apisix.yaml", "routes:\n  - {id: a, uri: /a, plugins: {cors: {}}}\n#END\n");
    let outcome = check(folder.path());
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.ends_with("config.yaml: ok\n"), "{outcome:?}");
}

#[test]
fn data_plane_serves_control_planes_etcd_writes() {
    let (etcd, origin) = (testkit::Etcd::start(1), Origin::answering("from a cluster"));
    let common = "apisix:
  node_listen: [{ip: 127.0.0.1, port: 0}]
  control: {ip: 127.0.0.1, port: 0}
  status: {ip: 127.0.0.1, port: 0}
  data_encryption: {enable_encrypt_fields: false}
plugin_attr: {prometheus: {export_addr: {ip: 127.0.0.1, port: 0}}}
deployment:
";
    let admin = format!(
        "  admin:\n    admin_listen: {{ip: 127.0.0.1, port: 0}}\n    admin_key: [{{name: boss, role: admin, key: {BOSS}}}]\n"
    );
    let source = format!("  etcd: {{host: ['{}'], prefix: /gateway, timeout: 5}}\n", etcd.endpoints());
    let start = |role: &str, admin: &str| {
        let config =
            format!("{common}  role: {role}\n  role_{role}: {{config_provider: etcd}}\n{admin}{source}");
        Node::start(&[("conf/config.yaml", &config)], &[], &[])
    };
    let control_plane = start("control_plane", &admin);
    let data_plane = start("data_plane", "");
    assert!(control_plane.addresses("proxy").is_empty() && data_plane.addresses("admin").is_empty());
    let route = json!({"uri": "/a", "upstream": {"nodes": {origin.address().to_string(): 1}}});
    let (status, answer) = control_plane.ask("admin", "PUT", "/apisix/admin/routes/a", BOSS, &route);
    assert_eq!(status, 201, "{answer}");
    assert_eq!(etcd.keys("/gateway/"), ["/gateway/routes/a"]);
    wait_for("the data plane serves it", || (data_plane.get("/a").text() == "from a cluster").then_some(()));
}
