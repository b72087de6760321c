//! The files that install Weir on a machine: the systemd unit with its drop-in, the sample of its environment
//! file, the rotation of its logs. Programs of the system check them where they are installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::{Origin, Weir, wait_until};

use crate::hardening::pages::read;

const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// The values of a key in a systemd unit, in order.
fn values<'t>(unit: &'t str, key: &str) -> Vec<&'t str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// Whether a program of the system accepts a file, and its output; `None` if it is not installed.
fn verdict(program: &str, arguments: &[&str], folder: &Path) -> Option<(bool, String)> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn unit_may_write_where_the_guides_say() {
    let unit = read("packaging/systemd/weir.service");
    assert_eq!(values(&unit, "ProtectSystem"), ["strict"]);
    assert_eq!(values(&unit, "StateDirectory"), ["weir"]);
    assert_eq!(values(&unit, "LogsDirectory"), ["weir"], "access_log: /var/log/weir/access.log");
    assert!(read("docs/guide/observability.md").contains("access_log: /var/log/weir/"));
    assert!(read("packaging/logrotate/weir").contains("\n/var/log/weir/*.log {\n"));
}

#[test]
fn unit_takes_secrets_from_an_optional_file() {
    let unit = read("packaging/systemd/weir.service");
    assert_eq!(values(&unit, "EnvironmentFile"), ["-/etc/weir/weir.env"], "the dash: it may be missing");
    let sample = read("packaging/systemd/weir.env");
    for secret in ["WEIR_ADMIN_KEY", "WEIR_ETCD_PASSWORD", "WEIR_ENCRYPTION_KEYRING"] {
        assert!(sample.lines().any(|line| line == format!("#{secret}=")), "{secret}");
    }
    // The shipped file sets no variable.
    assert!(sample.lines().all(|line| line.is_empty() || line.starts_with('#')), "{sample}");
}

#[test]
fn unit_and_drop_in_are_accepted_by_systemd() {
    let folder = tempfile::tempdir().unwrap();
    let unit = read("packaging/systemd/weir.service").replace("/usr/bin/weir", BINARY);
    let drop_in = read("packaging/systemd/weir.service.d/low-ports.conf");
    assert_eq!(values(&unit, "CapabilityBoundingSet"), [""], "none without the drop-in");
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert_eq!(values(&drop_in, key), ["CAP_NET_BIND_SERVICE"], "{key}: one file is enough");
    }
    fs::write(folder.path().join("weir.service"), unit).unwrap();
    fs::create_dir(folder.path().join("weir.service.d")).unwrap();
    fs::write(folder.path().join("weir.service.d/low-ports.conf"), drop_in).unwrap();
    let transparent = read("packaging/systemd/weir.service.d/transparent.conf");
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        assert_eq!(values(&transparent, key), ["CAP_NET_RAW"], "{key}: enough for IP_TRANSPARENT");
    }
    fs::write(folder.path().join("weir.service.d/transparent.conf"), transparent).unwrap();
    let of_runner = read("packaging/systemd/weir.service.d/plugin-runner.conf");
    assert_eq!(values(&of_runner, "MemoryDenyWriteExecute"), ["no"]);
    fs::write(folder.path().join("weir.service.d/plugin-runner.conf"), of_runner).unwrap();
    let arguments = ["verify", "--man=no", "--generators=no", "./weir.service"];
    if let Some((is_good, output)) = verdict("systemd-analyze", &arguments, folder.path()) {
        assert!(is_good && output.is_empty(), "{output}");
    }
}

#[test]
fn rotated_access_log_goes_on_in_a_new_file() {
    let origin = Origin::answering("hello");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let weir = Weir::builder(BINARY).arguments(&["--access-log", log.to_str().unwrap()]).start();
    weir.put("routes/a", json!({"uri": "/a", "upstream": {"nodes": {origin.address().to_string(): 1}}}));
    weir.get("/a");
    wait_until("a line is written", || fs::read_to_string(&log).is_ok_and(|text| !text.is_empty()));
    // The shipped sample, with the folder and the process of this test.
    let command = "systemctl kill --signal=USR1 --kill-who=main weir.service";
    let sample = read("packaging/logrotate/weir");
    assert!(sample.contains(command), "{sample}");
    let sample = sample
        .replace("/var/log/weir/*.log", log.to_str().unwrap())
        .replace(command, &format!("kill -USR1 {}", weir.pid()));
    let rules = folder.path().join("rules");
    fs::write(&rules, sample).unwrap();
    // logrotate refuses a file with rules that other users may write.
    fs::set_permissions(&rules, fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = ["--force", "--state", "state", "rules"];
    let Some((is_good, output)) = verdict("logrotate", &arguments, folder.path()) else { return };
    assert!(is_good, "{output}");
    let moved = folder.path().join("access.log.1");
    assert!(fs::read_to_string(&moved).unwrap().contains("GET /a "), "{output}");
    wait_until("the log goes on in a new file", || {
        weir.get("/a");
        fs::read_to_string(&log).is_ok_and(|text| text.contains("GET /a "))
    });
}
