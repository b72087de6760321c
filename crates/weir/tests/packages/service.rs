//! The service in operation: rotation of its logs, reload of its settings, and what systemd lets it do.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use testkit::{Client, wait_until};

use crate::clean_root::CleanRoot;
use crate::installed::{self, PROXY};

/// The exposure that `systemd-analyze security` may find, from 0 to 10.
const EXPOSURE_MAX: f64 = 3.0;

/// The numbers of the requests in the access logs.
fn logged(root: &CleanRoot) -> Vec<u32> {
    let text = root.must("cat /var/log/weir/access.log*");
    text.lines()
        .filter_map(|line| line.split_once("GET /number/")?.1.split_once(' ')?.0.parse().ok())
        .collect()
}

#[test]
fn rotation_of_the_access_log_loses_no_line() {
    let Some(root) = installed::boot() else { return };
    root.change_settings("#access_log:", "access_log:");
    root.must("systemctl restart weir");
    let (sent, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    root.in_network(|| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::connect(PROXY);
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(client.get(&format!("/number/{}", sent.load(Ordering::SeqCst))).status, 404);
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            });
            let goes_on = || {
                let before = sent.load(Ordering::SeqCst);
                wait_until("requests go on", || sent.load(Ordering::SeqCst) > before + 100);
            };
            for round in 1..=3 {
                goes_on();
                root.must("logrotate --force /etc/logrotate.d/weir");
                wait_until("the log goes on in a new file", || {
                    fs::metadata(root.path("/var/log/weir/access.log")).is_ok_and(|file| file.len() > 0)
                });
                assert!(root.path("/var/log/weir/access.log.1").exists(), "round {round}");
            }
            goes_on();
            stop.store(true, Ordering::SeqCst);
        });
    });
    root.must("systemctl stop weir");
    root.must("gunzip --force /var/log/weir/*.gz");
    let lines = logged(&root);
    let distinct: BTreeSet<u32> = lines.iter().copied().collect();
    let sent = sent.into_inner();
    assert_eq!((lines.len(), distinct.len()), (sent as usize, sent as usize), "of {sent} requests");
    let modes = root.must("stat --format='%a %U:%G' /var/log/weir/access.log /var/log/weir/access.log.1");
    assert_eq!(modes, "640 weir:weir\n640 weir:weir\n");
}

#[test]
fn reload_applies_or_names_the_restart() {
    let Some(root) = installed::boot() else { return };
    let process = root.property("MainPID");
    root.change_settings("proxy: 0.0.0.0:9080", "proxy: [0.0.0.0:9080, 0.0.0.0:9081]");
    root.must("systemctl reload weir");
    root.in_network(|| {
        wait_until("the new port answers", || {
            let connected = Client::try_connect("127.0.0.1:9081".parse().unwrap());
            connected.is_ok_and(|mut client| client.get("/").status == 404)
        });
    });
    root.change_settings("log_level: info", "log_level: debug");
    root.must("systemctl reload weir");
    root.wait_for_journal("these settings have changed and wait for a restart or an upgrade");
    assert!(root.journal().contains("log_level"), "{}", root.journal());
    assert_eq!(root.property("MainPID"), process);
}

#[test]
fn unit_is_little_exposed() {
    let Some(root) = installed::boot() else { return };
    let report = root.must("systemd-analyze --no-pager security weir.service");
    let last = report.lines().last().unwrap();
    println!("{last}");
    let score = last.split_once("weir.service: ").unwrap().1.split(' ').next().unwrap();
    assert!(score.parse::<f64>().unwrap() < EXPOSURE_MAX, "{report}");
    // The rules of the sandbox were written for a service that works in it: nothing was refused so far.
    assert!(!root.journal().contains("ERROR"), "{}", root.journal());
}
