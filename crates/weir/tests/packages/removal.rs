//! Removal of the package: `remove` keeps settings and state, so that a later installation goes on with them,
//! and `purge` leaves only the user.

use serde_json::Value;
use testkit::Client;

use crate::host;
use crate::installed::{self, PROXY, SETTINGS};

#[test]
fn removed_package_serves_again_with_its_state() {
    let Some(root) = installed::boot() else { return };
    root.must("cp /usr/bin/weir /root/origin && systemd-run --quiet --unit=origin /root/origin origin --listen 127.0.0.1:8080");
    root.put_route();
    root.change_settings("log_level: info", "log_level: debug");
    let key = root.admin_key();
    root.must("apt-get remove --yes weir");
    root.in_network(|| assert!(Client::try_connect(PROXY).is_err(), "the service was stopped"));
    assert!(!root.path("/usr/bin/weir").exists());
    for kept in [SETTINGS, "/etc/weir/weir.env", "/var/lib/weir/store.redb", "/var/lib/weir/admin.key"] {
        assert!(root.path(kept).exists(), "{kept}");
    }
    root.install(host::older_package());
    assert_eq!(root.must("systemctl is-active weir").trim(), "active");
    assert_eq!(root.admin_key(), key);
    assert_eq!(root.admin("GET", "routes/1", &Value::Null).0, 200);
    assert_eq!(root.get("/a").status, 200);
    assert!(root.must(&format!("cat {SETTINGS}")).contains("log_level: debug"));
}

#[test]
fn purged_package_leaves_no_file() {
    let Some(root) = installed::boot() else { return };
    root.must("echo line >/var/log/weir/access.log");
    root.must("apt-get purge --yes weir");
    let left = root
        .must("find / -xdev -name '*weir*' -not -path '/proc/*' -not -path '/root/*' -not -path '/tmp/*'");
    assert_eq!(left, "", "files are left");
    // The user stays, as Debian advises: its number must not become that of another user.
    assert!(root.must("getent passwd weir").trim().ends_with("/usr/sbin/nologin"));
    assert!(!root.must("systemctl list-units --all --plain --no-legend").contains("weir"));
}
