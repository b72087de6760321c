//! Starts of the service that fail: each says in the journal what is wrong, where, and what to write, and
//! systemd does not try again without end.

use testkit::wait_until;

use crate::clean_root::CleanRoot;
use crate::installed;

/// Restarts the service, which fails, and waits until systemd has given up; returns the journal of these
/// starts.
fn fails_for_good(root: &CleanRoot) -> String {
    root.must("systemctl stop weir; systemctl reset-failed weir 2>/dev/null || true");
    let before = root.must("journalctl --sync; journalctl --quiet --lines=1 --output=cat --show-cursor | sed -n 's/^-- cursor: //p'");
    root.run("systemctl start weir");
    wait_until("systemd gives up", || root.property("ActiveState") == "failed");
    root.must(&format!(
        "journalctl --sync; journalctl --output=cat --unit=weir.service --after-cursor='{}'",
        before.trim()
    ))
}

#[test]
fn wrong_setting_is_in_the_journal_with_its_line() {
    let Some(root) = installed::boot() else { return };
    let settings = root.must("cat /etc/weir/weir.yaml");
    let line = 1 + settings.lines().position(|line| line == "log_level: info").unwrap();
    root.change_settings("log_level: info", "log_level: loud");
    let reload = root.run("systemctl reload weir");
    assert_ne!(reload.code, 0, "a reload with faulty settings says so");
    assert_eq!(root.must("systemctl is-active weir").trim(), "active", "and the instance goes on");
    let journal = fails_for_good(&root);
    let expected = format!("/etc/weir/weir.yaml:{line}: log_level: ");
    assert!(journal.contains(&expected), "{expected} is not in\n{journal}");
    assert_eq!(root.property("ExecMainStatus"), "78", "{journal}");
    assert_eq!(root.property("NRestarts"), "0", "{journal}");

    root.change_settings("log_level: loud", "log_level: info");
    root.must("systemctl start weir");
}

#[test]
fn port_in_use_is_named_with_its_setting() {
    let Some(root) = installed::boot() else { return };
    root.must("systemctl stop weir");
    root.must("systemd-run --quiet --unit=other /usr/bin/weir origin --listen 127.0.0.1:9080");
    wait_until("the other service listens", || root.run("curl --silent http://127.0.0.1:9080/").code == 0);
    let journal = fails_for_good(&root);
    for part in ["cannot listen on 0.0.0.0:9080", "`proxy` in the settings file", "Address already in use"] {
        assert!(journal.contains(part), "{part} is not in\n{journal}");
    }
    let restarts: u32 = root.property("NRestarts").parse().unwrap();
    assert!((1..=10).contains(&restarts), "{restarts} restarts");
    // Root sees the process as well.
    let holder = root.property_of("other", "MainPID");
    let refused = root.run(
        "cd /root && /usr/bin/weir run --data data --admin off --control off --status off --metrics off",
    );
    assert!(
        refused.text.contains(&format!("or stop process {holder} (weir), which listens there")),
        "{}",
        refused.text
    );
}

#[test]
fn low_port_needs_the_drop_in_and_works_with_it() {
    let Some(root) = installed::boot() else { return };
    root.change_settings("proxy: 0.0.0.0:9080", "proxy: 0.0.0.0:443");
    let journal = fails_for_good(&root);
    let drop_in = "/usr/share/doc/weir/examples/low-ports.conf";
    for part in ["cannot listen on 0.0.0.0:443", "CAP_NET_BIND_SERVICE", drop_in, "Permission denied"] {
        assert!(journal.contains(part), "{part} is not in\n{journal}");
    }
    assert_eq!(root.property("NRestarts"), "0", "{journal}");
    root.must(&format!("install -D -m 0644 {drop_in} /etc/systemd/system/weir.service.d/low-ports.conf"));
    root.must("systemctl daemon-reload && systemctl restart weir");
    let status =
        root.must("curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:443/");
    assert_eq!(status, "404", "{}", root.journal());
    let user = root.must("stat --format=%U /proc/$(systemctl show --value --property=MainPID weir)");
    assert_eq!(user.trim(), "weir");
}

#[test]
fn read_only_data_folder_is_named_with_the_way_out() {
    let Some(root) = installed::boot() else { return };
    root.must("install -d -o weir -g weir -m 0700 /srv/weir");
    root.change_settings("data: /var/lib/weir", "data: /srv/weir");
    let journal = fails_for_good(&root);
    for part in
        ["the data folder /srv/weir cannot be written", "data: /var/lib/weir", "ReadWritePaths=/srv/weir"]
    {
        assert!(journal.contains(part), "{part} is not in\n{journal}");
    }
    assert_eq!(root.property("NRestarts"), "0", "{journal}");
    root.must("mkdir -p /etc/systemd/system/weir.service.d");
    root.must(
        "printf '[Service]\\nReadWritePaths=/srv/weir\\n' >/etc/systemd/system/weir.service.d/data.conf",
    );
    root.must("systemctl daemon-reload && systemctl start weir");
    assert!(root.path("/srv/weir/store.redb").exists());
}
