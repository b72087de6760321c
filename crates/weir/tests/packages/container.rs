//! The image in a container of crun, without a container engine: its own user, no capability, a read-only
//! root file system, and a network of its own, so that the ports are those of the image. Clients and peers
//! enter that network by nsenter.

mod runtime;

use std::fs;

use serde_json::{Value, json};
use testkit::{self_signed, wait_until};

use crate::pack::{is_root_for, skipped};
use runtime::Container;

/// The name of an upstream that only `/etc/hosts` of the container knows.
const IN_HOSTS: &str = "in-hosts.test";
/// The name that only the name server of the container knows.
const IN_DNS: &str = "in-dns.test";

/// Why no container can be run here; none if one can.
fn can_run(part: &str) -> bool {
    if !is_root_for(part) {
        return false;
    }
    let has_crun = std::process::Command::new("crun").arg("--version").output().is_ok();
    if !has_crun {
        skipped(part, "crun is missing; lab/install.sh test installs it");
    }
    has_crun
}

#[test]
fn container_serves_without_rights_and_stops() {
    if !can_run("the image in a container") {
        return;
    }
    let mut container = Container::start("serves", &[("127.0.0.1", IN_HOSTS)]);
    container.start_origin();
    container.start_name_server(IN_DNS);

    for (path, name) in [("/hosts", IN_HOSTS), ("/dns", IN_DNS)] {
        let route = json!({"uri": path, "upstream": {"nodes": {(format!("{name}:1980")): 1}}});
        container.put(&format!("routes{}", path.replace('/', "/r-")), &route);
        wait_until("the name of the upstream is known", || container.get(path).starts_with("HTTP/1.1 200"));
        let answer = container.get(path);
        assert!(answer.contains(path), "the origin echoes the request: {answer}");
    }

    let pair = self_signed(&["secure.test"]);
    container.put("ssls/s", &json!({"cert": pair.certificate, "key": pair.key, "snis": ["secure.test"]}));
    let authority = container.folder().join("authority.pem");
    fs::write(&authority, &pair.certificate).unwrap();
    let secured = ["--cacert", authority.to_str().unwrap(), "--resolve", "secure.test:9443:127.0.0.1"];
    let answer = container.curl(&[&secured[..], &["https://secure.test:9443/hosts"]].concat());
    assert!(answer.starts_with("HTTP/2 200"), "{answer}");

    assert_has_no_rights(&container);
    // The same command is the health check of engines that have one.
    let report = container.exec(&["/usr/bin/weir", "status"]);
    assert!(report.contains("revision"), "{report}");
    for (port, path) in [(7085, "/status/ready"), (9091, "/apisix/prometheus/metrics")] {
        let answer = container.curl(&[&format!("http://127.0.0.1:{port}{path}")]);
        assert!(answer.starts_with("HTTP/1.1 200"), "{port}: {answer}");
    }

    // The first process of a container cannot hand over, because the container would end with it.
    container.signal("USR2");
    wait_until("the upgrade is refused with the reason", || {
        container.log().contains("the first one of its container")
    });
    assert!(container.get("/hosts").starts_with("HTTP/1.1 200"));
    container.signal("TERM");
    let status = container.wait();
    assert_eq!(status.code(), Some(0), "{}", container.log());
}

fn assert_has_no_rights(container: &Container) {
    let status = container.process_file("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name}: {status}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(field("Uid"), ["65532"; 4]);
    assert_eq!(field("Gid"), ["65532"; 4]);
    for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field("NoNewPrivs"), ["1"]);
    let mounts = container.process_file("mountinfo");
    let root = mounts
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields[4] == "/");
    assert!(root.unwrap()[5].split(',').any(|option| option == "ro"), "{mounts}");
}

#[test]
fn container_keeps_its_data_volume() {
    if !can_run("a second container on the data of the first") {
        return;
    }
    let route = json!({"uri": "/kept", "plugins": {"mocking": {"response_example": "kept"}}});
    let mut first = Container::start("volume", &[]);
    first.put("routes/kept", &route);
    first.signal("TERM");
    assert!(first.wait().success(), "{}", first.log());
    // A new version of the image is a new container on the same volume.
    let mut second = first.again();
    let answer = second.get("/kept");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("kept"), "{answer}");
    let listed: Value = serde_json::from_str(&second.exec(&["/usr/bin/weir", "status", "--json"])).unwrap();
    assert!(listed.is_object(), "{listed}");
    second.signal("TERM");
    assert!(second.wait().success(), "{}", second.log());
}
