//! Access to etcd: users, TLS in both directions, and the messages of failures.

use testkit::{Certificates, Etcd, Origin, WeirBuilder, wait_until};

use super::{node_at, route, serves};

fn refusal(node: WeirBuilder) -> String {
    match node.try_start() {
        Ok(_) => panic!("it has started"),
        Err(exited) => exited.stderr,
    }
}

#[test]
fn a_user_and_a_password() {
    let etcd = Etcd::start(1);
    etcd.ctl(&["user", "add", "root:geheim"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["auth", "enable"]);
    let origin = Origin::answering("served");
    let with = |password: &str| {
        let node = node_at(&etcd.endpoints()).arguments(&["--etcd-username", "root"]);
        node.environment("WEIR_ETCD_PASSWORD", password)
    };
    let node = with("geheim").start();
    node.put("routes/a", route("a", &origin));
    assert_eq!(node.get("/a").status, 200);
    // A change of users invalidates all earlier tokens.
    etcd.ctl(&["--user", "root:geheim", "user", "add", "another:one"]);
    node.put("routes/c", route("c", &origin));
    assert_eq!(node.get("/c").status, 200);
    etcd.ctl(&["--user", "root:geheim", "put", "/apisix/routes/z", &route("z", &origin).to_string()]);
    serves(&node, "/z", 200);
}

#[test]
fn role_for_the_prefix_suffices() {
    let etcd = Etcd::start(1);
    let origin = Origin::answering("served");
    let node = || {
        let node =
            node_at(&etcd.endpoints()).arguments(&["--etcd-username", "weir", "--proxy-tls", "127.0.0.1:0"]);
        node.environment("WEIR_ETCD_PASSWORD", "geheim")
    };
    // A version from a time when etcd granted more.
    let open = node_at(&etcd.endpoints()).start();
    open.put("routes/a", route("a", &origin));
    drop(open);
    etcd.ctl(&["user", "add", "root:geheim"]);
    etcd.ctl(&["user", "grant-role", "root", "root"]);
    etcd.ctl(&["role", "add", "gateway"]);
    etcd.ctl(&["role", "grant-permission", "gateway", "readwrite", "/apisix/", "--prefix=true"]);
    etcd.ctl(&["user", "add", "weir:geheim"]);
    etcd.ctl(&["user", "grant-role", "weir", "gateway"]);
    etcd.ctl(&["auth", "enable"]);
    let one = node().start();
    one.put("routes/b", route("b", &origin));
    one.put("routes/b", route("c", &origin));
    serves(&one, "/c", 200);
    let other = node().start();
    let versions = |instance: &testkit::Weir| {
        let (status, history) = instance.admin("GET", "weir/versions", serde_json::Value::Null);
        assert_eq!(status, 200, "{history}");
        history["versions"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((versions(&one), versions(&other)), (2, 2), "the first one is beside the prefix");
    let as_root = |words: &[&str]| etcd.ctl(&[&["--user", "root:geheim"], words].concat());
    wait_until("the keys of tickets are shared", || {
        as_root(&["get", "/apisix/data_plane/weir/", "--prefix", "--keys-only"]).contains("ticket_keys")
    });
    as_root(&["role", "grant-permission", "gateway", "read", "/weir/apisix/", "--prefix=true"]);
    assert_eq!(versions(&one), 3, "what may be read is shown");
    as_root(&["role", "revoke-permission", "gateway", "/apisix/", "--prefix=true"]);
    let (status, answer) = one.admin("PUT", "routes/d", route("d", &origin));
    let text = answer.to_string();
    assert!(status == 503 && text.contains("readwrite /apisix/ --prefix=true"), "{status} {text}");
}

#[test]
fn tls_with_certificates_on_both_sides() {
    let certificates = Certificates::make();
    let etcd = Etcd::start_with_tls(certificates.clone());
    let origin = Origin::answering("served");
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let (authority, certificate, key) =
        (text(certificates.authority()), text(certificates.certificate()), text(certificates.key()));
    let identity = ["--etcd-cert", &certificate, "--etcd-key", &key];
    let node = node_at(&etcd.endpoints()).arguments(&identity).arguments(&["--etcd-ca", &authority]).start();
    node.put("routes/a", route("a", &origin));
    assert_eq!(node.get("/a").status, 200);
    etcd.put("/apisix/routes/b", &route("b", &origin).to_string());
    serves(&node, "/b", 200);
    drop(node);
    let node = node_at(&etcd.endpoints()).arguments(&identity).arguments(&["--etcd-verify=false"]).start();
    assert_eq!(node.get("/b").status, 200);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let certificates = Certificates::make();
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let key = text(certificates.key());
    let node = || node_at("https://127.0.0.1:1");
    let said = refusal(node().arguments(&["--etcd-ca", &key]));
    assert!(said.contains(&key) && said.contains("holds no certificate"), "{said}");
    let said = refusal(node().arguments(&["--etcd-ca", "/no/such/file"]));
    assert!(said.contains("/no/such/file"), "{said}");
}
