//! Upgrades of the package on a running system: a newer package takes over without a lost request, and what
//! cannot take over leaves the running instance alone.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::wait_until;

use crate::clean_root::CleanRoot;
use crate::host;
use crate::installed::{self, SETTINGS};
use crate::load::Load;

/// The newer package with another settings file, as a release that has changed its defaults.
fn newer_with_other_settings() -> std::path::PathBuf {
    let folder = host::target().join("test-packages/changed");
    // Left by an earlier run.
    let _ = fs::remove_dir_all(&folder);
    host::run(Command::new("dpkg-deb").arg("--raw-extract").arg(host::newer_package()).arg(&folder));
    let settings = folder.join("etc/weir/weir.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text + "\n# A line of the newer package.\n").unwrap();
    let package = host::target().join("test-packages/weir_changed.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["-Zgzip", "-z1", "--root-owner-group", "--build"]).arg(&folder).arg(&package);
    host::run(&mut build);
    package
}

/// The version of the package that dpkg has installed.
fn version(root: &CleanRoot) -> String {
    root.must("dpkg-query --show --showformat='${Version} ${db:Status-Status}' weir")
}

#[test]
fn upgrade_under_load_loses_no_request() {
    let newer = newer_with_other_settings();
    let Some(root) = installed::boot() else { return };
    root.start_origin();
    root.put_route();
    root.change_settings("log_level: info", "log_level: debug # by the administrator");
    root.must("systemctl restart weir");
    let before = root.property("MainPID");
    let revision = root.admin("GET", "routes/1", &Value::Null).1["modifiedIndex"].clone();
    let load = Load::start(&root);
    let printed = root.install(&newer);
    // Until then it serves the connections that clients had kept.
    wait_until("the old process has ended", || !root.path(&format!("/proc/{before}")).exists());
    let loaded = load.stop();
    println!(
        "{} requests answered, {} a second, {} lost",
        loaded.answered,
        loaded.per_second,
        loaded.lost.len()
    );
    assert!(loaded.lost.is_empty(), "{:#?}\n{printed}", loaded.lost);
    assert!(printed.contains("has taken over from process"), "{printed}");

    let after = root.property("MainPID");
    assert_ne!(before, after, "{printed}");
    assert_eq!(root.must("systemctl is-active weir").trim(), "active");
    assert!(version(&root).starts_with(host::NEWER), "{}", version(&root));
    let settings = fs::read_to_string(root.path(SETTINGS)).unwrap();
    assert!(
        settings.contains("by the administrator") && !settings.contains("of the newer package"),
        "{settings}"
    );
    assert!(root.path("/etc/weir/weir.yaml.dpkg-dist").exists(), "{printed}");
    let kept = root.admin("GET", "routes/1", &Value::Null);
    assert_eq!((kept.0, &kept.1["modifiedIndex"]), (200, &revision), "the store was handed over");
    // The new process is the one that systemd follows from now on.
    root.must("systemctl stop weir");
    wait_until("the new process has ended", || !root.path(&format!("/proc/{after}")).exists());
}

#[test]
fn upgrade_with_faulty_settings_keeps_the_instance() {
    let Some(root) = installed::boot() else { return };
    root.start_origin();
    root.put_route();
    root.change_settings("log_level: info", "log_level: loud");
    let before = root.property("MainPID");
    let printed = root.install(host::newer_package());
    assert!(printed.contains("/etc/weir/weir.yaml:") && printed.contains("log_level"), "{printed}");
    assert!(printed.contains("goes on"), "{printed}");
    assert_eq!(root.property("MainPID"), before);
    assert_eq!(root.get("/a").status, 200);
    assert!(version(&root).starts_with(host::NEWER), "the package is installed");
    // After the mend the new binary takes over as the message says.
    root.change_settings("log_level: loud", "log_level: info");
    root.must("weir upgrade --config /etc/weir/weir.yaml");
    wait_until("another process is the main one", || root.property("MainPID") != before);
    assert_eq!(root.get("/a").status, 200);
}

#[test]
fn stopped_service_stays_stopped_after_an_upgrade() {
    let Some(root) = installed::boot() else { return };
    root.must("systemctl stop weir");
    root.install(host::newer_package());
    assert_eq!(root.run("systemctl is-active weir").text.trim(), "inactive");
    root.must("systemctl disable --now weir");
    root.install(host::newer_package());
    assert_eq!(root.run("systemctl is-enabled weir").text.trim(), "disabled");
}

#[test]
fn older_package_is_refused_with_the_way_out() {
    let Some(root) = CleanRoot::boot() else { return };
    root.install(host::newer_package());
    root.start_origin();
    root.put_route();
    let before = root.property("MainPID");
    let older = root.take(host::older_package());
    let refused = root.run(&format!("dpkg --install {older}"));
    assert_ne!(refused.code, 0, "{}", refused.text);
    let way_out = format!("echo {} >/etc/weir/allow-downgrade", host::OLDER);
    for part in [host::OLDER, host::NEWER, "older", &way_out, "store.redb"] {
        assert!(refused.text.contains(part), "{part} is not in\n{}", refused.text);
    }
    assert_eq!(version(&root), format!("{} installed", host::NEWER), "nothing has happened");
    assert_eq!((root.property("MainPID"), root.get("/a").status), (before.clone(), 200));

    root.must("echo 0.0.1 >/etc/weir/allow-downgrade");
    assert_ne!(root.run(&format!("dpkg --install {older}")).code, 0, "permission for another version");
    root.must(&way_out);
    let printed = root.must(&format!("dpkg --install {older}"));
    assert_eq!(version(&root), format!("{} installed", host::OLDER), "{printed}");
    assert_ne!(root.property("MainPID"), before, "{printed}");
    assert_eq!(root.admin("GET", "routes/1", &json!(null)).0, 200);
    assert!(!root.path("/etc/weir/allow-downgrade").exists(), "the permission is for one time");
}

#[test]
fn take_over_finds_an_instance_elsewhere() {
    let Some(root) = installed::boot() else { return };
    root.must("echo WEIR_DATA=/var/lib/weir/other >>/etc/weir/weir.env && systemctl restart weir");
    assert!(root.path("/var/lib/weir/other/store.redb").exists());
    let before = root.property("MainPID");
    let printed = root.install(host::newer_package());
    assert!(printed.contains(&format!("has taken over from process {before}")), "{printed}");

    // A start that the script cannot know is a case for a restart.
    root.must("mkdir -p /etc/systemd/system/weir.service.d");
    let drop_in = "[Service]\\nExecStart=\\nExecStart=/usr/bin/weir run --config /etc/weir/weir.yaml --data /var/lib/weir/third\\n";
    root.must(&format!("printf '{drop_in}' >/etc/systemd/system/weir.service.d/data.conf"));
    root.must("systemctl daemon-reload && systemctl restart weir");
    let before = root.property("MainPID");
    let printed = root.must("/usr/lib/weir/take-over");
    assert!(printed.contains("the service is restarted") && printed.contains("no node runs on"), "{printed}");
    assert_ne!(root.property("MainPID"), before);
    assert_eq!(root.must("systemctl is-active weir").trim(), "active");
}

#[test]
fn script_of_the_rpm_package_takes_over_too() {
    let Some(root) = installed::boot() else { return };
    root.start_origin();
    root.put_route();
    let before = root.property("MainPID");
    let script = root.take(&host::root().join("packaging/rpm/post"));
    // As rpm does: the files are replaced, then the script is told that two versions are installed.
    root.must("cp /usr/bin/weir /usr/bin/weir.new && mv /usr/bin/weir.new /usr/bin/weir");
    let printed = root.must(&format!("sh {script} 2"));
    assert!(printed.contains(&format!("has taken over from process {before}")), "{printed}");
    assert_ne!(root.property("MainPID"), before);
    assert_eq!(root.get("/a").status, 200);
}
